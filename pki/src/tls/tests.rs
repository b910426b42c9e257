//! Handshakes in memory: who is let in, that nothing is resumed, and that changes count at once.

use std::io::Cursor;
use std::time::Duration;

use rustls::client::ResolvesClientCert;
use rustls::sign::CertifiedKey;
use rustls::{ClientConnection, Connection, HandshakeKind, ServerConnection, SignatureScheme};

use super::*;
use crate::ca::{CertificateAuthority, LeafSpec};
use crate::identity::RoleKind;
use crate::key::PrivateKey;
use crate::testing::*;
use crate::{pem, time};

const USERS: Expect = Expect::Roles(&[RoleKind::User]);
const NODES: Expect = Expect::Roles(&[RoleKind::Node]);
const ALPN: &[&[u8]] = &[b"test/1"];

/// The system's clock: rustls asks it.
fn now() -> Timestamp {
    Timestamp::now()
}

struct Pair {
    client: ClientConnection,
    server: ServerConnection,
}

/// Who refused, and why.
#[derive(Debug)]
enum Refused {
    Client(rustls::Error),
    Server(rustls::Error),
}

fn carry(from: &mut Connection, to: &mut Connection) -> Result<bool, rustls::Error> {
    let mut bytes = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut bytes).unwrap();
    }
    let mut reader = Cursor::new(&bytes);
    while reader.position() < bytes.len() as u64 {
        to.read_tls(&mut reader).unwrap();
        to.process_new_packets()?;
    }
    Ok(!bytes.is_empty())
}

fn shake(client: &Arc<ClientConfig>, server: &Arc<ServerConfig>) -> Result<Pair, Refused> {
    let mut client = Connection::from(ClientConnection::new(Arc::clone(client), server_name()).unwrap());
    let mut server = Connection::from(ServerConnection::new(Arc::clone(server)).unwrap());
    loop {
        let there = carry(&mut client, &mut server).map_err(Refused::Server)?;
        let back = carry(&mut server, &mut client).map_err(Refused::Client)?;
        if !there && !back {
            break;
        }
    }
    match (client, server) {
        (Connection::Client(client), Connection::Server(server)) => Ok(Pair { client, server }),
        _ => unreachable!(),
    }
}

struct Setup {
    ca: CertificateAuthority,
    alice: Party,
    node: Party,
}

fn setup() -> Setup {
    let ca = ca_at("east", now());
    let (alice, node) = (
        party(&ca, "cluster/east/user/alice", now()),
        party(&ca, "cluster/east/node/n1", now()),
    );
    Setup { ca, alice, node }
}

fn exact() -> Expect {
    Expect::Exactly(id("cluster/east/node/n1"))
}

/// Shows its certificate whatever the clock says: what a hostile peer would do.
#[derive(Debug)]
struct Always(Arc<CertifiedKey>);

