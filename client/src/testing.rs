//! What the tests of this crate share: a fleet of one cluster made on the spot, and a node that follows a script over an
//! in-memory stream, with real inner TLS and real frames.
//!
//! It never touches the network or the disk.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use jiff::Timestamp;
use noderelay_pki::ca::{CaSpec, CertificateAuthority, LeafSpec};
use noderelay_pki::key::PrivateKey;
use noderelay_pki::name::{ClusterName, NodeName, TrustDomain, UserName};
use noderelay_pki::tls::{Credentials, Leg, Live, Party};
use noderelay_pki::trust::TrustAnchors;
use noderelay_pki::{Expect, Identity, Role, RoleKind};
use noderelay_proto::control::{Open, Opened, RecordLevel};
use noderelay_proto::limits::WINDOW_TERMINAL;
use noderelay_proto::{Frames, OpenId, ToClient, ToNode, version};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::open::{Wish, Work};

/// One cluster's certificates.
pub(crate) struct Fleet {
    domain: TrustDomain,
    pub(crate) cluster: ClusterName,
    ca: CertificateAuthority,
}

impl Fleet {
    pub(crate) fn new() -> Self {
        let (domain, cluster) = (
            TrustDomain::parse("example.org").unwrap(),
            ClusterName::parse("demo").unwrap(),
        );
        let spec = CaSpec::new(
            domain.clone(),
            cluster.clone(),
            Timestamp::now(),
            Duration::from_secs(400 * 86_400),
        );
        Self {
            ca: CertificateAuthority::create(spec).unwrap(),
            domain,
            cluster,
        }
    }

    pub(crate) fn identity(&self, role: Role) -> Identity {
        Identity::new(self.domain.clone(), self.cluster.clone(), role)
    }

    pub(crate) fn node(&self, name: &str) -> Identity {
        self.identity(Role::Node(NodeName::parse(name).unwrap()))
    }

    pub(crate) fn user(&self) -> Identity {
        self.identity(Role::User(UserName::parse("kim").unwrap()))
    }

    /// A party that trusts this fleet, with a certificate of this fleet.
    pub(crate) fn party(&self, identity: Identity) -> Party {
        self.party_trusting(identity, self)
    }

    /// The same, trusting another fleet.
    pub(crate) fn party_trusting(&self, identity: Identity, trusted: &Self) -> Party {
        let key = PrivateKey::generate().unwrap();
        let now = Timestamp::now();
        let leaf = self
            .ca
            .issue(&LeafSpec::new(identity, key.public_key_der(), now))
            .unwrap();
        let credentials = Credentials::new(vec![leaf.into()], key, now).unwrap();
        let roles = BTreeSet::from([RoleKind::Node, RoleKind::User, RoleKind::Relay]);
        let trust = TrustAnchors::new(trusted.domain.clone(), vec![trusted.ca.entry(roles)]).unwrap();
        Party::new(Live::new(credentials), Live::new(trust))
    }

    /// The wish for a shell on `node`.
    pub(crate) fn wish(&self, node: &str) -> Open {
        let wish = Wish {
            id: OpenId::new([1; 16]),
            node: &NodeName::parse(node).unwrap(),
            cluster: &self.cluster,
            work: &Work::Shell,
            terminal: None,
            environment: Vec::new(),
            profile: None,
            reason: None,
            grants: &[],
            local_user: None,
        };
        wish.message().unwrap()
    }
}

/// The node's end of the inner TLS.
pub(crate) struct Node {
    pub(crate) stream: TlsStream<DuplexStream>,
    pub(crate) frames: Frames<ToNode>,
}

impl Node {
    /// Waits for the client's handshake.
    pub(crate) async fn accept(stream: DuplexStream, party: &Party, alpn: &[&[u8]]) -> std::io::Result<Self> {
        let config: Arc<_> = party
            .server(Expect::Roles(&[RoleKind::User]), Leg::Inner, alpn)
            .unwrap();
        let stream = TlsAcceptor::from(config).accept(stream).await?;
        Ok(Self {
            stream,
            frames: Frames::new(),
        })
    }

    /// As an agent does.
    pub(crate) async fn accept_usual(stream: DuplexStream, party: &Party) -> std::io::Result<Self> {
        Self::accept(stream, party, version::INNER).await
    }

    pub(crate) async fn send(&mut self, message: impl Into<ToClient>) {
        let mut bytes = BytesMut::new();
        message.into().encode(&mut bytes);
        self.stream.write_all(&bytes).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    pub(crate) async fn output(&mut self, text: &[u8]) {
        self.send(ToClient::Data(Bytes::copy_from_slice(text))).await;
    }

    /// The next message; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<ToNode> {
        loop {
            if let Some(message) = self.frames.next().unwrap() {
                return Some(message);
            }
            match self.stream.read_buf(self.frames.buffer()).await {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// Takes the wish.
    pub(crate) async fn opened(&mut self) -> Open {
        let Some(ToNode::Open(open)) = self.next().await else {
            panic!("no OPEN");
        };
        self.send(terms(&open.node, &open.cluster)).await;
        open
    }
}

/// Ordinary terms.
pub(crate) fn terms(node: &str, cluster: &str) -> Opened {
    Opened {
        session: Bytes::from_static(&[9; 16]),
        policy_version: 3,
        profile: "login".into(),
        account: "kim".into(),
        recorded: RecordLevel::Required.into(),
        deadline_unix: None,
        idle_secs: None,
        node: node.into(),
        cluster: cluster.into(),
        window: WINDOW_TERMINAL,
        consumed: 0,
        demo: false,
        resume_window_secs: 1800,
    }
}
