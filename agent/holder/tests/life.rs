//! How sessions end: limits, agents that vanish or come back, what is left behind.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use common::{Session, TOKEN, account, eventually, is_alive, recorded, run, start, start_terminal};
use noderelay_holder::launch::{LaunchError, find, launch};
use noderelay_holder::remains;
use noderelay_proto::control::{Adopt, SignalName, Terms};
use noderelay_proto::{Code, Frames, ToHolder};

const CLOCK: &str = "echo $$; while :; do date; sleep 0.05; done";

fn adopt(token: [u8; 32]) -> Adopt {
    Adopt {
        session: Bytes::copy_from_slice(&[1; 16]),
        token: Bytes::copy_from_slice(&token),
        version: 1,
    }
}

fn first_number(session: &Session) -> Option<i32> {
    let text = String::from_utf8_lossy(&session.out).into_owned();
    text.split_once('\n').and_then(|(line, _)| line.trim().parse().ok())
}

/// A session whose command has said its process id.
async fn with_pid(start: noderelay_proto::control::Start) -> (Session, i32) {
    let mut session = Session::begin(start).await;
    session
        .until("a process id", |session| first_number(session).is_some())
        .await;
    let pid = first_number(&session).unwrap();
    (session, pid)
}

#[tokio::test]
async fn b013_without_an_agent_the_session_ends_after_its_window() {
    for terminal in [false, true] {
        let argv = ["bash", "-c", "trap '' HUP; echo $$; while :; do date; sleep 0.05; done"];
        let mut start = if terminal { start_terminal(&argv) } else { start(&argv) };
        start.window_secs = 1;
        let (session, pid) = with_pid(start).await;
        let Session { dir, holder, .. } = session;
        drop(holder);
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(is_alive(pid), "the window is not over");
        eventually("the shell is gone", || !is_alive(pid)).await;
        eventually("the recording is closed", || recorded(dir.path()).end.is_some()).await;
        let recorded = recorded(dir.path());
        let end = recorded.end.unwrap();
        assert_eq!((end.code.as_str(), end.signal), ("session.window", Some(9)));
        assert!(
            recorded.notices.iter().any(|notice| notice.starts_with("no agent")),
            "{:?}",
            recorded.notices
        );
        eventually("the holder is gone", || !dir.path().join("session").exists()).await;
    }
}

#[tokio::test]
async fn an_agent_that_lost_its_client_hears_how_the_session_ends() {
    let mut begin = start(&["sh", "-c", CLOCK]);
    begin.window_secs = 1;
    let (mut session, pid) = with_pid(begin).await;
    tokio::io::AsyncWriteExt::shutdown(&mut session.holder.stream)
        .await
        .unwrap();
    session.acknowledges = false;
    session.end().await;
    assert_eq!(session.code(), Some(Code::SessionWindow));
    assert!(!is_alive(pid));
    session.recorded().await;

    // The command's own end within the window is told, and kept for the client until the window is over.
    let mut begin = start(&["sh", "-c", "echo $$; sleep 0.2; exit 4"]);
    begin.window_secs = 1;
    let (mut session, _) = with_pid(begin).await;
    tokio::io::AsyncWriteExt::shutdown(&mut session.holder.stream)
        .await
        .unwrap();
    session.acknowledges = false;
    session.end().await;
    assert_eq!(session.exit.unwrap().code, Some(4));
    assert!(session.home().join("holder.sock").exists());
    session.recorded().await;
}

#[tokio::test]
async fn b015_shells_see_three_descriptors_and_nothing_of_other_sessions() {
    let (_one, _) = with_pid(start_terminal(&["sh", "-c", "echo $$; exec sleep 100"])).await;
    let (_two, _) = with_pid(start(&["sh", "-c", "echo $$; exec sleep 100"])).await;
    for start in [
        start_terminal(&["ls", "-l", "/proc/self/fd"]),
        start(&["ls", "-l", "/proc/self/fd"]),
    ] {
        let session = run(start, b"").await;
        // total, the three, and the listed directory
        assert_eq!(session.text().lines().count(), 5, "{}", session.text());
        assert!(
            !session.text().contains("socket") && !session.text().contains("ptmx"),
            "{}",
            session.text()
        );
    }
}

