//! A stream as a relay would open it, over memory and with real inner TLS: what is let in, and how the rest is turned away.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use noderelay_pki::tls::{self, Credentials};
use noderelay_proto::control::{Register, Resume};
use noderelay_proto::id::InstanceId;
use noderelay_proto::limits::MAX_ROUTE;
use noderelay_proto::message::{Message, ToClient};
use rustls::client::ResolvesClientCert;
use rustls::sign::CertifiedKey;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject as _;
use tokio::io::{AsyncWriteExt as _, DuplexStream, duplex};
use tokio_rustls::{TlsConnector, client};

use super::*;
use crate::testing::{DAY, Fleet};

const NODE: &str = "gpu-7";

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), what)
        .await
        .expect("hangs")
}

fn encoded(message: &impl Message) -> BytesMut {
    let mut bytes = BytesMut::new();
    message.encode(&mut bytes);
    bytes
}

fn route_to(cluster: &str, node: &str, purpose: Purpose) -> BytesMut {
    let header = RouteHeader::new(Version::V1, cluster, node, purpose);
    encoded(&Opening::from(header))
}

/// What becomes of a stream that begins with `bytes` and then ends.
async fn routed(bytes: &[u8]) -> Result<(), AcceptError> {
    let (mut relay, ours) = duplex(256 * 1024);
    relay.write_all(bytes).await.unwrap();
    relay.shutdown().await.unwrap();
    let own = Fleet::new().own(NODE);
    soon(route(ours, &own)).await.map(|_| ()).map_err(|(_, error)| error)
}

#[tokio::test]
async fn a_header_for_this_node_is_taken_and_nothing_behind_it() {
    let (mut relay, ours) = duplex(4096);
    relay
        .write_all(&route_to("alpha", NODE, Purpose::Session))
        .await
        .unwrap();
    relay.write_all(b"\x16\x03\x01 the client's hello").await.unwrap();
    relay.shutdown().await.unwrap();
    let Ok(ForUs(mut stream)) = soon(route(ours, &Fleet::new().own(NODE))).await else {
        panic!("not for us");
    };
    let mut rest = Vec::new();
    soon(stream.read_to_end(&mut rest)).await.unwrap();
    assert_eq!(rest, b"\x16\x03\x01 the client's hello");
}

#[tokio::test]
async fn a_header_for_somebody_else_is_refused() {
    for (cluster, node, purpose) in [
        ("beta", NODE, Purpose::Session),
        ("alpha", "gpu-8", Purpose::Session),
        ("alpha", NODE, Purpose::Enrol),
    ] {
        let error = routed(&route_to(cluster, node, purpose)).await.unwrap_err();
        assert_eq!(error.code(), Code::RelayNoSuchNode, "{error}");
        let seen = format!("{cluster}/{node} ({})", purpose.name());
        assert!(error.to_string().contains(&seen), "{error}");
    }
}

#[tokio::test]
async fn what_is_no_header_is_refused_with_its_code() {
    let register = Opening::from(Register::new(InstanceId::new([3; 16]), "test"));
    let whole = route_to("alpha", NODE, Purpose::Session);
    let mut twice = whole.clone();
    twice[1] += 2;
    twice.extend_from_slice(&[0x08, 1]);
    // ROUTE with a claimed length above its bound, in two bytes.
    let claimed = u16::try_from(MAX_ROUTE + 1).unwrap() | 0x4000;
    let oversized = [&[0x01][..], &claimed.to_be_bytes()].concat();
    for (bytes, code) in [
        (&encoded(&register)[..], Code::ProtocolWrongDirection),
        (&[0x3f, 0][..], Code::ProtocolUnknownFrame),
        (b"GET / HTTP/1.1\r\n\r\n", Code::ProtocolUnknownFrame),
        (&oversized, Code::ProtocolTooLarge),
        (&twice, Code::ProtocolMalformed),
        (&whole[..whole.len() - 1], Code::TransportLost),
        (b"", Code::TransportLost),
    ] {
        let error = routed(bytes).await.unwrap_err();
        assert_eq!(error.code(), code, "{bytes:?}: {error}");
    }
}

