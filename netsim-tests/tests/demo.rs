//! `noderelay demo`: the README's first command.

use std::fs;
use std::process::{Command, Stdio};

use netsim_tests::process::{Bounded as _, Lines, Process, eventually, processes_with, program};

fn demo(home: &std::path::Path) -> Command {
    let mut command = Command::new(program("noderelay"));
    command
        .env("HOME", home)
        .env("XDG_STATE_HOME", home.join("state"))
        .env_remove("NODERELAY_CONFIG")
        .arg("demo");
    command
}

/// One command from nothing: its output, its exit code, one folder that is named, nothing left running.
#[test]
fn one_command_through_a_relay_from_nothing() {
    let home = tempfile::tempdir().unwrap();
    let output = demo(home.path())
        .args(["--", "sh", "-c", "echo out; echo $PPID >/dev/null; exit 3"])
        .bounded();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert_eq!(output.stdout, b"out\n");
    let folders: Vec<_> = fs::read_dir(home.path().join("state/noderelay/demo"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    assert_eq!(folders.len(), 1);
    let folder = folders[0].display().to_string();
    assert!(said.contains(&folder), "{said}");
    let recordings = fs::read_dir(folders[0].join("agent/state/recordings")).unwrap().count();
    assert_eq!(recordings, 1);
    eventually("nothing of the demo runs", || processes_with(&folder).is_empty());
}

/// `--up`: serves for a second terminal, and what is killed is started again.
#[test]
fn up_serves_and_starts_again_what_dies() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("up");
    let mut child = demo(home.path())
        .arg("--up")
        .arg(&dir)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = Lines::of(child.stderr.take().unwrap());
    let up = Process(child);
    stderr.until("serve");
    let config = dir.join("config.yaml");
    let client = |words: &[&str]| {
        Command::new(program("noderelay"))
            .arg("--config")
            .arg(&config)
            .args(words)
            .bounded()
    };
    let output = client(&["--via-relay", "local", "--", "echo", "hello"]);
    assert_eq!(
        (output.status.code(), &output.stdout[..]),
        (Some(0), &b"hello\n"[..]),
        "{}\nthe demo said:\n{}",
        String::from_utf8_lossy(&output.stderr),
        stderr.seen()
    );
    let doctor = client(&["doctor", "local"]);
    assert_eq!(
        doctor.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&doctor.stdout)
    );
    for service in ["relay", "agent"] {
        let before = service_of(&dir, service);
        assert_eq!(before.len(), 1, "one {service} runs");
        nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(before[0] as i32),
            nix::sys::signal::Signal::SIGKILL,
        )
        .unwrap();
        eventually("it is started again and serves", || {
            service_of(&dir, service).first().is_some_and(|now| *now != before[0])
                && client(&["--via-relay", "local", "--", "true"]).status.success()
        });
    }
    // Ctrl-C ends all of it.
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(up.0.id() as i32),
        nix::sys::signal::Signal::SIGINT,
    )
    .unwrap();
    eventually("nothing of the demo runs", || {
        processes_with(&dir.display().to_string()).is_empty()
    });
}

fn service_of(dir: &std::path::Path, service: &str) -> Vec<u32> {
    processes_with(&dir.join(service).join(format!("{service}.yaml")).display().to_string())
}
