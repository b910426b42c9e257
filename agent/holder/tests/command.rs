//! Commands without a terminal: arguments, input, output, codes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use std::time::Duration;

use bytes::Bytes;
use common::{Session, account, run, start, variable};
use noderelay_proto::control::SignalName;
use noderelay_proto::{Code, ToNode};
use sha2::{Digest, Sha256};

#[tokio::test]
async fn b007_end_of_input_is_a_message_of_its_own() {
    let session = run(start(&["wc", "-c"]), b"abc").await;
    assert_eq!(session.text().trim(), "3");
    let session = run(start(&["cat"]), b"").await;
    assert_eq!(session.exit.unwrap().code, Some(0));

    // Both directions are closed on their own: this one says more after its input has ended.
    let mut session = run(start(&["sh", "-c", "cat; echo done"]), b"abc").await;
    assert_eq!(session.text(), "abcdone\n");
    assert!(session.ended);
    let recorded = session.recorded().await;
    assert_eq!(recorded.out, b"abcdone\n");
    assert_eq!(recorded.end.unwrap().exit_code, Some(0));
}

#[tokio::test]
async fn b007_five_megabytes_come_back_as_they_were() {
    let mut byte = 1_u32;
    let bytes: Vec<u8> = (0..5_000_000)
        .map(|_| {
            byte = byte.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (byte >> 24) as u8
        })
        .collect();
    let session = run(start(&["cat"]), &bytes).await;
    assert!(session.out == bytes);
    assert_eq!(session.exit.unwrap().code, Some(0));
}

#[tokio::test]
async fn input_that_the_command_does_not_read_is_no_error() {
    let session = run(start(&["true"]), &vec![b'x'; 3_000_000]).await;
    assert_eq!(session.exit.unwrap().code, Some(0));
    // Closed, not ended: the rest is taken while the command runs on.
    let mut session = Session::begin(start(&["sh", "-c", "exec <&-; echo closed; sleep 100"])).await;
    session.until("closed", |session| session.text() == "closed\n").await;
    session.keys(&vec![b'x'; 6_000_000]);
    session
        .until("taken", |session| {
            session.outbox.is_drained() && session.outbox.head() == 6_000_000
        })
        .await;
    session.signal(SignalName::Term);
    session.end().await;
    assert_eq!(session.exit.unwrap().signal, Some(15));
}

#[tokio::test]
async fn b008_codes_and_signals_arrive_as_they_are() {
    for (line, code, signal) in [
        ("exec nosuchcmd-x", Some(127), None),
        ("exec /etc/passwd", Some(126), None),
        ("exit 130", Some(130), None),
        ("exit 255", Some(255), None),
        ("kill -SEGV $$", None, Some(11)),
        ("kill -KILL $$", None, Some(9)),
        ("kill -40 $$", None, Some(40)),
    ] {
        let mut session = run(start(&["sh", "-c", line]), b"").await;
        let exit = session.exit.unwrap();
        assert_eq!((exit.code, exit.signal), (code, signal), "{line}");
        let end = session.recorded().await.end.unwrap();
        assert_eq!(
            (end.code.as_str(), end.exit_code, end.signal),
            ("ok", code, signal),
            "{line}"
        );
    }
    let session = run(start(&["nosuchcmd-x"]), b"").await;
    assert_eq!(session.exit.unwrap().code, Some(127));
    assert_eq!(session.err, b"noderelay: nosuchcmd-x: command not found\n");
}

#[tokio::test]
async fn stdout_and_stderr_are_kept_apart_and_both_recorded() {
    let mut session = run(
        start(&["sh", "-c", "echo out; echo err >&2; echo again > /dev/stderr"]),
        b"",
    )
    .await;
    assert_eq!(
        (session.out.as_slice(), session.err.as_slice()),
        (b"out\n".as_slice(), b"err\nagain\n".as_slice())
    );
    let recorded = session.recorded().await;
    assert_eq!(
        (recorded.out.as_slice(), recorded.err.as_slice()),
        (b"out\n".as_slice(), b"err\nagain\n".as_slice())
    );
}

