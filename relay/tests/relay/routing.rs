//! Streams through a relay: carried, refused, cut, and never confused.

use std::time::Duration;

use super::common::*;
use bytes::{Bytes, BytesMut};
use noderelay_proto::control::Purpose;
use noderelay_proto::{Code, Type, frame};

#[tokio::test]
async fn header_and_first_bytes_arrive_at_the_agent_and_answers_come_back() {
    let fleet = Fleet::new();
    let relay = fleet.relay("").await;
    let agent = Agent::attached(&fleet, &relay, "worker-1", 1).await;
    let client = Client::new(&fleet, &relay).await;
    let (mut send, mut recv) = client.open(&header("home", "worker-1"), b"client hello").await;
    let mut arrived = agent.accept().await;
    assert_eq!(arrived.header.hop_limit, header("home", "worker-1").hop_limit - 1);
    assert_eq!(
        (arrived.header.cluster.as_str(), arrived.header.node.as_str()),
        ("home", "worker-1")
    );
    let mut got = arrived.rest.to_vec();
    got.resize(12, 0);
    let have = arrived.rest.len();
    arrived.recv.read_exact(&mut got[have..]).await.unwrap();
    assert_eq!(got, b"client hello");
    // Each half closes by itself.
    send.finish().unwrap();
    assert_eq!(arrived.recv.read_to_end(1).await.unwrap(), b"");
    arrived.send.write_all(b"after your end").await.unwrap();
    arrived.send.finish().unwrap();
    assert_eq!(recv.read_to_end(100).await.unwrap(), b"after your end");
    eventually("the stream is counted out", async || {
        relay.metric("streams_open").await == 0.0
    })
    .await;
    assert_eq!(relay.metric("streams_routed_total").await, 1.0);
    assert_eq!(relay.metric("spliced_bytes_total{way=\"to_client\"}").await, 14.0);
    relay.stopped().await;
}

#[tokio::test]
async fn a_large_transfer_arrives_whole_both_ways_beside_many_small_ones() {
    const TOTAL: usize = 24 << 20;
    let fleet = Fleet::new();
    let relay = fleet.relay("").await;
    let agent = Agent::attached(&fleet, &relay, "worker-1", 1).await;
    let _echo = agent.echo();
    let client = Client::new(&fleet, &relay).await;
    let data: Bytes = (0..TOTAL).map(|i| ((i >> 10) ^ i) as u8).collect::<Vec<_>>().into();
    let (mut send, mut recv) = client.open(&header("home", "worker-1"), b"").await;
    let sending = data.clone();
    let writer = tokio::spawn(async move {
        send.write_chunk(sending).await.unwrap();
        send.finish().unwrap();
        send
    });
    let small = async {
        for n in 0..20u32 {
            let (mut send, mut recv) = client.open(&header("home", "worker-1"), &n.to_be_bytes()).await;
            send.finish().unwrap();
            assert_eq!(recv.read_to_end(8).await.unwrap(), n.to_be_bytes());
        }
    };
    let (back, ()) = tokio::join!(recv.read_to_end(TOTAL), small);
    assert!(back.unwrap() == data, "every byte comes back in order");
    writer.await.unwrap();
}

#[tokio::test]
async fn streams_to_nowhere_are_refused_with_a_code_and_the_connection_lives() {
    let fleet = Fleet::new();
    let relay = fleet.relay("").await;
    let client = Client::new(&fleet, &relay).await;
    let agent = Agent::attached(&fleet, &relay, "worker-1", 1).await;
    let bent = |change: fn(&mut noderelay_proto::RouteHeader)| {
        let mut header = header("home", "worker-1");
        change(&mut header);
        header
    };
    for (header, code) in [
        (header("home", "nobody"), Code::RelayNoSuchNode),
        (header("far", "worker-1"), Code::RelayNoRoute),
        (header("nowhere", "worker-1"), Code::RelayNoSuchCluster),
        (bent(|h| h.hop_limit = 0), Code::RelayHopLimit),
        (bent(|h| h.version = 9), Code::RelayVersion),
        (bent(|h| h.purpose = Purpose::Store.into()), Code::RelayPurpose),
        (bent(|h| h.node = "Worker-1".into()), Code::RelayBadHeader),
        (bent(|h| h.hop_limit = 200), Code::RelayBadHeader),
    ] {
        assert_eq!(client.refusal(&header).await, code, "{header:?}");
    }
    // An agent that was here is told apart from one that never was.
    drop(agent);
    let header = header("home", "worker-1");
    eventually("the agent is gone", async || {
        client.refusal(&header).await == Code::RelayNodeOffline
    })
    .await;
    assert!(client.link.connection.close_reason().is_none());
    assert!(relay.metric("streams_refused_total{code=\"relay.hop_limit\"}").await >= 1.0);
}

