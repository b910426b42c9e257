//! Waits as they are shipped: every other test shortens them. They run with `cargo xtask soak`.

use std::process::Stdio;
use std::time::Duration;

use netsim_tests::fleet::{Fleet, edit};
use netsim_tests::process::{Bounded as _, eventually, processes_with};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::time::Instant;

/// What a busy machine may take beside a wait.
const BUSY: Duration = Duration::from_secs(5);

/// A fleet with every wait as it is when nobody sets it.
fn as_shipped() -> Fleet {
    let mut fleet = Fleet::files("");
    edit(&fleet.layout.agent(), |text| {
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("limits: ")).collect();
        lines.join("\n")
    });
    fleet.start_relay();
    fleet.start_agent();
    fleet
}

#[track_caller]
fn assert_about(seen: Duration, expected: Duration) {
    assert!(
        (expected..expected + BUSY).contains(&seen),
        "{seen:?}, expected {expected:?}"
    );
}

/// 20 s until the relay misses a client that vanished without a word, 10 s of window, and 5 s between HUP and KILL.
#[test]
#[ignore = "soak: the window of 10 s and what is around it"]
fn a_session_whose_client_vanished_ends_after_the_window_that_is_shipped() {
    let fleet = as_shipped();
    let mark = format!("mark-{}-window", std::process::id());
    let line = format!("trap '' HUP; echo begun; sleep 300; echo {mark}");
    let mut client = fleet.begin(&[], &line, Stdio::null());
    client.kill().unwrap();
    client.wait().unwrap();
    let since = Instant::now();
    eventually("nothing of the session runs", || processes_with(&mark).is_empty());
    assert_about(since.elapsed(), Duration::from_secs(35));
}

/// A relay that is gone for good: an idle session ends once the node has been silent for 15 s and was then asked in vain for 20 s,
/// or QUIC itself has given up.
#[test]
#[ignore = "soak: what a client waits for a path that is silent"]
fn a_client_whose_relay_is_gone_for_good_says_so_within_the_patience_that_is_shipped() {
    let mut fleet = as_shipped();
    let client = fleet.begin(&[], "echo begun; sleep 300", Stdio::null());
    fleet.relay.take().unwrap().kill();
    let since = Instant::now();
    let output = client.bounded();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(255), "{said}");
    assert!(said.contains("transport."), "{said}");
    assert!(
        since.elapsed() < Duration::from_secs(35) + BUSY,
        "{:?}",
        since.elapsed()
    );
}

/// A relay that was told to stop gives a session 30 s, and then cuts it.
#[test]
#[ignore = "soak: the drain of 30 s"]
fn a_relay_that_stops_gives_sessions_the_drain_that_is_shipped() {
    let mut fleet = as_shipped();
    let client = fleet.begin(&[], "echo begun; sleep 300", Stdio::null());
    let mut relay = fleet.relay.take().unwrap();
    let since = Instant::now();
    kill(Pid::from_raw(i32::try_from(relay.0.id()).unwrap()), Signal::SIGTERM).unwrap();
    let output = client.bounded();
    let cut = since.elapsed();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(255), "{said}");
    assert!(said.contains("relay.draining"), "{said}");
    assert_about(cut, Duration::from_secs(30));
    assert!(relay.wait_within(BUSY).success());
}