#[tokio::test]
async fn b015_a_holder_that_is_killed_takes_its_shell_with_it() {
    for start in [start(&["sh", "-c", CLOCK]), start_terminal(&["sh", "-c", CLOCK])] {
        let (session, pid) = with_pid(start).await;
        let holder = nix::unistd::Pid::from_raw(session.holder.pid.unwrap() as i32);
        nix::sys::signal::kill(holder, nix::sys::signal::Signal::SIGKILL).unwrap();
        eventually("the shell is gone", || !is_alive(pid)).await;
    }
}

// Without a terminal nothing hangs up on a command, and one that ignores HUP would not care.
#[tokio::test]
async fn a_killed_holder_leaves_nothing_of_its_session_whatever_that_ignores() {
    let line = "trap '' HUP; sleep 1000 & echo $$ $!; wait";
    let before = remains::Noticed::now();
    // The kernel counts in hundredths of a second.
    eventually("a tick is over", || remains::Noticed::now() > before).await;
    for start in [start(&["sh", "-c", line]), start_terminal(&["sh", "-c", line])] {
        let mut session = Session::begin(start).await;
        session
            .until("two process ids", |session| session.out.contains(&b'\n'))
            .await;
        let said = String::from_utf8_lossy(&session.out).into_owned();
        let pids: Vec<i32> = said.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
        let [leader, job] = pids[..] else { panic!("{said}") };
        assert!(remains::is_held(&session.home()).unwrap());
        let holder = nix::unistd::Pid::from_raw(session.holder.pid.unwrap() as i32);
        nix::sys::signal::kill(holder, nix::sys::signal::Signal::SIGKILL).unwrap();
        eventually("the command is gone", || !is_alive(leader)).await;
        eventually("nobody holds the session", || {
            !remains::is_held(&session.home()).unwrap()
        })
        .await;
        let noticed = remains::Noticed::now();
        // What the command had started in its session is the agent's to end.
        assert!(is_alive(job), "it ignores HUP");
        assert_eq!(
            remains::kill(leader as u32, before),
            0,
            "of another session of that number"
        );
        assert_eq!(remains::kill(leader as u32, noticed), 1);
        eventually("its job is gone", || !is_alive(job)).await;
        remains::remove(&session.home()).unwrap();
        assert!(!session.home().exists());
    }
}

#[tokio::test]
async fn b016_a_clock_on_a_terminal_is_idle_and_a_busy_command_is_not() {
    let mut start_clock = start_terminal(&["sh", "-c", CLOCK]);
    start_clock.idle_secs = Some(1);
    let mut session = Session::begin(start_clock).await;
    // Pings are not a person.
    for number in 0..40 {
        if session.code().is_none() {
            session.tell(ToHolder::Session(noderelay_proto::ToNode::Ping(number)));
            session.work_for(Duration::from_millis(50)).await;
        }
    }
    session.end().await;
    assert_eq!(session.code(), Some(Code::SessionIdle));
    assert_eq!(session.recorded().await.end.unwrap().code, "session.idle");

    let mut busy = start(&["sh", "-c", "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.3; done"]);
    busy.idle_secs = Some(1);
    let mut session = Session::begin(busy).await;
    session.end().await;
    assert_eq!(session.exit.unwrap().code, Some(0));

    let mut typed = start_terminal(&["sh", "-c", "stty -echo; cat > /dev/null"]);
    typed.idle_secs = Some(1);
    let mut session = Session::begin(typed).await;
    for _ in 0..10 {
        session.keys(b"x");
        session.work_for(Duration::from_millis(200)).await;
    }
    assert_eq!(session.code(), None);
    session.keys(b"\n\x04");
    session.end().await;
    assert_eq!(session.exit.unwrap().code, Some(0));
}