/// The client's end of the inner TLS.
type Inside = client::TlsStream<DuplexStream>;

/// A node and somebody who comes, each with what it trusts.
struct Meeting {
    fleet: Fleet,
    node: Party,
}

impl Meeting {
    fn new() -> Self {
        let fleet = Fleet::new();
        let node = fleet.party(fleet.node(NODE));
        Self { fleet, node }
    }

    /// `config` comes and runs `script`; gives what the node makes of it and what the script gave.
    async fn with<T>(
        &self,
        config: Arc<rustls::ClientConfig>,
        script: impl AsyncFnOnce(Inside) -> T,
    ) -> (Result<Accepted<DuplexStream>, AcceptError>, Option<T>) {
        let (theirs, ours) = duplex(256 * 1024);
        let own = self.fleet.own(NODE);
        let node = async {
            match accept(ForUs(ours), &self.node, &own, Timestamp::now).await? {
                Arrived::Session(accepted) => Ok(*accepted),
                Arrived::Early(_) => panic!("no wish"),
            }
        };
        let client = async {
            let inside = TlsConnector::from(config).connect(tls::server_name(), theirs).await;
            match inside {
                Ok(inside) => Some(script(inside).await),
                Err(_) => None,
            }
        };
        soon(async { tokio::join!(node, client) }).await
    }

    fn config(&self, party: &Party, alpn: &[&[u8]]) -> Arc<rustls::ClientConfig> {
        party
            .client(Expect::Exactly(self.fleet.node(NODE)), Leg::Inner, alpn)
            .unwrap()
    }

    fn kim(&self) -> Arc<rustls::ClientConfig> {
        let party = self.fleet.party(self.fleet.user("kim"));
        self.config(&party, version::INNER)
    }

    /// Kim says `bytes`; gives the node's error and the messages that kim was sent until the end.
    async fn says(&self, bytes: &[u8]) -> (AcceptError, Vec<ToClient>) {
        let (result, told) = self
            .with(self.kim(), async |mut inside: Inside| {
                inside.write_all(bytes).await.unwrap();
                inside.flush().await.unwrap();
                let mut reader = FrameReader::<_, ToClient>::new(inside);
                let mut told = Vec::new();
                while let Ok(Some(message)) = reader.next().await {
                    told.push(message);
                }
                told
            })
            .await;
        (result.map(|_| ()).unwrap_err(), told.unwrap())
    }
}

/// The one message of `told`, which is CLOSED.
fn closed_with(told: &[ToClient]) -> Code {
    let [ToClient::Closed(closed)] = told else {
        panic!("{told:?}");
    };
    assert!(!closed.seen.is_empty());
    Code::from_number(closed.code)
}

#[tokio::test]
async fn a_client_is_who_its_certificate_says() {
    let meeting = Meeting::new();
    let open = meeting.fleet.open(NODE);
    let bytes = encoded(&ToNode::from(open.clone()));
    let (accepted, _) = meeting
        .with(meeting.kim(), async |mut inside: Inside| {
            inside.write_all(&bytes).await.unwrap();
            inside.flush().await.unwrap();
            inside
        })
        .await;
    let accepted = accepted.map_err(|e| e.to_string()).unwrap();
    assert_eq!(accepted.open, open);
    assert_eq!(accepted.client.peer.identity(), &meeting.fleet.user("kim"));
    assert_ne!(accepted.resume_key, [0; resume::LENGTH]);
    // A CA that is removed takes its people along.
    assert!(accepted.client.verify_again(&meeting.node).is_ok());
    meeting.node.trust.set(Fleet::new().trust());
    assert!(accepted.client.verify_again(&meeting.node).is_err());
}

#[tokio::test]
async fn a_wish_for_another_node_is_closed() {
    let meeting = Meeting::new();
    let right = meeting.fleet.open(NODE);
    for open in [
        Open {
            node: "gpu-8".into(),
            ..right.clone()
        },
        Open {
            cluster: "beta".into(),
            ..right.clone()
        },
        Open {
            purpose: Purpose::Enrol.into(),
            ..right
        },
    ] {
        let (error, told) = meeting.says(&encoded(&ToNode::from(open))).await;
        assert!(matches!(error, AcceptError::WrongNode(_)), "{error}");
        assert_eq!(closed_with(&told), Code::ProtocolWrongNode);
    }
}

