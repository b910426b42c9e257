//! Who may connect to a relay, and who has to leave when trust changes.

use std::sync::Arc;
use std::time::Duration;

use super::common::*;
use jiff::Timestamp;
use noderelay_pki::tls::{Live, Party};
use noderelay_proto::Code;
use noderelay_proto::control::Register;
use quinn::ConnectionError;
use rustls::client::ResolvesClientCert;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::sign::CertifiedKey;

/// A TLS alert, as QUIC carries it: the relay ended the handshake.
fn is_alert(error: &ConnectionError) -> bool {
    matches!(error, ConnectionError::ConnectionClosed(closed) if (0x100..0x200).contains(&u64::from(closed.error_code)))
}

async fn refused_in_handshake(party: Party, relay: &Relay) {
    let link = dial(party, relay.address, false).await;
    let error = soon("the relay refuses", link.connection.closed()).await;
    assert!(is_alert(&error), "{error:?}");
}

#[tokio::test]
async fn users_break_glass_accounts_and_own_nodes_are_admitted() {
    let fleet = Fleet::new();
    let relay = fleet.relay("").await;
    let _agent = Agent::attached(&fleet, &relay, "worker-1", 1).await;
    for (home, role) in [("home", user("ann")), ("home", account("fire")), ("far", user("bob"))] {
        let client = Client {
            link: dial(fleet.party(home, role), relay.address, false).await,
        };
        assert_eq!(client.refusal(&header("home", "nobody")).await, Code::RelayNoSuchNode);
    }
    assert_eq!(relay.metric("connections_admitted_total{role=\"user\"}").await, 2.0);
    assert_eq!(
        relay.metric("connections_admitted_total{role=\"break-glass\"}").await,
        1.0
    );
    assert_eq!(relay.metric("agents_attached").await, 1.0);
    eventually("clients are counted out", async || {
        relay.metric("connections{role=\"user\"}").await == 0.0
    })
    .await;
}

#[tokio::test]
async fn other_roles_are_refused_in_the_handshake() {
    let fleet = Fleet::new();
    let relay = fleet.relay("").await;
    refused_in_handshake(fleet.party("home", relay_role("relay-2")), &relay).await;
    refused_in_handshake(fleet.party("far", relay_role("relay-1")), &relay).await;
    eventually("it is counted", async || {
        relay.metric("connections_refused_total{code=\"transport.tls\"}").await >= 2.0
    })
    .await;
}

#[tokio::test]
async fn another_trust_domain_and_an_unknown_ca_are_refused() {
    let fleet = Fleet::new();
    let relay = fleet.relay("").await;
    let other = Fleet::in_domain("other.example");
    let twin = Fleet::new();
    for strangers in [&other, &twin] {
        let party = Party::new(
            Live::new(strangers.credentials("home", user("ann"))),
            Live::new(fleet.anchors()),
        );
        refused_in_handshake(party, &relay).await;
    }
    let text = relay.ask("/metrics").await;
    assert!(
        text.contains("connections_refused_total{code=\"transport.tls\"} 2"),
        "{text}"
    );
}

/// Shows one certificate whatever its clock says; a party of ours would not.
#[derive(Debug)]
struct Shameless(Option<Arc<CertifiedKey>>);

impl ResolvesClientCert for Shameless {
    fn resolve(&self, _hints: &[&[u8]], _schemes: &[rustls::SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.0.clone()
    }
    fn has_certs(&self) -> bool {
        self.0.is_some()
    }
}

#[tokio::test]
async fn no_certificate_an_expired_one_and_one_from_the_future_are_refused() {
    let fleet = Fleet::new();
    let relay = fleet.relay("").await;
    let hour = Duration::from_secs(3600);
    let now = Timestamp::now();
    let shown = |not_before: Timestamp, not_after: Timestamp| {
        let credentials = fleet.credentials_with("home", user("ann"), |spec| {
            (spec.not_before, spec.not_after) = (not_before, not_after);
        });
        let pem = credentials.key().to_pem().unwrap();
        let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).unwrap();
        let key = rustls::crypto::aws_lc_rs::sign::any_supported_type(&key).unwrap();
        Some(Arc::new(CertifiedKey::new(credentials.chain().to_vec(), key)))
    };
    let good = shown(now - hour, now + hour);
    for (certificate, admitted) in [
        (None, false),
        (shown(now - 2 * hour, now - hour), false),
        (shown(now + hour, now + 2 * hour), false),
        (good, true),
    ] {
        let expect = noderelay_pki::Expect::Relay { cluster: None };
        let ours = fleet.party("home", user("ann"));
        let config = ours
            .client(expect, noderelay_pki::tls::Leg::Outer, noderelay_proto::version::OUTER)
            .unwrap();
        let mut config = (*config).clone();
        config.client_auth_cert_resolver = Arc::new(Shameless(certificate));
        match bare(config, &relay).await {
            Ok(connection) => assert!(admitted && connection.close_reason().is_none()),
            Err(error) => assert!(!admitted && is_alert(&error), "{error:?}"),
        }
    }
}