#[tokio::test]
async fn a_deadline_ends_the_session_and_may_be_moved() {
    let mut start = start(&["sh", "-c", CLOCK]);
    start.deadline_unix = Some(jiff::Timestamp::now().as_second() + 3600);
    let (mut session, pid) = with_pid(start).await;
    let now = jiff::Timestamp::now().as_second();
    session.tell(ToHolder::Terms(Terms {
        deadline_unix: Some(now + 100),
        idle_secs: None,
    }));
    session.until("a warning", |session| !session.notices.is_empty()).await;
    assert_eq!(session.notices[0].code, Code::SessionDeadline.number());
    session.tell(ToHolder::Terms(Terms {
        deadline_unix: Some(now),
        idle_secs: None,
    }));
    session.end().await;
    assert_eq!((session.code(), session.exit), (Some(Code::SessionDeadline), None));
    assert!(!is_alive(pid));
}

#[tokio::test]
async fn an_end_by_the_agent_hangs_up_then_kills() {
    // Ignores HUP, and its child too.
    let (mut session, pid) = with_pid(start_terminal(&["bash", "-c", &format!("trap '' HUP; {CLOCK}")])).await;
    let began = tokio::time::Instant::now();
    session.terminate(Code::SessionRevoked);
    session.end().await;
    assert_eq!(session.code(), Some(Code::SessionRevoked));
    assert!(began.elapsed() >= Duration::from_millis(290));
    assert!(!is_alive(pid));
    let end = session.recorded().await.end.unwrap();
    assert_eq!((end.code.as_str(), end.signal), ("session.revoked", Some(9)));

    // One that heeds it says its last words.
    let line = "trap 'echo bye; exit 4' HUP; echo $$; while :; do sleep 0.02; done";
    let (mut session, _) = with_pid(start(&["bash", "-c", line])).await;
    session.terminate(Code::SessionKilled);
    session.end().await;
    assert!(session.text().ends_with("bye\n"));
    assert_eq!((session.code(), session.exit), (Some(Code::SessionKilled), None));
    assert_eq!(session.recorded().await.end.unwrap().exit_code, Some(4));
}

#[tokio::test]
async fn b013_a_stuck_reader_does_not_keep_a_session_alive() {
    let (mut session, pid) = with_pid(start(&["sh", "-c", "echo $$; exec yes"])).await;
    session.acknowledges = false;
    session.work_for(Duration::from_millis(200)).await;
    session.terminate(Code::SessionRevoked);
    session.end().await;
    assert_eq!(session.code(), Some(Code::SessionRevoked));
    assert!(!is_alive(pid));
}

#[tokio::test]
async fn b029_jobs_in_the_session_end_with_it_and_what_left_it_stays_and_is_recorded() {
    let line = "nohup sleep 4001 > /dev/null 2>&1 & echo $!; setsid sh -c 'echo $$ >&3; exec sleep 4002 3>&-' 3>&1 >/dev/null </dev/null 2>&1 & sleep 0.5; exit 0";
    for terminal in [false, true] {
        let argv = ["bash", "-c", line];
        let mut session = Session::begin(if terminal { start_terminal(&argv) } else { start(&argv) }).await;
        session.end().await;
        assert_eq!(session.exit.unwrap().code, Some(0));
        let pids: Vec<i32> = session
            .text()
            .lines()
            .map(|line| line.trim().parse().unwrap())
            .collect();
        let recorded = session.recorded().await;
        let (job, escaped) = (pids[0], pids[1]);
        eventually("nohup does not help", || !is_alive(job)).await;
        assert!(is_alive(escaped), "what has left the session goes on");
        let said = format!("left running: sleep (pid {escaped})");
        assert!(recorded.notices.contains(&said), "{:?}", recorded.notices);
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(escaped), nix::sys::signal::Signal::SIGKILL).unwrap();
    }
}

