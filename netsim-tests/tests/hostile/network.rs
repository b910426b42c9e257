//! A network that is curious, or that damages what it carries.

use std::sync::{Arc, Mutex};

use netsim_tests::between::fleet_behind;
use netsim_tests::chance::Chance;
use netsim_tests::middleman::Look;
use netsim_tests::process::Bounded as _;

/// Neither what a command prints, nor its arguments, nor the reason pass the network or the relay in clear.
#[test]
fn nothing_of_a_session_is_seen_on_the_way() {
    let seen: Arc<Mutex<Vec<u8>>> = Arc::default();
    let into = Arc::clone(&seen);
    let (fleet, _middleman) = fleet_behind(
        &(Arc::new(move |datagram: &mut [u8]| {
            into.lock().unwrap().extend_from_slice(datagram);
            true
        }) as Look),
    );
    // The printed secret does not stand in the arguments.
    let output = fleet
        .client()
        .args(["--reason", "reason-of-the-visit", "local", "--", "sh", "-c"])
        .arg("echo argument-of-the-command >/dev/null; echo secret-$((40+2))-printed")
        .bounded();
    assert_eq!(
        output.stdout,
        b"secret-42-printed\n",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let seen = seen.lock().unwrap();
    assert!(seen.len() > 4096, "only {} bytes passed the forwarder", seen.len());
    for secret in ["secret-42-printed", "argument-of-the-command", "reason-of-the-visit"] {
        assert!(
            !seen.windows(secret.len()).any(|w| w == secret.as_bytes()),
            "{secret} passed in clear"
        );
    }
}

/// Flipped bits cost time or the session, never a byte: exit code 0 comes with the right output only.
#[test]
fn flipped_bits_never_alter_what_is_shown() {
    let chance = Mutex::new(Chance::new());
    let counted = Arc::new(Mutex::new(0_u32));
    let count = Arc::clone(&counted);
    let flip = move |datagram: &mut [u8]| {
        let mut chance = chance.lock().unwrap();
        // One datagram in 50.
        if chance.below(50) == 0 && !datagram.is_empty() {
            let at = chance.below(datagram.len());
            datagram[at] ^= 1 << chance.below(8);
            *count.lock().unwrap() += 1;
        }
        true
    };
    let (fleet, _middleman) = fleet_behind(&(Arc::new(flip) as Look));
    let wanted: String = (1..=200_000).map(|n| format!("{n}\n")).collect();
    let mut whole = 0;
    for _ in 0..5 {
        let output = fleet.run(&["seq", "1", "200000"]);
        assert!(wanted.as_bytes().starts_with(&output.stdout), "altered output");
        if output.status.success() {
            assert_eq!(output.stdout.len(), wanted.len(), "cut output with exit code 0");
            whole += 1;
        } else {
            assert_eq!(output.status.code(), Some(255));
        }
    }
    assert!(*counted.lock().unwrap() > 0, "nothing was flipped");
    assert!(whole > 0, "no run came through");
}
