//! What the tests of this crate share: a small fleet on loopback, with real sockets and ports of the system's choice.

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use jiff::Timestamp;
use noderelay_pki::ca::{CaSpec, CertificateAuthority, LeafSpec};
use noderelay_pki::key::PrivateKey;
use noderelay_pki::tls::{Credentials, Leg, Live, Party};
use noderelay_pki::trust::TrustAnchors;
use noderelay_pki::{Expect, Identity, RoleKind, time};
use noderelay_proto::version;

use crate::{Dialer, Restart, Times, client_transport, server_endpoint};

pub(crate) const USERS: Expect = Expect::Roles(&[RoleKind::User, RoleKind::Node]);
pub(crate) const RELAY: Expect = Expect::Relay { cluster: None };

pub(crate) struct Fleet {
    pub(crate) ca: CertificateAuthority,
}

impl Fleet {
    pub(crate) fn new() -> Fleet {
        let life = Duration::from_secs(86_400 * 365);
        let spec = CaSpec::new(
            "fleet.example".parse().unwrap(),
            "east".parse().unwrap(),
            Timestamp::now(),
            life,
        );
        Fleet {
            ca: CertificateAuthority::create(spec).unwrap(),
        }
    }

    pub(crate) fn trust(&self) -> TrustAnchors {
        let roles: BTreeSet<RoleKind> = RoleKind::ALL.into_iter().collect();
        TrustAnchors::new("fleet.example".parse().unwrap(), vec![self.ca.entry(roles)]).unwrap()
    }

    pub(crate) fn credentials(&self, name: &str, age: Duration, groups: usize) -> Credentials {
        let key = PrivateKey::generate().unwrap();
        let identity = Identity::parse(&format!("spiffe://fleet.example/cluster/east/{name}")).unwrap();
        let from = time::before(Timestamp::now(), age);
        let mut spec = LeafSpec::new(identity, key.public_key_der(), from);
        spec.groups = (0..groups).map(|n| format!("{n:0128}").parse().unwrap()).collect();
        Credentials::new(vec![self.ca.issue(&spec).unwrap().into()], key, from).unwrap()
    }

    pub(crate) fn party(&self, name: &str) -> Party {
        Party::new(
            Live::new(self.credentials(name, Duration::ZERO, 0)),
            Live::new(self.trust()),
        )
    }

    /// A relay on loopback.
    pub(crate) fn relay(&self, name: &str) -> (quinn::Endpoint, SocketAddr) {
        serve(&self.party(name))
    }

    pub(crate) fn dialer(&self) -> Dialer {
        Dialer::new(self.party("user/alice"), client_transport())
    }
}

pub(crate) fn serve(party: &Party) -> (quinn::Endpoint, SocketAddr) {
    serve_at(party, "127.0.0.1:0".parse().unwrap())
}

pub(crate) fn serve_at(party: &Party, address: SocketAddr) -> (quinn::Endpoint, SocketAddr) {
    serve_with(party, address, &Times::default())
}

pub(crate) fn serve_with(party: &Party, address: SocketAddr, times: &Times) -> (quinn::Endpoint, SocketAddr) {
    let socket = UdpSocket::bind(address).unwrap();
    let tls = party.server(USERS, Leg::Outer, version::OUTER).unwrap();
    let restart = Restart::from_key(party.credentials.get().key()).unwrap();
    let endpoint = server_endpoint(socket, tls, &restart, times).unwrap();
    let address = endpoint.local_addr().unwrap();
    (endpoint, address)
}

/// The next connection, with its handshake complete.
pub(crate) async fn next(endpoint: &quinn::Endpoint) -> quinn::Connection {
    soon(async { endpoint.accept().await.unwrap().await.unwrap() }).await
}

/// Nothing in these tests may hang.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), future)
        .await
        .expect("not within 30 s")
}

/// A socket that takes packets and never answers. Held by the caller.
pub(crate) fn silent() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

/// Accepts whatever comes, until dropped.
pub(crate) fn accept_all(endpoint: &quinn::Endpoint) -> tokio::task::JoinSet<()> {
    let endpoint = endpoint.clone();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move {
        while let Some(incoming) = endpoint.accept().await {
            // Whether it succeeds is for the other side to judge.
            let _ = incoming.await;
        }
    });
    tasks
}
