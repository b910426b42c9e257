//! A relay that is stopped and started as a service manager does it.

use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;

use netsim_tests::fleet::{Fleet, edit};
use netsim_tests::process::{Bounded as _, eventually};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Longer than any test waits.
const DRAIN: &str = "timing: {drain: 1h}\n";
/// How long a relay takes that has nothing to wait for.
const SOON: Duration = Duration::from_secs(20);

fn draining() -> Fleet {
    let mut fleet = Fleet::files("");
    edit(&fleet.layout.relay(), |text| text + DRAIN);
    fleet.start_relay();
    fleet.start_agent();
    fleet
}

fn terminate(fleet: &Fleet) {
    let pid = fleet.relay.as_ref().expect("a relay").0.id();
    kill(Pid::from_raw(pid.try_into().unwrap()), Signal::SIGTERM).unwrap();
}

/// A session that runs ends in its own time, nothing new comes in meanwhile, the relay goes with it, and the next one has the node.
#[test]
fn what_runs_ends_by_itself_and_the_node_comes_back() {
    let mut fleet = draining();
    let mut client = fleet.begin(&[], "echo begun; read -r line; echo \"$line\"; exit 7", Stdio::piped());
    terminate(&fleet);
    eventually("nothing new comes in", || {
        fleet.run(&["true"]).status.code() == Some(255)
    });
    client.stdin.take().unwrap().write_all(b"still there\n").unwrap();
    let output = client.bounded();
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert_eq!(output.stdout, b"still there\n");
    let status = fleet.relay.take().unwrap().wait_within(SOON);
    assert!(status.success(), "{status}");
    fleet.start_relay();
    eventually("the node is back", || fleet.run(&["true"]).status.success());
}

/// Whoever does not want to wait says it twice: what still runs is cut, and told so.
#[test]
fn the_second_signal_cuts_what_still_runs() {
    let mut fleet = draining();
    let client = fleet.begin(&[], "echo begun; sleep 1000", Stdio::piped());
    terminate(&fleet);
    eventually("nothing new comes in", || {
        fleet.run(&["true"]).status.code() == Some(255)
    });
    terminate(&fleet);
    let status = fleet.relay.take().unwrap().wait_within(SOON);
    assert!(status.success(), "{status}");
    let output = client.bounded();
    assert_eq!(output.status.code(), Some(255));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("relay.draining"), "{said}");
}
