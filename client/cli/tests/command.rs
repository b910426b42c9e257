//! The program as it is called: exit codes, what stands on which stream, and the demo.
//!
//! Everything is below a temporary folder, on loopback, and ended by the test that started it.

#![cfg(feature = "demo")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test of processes, in their time"
)]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The program with a home of its own.
fn noderelay(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_noderelay"));
    command
        .env("HOME", home)
        .env("XDG_STATE_HOME", home.join("state"))
        .env("XDG_CONFIG_HOME", home.join("config"))
        .env_remove("NODERELAY_CONFIG")
        .env_remove("RUST_LOG")
        .current_dir(home)
        .stdin(Stdio::null());
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool, limit: Duration) {
    let until = Instant::now() + limit;
    while !holds() {
        assert!(Instant::now() < until, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_session_that_fails_before_it_begins_is_255_and_writes_its_status() {
    let home = tempfile::tempdir().unwrap();
    let status = home.path().join("status.json");
    let cases: [(&[&str], &str); 3] = [
        (&["--via-relay", "--cluster", "No_Name", "gpu-7"], "client.usage"),
        (&["--via-relay", "--config", "nowhere.yaml", "gpu-7"], "client.config"),
        (&["--via-relay", "gpu-7", "--", "true"], "client.config"),
    ];
    for (words, code) in cases {
        let _ = fs::remove_file(&status);
        let output = noderelay(home.path())
            .arg("--status")
            .arg(&status)
            .args(words)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(255), "{words:?}: {}", said(&output));
        assert!(
            said(&output).starts_with(&format!("noderelay: {code}: ")),
            "{}",
            said(&output)
        );
        let written = fs::read_to_string(&status).unwrap();
        for part in [
            format!("\"code\":\"{code}\""),
            "\"exit_code\":255".into(),
            "\"node\":\"gpu-7\"".into(),
        ] {
            assert!(written.contains(&part), "{part} in {written}");
        }
    }
    // Other commands: 1; usage: 2.
    for (words, code) in [
        (&["--config", "nowhere.yaml", "check-config"][..], 1),
        (&["--config", "nowhere.yaml", "whoami"], 1),
        (&["--via-relay"], 2),
        (&["whoami", "--nonsense"], 2),
    ] {
        assert_eq!(
            noderelay(home.path()).args(words).output().unwrap().status.code(),
            Some(code),
            "{words:?}"
        );
    }
}

#[test]
fn a_demo_that_cannot_begin_is_255_and_one_to_stay_is_1() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("file"), "").unwrap();
    let nowhere = home.path().join("file/state");
    let output = noderelay(home.path())
        .env("XDG_STATE_HOME", &nowhere)
        .args(["demo", "--", "true"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(255), "{}", said(&output));
    let output = noderelay(home.path())
        .args(["demo", "--up"])
        .arg(nowhere)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
}

#[test]
fn a_completion_that_nobody_reads_is_no_fault() {
    let home = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = noderelay(home.path())
            .args(["completion", shell])
            .stdout(writer)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        assert_eq!((output.status.code(), said(&output).as_str()), (Some(0), ""));
    }
}

#[test]
fn logs_appear_when_they_are_asked_for_and_without_colours() {
    let home = tempfile::tempdir().unwrap();
    for (options, info, debug) in [(&[][..], false, false), (&["-v"], true, false), (&["-vv"], true, true)] {
        let output = noderelay(home.path())
            .args(options)
            .args(["demo", "--", "echo", "hello"])
            .output()
            .unwrap();
        let said = said(&output);
        assert_eq!(
            (output.status.code(), &output.stdout[..]),
            (Some(0), &b"hello\n"[..]),
            "{said}"
        );
        assert_eq!(
            said.contains(" INFO noderelay_client::session: the session is open"),
            info,
            "{said}"
        );
        assert_eq!(said.contains("DEBUG"), debug, "{said}");
        assert!(!said.contains('\x1b'), "{said}");
    }
}

#[test]
fn the_version_names_a_commit() {
    let home = tempfile::tempdir().unwrap();
    let output = noderelay(home.path()).arg("--version").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let commit = text
        .split_once("(commit ")
        .and_then(|(_, rest)| rest.split_once(';'))
        .unwrap()
        .0;
    assert!(!commit.is_empty() && !commit.contains(char::is_whitespace), "{text}");
    let in_a_clone = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.git").exists();
    assert_eq!(commit == "unknown", !in_a_clone, "{text}");
}

/// A demo in its folder, ended with the test.
struct Up {
    child: Child,
    home: PathBuf,
    /// The line that is told for the second terminal.
    line: String,
}

impl Up {
    fn start(home: &Path, dir: &str) -> Self {
        let mut child = noderelay(home)
            .args(["demo", "--up", dir])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap())
            .lines()
            .map_while(Result::ok);
        let line = lines.by_ref().find(|line| line.contains("--via-relay local"));
        std::thread::spawn(move || lines.for_each(drop));
        Self {
            child,
            home: home.to_owned(),
            line: line.expect("the demo ended before it served"),
        }
    }

    /// Runs what was told, with more words, as a person would who copies it.
    fn client(&self, words: &str) -> Output {
        let folder = Path::new(env!("CARGO_BIN_EXE_noderelay")).parent().unwrap();
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
        Command::new("/bin/sh")
            .arg("-c")
            .arg(format!("{} {words}", self.line))
            .env("HOME", &self.home)
            .env("PATH", path)
            .current_dir("/")
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let id = nix::unistd::Pid::from_raw(self.child.id().try_into().unwrap());
        let _ = nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGINT);
        let _ = self.child.wait();
    }
}

/// The node hears that the exit has arrived: it forgets the session at once, not after its resume window (10 s).
#[test]
fn a_finished_command_leaves_nothing_on_the_node() {
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(home.path(), "up");
    let log = home.path().join("up/logs/agent.log");
    let ended = || {
        let log = fs::read_to_string(&log).unwrap();
        log.lines().filter(|line| line.contains("session.ended")).count()
    };
    for n in 1..=5 {
        let output = up.client("-- true");
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        eventually(
            "the node has ended the session",
            || ended() == n,
            Duration::from_secs(3),
        );
    }
}

#[test]
fn a_running_demo_keeps_its_folder_relative_and_with_spaces() {
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(home.path(), "my demo");
    let second = noderelay(home.path())
        .args(["demo", "--up", "my demo"])
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(1));
    assert!(said(&second).contains("a demo runs in"), "{}", said(&second));
    let output = up.client("-- echo hello");
    assert_eq!(
        (output.status.code(), &output.stdout[..]),
        (Some(0), &b"hello\n"[..]),
        "{}",
        said(&output)
    );
    // What is in effect is a configuration file again.
    let config = home.path().join("my demo/config.yaml");
    let check = |file: &Path| {
        let output = noderelay(home.path())
            .arg("--config")
            .arg(file)
            .arg("check-config")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let written = check(&config);
    assert!(written.contains("keepalive: 15s"), "{written}");
    let again = home.path().join("again.yaml");
    fs::write(&again, &written).unwrap();
    let settings = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(settings(&check(&again)), settings(&written));
    drop(up);
    // After its end the folder may be used again.
    drop(Up::start(home.path(), "my demo"));
}
