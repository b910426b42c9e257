//! A throw-away fleet for the relay's tests: authorities, certificates, a signed publication, a relay in this process,
//! and peers over real loopback QUIC.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use jiff::Timestamp;
use noderelay_bundle::fleet::{CertificateAuthority as CaText, Cluster, FleetFile};
use noderelay_link::{Dialer, Link, Times, agent_transport, client_transport};
use noderelay_pki::ca::{CaSpec, CertificateAuthority, LeafSpec};
use noderelay_pki::identity::Role;
use noderelay_pki::key::PrivateKey;
use noderelay_pki::name::{AccountName, ClusterName, NodeName, RelayName, TrustDomain, UserName};
use noderelay_pki::tls::{Credentials, Live, Party};
use noderelay_pki::trust::TrustAnchors;
use noderelay_pki::{Expect, Identity, RoleKind};
use noderelay_proto::control::{Purpose, Register, Registered};
use noderelay_proto::{Code, Frames, FromAgent, InstanceId, Message, Opening, RouteHeader, ToAgent, Version};
use noderelay_relay::Config;
use quinn::{RecvStream, SendStream, VarInt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};

/// For anything that has to happen.
pub const BOUND: Duration = Duration::from_secs(20);

pub mod publish;

/// Waits for something that has to happen.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(BOUND, future).await {
        Ok(done) => done,
        Err(_) => panic!("not within {BOUND:?}: {what}"),
    }
}