impl ResolvesClientCert for Always {
    fn resolve(&self, _issuers: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

#[test]
fn both_sides_know_each_other_on_both_legs() {
    let s = setup();
    for (leg, group) in [
        (Leg::Outer, rustls::NamedGroup::X25519),
        (Leg::Inner, rustls::NamedGroup::X25519MLKEM768),
    ] {
        let pair = shake(
            &s.alice.client(exact(), leg, ALPN).unwrap(),
            &s.node.server(USERS, leg, ALPN).unwrap(),
        )
        .unwrap();
        assert_eq!(pair.client.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_3));
        assert_eq!(
            pair.client.negotiated_key_exchange_group().map(|g| g.name()),
            Some(group)
        );
        assert_eq!(
            pair.client.negotiated_cipher_suite().map(|c| c.suite()),
            Some(rustls::CipherSuite::TLS13_AES_128_GCM_SHA256)
        );
        assert_eq!(pair.server.alpn_protocol(), Some(b"test/1".as_slice()));
        let client = s
            .node
            .peer(pair.server.peer_certificates(), Usage::Client, &USERS, now())
            .unwrap();
        assert_eq!(client.identity(), &id("cluster/east/user/alice"));
        let server = s
            .alice
            .peer(pair.client.peer_certificates(), Usage::Server, &exact(), now())
            .unwrap();
        assert_eq!(server.identity(), &id("cluster/east/node/n1"));
    }
}

#[test]
fn the_wire_carries_no_server_name() {
    let s = setup();
    let mut client = ClientConnection::new(s.alice.client(exact(), Leg::Inner, ALPN).unwrap(), server_name()).unwrap();
    let mut hello = Vec::new();
    client.write_tls(&mut hello).unwrap();
    assert!(!hello.windows(9).any(|part| part == b"noderelay"));
}

#[test]
fn the_wrong_peer_is_refused_by_whoever_sees_it() {
    let s = setup();
    let server = s.node.server(USERS, Leg::Inner, ALPN).unwrap();
    // Another node than the one asked for.
    let other = Expect::Exactly(id("cluster/east/node/n2"));
    let note = Note::default();
    let config = s.alice.client_noting(other, Leg::Inner, ALPN, &note).unwrap();
    let Err(Refused::Client(error)) = shake(&config, &server) else {
        panic!("let in")
    };
    assert!(
        matches!(refusal(&error), Some(PeerRefused::WrongName { .. })),
        "{error}"
    );
    assert!(error.to_string().contains("cluster/east/node/n1"), "{error}");
    assert!(matches!(note.take(), Some(PeerRefused::WrongName { .. })));
    // A node where users are expected.
    let node = party(&s.ca, "cluster/east/node/n3", now());
    let Err(Refused::Server(error)) = shake(&node.client(exact(), Leg::Inner, ALPN).unwrap(), &server) else {
        panic!("let in")
    };
    assert!(
        matches!(
            refusal(&error),
            Some(PeerRefused::WrongRole {
                seen: RoleKind::Node,
                ..
            })
        ),
        "{error}"
    );
    // A user as server.
    let fake = s.alice.server(USERS, Leg::Inner, ALPN).unwrap();
    let config = s
        .alice
        .client(Expect::Roles(&[RoleKind::User]), Leg::Inner, ALPN)
        .unwrap();
    let Err(Refused::Client(error)) = shake(&config, &fake) else {
        panic!("let in")
    };
    assert!(
        matches!(refusal(&error), Some(PeerRefused::WrongUsage { side: "server", .. })),
        "{error}"
    );
    // The refusal survives the way through an I/O error.
    let wrapped = std::io::Error::other(error);
    assert!(matches!(refusal_in(&wrapped), Some(PeerRefused::WrongUsage { .. })));
}

#[test]
fn without_a_certificate_nobody_is_let_in() {
    let s = setup();
    let mut config = (*s.alice.client(exact(), Leg::Outer, ALPN).unwrap()).clone();
    config.client_auth_cert_resolver = Arc::new(Nothing);
    let server = s.node.server(USERS, Leg::Outer, ALPN).unwrap();
    assert!(matches!(
        shake(&Arc::new(config), &server),
        Err(Refused::Server(rustls::Error::NoCertificatesPresented))
    ));
}

#[derive(Debug)]
struct Nothing;

impl ResolvesClientCert for Nothing {
    fn resolve(&self, _issuers: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        None
    }