#[tokio::test]
async fn garbage_cut_and_oversized_headers_are_refused() {
    let fleet = Fleet::new();
    let relay = fleet.relay("header: 200ms").await;
    let client = Client::new(&fleet, &relay).await;
    let mut good = BytesMut::new();
    noderelay_proto::control::encode(&header("home", "worker-1"), &mut good);
    let mut oversized = BytesMut::new();
    frame::put_header(&mut oversized, Type::Route, 1 << 20);
    let mut trailing = BytesMut::new();
    frame::put_header(&mut trailing, Type::Route, 3);
    trailing.extend_from_slice(b"\xff\xff\xff");
    let mut wrong = BytesMut::new();
    frame::put_header(&mut wrong, Type::Data, 3);
    wrong.extend_from_slice(b"abc");
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &oversized,
        &trailing,
        &wrong,
        &[0x40, 0x01, 0x00][..],
    ] {
        let (_send, mut recv) = client.open_raw(bytes).await;
        assert_eq!(reset_code(&mut recv).await, Code::RelayBadHeader, "{bytes:?}");
    }
    // Cut short: an end inside the header, an end before it, and silence.
    for bytes in [&good[..good.len() / 2], &good[..1], b""] {
        let (mut send, mut recv) = client.open_raw(bytes).await;
        send.finish().unwrap();
        assert_eq!(reset_code(&mut recv).await, Code::RelayBadHeader, "{bytes:?}");
    }
    let (send, mut recv) = client.open_raw(&good[..good.len() - 1]).await;
    assert_eq!(reset_code(&mut recv).await, Code::RelayTimeout);
    drop(send);
    // A registration by a client.
    let mut register = BytesMut::new();
    let hello = noderelay_proto::control::Register::new(instance(1), "x");
    noderelay_proto::control::encode(&hello, &mut register);
    let (_send, mut recv) = client.open_raw(&register).await;
    assert_eq!(reset_code(&mut recv).await, Code::RelayBadHeader);
    assert!(client.link.connection.close_reason().is_none());
}

#[tokio::test]
async fn b006_a_vanished_agent_is_a_reset_never_a_clean_end() {
    let fleet = Fleet::new();
    let relay = fleet.relay("").await;
    let agent = Agent::attached(&fleet, &relay, "worker-1", 1).await;
    let client = Client::new(&fleet, &relay).await;
    let (_send, mut recv) = client.open(&header("home", "worker-1"), b"").await;
    let mut arrived = agent.accept().await;
    arrived.send.write_all(b"half an ans").await.unwrap();
    recv.read_exact(&mut [0; 11]).await.unwrap();
    agent.link.connection.close(0u32.into(), b"");
    assert_eq!(reset_code(&mut recv).await, Code::TransportLost);
    assert!(client.link.connection.close_reason().is_none());
}

#[tokio::test]
async fn a_vanished_client_is_told_to_the_agent() {
    let fleet = Fleet::new();
    let relay = fleet.relay("").await;
    let agent = Agent::attached(&fleet, &relay, "worker-1", 1).await;
    let client = Client::new(&fleet, &relay).await;
    let _stream = client.open(&header("home", "worker-1"), b"x").await;
    let mut arrived = agent.accept().await;
    client.link.connection.close(0u32.into(), b"");
    assert_eq!(reset_code(&mut arrived.recv).await, Code::TransportLost);
    assert_eq!(
        soon("told to stop", arrived.send.stopped()).await.unwrap(),
        Some(code(Code::TransportLost))
    );
    eventually("nothing is left", async || relay.metric("streams_open").await == 0.0).await;
    assert!(agent.link.connection.close_reason().is_none());
}

#[tokio::test]
async fn b087_a_reader_that_stalls_holds_only_its_own_stream() {
    let fleet = Fleet::new();
    let relay = fleet.relay("").await;
    let agent = Agent::attached(&fleet, &relay, "worker-1", 1).await;
    let stalled = Client::new(&fleet, &relay).await;
    let lively = Client::new(&fleet, &relay).await;
    let (_send, recv_stalled) = stalled.open(&header("home", "worker-1"), b"").await;
    let mut flood = agent.accept().await;
    let flooding = tokio::spawn(async move {
        let piece = vec![b'y'; 64 * 1024];
        let mut sent = 0usize;
        // Until nothing moves: every window on the way is full.
        while let Ok(Ok(())) = tokio::time::timeout(Duration::from_millis(500), flood.send.write_all(&piece)).await {
            sent += piece.len();
            assert!(sent < 64 << 20, "{sent} bytes went to a reader that reads nothing");
        }
        (flood, sent)
    });
    let _echo = agent.echo();
    let (mut send, mut recv) = lively.open(&header("home", "worker-1"), b"").await;
    let mut slowest = Duration::ZERO;
    for n in 0..100u8 {
        let asked = tokio::time::Instant::now();
        send.write_all(&[n]).await.unwrap();
        let mut byte = [0];
        soon("the echo", recv.read_exact(&mut byte)).await.unwrap();
        assert_eq!(byte[0], n);
        slowest = slowest.max(asked.elapsed());
    }
    assert!(
        slowest < Duration::from_secs(1),
        "a keystroke took {slowest:?} beside a stalled stream"
    );
    let (_flood, sent) = flooding.await.unwrap();
    assert!(sent > 0);
    drop(recv_stalled);
}
