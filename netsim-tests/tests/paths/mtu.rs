//! B072: a path that stops taking large datagrams and tells nobody.

use std::time::Duration;

use netsim_tests::told::Told;

use crate::setup::Net;

#[test]
fn b072_a_session_goes_on_when_its_paths_stop_taking_large_datagrams() {
    let net = Net::serving("regrow: 1s", "");
    let told = Told::after_begun(
        net.client(),
        "echo begun; i=0; while [ $i -lt 50 ]; do seq 1 20000; sleep 0.1; i=$((i+1)); done",
        || {
            for largest in [1_280, 1_252, 1_200, usize::MAX] {
                let dropped = [net.agent.dropped(), net.client.dropped()];
                net.agent.largest(largest);
                net.client.largest(largest);
                std::thread::sleep(Duration::from_millis(900));
                if largest == 1_280 {
                    assert!(
                        net.agent.dropped() > dropped[0] && net.client.dropped() > dropped[1],
                        "nothing was too large"
                    );
                }
            }
        },
    );
    told.assert_exit(0);
    let piece: String = (1..=20_000).map(|n| format!("{n}\n")).collect();
    assert!(told.output.stdout == format!("begun\n{}", piece.repeat(50)).into_bytes());
    assert_eq!((net.client.peers(), net.agent.peers(), net.attached()), (1, 1, 1));
}

/// What QUIC needs at least passes from the first packet on: handshakes with certificates and whole sessions.
#[test]
fn b072_a_path_that_takes_1200_bytes_carries_sessions() {
    let net = Net::serving("", "");
    net.agent.largest(1_200);
    net.client.largest(1_200);
    let told = Told::of(net.client(), &["seq", "1", "100000"]);
    told.assert_exit(0);
    let wanted: String = (1..=100_000).map(|n| format!("{n}\n")).collect();
    assert!(told.output.stdout == wanted.into_bytes());
}