    fn has_certs(&self) -> bool {
        false
    }
}

#[test]
fn b052_no_ticket_is_issued_and_no_session_resumes() {
    let s = setup();
    for leg in [Leg::Outer, Leg::Inner] {
        let server = s.node.server(USERS, leg, ALPN).unwrap();
        // Once as we are, once as a client that would love to resume and to send early data.
        let ours = s.alice.client(exact(), leg, ALPN).unwrap();
        let mut eager = (*ours).clone();
        eager.resumption = rustls::client::Resumption::in_memory_sessions(16);
        eager.enable_early_data = true;
        for config in [ours, Arc::new(eager)] {
            for _ in 0..3 {
                let mut pair = shake(&config, &server).unwrap();
                assert_eq!(pair.client.handshake_kind(), Some(HandshakeKind::Full));
                assert_eq!(pair.server.handshake_kind(), Some(HandshakeKind::Full));
                assert_eq!(pair.client.tls13_tickets_received(), 0);
                assert!(pair.client.early_data().is_none() && pair.server.early_data().is_none());
            }
        }
        assert_eq!((server.send_tls13_tickets, server.max_early_data_size), (0, 0));
        assert!(!server.session_storage.can_cache() && !server.ticketer.enabled());
    }
}

#[test]
fn b052_expiry_and_a_removed_ca_count_at_the_next_handshake() {
    let s = setup();
    for leg in [Leg::Outer, Leg::Inner] {
        let server = s.node.server(USERS, leg, ALPN).unwrap();
        // A certificate that ended a second ago, shown by somebody who does not mind.
        let past = time::before(now(), Duration::from_secs(12 * 3600 + 1));
        let expired = credentials(&s.ca, "cluster/east/user/alice", past);
        let mut config = (*s.alice.client(exact(), leg, ALPN).unwrap()).clone();
        config.client_auth_cert_resolver = Arc::new(Always(Arc::clone(&expired.certified)));
        let Err(Refused::Server(error)) = shake(&Arc::new(config), &server) else {
            panic!("let in")
        };
        assert!(matches!(refusal(&error), Some(PeerRefused::Expired { .. })), "{error}");

        // The CA is taken out of the fleet file between two handshakes.
        let good = s.alice.client(exact(), leg, ALPN).unwrap();
        shake(&good, &server).unwrap();
        let before = s.node.trust.get();
        s.node.trust.set(anchors(vec![ca_at("east", now()).entry(all_roles())]));
        let Err(Refused::Server(error)) = shake(&good, &server) else {
            panic!("let in")
        };
        assert!(
            matches!(refusal(&error), Some(PeerRefused::UnknownCa { .. })),
            "{error}"
        );
        s.node.trust.set(anchors(before.entries().to_vec()));
        shake(&good, &server).unwrap();
    }
}

#[test]
fn b042_an_expired_certificate_is_never_shown() {
    let s = setup();
    let past = time::before(now(), DAY);
    s.alice
        .credentials
        .set(credentials(&s.ca, "cluster/east/user/alice", past));
    assert!(matches!(
        s.alice.credentials.get().check(now()),
        Err(TlsError::Expired { .. })
    ));
    let server = s.node.server(USERS, Leg::Inner, ALPN).unwrap();
    let config = s.alice.client(exact(), Leg::Inner, ALPN).unwrap();
    assert!(matches!(
        shake(&config, &server),
        Err(Refused::Server(rustls::Error::NoCertificatesPresented))
    ));
    // As a server neither.
    s.node.credentials.set(credentials(
        &s.ca,
        "cluster/east/node/n1",
        time::before(now(), DAY * 31),
    ));
    assert!(matches!(shake(&config, &server), Err(Refused::Server(_))));
    // A renewed one is shown at once, by the same configurations.
    s.alice
        .credentials
        .set(credentials(&s.ca, "cluster/east/user/alice", now()));
    s.node
        .credentials
        .set(credentials(&s.ca, "cluster/east/node/n1", now()));
    shake(&config, &server).unwrap();
}

#[test]
fn b042_broken_credentials_are_not_loaded() {
    let directory = tempfile::tempdir().unwrap();
    let (cert, key_file) = (directory.path().join("cert.pem"), directory.path().join("key.pem"));
    let ca = ca_at("east", noon());
    let (der, key) = issue(&ca, "cluster/east/node/n1", noon());
    let text = pem::certificate_to_pem(&der);
    let load = || Credentials::load(&cert, &key_file, noon());
    assert!(matches!(load(), Err(TlsError::Key(_))));
    key.save(&key_file).unwrap();
    assert!(matches!(load(), Err(TlsError::File(_))));
    for broken in [
        "",
        "-----BEGIN CERTIFICATE-----\nMIIB",
        &text[..text.len() / 2],
        "hello",
    ] {
        std::fs::write(&cert, broken).unwrap();
        assert!(matches!(load(), Err(TlsError::Pem(_))), "{broken:?}");
    }
    std::fs::write(&cert, &text).unwrap();
    let good = load().unwrap();
    assert_eq!(good.identity(), &id("cluster/east/node/n1"));
    assert_eq!(
        good.renew_from(),
        time::after(
            good.not_before(),
            time::between(good.not_before(), good.not_after()) / 3
        )
    );
    // Not a pair.
    PrivateKey::generate().unwrap().save(&key_file).unwrap();
    let error = load().unwrap_err();
    assert!(
        matches!(error, TlsError::KeyMismatch { .. }) && error.to_string().contains("only one of the two"),
        "{error}"
    );
    key.save(&key_file).unwrap();
    // Expired.
    let error = Credentials::load(&cert, &key_file, time::after(noon(), DAY * 31)).unwrap_err();
    assert!(
        matches!(error, TlsError::Expired { .. }) && error.to_string().contains("2026-12-30T12:00:00Z"),
        "{error}"
    );
    // A CA certificate is nobody's credentials.
    std::fs::write(&cert, ca.certificate_pem()).unwrap();
    assert!(matches!(load(), Err(TlsError::Certificate(PeerRefused::Malformed(_)))));
    // Nothing shows the key.
    let pem = key.to_pem().unwrap();
    let body = pem.lines().nth(1).unwrap().to_owned();
    let s = party(&ca, "cluster/east/node/n1", noon());
    assert!(!format!("{good:?} {s:?}").contains(&body));
}

#[test]
fn b043_a_failed_renewal_keeps_the_valid_certificate() {
    use crate::files::Checked;
    let directory = tempfile::tempdir().unwrap();
    let (cert, key_file) = (directory.path().join("cert.pem"), directory.path().join("key.pem"));
    let ca = ca_at("east", noon());
    let write = |at: Timestamp| {
        let key = PrivateKey::generate().unwrap();
        let der = leaf(
            &ca,
            &LeafSpec::new(id("cluster/east/node/n1"), key.public_key_der(), at),
        );
        (pem::certificate_to_pem(&der), key)
    };
    let (text, key) = write(noon());
    std::fs::write(&cert, &text).unwrap();
    key.save(&key_file).unwrap();
    let mut watched = Credentials::watch(&cert, &key_file, noon()).unwrap();
    let live = watched.live();
    let first = live.get().key_fingerprint().to_owned();

    let later = time::after(noon(), DAY * 15);
    // The certificate is new already, its key is not: the old pair stays.
    let (text, key) = write(later);
    std::fs::write(&cert, &text).unwrap();
    assert!(matches!(watched.check(later), Checked::Kept { known: false, .. }));
    assert!(matches!(watched.check(later), Checked::Kept { known: true, .. }));
    assert_eq!(live.get().key_fingerprint(), first);
    // Both are: the new pair is live.
    key.save(&key_file).unwrap();
    assert_eq!(watched.check(later), Checked::Changed);
    assert_eq!(live.get().key_fingerprint(), key.fingerprint());
    // An expired file in place of a valid one changes nothing.
    let (text, expired) = write(time::before(later, DAY * 60));
    std::fs::write(&cert, &text).unwrap();
    expired.save(&key_file).unwrap();
    assert!(matches!(watched.check(later), Checked::Kept { .. }));
    assert_eq!(live.get().key_fingerprint(), key.fingerprint());
}

#[test]
fn parties_agree_on_a_protocol_or_do_not_talk() {
    let s = setup();
    let config = s.alice.client(exact(), Leg::Inner, &[b"test/2"]).unwrap();
    let server = s.node.server(USERS, Leg::Inner, ALPN).unwrap();
    assert!(shake(&config, &server).is_err());
    let config = s.alice.client(NODES, Leg::Inner, &[b"test/2", b"test/1"]).unwrap();
    assert_eq!(
        shake(&config, &server).unwrap().server.alpn_protocol(),
        Some(b"test/1".as_slice())
    );
}