#[tokio::test]
async fn b029_an_end_by_authority_reaches_what_left_the_session() {
    let line = "echo $$; setsid sh -c 'echo $$; exec sleep 4003' & sleep 1000";
    let (mut session, _) = with_pid(start(&["bash", "-c", line])).await;
    session
        .until("both", |session| session.text().lines().count() == 2)
        .await;
    let escaped: i32 = session.text().lines().nth(1).unwrap().parse().unwrap();
    session.terminate(Code::SessionRevoked);
    session.recorded().await;
    eventually("it is gone", || !is_alive(escaped)).await;
}

#[tokio::test]
async fn a_restarted_agent_takes_the_session_up_again() {
    let (mut session, pid) = with_pid(start(&[
        "sh",
        "-c",
        "echo $$; while read x; do echo got $x; done; exit 6",
    ]))
    .await;
    session.acknowledges = false;
    session.keys(b"one\n");
    session
        .until("one", |session| session.text().ends_with("got one\n"))
        .await;
    let before = session.inbox.consumed_offset();

    // Not with a wrong token.
    let mut thief = find(&session.home(), adopt([8; 32])).unwrap();
    let mut byte = [0];
    let read = tokio::io::AsyncReadExt::read(&mut thief.stream, &mut byte).await;
    assert!(matches!(read, Ok(0) | Err(_)));

    session.holder = find(&session.home(), adopt(TOKEN)).unwrap();
    session.frames = Frames::new();
    assert_eq!(session.inbox.resume_offset(), before);
    session.pid = 0;
    session.until("adopted", |session| session.pid == pid as u32).await;
    session.acknowledges = true;
    session.acknowledge();
    session.keys(b"two\n");
    session.say(noderelay_proto::ToNode::End);
    session.end().await;
    // What came again was dropped by its offset: nothing is lost, nothing doubled.
    assert_eq!(session.text(), format!("{pid}\ngot one\ngot two\n"));
    assert_eq!(session.exit.unwrap().code, Some(6));
    let recorded = session.recorded().await;
    assert!(
        recorded
            .notices
            .iter()
            .any(|notice| notice == "an agent took the session up again")
    );
    assert!(matches!(
        find(&session.home(), adopt(TOKEN)),
        Err(LaunchError::NoHolder { .. })
    ));
}

#[tokio::test]
async fn the_end_is_kept_for_an_agent_that_comes_late() {
    let mut start = start(&["sh", "-c", "echo $$; sleep 0.3; echo late; exit 3"]);
    start.window_secs = 30;
    let (mut session, pid) = with_pid(start).await;
    let (ours, _theirs) = tokio::net::UnixStream::pair().unwrap();
    session.holder.stream = ours;
    eventually("the command has ended", || !is_alive(pid)).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    session.holder = find(&session.home(), adopt(TOKEN)).unwrap();
    session.frames = Frames::new();
    session.end().await;
    assert!(session.text().ends_with("late\n"));
    assert_eq!(session.exit.unwrap().code, Some(3));
    session.recorded().await;
}

#[tokio::test]
async fn a_start_that_fails_says_why_and_closes_the_recording() {
    let mut bad = start(&["true"]);
    let mut other = account("/bin/sh");
    other.uid = 65_533;
    other.name = "other".into();
    bad.account = Some(other);
    if nix::unistd::geteuid().is_root() {
        // Root can become anybody; a terminal that is none fails in its own way elsewhere.
        let session = run(bad, b"").await;
        assert_eq!(session.exit.unwrap().code, Some(0));
    } else {
        let mut session = Session::begin(bad).await;
        assert_eq!(session.failed.clone().unwrap().0, Code::ShellPrivileges);
        assert_eq!(session.recorded().await.end.unwrap().code, "shell.privileges");
    }
}

