//! The settings of the QUIC transport.

use super::*;
use crate::testing::*;
use crate::{Dialer, agent_transport};

/// Streams that nobody reads, in both directions.
const STALLED: usize = 8;

#[tokio::test]
async fn stalled_streams_of_an_agent_do_not_hold_up_the_others() {
    let fleet = Fleet::new();
    let (relay, address) = fleet.relay("relay/r1");
    let agent = Dialer::new(fleet.party("node/n1"), agent_transport(256, &Times::default()));
    let addresses = [address.to_string()];
    let (link, at_relay) = tokio::join!(soon(agent.dial(&addresses, RELAY)), next(&relay));
    let at_agent = link.as_ref().unwrap().connection.clone();
    let full = vec![7; STREAM_WINDOW as usize];
    let mut stalled = Vec::new();
    for _ in 0..STALLED {
        let mut ours = soon(at_relay.open_bi()).await.unwrap();
        soon(ours.0.write_all(&full)).await.unwrap();
        let mut theirs = soon(at_agent.accept_bi()).await.unwrap();
        soon(theirs.0.write_all(&full)).await.unwrap();
        stalled.push((ours, theirs));
    }
    let mut ours = soon(at_relay.open_bi()).await.unwrap();
    soon(ours.0.write_all(b"through")).await.unwrap();
    ours.0.finish().unwrap();
    let mut theirs = soon(at_agent.accept_bi()).await.unwrap();
    assert_eq!(soon(theirs.1.read_to_end(100)).await.unwrap(), b"through");
    soon(theirs.0.write_all(b"and back")).await.unwrap();
    theirs.0.finish().unwrap();
    assert_eq!(soon(ours.1.read_to_end(100)).await.unwrap(), b"and back");
    // They were stalled, not lost.
    for ((_, mut ours), (mut theirs, _)) in stalled {
        theirs.finish().unwrap();
        assert_eq!(soon(ours.read_to_end(full.len())).await.unwrap().len(), full.len());
    }
}

#[test]
fn datagrams_are_probed_up_to_what_an_interface_can_send() {
    for (mtus, largest) in [
        (&[][..], 1452),
        (&[(false, 65_536)], 8952),
        (&[(false, 65_536), (true, 1500)], 1452),
        (&[(false, 65_536), (true, 1500), (true, 9000)], 8952),
        (&[(true, 8951)], 8903),
        (&[(true, 1280)], 1452),
        (&[(true, u32::MAX)], 8952),
        (&[(true, 0)], 1452),
    ] {
        assert_eq!(largest_of(mtus), largest, "{mtus:?}");
    }
    assert!((1452..=8952).contains(&largest_datagram()));
}

/// A number of a configuration, as it shows itself.
fn shown(config: &TransportConfig, name: &str) -> String {
    let text = format!("{config:?}");
    let (_, rest) = text.split_once(&format!(" {name}: ")).unwrap();
    rest.split_once(", ").unwrap().0.to_owned()
}

/// NATs of the field forget a mapping after 15 s; of three keepalives within that time two may go lost.
#[test]
fn b073_keepalives_are_well_within_what_nats_remember_and_all_parties_have_one_idle_limit() {
    const FORGETFUL_NAT: Duration = Duration::from_secs(15);
    let times = Times::default();
    times.check().unwrap();
    assert!(KEEPALIVE * 3 <= FORGETFUL_NAT && KEEPALIVE_CLIENT * 3 <= FORGETFUL_NAT);
    assert!(KEEPALIVE * 3 <= IDLE, "two lost keepalives end no connection");
    assert!(LONGEST_KEEPALIVE < FORGETFUL_NAT, "nor can it be set too long");
    let parties = [
        (client_transport(), KEEPALIVE_CLIENT),
        (relay_transport(&times), KEEPALIVE),
        (agent_transport(256, &times), KEEPALIVE),
    ];
    for (config, keepalive) in parties {
        assert_eq!(
            shown(&config, "max_idle_timeout"),
            format!("Some({})", IDLE.as_millis())
        );
        assert_eq!(shown(&config, "keep_alive_interval"), format!("Some({keepalive:?})"));
    }
}

#[test]
fn times_that_cannot_keep_a_connection_are_refused_with_what_is_right() {
    let times = |keepalive, idle, regrow| Times {
        keepalive: Period::from_millis(keepalive),
        idle: Period::from_millis(idle),
        regrow: Period::from_millis(regrow),
    };
    for (times, words) in [
        (
            times(11_000, 60_000, 1_000),
            "quic.keepalive is 11s, it has to be from 50ms to 10s",
        ),
        (
            times(1_000, 61_000, 1_000),
            "quic.idle is 61s, it has to be from 50ms to 1m",
        ),
        (times(1_000, 10_000, 0), "quic.regrow is 0s"),
        (
            times(1_000, 1_999, 1_000),
            "quic.keepalive is 1s, and of quic.idle, 1999ms, it may be half at most",
        ),
    ] {
        let seen = times.check().unwrap_err();
        assert!(seen.contains(words), "{seen}");
    }
    times(50, 100, 50).check().unwrap();
    // Whoever sets them past the check gets a connection that is kept all the same.
    assert_eq!(
        shown(&transport(&times(9_000, 1_000, 50), 0), "keep_alive_interval"),
        "Some(500ms)"
    );
}
