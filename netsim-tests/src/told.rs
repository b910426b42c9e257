//! What a client told people and programs when its session had ended: exit code, standard error, `--status`.

use std::path::Path;
use std::process::{ChildStdin, Command, Output, Stdio};

use serde_json::Value;

use crate::process::{Bounded as _, read_within};

/// How a session ended.
pub struct Told {
    /// Exit code and what was written.
    pub output: Output,
    /// The object of `--status`.
    pub status: Value,
}

impl Told {
    /// Runs `words` on the node `local` by a client that has its options so far, without input.
    pub fn of(client: Command, words: &[&str]) -> Self {
        Self::fed(client, words, |_| ())
    }

    /// As [`Self::of`], with what `feed` writes as input; the input ends when it returns.
    pub fn fed(mut client: Command, words: &[&str], feed: impl FnOnce(&mut ChildStdin)) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("status.json");
        client
            .arg("--status")
            .arg(&file)
            .args(["local", "--"])
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = client.spawn().expect("the client starts");
        let mut input = child.stdin.take().expect("its input");
        feed(&mut input);
        drop(input);
        Self::end(child.bounded(), &file)
    }

    /// Runs a line that says `begun` first; `then` happens once that was shown, while the line goes on.
    pub fn after_begun(mut client: Command, line: &str, then: impl FnOnce()) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("status.json");
        client
            .arg("--status")
            .arg(&file)
            .args(["local", "--", "sh", "-c", line])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = client.spawn().expect("the client starts");
        let mut first = [0; 6];
        read_within(child.stdout.as_mut().expect("its output"), &mut first);
        then();
        let mut output = child.bounded();
        output.stdout.splice(..0, first);
        Self::end(output, &file)
    }

    fn end(output: Output, status: &Path) -> Self {
        let status = std::fs::read(status).unwrap_or_default();
        let status = serde_json::from_slice(&status).unwrap_or_default();
        Self { output, status }
    }

    /// What stands on standard error.
    pub fn said(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    /// The session failed by this code: exit code 255, the code in `--status` and in the message.
    #[track_caller]
    pub fn assert_failed(&self, code: &str) {
        let (said, status) = (self.said(), &self.status);
        assert_eq!(self.output.status.code(), Some(255), "{status} {said}");
        assert_eq!(status["code"], code, "{status} {said}");
        assert_eq!(status["exit_code"], 255, "{status}");
        assert!(said.contains(code), "{code} is not said:\n{said}");
    }

    /// As [`Self::assert_failed`], and nothing was shown.
    #[track_caller]
    pub fn assert_refused(&self, code: &str) {
        self.assert_failed(code);
        assert!(self.output.stdout.is_empty(), "{:?}", self.output.stdout);
    }

    /// The command ended with this exit code, by itself.
    #[track_caller]
    pub fn assert_exit(&self, code: i32) {
        let (said, status) = (self.said(), &self.status);
        assert_eq!(self.output.status.code(), Some(code), "{status} {said}");
        assert_eq!(
            (&status["code"], &status["origin"]),
            (&"ok".into(), &"remote".into()),
            "{said}"
        );
    }
}