/// Connects with a TLS configuration as it is; a connection is given once the relay has let it route.
async fn bare(config: rustls::ClientConfig, relay: &Relay) -> Result<quinn::Connection, ConnectionError> {
    let crypto = quinn::crypto::rustls::QuicClientConfig::try_from(config).unwrap();
    let endpoint = noderelay_link::client_endpoint(relay.address).unwrap();
    let config = quinn::ClientConfig::new(Arc::new(crypto));
    let connecting = endpoint
        .connect_with(config, relay.address, noderelay_pki::tls::SERVER_NAME)
        .unwrap();
    let connection = soon("connected or not", connecting).await?;
    let (mut send, mut recv) = connection.open_bi().await?;
    let mut bytes = bytes::BytesMut::new();
    noderelay_proto::control::encode(&header("home", "nobody"), &mut bytes);
    let _ = send.write_all(&bytes).await;
    match soon("an answer", recv.read_to_end(1)).await {
        Err(quinn::ReadToEndError::Read(quinn::ReadError::Reset(_))) => Ok(connection),
        Err(quinn::ReadToEndError::Read(quinn::ReadError::ConnectionLost(error))) => Err(error),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_agent_of_another_cluster_is_refused_with_a_code() {
    let fleet = Fleet::new();
    let relay = fleet.relay("").await;
    let link = dial(fleet.party("far", node("worker-1")), relay.address, true).await;
    assert_eq!(close_code(&link.connection).await, Code::RelayNotAdmitted);
}

#[tokio::test]
async fn an_agent_may_not_open_routes_and_a_client_may_not_register() {
    let fleet = Fleet::new();
    let relay = fleet.relay("").await;
    let link = dial(fleet.party("home", node("worker-1")), relay.address, true).await;
    let intruder = Client { link };
    let _stream = intruder.open(&header("home", "worker-2"), b"").await;
    assert_eq!(close_code(&intruder.link.connection).await, Code::RelayPurpose);
    // Nor later, beside its control stream.
    let agent = Agent::attached(&fleet, &relay, "worker-1", 1).await;
    let (mut send, _recv) = agent.link.connection.open_bi().await.unwrap();
    send.write_all(b"x").await.unwrap();
    assert_eq!(close_code(&agent.link.connection).await, Code::RelayPurpose);
}

#[tokio::test]
async fn b050_a_changed_bundle_counts_at_once_and_puts_out_only_who_lost_its_ca() {
    let mut fleet = Fleet::new();
    let relay = fleet.relay("").await;
    let agent = Agent::attached(&fleet, &relay, "worker-1", 1).await;
    let stays = Client::new(&fleet, &relay).await;
    let leaves = Client {
        link: dial(fleet.party("far", user("bob")), relay.address, false).await,
    };
    let (mut send, mut recv) = stays.open(&header("home", "worker-1"), b"a").await;
    let _echo = agent.echo();
    recv.read_exact(&mut [0]).await.unwrap();
    let old = fleet.party("far", user("bob"));
    fleet.renew_authority("far");
    fleet.publish().await;
    assert_eq!(close_code(&leaves.link.connection).await, Code::IdentityUnknownCa);
    refused_in_handshake(old, &relay).await;
    // The new authority's people get in, and who has nothing to do with it noticed nothing.
    let bob = Client {
        link: dial(fleet.party("far", user("bob")), relay.address, false).await,
    };
    assert_eq!(bob.refusal(&header("home", "nobody")).await, Code::RelayNoSuchNode);
    send.write_all(b"b").await.unwrap();
    recv.read_exact(&mut [0]).await.unwrap();
    assert!(agent.link.connection.close_reason().is_none());
    assert!(relay.metric("reloads_total{material=\"bundle\"}").await >= 1.0);
}

#[tokio::test]
async fn b051_a_broken_bundle_or_identity_keeps_the_last_good_one_and_says_so() {
    let fleet = Fleet::new();
    let relay = fleet.relay("").await;
    assert!(
        relay.ask("/readyz").await.starts_with("HTTP/1.1 200"),
        "{}",
        relay.ask("/readyz").await
    );
    let timestamp = fleet.path("bundle/metadata/timestamp.json");
    let good = std::fs::read(&timestamp).unwrap();
    std::fs::write(&timestamp, &good[..good.len() / 2]).unwrap();
    eventually("the bundle is reported", async || {
        relay.ask("/readyz").await.starts_with("HTTP/1.1 503")
    })
    .await;
    assert!(relay.ask("/readyz").await.contains("identity: ok"));
    let client = Client::new(&fleet, &relay).await;
    assert_eq!(client.refusal(&header("home", "nobody")).await, Code::RelayNoSuchNode);
    std::fs::write(&timestamp, &good).unwrap();
    eventually("ready again", async || {
        relay.ask("/readyz").await.starts_with("HTTP/1.1 200")
    })
    .await;
    // Half a certificate.
    let certificate = fleet.path("relay.pem");
    let pem = std::fs::read(&certificate).unwrap();
    std::fs::write(&certificate, &pem[..pem.len() / 2]).unwrap();
    eventually("the identity is reported", async || {
        !relay.ask("/readyz").await.contains("identity: ok")
    })
    .await;
    let _client = Client::new(&fleet, &relay).await;
    // A renewed one is shown from the next handshake on.
    fleet.write_identity("home", relay_role("relay-1"));
    let renewed = noderelay_pki::key::PrivateKey::load(&fleet.path("relay.key"))
        .unwrap()
        .fingerprint();
    eventually("the new certificate is shown", async || {
        Client::new(&fleet, &relay).await.link.peer.key_fingerprint() == renewed
    })
    .await;
    assert!(relay.ask("/readyz").await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_restart_without_its_publication_goes_on_with_the_last_good_one() {
    let fleet = Fleet::new();
    let relay = fleet.relay("").await;
    relay.stopped().await;
    std::fs::rename(fleet.path("bundle"), fleet.path("elsewhere")).unwrap();
    let relay = fleet.start(fleet.config("timing: { reread: 50ms }\n")).await;
    let client = Client::new(&fleet, &relay).await;
    assert_eq!(client.refusal(&header("home", "nobody")).await, Code::RelayNoSuchNode);
    eventually("it is reported", async || {
        relay.ask("/readyz").await.starts_with("HTTP/1.1 503")
    })
    .await;
    std::fs::rename(fleet.path("elsewhere"), fleet.path("bundle")).unwrap();
    eventually("ready again", async || {
        relay.ask("/readyz").await.starts_with("HTTP/1.1 200")
    })
    .await;
}

#[tokio::test]
async fn a_peer_that_says_nothing_is_let_go() {
    let fleet = Fleet::new();
    let relay = fleet.relay("header: 200ms").await;
    // Connects as an agent and never registers.
    let link = dial(fleet.party("home", node("worker-1")), relay.address, true).await;
    assert_eq!(close_code(&link.connection).await, Code::RelayTimeout);
    // Registers with garbage.
    let link = dial(fleet.party("home", node("worker-1")), relay.address, true).await;
    let (mut send, _recv) = link.connection.open_bi().await.unwrap();
    send.write_all(b"\x02\x05hello").await.unwrap();
    assert_eq!(close_code(&link.connection).await, Code::RelayBadHeader);
    assert_eq!(relay.metric("agents_attached").await, 0.0);
    // One that leaves says so, and gets nothing new.
    let hello = Register {
        draining: true,
        ..Register::new(instance(1), "x")
    };
    let mut leaving = Agent::with(fleet.party("home", node("worker-1")), relay.address, hello).await;
    leaving.registered().await;
    let client = Client::new(&fleet, &relay).await;
    assert_eq!(
        client.refusal(&header("home", "worker-1")).await,
        Code::RelayNodeOffline
    );
}
