//! Sessions with a terminal: pastes, sizes, keys, the last line.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use std::time::Duration;

use common::{Session, is_alive, run, start_terminal};
use noderelay_proto::ToNode;
use noderelay_proto::control::{SignalName, Terminal};
use sha2::{Digest, Sha256};

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Lines that a terminal in line mode hands on unchanged.
fn paste(size: usize) -> Vec<u8> {
    let mut all: Vec<u8> = (0..)
        .flat_map(|line: u32| format!("{line:07} a line of a paste\n").into_bytes())
        .take(size - 1)
        .collect();
    all.push(b'\n');
    all
}

#[tokio::test]
async fn b001_a_megabyte_is_pasted_while_its_echo_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("p");
    let line = format!("cat > {}; sha256sum {}; echo then; cat", file.display(), file.display());
    let mut session = Session::begin(start_terminal(&["sh", "-c", &line])).await;
    let text = paste(1 << 20);
    session.keys(&text);
    session.keys(b"\x04");
    session
        .until("the checksum", |session| session.out.ends_with(b"then\r\n"))
        .await;
    let seen = String::from_utf8_lossy(&session.out).into_owned();
    assert!(seen.contains(&sha256(&text)), "{}", &seen[seen.len() - 200..]);
    // Everything was echoed too (with CR LF), and keys work on.
    assert!(session.out.len() > text.len());
    session.keys(b"more\n\x04");
    session.end().await;
    assert_eq!(session.exit.unwrap().code, Some(0));
    let out = std::mem::take(&mut session.out);
    assert!(
        session.recorded().await.out == out,
        "the recording holds what was shown"
    );
}

#[tokio::test]
async fn b001_keys_work_during_a_paste() {
    // Takes no input until it is interrupted, and a paste larger than the terminal's own queue is on its way.
    let line = "trap 'echo interrupted' INT; echo ready; sleep 1000; echo on; head -n1; exit 7";
    let mut session = Session::begin(start_terminal(&["bash", "-c", line])).await;
    session
        .until("ready", |session| session.out.ends_with(b"ready\r\n"))
        .await;
    session.keys(&paste(200_000));
    session.work_for(Duration::from_millis(50)).await;
    assert!(!session.outbox.is_drained(), "the paste is stuck");
    session.keys(b"\x03");
    session
        .until("interrupted", |session| {
            String::from_utf8_lossy(&session.out).contains("interrupted")
        })
        .await;
    session.keys(b"last\n");
    session.end().await;
    assert_eq!(session.exit.unwrap().code, Some(7));
    assert!(session.out.ends_with(b"last\r\n"));
}

#[tokio::test]
async fn b002_the_first_size_is_the_clients_and_no_size_ends_a_session() {
    let mut session = Session::begin(start_terminal(&[
        "sh",
        "-c",
        "stty size; read x; stty size; read x; stty size",
    ]))
    .await;
    session
        .until("the first size", |session| session.out.ends_with(b"43 132\r\n"))
        .await;
    for (cols, rows) in [(0, 0), (1, 1), (65535, 65535), (u32::MAX, u32::MAX), (0, 50)] {
        session.resize(cols, rows);
    }
    session.keys(b"\n");
    session
        .until("a clamped size", |session| session.text().contains("2048 2048"))
        .await;
    for round in 0..1000_u32 {
        session.resize(80 + round % 100, 24 + round % 50);
    }
    session.keys(b"\n");
    session.end().await;
    assert!(session.out.ends_with(b"73 179\r\n"), "{}", session.text());
    assert_eq!(session.exit.unwrap().code, Some(0));
    // After the end, too.
    session.resize(90, 30);
    let recorded = session.recorded().await;
    assert_eq!(recorded.sizes[..3], [(1, 1), (2048, 2048), (2048, 2048)]);
    assert_eq!(
        (recorded.sizes.len(), *recorded.sizes.last().unwrap()),
        (1003, (179, 73))
    );
}

#[tokio::test]
async fn b002_a_terminal_without_a_size_has_the_usual_one() {
    let mut start = start_terminal(&["stty", "size"]);
    start.terminal = Some(Terminal {
        term: "xterm".into(),
        ..Default::default()
    });
    assert_eq!(
        run(start, b"").await.text(),
        "^D\u{8}\u{8}24 80\r\n".trim_start_matches("^D\u{8}\u{8}")
    );
}

