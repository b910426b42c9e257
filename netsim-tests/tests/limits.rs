//! Limits that end or refuse sessions: the policy's idle limit, the node's number of sessions.

use std::io::Write as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use netsim_tests::fleet::Fleet;
use netsim_tests::process::{Bounded as _, eventually};
use netsim_tests::terminal::Terminal;
use netsim_tests::told::Told;
use tokio::time::Instant;

/// The idle limit of these tests, and longer than two of it.
const IDLE: Duration = Duration::from_secs(2);
const LONGER: Duration = Duration::from_secs(5);

/// A fleet with an idle limit, and clients that ask the node for a sign of life far more often than that.
fn idling() -> Fleet {
    let fleet = Fleet::serving();
    fleet.repolicy("@record(\"required\")", "@record(\"required\")\n@idle(\"2s\")");
    let config = fleet.layout.client();
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text + "keepalive: 200ms\n").unwrap();
    fleet
}

fn on_terminal(fleet: &Fleet) -> Command {
    let mut client = fleet.client();
    client.arg("-t");
    client
}

/// Writes now and then for longer than the limit, then falls silent until the node ends the session.
fn type_for_a_while(input: &mut ChildStdin) {
    let until = Instant::now() + LONGER;
    while Instant::now() < until {
        input
            .write_all(b"x")
            .expect("the session lives while something is typed");
        std::thread::sleep(IDLE / 5);
    }
    // The end of input would end `cat`.
    while input.write_all(b"").is_ok() && input_is_read(input) {
        std::thread::sleep(IDLE / 20);
    }
}

/// Whether the client still has its end of the pipe.
fn input_is_read(input: &ChildStdin) -> bool {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::os::fd::AsFd as _;
    let mut look = [PollFd::new(input.as_fd(), PollFlags::POLLOUT)];
    poll(&mut look, PollTimeout::ZERO).expect("poll");
    !look[0].revents().is_some_and(|e| e.contains(PollFlags::POLLERR))
}

/// On a terminal the person's input counts and nothing else, without one output counts as well; keepalives never do. The
/// reason is said and recorded.
#[test]
fn b016_the_idle_limit_counts_what_people_do() {
    let fleet = idling();
    let clock = "while :; do date; sleep 0.2; done";
    let ticks = "for i in 1 2 3 4 5 6 7 8 9 10; do echo tick; sleep 0.5; done; exec sleep 600";
    let timed = |run: &dyn Fn() -> Told| {
        let begun = Instant::now();
        let told = run();
        told.assert_failed("session.idle");
        (begun.elapsed(), told)
    };
    std::thread::scope(|scope| {
        let fleet = &fleet;
        scope.spawn(move || {
            let (took, _) = timed(&|| Told::of(on_terminal(fleet), &["sleep", "600"]));
            assert!(took >= IDLE, "untouched, with keepalives: {took:?}");
        });
        scope.spawn(move || {
            let (_, told) = timed(&|| Told::of(on_terminal(fleet), &["sh", "-c", clock]));
            assert!(told.output.stdout.len() > 100, "the clock was shown");
        });
        scope.spawn(move || {
            let (took, _) = timed(&|| {
                let quietly = "stty -echo; cat > /dev/null";
                Told::fed(on_terminal(fleet), &["sh", "-c", quietly], type_for_a_while)
            });
            assert!(took >= LONGER, "typed on a terminal: {took:?}");
        });
        scope.spawn(move || {
            let (took, _) = timed(&|| Told::of(fleet.client(), &["sleep", "600"]));
            assert!(took >= IDLE, "nothing at all: {took:?}");
        });
        scope.spawn(move || {
            let (_, told) = timed(&|| Told::of(fleet.client(), &["sh", "-c", ticks]));
            let shown = String::from_utf8_lossy(&told.output.stdout).into_owned();
            assert_eq!(shown, "tick\n".repeat(10), "output keeps a command without a terminal");
        });
        scope.spawn(move || {
            let (took, _) = timed(&|| Told::fed(fleet.client(), &["sh", "-c", "cat > /dev/null"], type_for_a_while));
            assert!(took >= LONGER, "input keeps a command without a terminal: {took:?}");
        });
    });
    let recordings = fleet.recordings();
    assert_eq!(recordings.len(), 6);
    for recording in recordings {
        eventually("the recording has the reason", || {
            std::fs::read_to_string(&recording).unwrap().contains("session.idle")
        });
    }
}

/// An interactive shell that nobody touches is ended, and the person is told why in a terminal that is in order.
#[test]
fn b016_an_idle_shell_is_ended_with_its_reason() {
    let fleet = idling();
    let mut client = fleet.client();
    client.arg("local");
    let mut shell = Terminal::shell(client, 80, 24);
    assert_eq!(shell.wait().code(), Some(255));
    shell.wait_for("session.idle");
    shell.assert_as_before("the idle limit");
}

/// A session that runs until its input ends.
fn open(fleet: &Fleet) -> Child {
    fleet.begin(&[], "echo begun; cat > /dev/null", Stdio::piped())
}

/// A limit of three sessions counts those that run: a fourth is refused by its code, and any number fits one after the
/// other.
#[test]
fn a_limit_on_sessions_counts_those_that_run() {
    let fleet = Fleet::with("sessions: 3");
    let mut open: Vec<Child> = (0..3).map(|_| open(&fleet)).collect();
    let recorded = fleet.recordings().len();
    Told::of(fleet.client(), &["true"]).assert_refused("session.limit");
    assert_eq!(fleet.recordings().len(), recorded, "nothing was started");
    assert!(
        open.iter_mut().all(|child| child.try_wait().unwrap().is_none()),
        "the three go on"
    );
    assert_eq!(open.remove(0).bounded().status.code(), Some(0));
    eventually("the place is free", || fleet.run(&["true"]).status.success());
    for n in 0..10 {
        let told = Told::of(fleet.client(), &["echo", "done"]);
        assert_eq!(told.output.stdout, b"done\n", "run {n}: {}", told.said());
    }
    for child in open {
        assert_eq!(child.bounded().status.code(), Some(0));
    }
}