#[tokio::test]
async fn what_does_not_begin_with_a_wish_is_closed() {
    let meeting = Meeting::new();
    let open = meeting.fleet.open(NODE);
    let resume = Resume {
        session: Bytes::from_static(&[9; 16]),
        epoch: 1,
        mac: Bytes::from_static(&[7; 32]),
        cluster: open.cluster.clone(),
        node: open.node.clone(),
        purpose: open.purpose,
        claimed_path: open.claimed_path,
        ..Resume::default()
    };
    let data = ToNode::Data(Bytes::from_static(b"ls\n"));
    for (bytes, code) in [
        (&encoded(&data)[..], Code::ProtocolOutOfOrder),
        (&encoded(&ToNode::from(resume)), Code::SessionUnknown),
        (&[0x3f, 0], Code::ProtocolUnknownFrame),
    ] {
        let (_, told) = meeting.says(bytes).await;
        assert_eq!(closed_with(&told), code);
    }
}

#[tokio::test]
async fn a_client_that_offers_no_version_is_refused() {
    let meeting = Meeting::new();
    let kim = meeting.fleet.party(meeting.fleet.user("kim"));
    let (result, _) = meeting.with(meeting.config(&kim, &[]), async |_| ()).await;
    let error = result.map(|_| ()).unwrap_err();
    assert!(matches!(error, AcceptError::Version), "{error}");
    assert_eq!(error.code(), Code::ProtocolVersion);
}

#[tokio::test]
async fn whoever_is_no_person_of_this_fleet_is_refused() {
    let meeting = Meeting::new();
    let (fleet, other) = (&meeting.fleet, Fleet::new());
    for (party, code) in [
        (fleet.party(fleet.node("gpu-8")), Code::IdentityWrongRole),
        (fleet.party(fleet.relay("r1")), Code::IdentityWrongRole),
        (other.party_trusting(other.user("kim"), fleet), Code::IdentityUnknownCa),
    ] {
        let config = meeting.config(&party, version::INNER);
        let (result, _) = meeting.with(config, async |_| ()).await;
        let error = result.map(|_| ()).unwrap_err();
        assert_eq!(error.code(), code, "{error}");
    }
}

/// Shows its certificate whatever the clock says: what a hostile client would do.
#[derive(Debug)]
struct Always(Arc<CertifiedKey>);

