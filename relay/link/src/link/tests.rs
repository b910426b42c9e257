//! How connections begin and end.

use std::sync::Arc;
use std::time::Duration;

use noderelay_pki::text::Period;
use noderelay_pki::tls::{Leg, SERVER_NAME};
use noderelay_proto::version;

use super::*;
use crate::testing::*;
use crate::{Times, client_endpoint, client_transport, transport};

/// Shortened, so that the tests are short.
fn quick() -> Times {
    Times {
        keepalive: Period::from_millis(100),
        idle: Period::from_millis(600),
        ..Times::default()
    }
}

#[tokio::test]
async fn closing_tells_the_peer_why() {
    let fleet = Fleet::new();
    let (relay, address) = fleet.relay("relay/r1");
    let (dialer, addresses) = (fleet.dialer(), [address.to_string()]);
    let (link, connection) = tokio::join!(soon(dialer.dial(&addresses, RELAY)), next(&relay));
    let link = link.unwrap();
    assert_eq!(link.lost(), None);
    soon(link.close(Code::SessionLeft)).await;
    assert_eq!(
        Lost::from(&soon(connection.closed()).await),
        Lost::Closed(Code::SessionLeft.into())
    );
}

#[tokio::test]
async fn a_peer_that_falls_silent_is_noticed_and_one_that_idles_is_kept() {
    let fleet = Fleet::new();
    let (relay, address) = fleet.relay("relay/r1");
    let quick = transport::transport(&quick(), 0);
    let dialer = crate::Dialer::new(fleet.party("user/alice"), Arc::new(quick));
    let addresses = [address.to_string()];
    let (link, _connection) = tokio::join!(soon(dialer.dial(&addresses, RELAY)), next(&relay));
    let link = link.unwrap();
    let idle = tokio::time::timeout(Duration::from_millis(1500), link.connection.closed()).await;
    assert!(idle.is_err(), "keepalive did not keep it");
    // The relay's socket is replaced by one that nobody answers from.
    let (other, _) = silent();
    relay.rebind(other).unwrap();
    relay.set_server_config(None);
    drop(relay);
    let start = tokio::time::Instant::now();
    soon(link.connection.closed()).await;
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn b052_a_second_quic_connection_starts_from_nothing() {
    let fleet = Fleet::new();
    let (relay, address) = fleet.relay("relay/r1");
    let party = fleet.party("user/alice");
    let tls = party.client(RELAY, Leg::Outer, version::OUTER).unwrap();
    // A client that would love to resume.
    let mut eager = (*tls).clone();
    eager.resumption = rustls::client::Resumption::in_memory_sessions(16);
    eager.enable_early_data = true;
    let crypto = quinn::crypto::rustls::QuicClientConfig::try_from(eager).unwrap();
    let mut config = quinn::ClientConfig::new(Arc::new(crypto));
    config.transport_config(client_transport());
    let endpoint = client_endpoint(address).unwrap();
    for _ in 0..3 {
        let connecting = endpoint.connect_with(config.clone(), address, SERVER_NAME).unwrap();
        let connecting = connecting.into_0rtt().map(drop).unwrap_err();
        let (client, server) = tokio::join!(soon(connecting), next(&relay));
        let client = client.unwrap();
        // A ticket would have come by now: a stream made the round trip.
        let (mut send, mut recv) = client.open_bi().await.unwrap();
        send.write_all(b"x").await.unwrap();
        let (mut answer, _held) = soon(server.accept_bi()).await.unwrap();
        answer.write_all(b"y").await.unwrap();
        soon(recv.read_exact(&mut [0])).await.unwrap();
        client.close(0u32.into(), b"");
    }
}

#[tokio::test]
async fn nobody_opens_streams_towards_a_client() {
    let fleet = Fleet::new();
    let (relay, address) = fleet.relay("relay/r1");
    let (dialer, addresses) = (fleet.dialer(), [address.to_string()]);
    let (link, connection) = tokio::join!(soon(dialer.dial(&addresses, RELAY)), next(&relay));
    let _link = link.unwrap();
    let short = Duration::from_millis(200);
    assert!(tokio::time::timeout(short, connection.open_bi()).await.is_err());
    assert!(tokio::time::timeout(short, connection.open_uni()).await.is_err());
}

#[test]
fn ends_are_told_apart() {
    let closed = |code: u32| {
        ConnectionError::ApplicationClosed(quinn::ApplicationClose {
            error_code: code.into(),
            reason: "x".into(),
        })
    };
    assert_eq!(Lost::from(&closed(102)), Lost::Closed(Code::RelayNoSuchNode.into()));
    assert_eq!(Lost::from(&closed(99_999)), Lost::Closed(Code::Unknown(99_999).into()));
    assert_eq!(Lost::from(&ConnectionError::TimedOut), Lost::Silent);
    assert_eq!(Lost::from(&ConnectionError::Reset), Lost::Forgotten);
    assert_eq!(Lost::from(&ConnectionError::LocallyClosed), Lost::Here);
    assert_eq!(
        Lost::Alert(45).to_string(),
        "the peer ended the TLS handshake with alert 45 (certificate expired); its log says why"
    );
}