#[tokio::test]
async fn a_recording_of_another_session_or_none_starts_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let not_a_recording = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .unwrap();
    let marker = dir.path().join("ran");
    let start = start(&["touch", marker.to_str().unwrap()]);
    let mut handle = launch(
        Path::new(common::RIG),
        &["holder"],
        &dir.path().join("s"),
        start,
        not_a_recording,
    )
    .unwrap();
    let mut said = Vec::new();
    tokio::io::AsyncReadExt::read_to_end(&mut handle.stream, &mut said)
        .await
        .unwrap();
    let mut frames: Frames<noderelay_proto::FromHolder> = Frames::new();
    frames.push(&said);
    match frames.next().unwrap() {
        Some(noderelay_proto::FromHolder::StartFailed(failed)) => {
            assert_eq!(failed.code, Code::RecordingUnavailable.number());
        }
        other => panic!("{other:?}"),
    }
    assert!(!marker.exists());
}

#[tokio::test]
async fn a_directory_open_to_others_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let file = tempfile::tempfile().unwrap();
    let refused = launch(Path::new(common::RIG), &["holder"], dir.path(), start(&["true"]), file);
    assert!(matches!(refused, Err(LaunchError::Directory { .. })));
}

#[tokio::test]
async fn a_holder_that_is_told_to_stop_ends_its_session_in_order() {
    let (mut session, pid) = with_pid(start_terminal(&["sh", "-c", CLOCK])).await;
    let holder = nix::unistd::Pid::from_raw(session.holder.pid.unwrap() as i32);
    nix::sys::signal::kill(holder, nix::sys::signal::Signal::SIGTERM).unwrap();
    session.end().await;
    assert_eq!(session.code(), Some(Code::SessionKilled));
    assert!(!is_alive(pid));
    session.signal(SignalName::Int);
    session.recorded().await;
}

/// A disk of 256 KiB; taken away when dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=256k,mode=0700", "none"])
            .arg(dir.path())
            .status();
        if !nix::unistd::geteuid().is_root() {
            eprintln!("not root: no small disk can be made, nothing was tested");
            return None;
        }
        assert!(mounted.unwrap().success(), "root can mount");
        Some(Self(dir))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount")
            .arg("-l")
            .arg(self.0.path())
            .status();
    }
}

#[tokio::test]
async fn b022_a_full_disk_ends_a_strict_session_and_nothing_unrecorded_is_shown() {
    let Some(disk) = SmallDisk::new() else { return };
    let argv = ["sh", "-c", "echo $$; exec yes a line of output that fills the disk"];
    let mut session = Session::begin_in(start_terminal(&argv), tempfile::tempdir().unwrap(), disk.0.path()).await;
    session.end().await;
    let pid = first_number(&session).unwrap();
    assert_eq!(session.code(), Some(Code::RecordingFailed));
    assert!(
        session.closed.as_ref().unwrap().seen.contains("No space left"),
        "{:?}",
        session.closed
    );
    assert!(!is_alive(pid));
    let file = std::fs::read_dir(disk.0.path())
        .unwrap()
        .flatten()
        .next()
        .unwrap()
        .path();
    let mut reader = noderelay_audit::Reader::open(&file).unwrap();
    let mut recorded = Vec::new();
    while let Some(timed) = reader.next_event().unwrap() {
        if let noderelay_audit::read::Event::Output(_, bytes) = timed.event {
            recorded.extend(bytes);
        }
    }
    assert!(
        recorded.starts_with(&session.out),
        "{} shown, {} recorded",
        session.out.len(),
        recorded.len()
    );
}

#[tokio::test]
async fn b022_a_full_disk_does_not_end_a_session_that_must_only_be_recorded_if_possible() {
    let Some(disk) = SmallDisk::new() else { return };
    let mut start = start_terminal(&["sh", "-c", "yes a line of output | head -c 1000000; exit 3"]);
    start.recorded = noderelay_proto::control::RecordLevel::Required.into();
    let mut session = Session::begin_in(start, tempfile::tempdir().unwrap(), disk.0.path()).await;
    session.end().await;
    assert_eq!(session.exit.unwrap().code, Some(3));
    assert!(session.out.len() > 1_000_000);
    session.until("gone", |session| session.gone).await;
    assert!(
        session.log().contains("No space left"),
        "the log says that not all is on the disk: {}",
        session.log()
    );
}
