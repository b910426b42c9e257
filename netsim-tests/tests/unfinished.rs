//! Whatever ends a session but an explicit exit of its command: never 0, a message, and the code in `--status`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use netsim_tests::between::fleet_behind;
use netsim_tests::fleet::Fleet;
use netsim_tests::middleman::Look;
use netsim_tests::told::Told;
use netsim_tests::unfinished::{Act, node};

/// The session failed by one of these codes, on the way, and what was shown before stays.
#[track_caller]
fn assert_unfinished(told: &Told, shown: &[u8], codes: &[&str]) {
    let code = told.status["code"].as_str().unwrap_or_default().to_owned();
    assert!(codes.contains(&&code[..]), "{} {}", told.status, told.said());
    told.assert_failed(&code);
    assert_ne!(told.status["origin"], "remote", "{}", told.status);
    assert!(told.output.stdout.starts_with(shown), "{:?}", told.output.stdout);
    // Some word of what was lost, not the code alone.
    let said = told.said();
    let line = said.lines().find(|line| line.contains(&code)).unwrap_or_default();
    assert!(line.len() > code.len() + 20, "{said}");
}

/// A stream that ends as after a good session, but without EXIT, was cut: by a node that lies, or by whoever is between.
#[test]
fn b006_an_end_without_an_exit_is_never_exit_0() {
    for (act, codes) in [
        (Act::EndCleanly, &["transport.closed"][..]),
        (Act::EndOutput, &["transport.closed"]),
        (Act::Reset, &["transport.reset", "transport.lost", "transport.closed"]),
        (Act::Leave, &["transport.reset", "transport.lost", "relay.node_lost"]),
    ] {
        let mut fleet = Fleet::files("");
        fleet.start_relay();
        let _node = node(&fleet, act);
        let told = Told::of(fleet.client(), &["true"]);
        println!("{act:?}: {} {}", told.status, told.said());
        assert_unfinished(&told, b"half", codes);
    }
}

/// From one moment on every packet is lost, in both directions.
#[test]
fn b006_dropped_packets_are_never_exit_0() {
    let lost = Arc::new(AtomicBool::new(false));
    let pass = Arc::clone(&lost);
    let look: Look = Arc::new(move |_| !pass.load(Ordering::Relaxed));
    let (fleet, _middleman) = fleet_behind(&look);
    fleet.impatient();
    let told = Told::after_begun(fleet.client(), "echo begun; sleep 300", || {
        lost.store(true, Ordering::Relaxed)
    });
    assert_unfinished(&told, b"begun\n", &["transport.timeout", "transport.lost"]);
}

/// The relay is killed, and the one in its place knows the connection no more: it resets it.
#[test]
fn b006_a_reset_is_never_exit_0() {
    let mut fleet = Fleet::serving();
    let client = fleet.client();
    let told = Told::after_begun(client, "echo begun; sleep 300", || {
        fleet.relay.take().unwrap().kill();
        fleet.start_relay();
    });
    assert_unfinished(&told, b"begun\n", &["transport.lost"]);
}
