//! What a client told people and programs when its session had ended: exit code, standard error, `--status`.

use std::process::{Command, Output};

use serde_json::Value;

use crate::process::Bounded as _;

/// How a session ended.
pub struct Told {
    /// Exit code and what was written.
    pub output: Output,
    /// The object of `--status`.
    pub status: Value,
}

impl Told {
    /// Runs `words` on the node `local` by a client that has its options so far, without input.
    pub fn of(mut client: Command, words: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("status.json");
        let output = client
            .arg("--status")
            .arg(&file)
            .args(["local", "--"])
            .args(words)
            .bounded();
        let status = std::fs::read(&file).unwrap_or_default();
        let status = serde_json::from_slice(&status).unwrap_or_default();
        Self { output, status }
    }

    /// What stands on standard error.
    pub fn said(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    /// The session failed by this code: exit code 255, no output, the code in `--status` and in the message.
    #[track_caller]
    pub fn assert_refused(&self, code: &str) {
        let (said, status) = (self.said(), &self.status);
        assert_eq!(self.output.status.code(), Some(255), "{status} {said}");
        assert_eq!(status["code"], code, "{status} {said}");
        assert_eq!(status["exit_code"], 255, "{status}");
        assert!(said.contains(code), "{code} is not said:\n{said}");
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