impl ResolvesClientCert for Always {
    fn resolve(&self, _: &[&[u8]], _: &[rustls::SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn an_expired_certificate_is_refused() {
    let meeting = Meeting::new();
    let then = noderelay_pki::time::before(Timestamp::now(), DAY * 2);
    let old: Credentials = meeting.fleet.credentials(meeting.fleet.user("kim"), then);
    let mut config = rustls::ClientConfig::clone(&meeting.kim());
    let pem = old.key().to_pem().unwrap();
    let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).unwrap();
    let key = rustls::crypto::aws_lc_rs::sign::any_supported_type(&key).unwrap();
    config.client_auth_cert_resolver = Arc::new(Always(Arc::new(CertifiedKey::new(old.chain().to_vec(), key))));
    let (result, _) = meeting.with(Arc::new(config), async |_| ()).await;
    let error = result.map(|_| ()).unwrap_err();
    assert_eq!(error.code(), Code::IdentityExpired);
    assert!(error.to_string().contains("expired"), "{error}");
}

/// Kim comes early, hears for how long, and then says `bytes`; gives what the node makes of it at `at`, and what kim was told after that.
async fn early(
    meeting: &Meeting,
    bytes: &[u8],
    at: Timestamp,
    meanwhile: impl FnOnce(),
) -> (Result<Accepted<DuplexStream>, AcceptError>, Vec<ToClient>) {
    let (theirs, ours) = duplex(256 * 1024);
    let own = meeting.fleet.own(NODE);
    let node = async {
        let Arrived::Early(mut early) = accept(ForUs(ours), &meeting.node, &own, Timestamp::now).await? else {
            panic!("a wish");
        };
        early.stand_by(Duration::from_secs(7)).await.unwrap();
        assert!(early.said_something().await);
        meanwhile();
        early.open(&meeting.node, &own, || at).await
    };
    let client = async {
        let connector = TlsConnector::from(meeting.kim());
        let mut inside = connector.connect(tls::server_name(), theirs).await.unwrap();
        let standby = noderelay_proto::control::Standby {
            cluster: own.cluster.to_string(),
            node: NODE.into(),
            purpose: Purpose::Session.into(),
        };
        inside.write_all(&encoded(&ToNode::from(standby))).await.unwrap();
        inside.flush().await.unwrap();
        let mut reader = FrameReader::<_, ToClient>::new(inside);
        let standing = reader.demand().await.unwrap();
        assert_eq!(standing, ToClient::from(StandingBy { secs: 7 }));
        let mut inside = reader.into_inner();
        inside.write_all(bytes).await.unwrap();
        inside.flush().await.unwrap();
        let mut reader = FrameReader::<_, ToClient>::new(inside);
        let mut told = Vec::new();
        while let Ok(Ok(Some(message))) = tokio::time::timeout(Duration::from_millis(500), reader.next()).await {
            told.push(message);
        }
        told
    };
    soon(async { tokio::join!(node, client) }).await
}

#[tokio::test]
async fn a_client_that_came_early_opens_as_any_other() {
    let meeting = Meeting::new();
    let open = meeting.fleet.open(NODE);
    let wish = encoded(&ToNode::from(open.clone()));
    let (accepted, _) = early(&meeting, &wish, Timestamp::now(), || ()).await;
    let accepted = accepted.map_err(|e| e.to_string()).unwrap();
    assert_eq!(accepted.open, open);
    assert_eq!(accepted.client.peer.identity(), &meeting.fleet.user("kim"));
    assert_ne!(accepted.resume_key, [0; resume::LENGTH]);
}

#[tokio::test]
async fn the_certificate_of_a_client_that_came_early_is_looked_at_again() {
    let wish = |meeting: &Meeting| encoded(&ToNode::from(meeting.fleet.open(NODE)));
    let meeting = Meeting::new();
    let later = noderelay_pki::time::after(Timestamp::now(), DAY * 2);
    let (result, told) = early(&meeting, &wish(&meeting), later, || ()).await;
    let error = result.map(|_| ()).unwrap_err();
    assert_eq!(error.code(), Code::IdentityExpired, "{error}");
    assert_eq!(closed_with(&told), Code::IdentityExpired);

    let meeting = Meeting::new();
    let other = || meeting.node.trust.set(Fleet::new().trust());
    let (result, told) = early(&meeting, &wish(&meeting), Timestamp::now(), other).await;
    let error = result.map(|_| ()).unwrap_err();
    assert_eq!(closed_with(&told), error.code());
    assert!(matches!(error, AcceptError::Refused(_)), "{error}");
}

#[tokio::test]
async fn a_client_that_came_early_can_say_nothing_but_its_wish() {
    let meeting = Meeting::new();
    let open = meeting.fleet.open(NODE);
    let elsewhere = Open {
        node: "gpu-8".into(),
        ..open.clone()
    };
    let again = noderelay_proto::control::Standby {
        cluster: open.cluster.clone(),
        node: open.node.clone(),
        purpose: open.purpose,
    };
    for (bytes, code) in [
        (
            encoded(&ToNode::Data(Bytes::from_static(b"ls"))),
            Code::ProtocolOutOfOrder,
        ),
        (encoded(&ToNode::from(again)), Code::ProtocolOutOfOrder),
        (encoded(&ToNode::from(elsewhere)), Code::ProtocolWrongNode),
        (BytesMut::from(&[0x3f, 0][..]), Code::ProtocolUnknownFrame),
    ] {
        let (_, told) = early(&meeting, &bytes, Timestamp::now(), || ()).await;
        assert_eq!(closed_with(&told), code);
    }
}
