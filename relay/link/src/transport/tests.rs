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
    let agent = Dialer::new(fleet.party("node/n1"), agent_transport(256));
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