/// `size` zero bytes into a reader that stops for a while each time the window is full.
async fn slow_reader(size: usize) {
    let mut session = Session::begin(start(&["head", "-c", &size.to_string(), "/dev/zero"])).await;
    session.acknowledges = false;
    let window = session.inbox_window();
    let (mut hash, mut count) = (Sha256::new(), 0);
    while session.exit.is_none() {
        let before = count + session.out.len();
        session
            .until("a full window", |session| {
                session.exit.is_some() || session.out.len() as u64 + 200_000 > window
            })
            .await;
        // The command has long ended by the last of these; what it wrote is still there.
        session.work_for(Duration::from_millis(2)).await;
        hash.update(&session.out);
        count += session.out.len();
        assert!(session.exit.is_some() || count > before || session.out.is_empty());
        session.out.clear();
        session.acknowledge();
    }
    assert_eq!(count + session.out.len(), size);
    hash.update(&session.out);
    let zeros = vec![0; 1 << 20];
    let mut expected = Sha256::new();
    (0..size / zeros.len()).for_each(|_| expected.update(&zeros));
    expected.update(&zeros[..size % zeros.len()]);
    assert_eq!(hash.finalize(), expected.finalize());
    assert_eq!(session.exit.unwrap().code, Some(0));
    session.acknowledge();
    let recorded = session.recorded().await;
    assert_eq!(recorded.out.len() as u64 + recorded.omitted, size as u64);
}

#[tokio::test]
async fn b009_a_slow_reader_gets_every_byte_and_then_the_code() {
    slow_reader(20_000_003).await;
}

#[tokio::test]
async fn b009_two_hundred_megabytes() {
    slow_reader(200 << 20).await;
}

#[tokio::test]
async fn b009_the_tail_waits_for_a_reader_that_comes_late() {
    let mut session = Session::begin(start(&["head", "-c", "4500000", "/dev/zero"])).await;
    session.acknowledges = false;
    // What came before that line is acknowledged already.
    let full = session.inbox_window();
    session
        .until("a full window", |session| session.unacknowledged() == full)
        .await;
    // Longer than stragglers are waited for: time in which nobody reads does not count.
    session.work_for(Duration::from_millis(1200)).await;
    assert!(session.exit.is_none());
    session.acknowledges = true;
    session.acknowledge();
    session.end().await;
    assert_eq!(session.out.len(), 4_500_000);
}

#[tokio::test]
async fn b028_the_next_shell_is_taken_and_what_it_is_shows() {
    for shell in ["/no/such/shell", "/usr/sbin/nologin", ""] {
        let mut start = start(&["echo $SHELL"]);
        start.line = true;
        start.account = Some(account(shell));
        let session = run(start, b"").await;
        assert!(
            ["/bin/bash\n", "/usr/bin/bash\n", "/bin/sh\n"].contains(&session.text()),
            "{}",
            session.text()
        );
    }
}

#[tokio::test]
async fn b030_the_environment_is_clean() {
    let mut start = start(&["env"]);
    start.env = vec![
        variable("LANG", b"C.UTF-8"),
        variable("LC_TIME", b"a b\xff"),
        variable("KUBERNETES_SERVICE_HOST", b"10.0.0.1"),
        variable("LD_PRELOAD", b"/tmp/x"),
    ];
    let session = run(start, b"").await;
    let out = String::from_utf8_lossy(&session.out).into_owned();
    let mut names: Vec<&str> = out.lines().map(|line| line.split('=').next().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["HOME", "LANG", "LC_TIME", "LOGNAME", "PATH", "SHELL", "USER"]);
}

#[tokio::test]
async fn b031_arguments_arrive_one_by_one() {
    let mut start = start(&["printf", "%s|", "a b", "c'd", "$HOME", "", "*", "x\ny"]);
    start.argv.push(Bytes::from_static(b"\xff\xfe"));
    let session = run(start, b"").await;
    assert_eq!(session.out, b"a b|c'd|$HOME||*|x\ny|\xff\xfe|");
}

#[tokio::test]
async fn a_background_process_that_holds_the_pipe_is_not_waited_for() {
    let began = tokio::time::Instant::now();
    let session = run(
        start(&["sh", "-c", "sleep 100 & echo hi; (sleep 0.2; echo late) &"]),
        b"",
    )
    .await;
    assert_eq!(session.text(), "hi\nlate\n");
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn signals_reach_the_whole_group() {
    let mut session = Session::begin(start(&[
        "sh",
        "-c",
        "trap 'echo got; exit 9' INT; echo on; sleep 100 & wait",
    ]))
    .await;
    session.until("on", |session| session.text() == "on\n").await;
    session.signal(SignalName::Int);
    session.end().await;
    assert_eq!((session.text(), session.exit.unwrap().code), ("on\ngot\n", Some(9)));
    assert_eq!(session.recorded().await.signals, ["INT"]);
}

#[tokio::test]
async fn pings_are_answered_and_broken_rules_end_the_session() {
    let mut session = Session::begin(start(&["sleep", "100"])).await;
    session.tell(noderelay_proto::ToHolder::Session(ToNode::Ping(42)));
    session.until("pong", |session| session.pongs == [42]).await;
    session.tell(noderelay_proto::ToHolder::Session(ToNode::Ack(1_000_000)));
    session.end().await;
    assert_eq!(session.code(), Some(Code::SessionOffset));
}