#[tokio::test]
async fn b007_the_end_of_input_on_a_terminal_is_its_key() {
    let session = run(start_terminal(&["wc", "-c"]), b"one\ntwo").await;
    assert!(
        session.text().contains("\r\n7\r\n") || session.text().contains("two7\r\n"),
        "{:?}",
        session.text()
    );
    let mut raw = Session::begin(start_terminal(&[
        "sh",
        "-c",
        "stty -icanon -echo; echo raw; head -c1 | od -An -tx1",
    ]))
    .await;
    raw.until("raw", |session| session.text() == "raw\r\n").await;
    raw.say(ToNode::End);
    raw.end().await;
    assert!(raw.text().ends_with(" 04\r\n"), "{:?}", raw.text());
}

/// The processors are busy, and the last line is still there.
async fn last_line(runs: usize) {
    let busy: Vec<_> = (0..2)
        .map(|_| {
            std::process::Command::new("sh")
                .args(["-c", "while :; do :; done"])
                .spawn()
                .unwrap()
        })
        .collect();
    for round in 0..runs {
        let session = run(start_terminal(&["seq", "1", "20000"]), b"").await;
        assert!(session.out.ends_with(b"\r\n20000\r\n"), "run {round}");
        assert_eq!(session.exit.unwrap().code, Some(0));
    }
    for mut process in busy {
        process.kill().unwrap();
        process.wait().unwrap();
    }
}

#[tokio::test]
async fn b010_the_last_line_is_never_lost() {
    last_line(20).await;
}

#[tokio::test]
async fn b010_a_background_job_does_not_cost_the_last_line() {
    for round in 0..30 {
        let session = run(start_terminal(&["bash", "-c", "sleep 1000 & seq 1 20000"]), b"").await;
        assert!(
            session.out.ends_with(b"\r\n20000\r\n"),
            "run {round}: {} bytes",
            session.out.len()
        );
    }
}

#[tokio::test]
async fn output_of_a_command_that_let_go_of_its_terminal_for_a_while_is_not_lost() {
    let line = "t=$(tty); exec >&- 2>&- <&-; sleep 0.3; exec > $t; echo back";
    let session = run(start_terminal(&["bash", "-c", line]), b"").await;
    assert!(session.out.ends_with(b"back\r\n"), "{:?}", session.text());
}

#[tokio::test]
async fn signals_go_to_the_program_in_front() {
    let line = "set -m; trap 'echo outer' USR1; bash -c 'trap \"echo inner; exit 3\" USR1; echo on; while :; do sleep 0.05; done'; echo $?";
    let mut session = Session::begin(start_terminal(&["bash", "-c", line])).await;
    session.until("on", |session| session.text().contains("on\r\n")).await;
    session.signal(SignalName::Usr1);
    session.end().await;
    assert!(session.text().ends_with("inner\r\n3\r\n"), "{:?}", session.text());
}

#[tokio::test]
async fn an_interactive_shell_has_job_control_and_is_a_login_shell() {
    let mut start = start_terminal(&[]);
    start.login = true;
    start.account = Some(common::account("/bin/bash"));
    let mut session = Session::begin(start).await;
    session.keys(b"shopt -q login_shell && echo lo''gin; sleep 1000\n");
    session
        .until("login", |session| {
            String::from_utf8_lossy(&session.out).contains("login\r\n")
        })
        .await;
    session.work_for(Duration::from_millis(100)).await;
    session.keys(b"\x1a");
    session
        .until("stopped", |session| {
            String::from_utf8_lossy(&session.out).contains("Stopped")
        })
        .await;
    session.keys(b"kill %1; exit 5\n");
    session
        .until("prompt", |session| {
            String::from_utf8_lossy(&session.out).contains("exit 5")
        })
        .await;
    session.work_for(Duration::from_millis(200)).await;
    session.keys(b"exit 5\n");
    session.end().await;
    assert_eq!(session.exit.unwrap().code, Some(5));
    assert!(!is_alive(session.pid as i32));
}

#[tokio::test]
async fn yes_is_interrupted_at_once() {
    let mut session = Session::begin(start_terminal(&["yes"])).await;
    session.until("a lot", |session| session.out.len() > 10_000_000).await;
    let began = tokio::time::Instant::now();
    session.say(ToNode::Data(bytes::Bytes::from_static(b"\x03")));
    session.end().await;
    assert_eq!(session.exit.unwrap().signal, Some(2));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}