/// Asks again and again until the answer is yes.
pub async fn eventually(what: &str, mut ask: impl AsyncFnMut() -> bool) {
    soon(what, async {
        while !ask().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

/// A fleet of the clusters `home` and `far`.
pub struct Fleet {
    pub folder: tempfile::TempDir,
    pub domain: TrustDomain,
    authorities: BTreeMap<&'static str, CertificateAuthority>,
    pub publisher: publish::Publisher,
}

pub fn cluster(name: &str) -> ClusterName {
    ClusterName::parse(name).unwrap()
}

pub fn user(name: &str) -> Role {
    Role::User(UserName::parse(name).unwrap())
}

pub fn node(name: &str) -> Role {
    Role::Node(NodeName::parse(name).unwrap())
}

pub fn relay_role(name: &str) -> Role {
    Role::Relay(RelayName::parse(name).unwrap())
}

pub fn account(name: &str) -> Role {
    Role::BreakGlass(AccountName::parse(name).unwrap())
}

impl Fleet {
    pub fn new() -> Self {
        Self::in_domain("fleet.example")
    }

    pub fn in_domain(domain: &str) -> Self {
        let domain = TrustDomain::parse(domain).unwrap();
        let authority = |name: &'static str| {
            let years = Duration::from_secs(2 * 365 * 86_400);
            let spec = CaSpec::new(domain.clone(), cluster(name), Timestamp::now(), years);
            (name, CertificateAuthority::create(spec).unwrap())
        };
        let folder = tempfile::tempdir().unwrap();
        let publisher = publish::Publisher::new(folder.path());
        Self {
            authorities: [authority("home"), authority("far")].into_iter().collect(),
            folder,
            domain,
            publisher,
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The fleet file: every authority may vouch for every role.
    pub fn file(&self) -> FleetFile {
        let clusters = self.authorities.iter().map(|(name, authority)| Cluster {
            name: cluster(name),
            owner: None,
            certificate_authorities: vec![CaText {
                roles: RoleKind::ALL.into_iter().collect(),
                certificate: authority.certificate_pem(),
            }],
            relays: Vec::new(),
        });
        FleetFile {
            trust_domain: self.domain.clone(),
            clusters: clusters.collect(),
            routes: Vec::new(),
            witnesses: Vec::new(),
            recipients: Vec::new(),
            webhooks: Vec::new(),
        }
    }

    /// Replaces the authority of a cluster; the old one's certificates are of the past once this is published.
    pub fn renew_authority(&mut self, name: &'static str) {
        let years = Duration::from_secs(2 * 365 * 86_400);
        let spec = CaSpec::new(self.domain.clone(), cluster(name), Timestamp::now(), years);
        self.authorities
            .insert(name, CertificateAuthority::create(spec).unwrap());
    }

    pub fn anchors(&self) -> TrustAnchors {
        self.file().trust_anchors().unwrap()
    }

    pub fn identity(&self, home: &str, role: Role) -> Identity {
        Identity::new(self.domain.clone(), cluster(home), role)
    }

    /// A certificate of an authority of this fleet; `change` may bend it.
    pub fn credentials_with(&self, home: &str, role: Role, change: impl FnOnce(&mut LeafSpec)) -> Credentials {
        let key = PrivateKey::generate().unwrap();
        let mut spec = LeafSpec::new(self.identity(home, role), key.public_key_der(), Timestamp::now());
        change(&mut spec);
        let der = self.authorities[home].issue(&spec).unwrap();
        // Expired ones are made, too: the clock of that moment is within its life.
        Credentials::new(vec![der.into()], key, spec.not_before).unwrap()
    }

    pub fn credentials(&self, home: &str, role: Role) -> Credentials {
        self.credentials_with(home, role, |_| ())
    }

    /// A party that trusts this fleet.
    pub fn party(&self, home: &str, role: Role) -> Party {
        Party::new(Live::new(self.credentials(home, role)), Live::new(self.anchors()))
    }

    /// Writes a relay's identity files.
    pub fn write_identity(&self, home: &str, role: Role) {
        let credentials = self.credentials(home, role);
        let pem = noderelay_pki::pem::certificate_to_pem(&credentials.chain()[0]);
        noderelay_pki::files::write_atomic(&self.path("relay.pem"), pem.as_bytes(), 0o644).unwrap();
        credentials.key().save(&self.path("relay.key")).unwrap();
    }

    pub async fn publish(&self) {
        self.publisher.publish(&self.file()).await;
    }

    /// A configuration with short times.
    pub fn config(&self, more: &str) -> Config {
        let text = format!(
            "listen: \"127.0.0.1:0\"\nidentity: {{ certificate: relay.pem, key: relay.key }}\nbundle: bundle\n\
             state: state\nadmin: admin.sock\n{more}"
        );
        Config::parse(text.as_bytes(), &self.path("relay.yaml")).unwrap()
    }

    /// A relay of cluster `home`, with the publication as it is.
    pub async fn relay(&self, timing: &str) -> Relay {
        self.write_identity("home", relay_role("relay-1"));
        self.publish().await;
        self.start(self.config(&format!("timing: {{ reread: 50ms, {timing} }}\n")))
            .await
    }

    /// A relay with these bounds in number.
    pub async fn relay_with(&self, limits: &str) -> Relay {
        self.write_identity("home", relay_role("relay-1"));
        self.publish().await;
        self.start(self.config(&format!("limits: {{ {limits} }}\n"))).await
    }

    pub async fn start(&self, config: Config) -> Relay {
        let (told, ready) = tokio::sync::oneshot::channel();
        let stop = noderelay_relay::Stop::default();
        let ended = tokio::spawn(noderelay_relay::run(
            config,
            |address| told.send(address).unwrap(),
            stop.clone(),
        ));
        match soon("the relay is ready", ready).await {
            Ok(address) => Relay {
                address,
                admin: self.path("admin.sock"),
                stop,
                ended,
            },
            Err(_) => panic!("the relay did not start: {:?}", ended.await.unwrap()),
        }
    }
}

/// A relay in this process.
pub struct Relay {
    pub address: SocketAddr,
    pub admin: PathBuf,
    pub stop: noderelay_relay::Stop,
    pub ended: JoinHandle<anyhow::Result<()>>,
}

impl Relay {
    /// Asks the admin socket; the whole answer.
    pub async fn ask(&self, what: &str) -> String {
        ask(&self.admin, what).await
    }

    /// The value of a metric, 0 when there is none.
    pub async fn metric(&self, name: &str) -> f64 {
        let text = self.ask("/metrics").await;
        let line = text.lines().find_map(|line| {
            line.strip_prefix("noderelay_relay_")?
                .strip_prefix(name)?
                .strip_prefix(' ')
        });
        line.map_or(0.0, |value| value.parse().unwrap())
    }

    pub async fn stopped(self) {
        self.stop.soft.cancel();
        soon("the relay stops", self.ended).await.unwrap().unwrap();
    }
}

pub async fn ask(path: &Path, what: &str) -> String {
    let mut stream = tokio::net::UnixStream::connect(path).await.unwrap();
    let request = format!("GET {what} HTTP/1.1\r\nhost: relay\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

pub async fn dial(party: Party, address: SocketAddr, agent: bool) -> Link {
    let transport = if agent {
        agent_transport(256, &Times::default())
    } else {
        client_transport()
    };
    let expect = Expect::Relay {
        cluster: Some(cluster("home")),
    };
    soon(
        "dialled",
        Dialer::new(party, transport).dial(&[address.to_string()], expect),
    )
    .await
    .unwrap()
}

pub fn code(code: Code) -> VarInt {
    VarInt::from_u32(code.number())
}

pub fn header(cluster: &str, node: &str) -> RouteHeader {
    RouteHeader::new(Version::V1, cluster, node, Purpose::Session)
}

/// A client with one connection.
pub struct Client {
    pub link: Link,
}

impl Client {
    pub async fn new(fleet: &Fleet, relay: &Relay) -> Self {
        Self {
            link: dial(fleet.party("home", user("ann")), relay.address, false).await,
        }
    }

    /// Opens a stream, writing header and first bytes in one go.
    pub async fn open(&self, header: &RouteHeader, first: &[u8]) -> (SendStream, RecvStream) {
        let mut bytes = BytesMut::new();
        noderelay_proto::control::encode(header, &mut bytes);
        bytes.extend_from_slice(first);
        self.open_raw(&bytes).await
    }

    pub async fn open_raw(&self, bytes: &[u8]) -> (SendStream, RecvStream) {
        let (mut send, recv) = self.link.connection.open_bi().await.unwrap();
        send.write_all(bytes).await.unwrap();
        (send, recv)
    }

    /// The code with which a stream is refused.
    pub async fn refusal(&self, header: &RouteHeader) -> Code {
        let (_send, mut recv) = self.open(header, b"hello").await;
        reset_code(&mut recv).await
    }
}

/// The code with which the other side reset this half.
pub async fn reset_code(recv: &mut RecvStream) -> Code {
    match soon("a reset", recv.read_to_end(1 << 20)).await {
        Err(quinn::ReadToEndError::Read(quinn::ReadError::Reset(code))) => Code::from_wire(code.into_inner()),
        other => panic!("no reset but {other:?}"),
    }
}

/// The code with which a connection was closed.
pub async fn close_code(connection: &quinn::Connection) -> Code {
    match soon("the connection ends", connection.closed()).await {
        quinn::ConnectionError::ApplicationClosed(closed) => Code::from_wire(closed.error_code.into_inner()),
        other => panic!("no code but {other:?}"),
    }
}

/// What the relay said on the control stream, but for probes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    Registered(Registered),
    Draining,
}

/// An agent: registers, answers probes unless it is told not to, and hands out the streams that it gets.
pub struct Agent {
    pub link: Arc<Link>,
    pub said: mpsc::Receiver<Said>,
    /// Whether probes are answered.
    pub answering: Arc<AtomicBool>,
    control: JoinHandle<()>,
}

/// A stream that came to an agent.
pub struct Arrived {
    pub header: RouteHeader,
    pub rest: BytesMut,
    pub send: SendStream,
    pub recv: RecvStream,
}

pub fn instance(n: u8) -> InstanceId {
    InstanceId::new([n; 16])
}

impl Drop for Agent {
    fn drop(&mut self) {
        // Its streams would keep the connection open.
        self.control.abort();
    }
}

impl Agent {
    pub async fn new(fleet: &Fleet, relay: &Relay, name: &str, run: u8) -> Self {
        Self::with(
            fleet.party("home", node(name)),
            relay.address,
            Register::new(instance(run), "test"),
        )
        .await
    }

    pub async fn with(party: Party, relay: SocketAddr, hello: Register) -> Self {
        let link = Arc::new(dial(party, relay, true).await);
        let (mut send, mut recv) = link.connection.open_bi().await.unwrap();
        let mut bytes = BytesMut::new();
        noderelay_proto::control::encode(&hello, &mut bytes);
        send.write_all(&bytes).await.unwrap();
        let (tell, said) = mpsc::channel(16);
        let answering = Arc::new(AtomicBool::new(true));
        let answers = answering.clone();
        let control = tokio::spawn(async move {
            let mut frames = Frames::<ToAgent>::new();
            loop {
                let message = match frames.next().unwrap() {
                    Some(message) => message,
                    None => match recv.read_chunk(4096, true).await {
                        Ok(Some(chunk)) => {
                            frames.push(&chunk.bytes);
                            continue;
                        }
                        Ok(None) | Err(_) => return,
                    },
                };
                let said = match message {
                    ToAgent::Registered(registered) => Said::Registered(registered),
                    ToAgent::Drain(_) => Said::Draining,
                    ToAgent::Ping(number) if answers.load(Ordering::Relaxed) => {
                        let mut bytes = BytesMut::new();
                        Message::encode(&FromAgent::Pong(number), &mut bytes);
                        send.write_all(&bytes).await.unwrap();
                        continue;
                    }
                    ToAgent::Ping(_) | ToAgent::Pong(_) => continue,
                };
                if tell.send(said).await.is_err() {
                    return;
                }
            }
        });
        Self {
            link,
            said,
            answering,
            control,
        }
    }

    /// An agent that holds its node.
    pub async fn attached(fleet: &Fleet, relay: &Relay, name: &str, run: u8) -> Self {
        let mut agent = Self::new(fleet, relay, name, run).await;
        assert!(!agent.registered().await.parked);
        agent
    }

    /// The next answer of the relay.
    pub async fn registered(&mut self) -> Registered {
        match soon("an answer to REGISTER", self.said.recv()).await {
            Some(Said::Registered(registered)) => registered,
            other => panic!("{other:?} instead of REGISTERED"),
        }
    }

    /// The next stream.
    pub async fn accept(&self) -> Arrived {
        soon("a stream arrives", arrive(&self.link.connection)).await.unwrap()
    }

    /// Sends everything back, on every stream, until dropped.
    pub fn echo(&self) -> JoinSet<()> {
        let connection = self.link.connection.clone();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut streams = JoinSet::new();
            while let Some(arrived) = arrive(&connection).await {
                streams.spawn(async move {
                    let Arrived {
                        rest,
                        mut send,
                        mut recv,
                        ..
                    } = arrived;
                    send.write_chunk(rest.freeze()).await.unwrap();
                    while let Ok(Some(chunk)) = recv.read_chunk(64 * 1024, true).await {
                        if send.write_chunk(chunk.bytes).await.is_err() {
                            return;
                        }
                    }
                    let _ = send.finish();
                    let _ = send.stopped().await;
                });
            }
        });
        tasks
    }
}

async fn arrive(connection: &quinn::Connection) -> Option<Arrived> {
    let (send, mut recv) = connection.accept_bi().await.ok()?;
    let mut frames = Frames::<Opening>::new();
    loop {
        match frames.next().unwrap() {
            Some(Opening::Route(header)) => {
                return Some(Arrived {
                    header,
                    rest: frames.into_rest(),
                    send,
                    recv,
                });
            }
            Some(other) => panic!("{other:?} opens a stream to an agent"),
            None => frames.push(&recv.read_chunk(4096, true).await.ok()??.bytes),
        }
    }
}
