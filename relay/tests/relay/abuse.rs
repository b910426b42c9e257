//! Strangers and greedy peers: what they take is bounded, what they are told is useful, and a session beside does not notice.

use std::net::SocketAddr;
use std::sync::Arc;

use super::common::*;
use noderelay_link::Lost;
use noderelay_pki::Expect;
use noderelay_pki::tls::{Leg, SERVER_NAME};
use noderelay_proto::{Code, Refusal, version};
use quinn::{ConnectionError, Endpoint, RecvStream, SendStream};

/// Shows no certificate.
#[derive(Debug)]
struct Nobody;

impl rustls::client::ResolvesClientCert for Nobody {
    fn resolve(&self, _: &[&[u8]], _: &[rustls::SignatureScheme]) -> Option<Arc<rustls::sign::CertifiedKey>> {
        None
    }
    fn has_certs(&self) -> bool {
        false
    }
}

/// One byte there and back.
async fn echo(session: &mut (SendStream, RecvStream)) {
    session.0.write_all(b"x").await.unwrap();
    let mut byte = [0];
    soon("an echo", session.1.read_exact(&mut byte)).await.unwrap();
}

#[tokio::test]
async fn b089_a_stranger_that_keeps_failing_is_turned_away_and_a_session_beside_does_not_notice() {
    let fleet = Fleet::new();
    let relay = fleet.relay_with("failures_per_address: 3").await;
    let agent = Agent::attached(&fleet, &relay, "worker-1", 1).await;
    let _echo = agent.echo();
    let client = Client::new(&fleet, &relay).await;
    let mut session = client.open(&header("home", "worker-1"), b"").await;
    let config = fleet
        .party("home", user("ann"))
        .client(Expect::Relay { cluster: None }, Leg::Outer, version::OUTER)
        .unwrap();
    let mut config = (*config).clone();
    config.client_auth_cert_resolver = Arc::new(Nobody);
    let crypto = quinn::crypto::rustls::QuicClientConfig::try_from(config).unwrap();
    let config = quinn::ClientConfig::new(Arc::new(crypto));
    // From another address of loopback, so that only the stranger is one.
    let from: SocketAddr = "127.0.0.2:0".parse().unwrap();
    let stranger = Endpoint::client(from).unwrap();
    let mut failed = 0;
    let turned_away = loop {
        let connecting = stranger
            .connect_with(config.clone(), relay.address, SERVER_NAME)
            .unwrap();
        let error = match soon("connected or not", connecting).await {
            // Without a certificate the handshake fails at the relay, after it has ended here.
            Ok(connection) => soon("put out", connection.closed()).await,
            Err(error) => error,
        };
        echo(&mut session).await;
        match &error {
            ConnectionError::ConnectionClosed(closed)
                if closed.error_code == quinn::TransportErrorCode::CONNECTION_REFUSED =>
            {
                break error;
            }
            _ => failed += 1,
        }
        assert!(failed < 20, "never turned away: {error:?}");
    };
    assert!(failed >= 3, "turned away too soon: {turned_away:?}");
    assert!(relay.metric("handshakes_turned_away_total{answer=\"refused\"}").await >= 1.0);
    // Everybody else is welcome.
    Client::new(&fleet, &relay).await;
    echo(&mut session).await;
}

#[tokio::test]
async fn b089_under_load_addresses_are_proven_first_and_everybody_gets_in() {
    let fleet = Fleet::new();
    let relay = fleet.relay_with("unproven_handshakes: 1").await;
    let mut dialling = tokio::task::JoinSet::new();
    for _ in 0..24 {
        dialling.spawn(dial(fleet.party("home", user("ann")), relay.address, false));
    }
    let links = dialling.join_all().await;
    assert!(relay.metric("handshakes_turned_away_total{answer=\"retry\"}").await >= 1.0);
    assert!(links.iter().all(|link| link.lost().is_none()));
}

#[tokio::test]
async fn a_person_with_too_many_streams_is_told_when_to_come_back() {
    let fleet = Fleet::new();
    let relay = fleet.relay_with("streams_per_person: 2").await;
    let agent = Agent::attached(&fleet, &relay, "worker-1", 1).await;
    let _echo = agent.echo();
    // A person is one over all of its connections.
    let (one, two) = (Client::new(&fleet, &relay).await, Client::new(&fleet, &relay).await);
    let to = header("home", "worker-1");
    let mut first = one.open(&to, b"").await;
    let mut second = two.open(&to, b"").await;
    echo(&mut first).await;
    echo(&mut second).await;
    let (_send, mut recv) = two.open(&to, b"").await;
    let refused = match soon("a reset", recv.read_to_end(16)).await {
        Err(quinn::ReadToEndError::Read(quinn::ReadError::Reset(code))) => Refusal::from_wire(code.into_inner()),
        other => panic!("{other:?}"),
    };
    assert_eq!(refused.code, Code::RelayQuota);
    assert!(refused.back.is_some());
    let other = dial(fleet.party("home", user("bob")), relay.address, false).await;
    echo(&mut Client { link: other }.open(&to, b"").await).await;
    // What ends gives its place back.
    first.0.reset(code(Code::SessionLeft)).unwrap();
    first.1.stop(code(Code::SessionLeft)).unwrap();
    eventually("there is room again", async || {
        let (mut send, mut recv) = two.open(&to, b"").await;
        send.write_all(b"x").await.is_ok() && recv.read_exact(&mut [0]).await.is_ok()
    })
    .await;
    echo(&mut second).await;
}

#[tokio::test]
async fn a_person_with_too_many_connections_is_told_so() {
    let fleet = Fleet::new();
    let relay = fleet.relay_with("connections_per_person: 1").await;
    let _first = Client::new(&fleet, &relay).await;
    let second = dial(fleet.party("home", user("ann")), relay.address, false).await;
    let lost = Lost::from(&soon("the connection ends", second.connection.closed()).await);
    let Lost::Closed(Refusal { code, back }) = lost else {
        panic!("{lost:?}")
    };
    assert_eq!(code, Code::RelayQuota);
    assert!(back.is_some());
    let _bob = dial(fleet.party("home", user("bob")), relay.address, false).await;
}

/// A person that keeps coming although it has too much does not shut out whoever is behind the same address.
#[tokio::test]
async fn who_is_over_a_quota_does_not_count_against_the_address() {
    let fleet = Fleet::new();
    let relay = fleet.relay_with("connections_per_person: 1").await;
    let _first = Client::new(&fleet, &relay).await;
    // More often than an address may fail.
    for _ in 0..40 {
        let more = dial(fleet.party("home", user("ann")), relay.address, false).await;
        let lost = Lost::from(&soon("the connection ends", more.connection.closed()).await);
        assert!(
            matches!(&lost, Lost::Closed(refusal) if refusal.code == Code::RelayQuota),
            "{lost:?}"
        );
    }
    let _agent = Agent::attached(&fleet, &relay, "worker-1", 1).await;
}
