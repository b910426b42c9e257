//! A relay that lies: it holds a real certificate of the fleet's CA and speaks the outer protocol, and the test says what it does
//! with whoever comes.
//!
//! ```text
//! client ── `--relay` ──> liar (this process) <── the second of its `relays:` ── noderelay-agent
//!    └──── bundle ──────> noderelay-relay     <── the first one ──────────────────────┘
//! ```

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::BytesMut;
use jiff::Timestamp;
use noderelay_link::{Restart, Times, accepted, server_config, server_endpoint};
use noderelay_pki::Expect;
use noderelay_pki::ca::{CERTIFICATE_FILE, CertificateAuthority, KEY_FILE};
use noderelay_pki::identity::{Role, RoleKind};
use noderelay_pki::name::RelayName;
use noderelay_pki::tls::{Leg, Party};
use noderelay_proto::control::{Control, Registered, encode};
use noderelay_proto::{Frames, FromAgent, Opening, ToAgent, version};
use quinn::{Connection, Incoming, RecvStream, SendStream};
use tokio::runtime::Runtime;
use tokio::sync::{Mutex, watch};

use crate::attached;
use crate::fleet::Fleet;
use crate::process::eventually;

/// Whom a relay serves.
const PEERS: &[RoleKind] = &[RoleKind::User, RoleKind::Node];

/// Somebody who dials the liar.
pub struct Knock {
    incoming: Incoming,
    party: Party,
    tls: Arc<rustls::ServerConfig>,
    agent: Arc<watch::Sender<Option<Connection>>>,
}

/// Somebody who was let in.
pub enum Peer {
    /// A client, with the connection of the agent, if that is attached.
    Client(Connection, Option<Connection>),
    /// An agent that was not answered yet.
    Agent(Connection, watch::Sender<Option<Connection>>),
}

impl Knock {
    /// Ends the handshake before it has begun.
    pub fn refuse(self) {
        self.incoming.refuse();
    }

    /// Lets go in the middle of the handshake.
    pub async fn abandon(self) {
        drop(self.incoming.accept());
    }

    /// Finishes the handshake and lets the peer open no stream at all.
    pub async fn accept_without_streams(self) -> Option<Connection> {
        let restart = Restart::from_key(self.party.credentials.get().key()).ok()?;
        let mut config = server_config(self.tls, &restart, &Times::default()).ok()?;
        let transport = noderelay_link::transport::transport(&Times::default(), 0);
        config.transport_config(Arc::new(transport));
        self.incoming.accept_with(Arc::new(config)).ok()?.await.ok()
    }

    /// Finishes the handshake.
    pub async fn accept(self) -> Option<Peer> {
        let connection = self.incoming.accept().ok()?.await.ok()?;
        let peer = accepted(&connection, &self.party, &Expect::Roles(PEERS), Timestamp::now()).ok()?;
        Some(if peer.identity().kind() == RoleKind::Node {
            Peer::Agent(connection, watch::Sender::clone(&self.agent))
        } else {
            let agent = self.agent.borrow().clone();
            Peer::Client(connection, agent)
        })
    }
}

/// What can be said to an agent that is attached.
pub struct Said(Arc<Mutex<SendStream>>);

impl Said {
    /// Sends one message.
    pub async fn say(&self, message: &impl Control) -> Option<()> {
        let mut bytes = BytesMut::new();
        encode(message, &mut bytes);
        self.0.lock().await.write_all(&bytes).await.ok()
    }
}

/// Answers an agent's registration, and what it asks from then on; gives what can be said to it.
pub async fn attach(connection: &Connection, agent: &watch::Sender<Option<Connection>>) -> Option<Said> {
    let (send, recv) = connection.accept_bi().await.ok()?;
    let said = Said(Arc::new(Mutex::new(send)));
    said.say(&registered(false)).await?;
    agent.send_replace(Some(connection.clone()));
    tokio::spawn(answer(recv, Arc::clone(&said.0)));
    Some(said)
}

/// An agent leaves a relay that does not answer it.
async fn answer(mut recv: RecvStream, send: Arc<Mutex<SendStream>>) -> Option<()> {
    let mut frames = Frames::<Opening>::new();
    while frames.next().ok()?.is_none() {
        frames.push(&recv.read_chunk(4096, true).await.ok()??.bytes);
    }
    let mut frames = frames.switch::<FromAgent>();
    loop {
        while let Some(message) = frames.next().ok()? {
            if let FromAgent::Ping(number) = message {
                let mut bytes = BytesMut::new();
                ToAgent::Pong(number).encode(&mut bytes);
                send.lock().await.write_all(&bytes).await.ok()?;
            }
        }
        frames.push(&recv.read_chunk(4096, true).await.ok()??.bytes);
    }
}

/// What a relay answers to a registration.
pub fn registered(parked: bool) -> Registered {
    Registered {
        relay: "liar".into(),
        parked,
        ..Registered::default()
    }
}

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the client.
    ToNode,
    /// From the node.
    ToClient,
}

/// The next piece of a direction, and how many bytes of it went before; gives what goes on, nothing when the stream is cut here.
pub type Tamper = Arc<dyn Fn(Way, usize, Vec<u8>) -> Option<Vec<u8>> + Send + Sync>;

/// Carries a client's stream to the agent, header and all, with what `tamper` makes of it.
pub async fn carry(client: (SendStream, RecvStream), agent: &Connection, tamper: &Tamper) {
    let Ok(far) = agent.open_bi().await else { return };
    let (near_send, near_recv) = client;
    let (far_send, far_recv) = far;
    tokio::join!(
        copy(near_recv, far_send, Way::ToNode, tamper),
        copy(far_recv, near_send, Way::ToClient, tamper)
    );
}

/// One direction. An end is passed on as an end, everything else as a reset.
pub async fn copy(mut from: RecvStream, mut to: SendStream, way: Way, tamper: &Tamper) {
    let mut done = 0;
    loop {
        let chunk = match from.read_chunk(16 * 1024, true).await {
            Ok(chunk) => chunk,
            Err(_) => {
                let _ = to.reset(0u32.into());
                return;
            }
        };
        let Some(chunk) = chunk else { break };
        let Some(bytes) = tamper(way, done, chunk.bytes.to_vec()) else {
            break;
        };
        done += chunk.bytes.len();
        if to.write_all(&bytes).await.is_err() {
            return;
        }
    }
    let _ = to.finish();
}

/// The liar, until it is dropped.
pub struct Liar {
    /// Where it listens.
    pub address: SocketAddr,
    knocks: Arc<AtomicUsize>,
    agent: Arc<watch::Sender<Option<Connection>>>,
    runtime: Option<Runtime>,
}

impl Liar {
    /// How many dialled it so far.
    pub fn knocks(&self) -> usize {
        self.knocks.load(Ordering::Relaxed)
    }

    /// Waits until the agent is attached.
    pub fn has_agent(&self) {
        eventually("the agent is attached to the liar", || self.agent.borrow().is_some());
    }

    /// The agent's connection.
    pub fn agent(&self) -> Connection {
        self.agent.borrow().clone().expect("an agent")
    }

    /// Where the liar's own things are done.
    pub fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("a runtime")
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A fleet that serves through its honest relay and knows a liar as well, which does `act` with everyone who dials it.
pub fn fleet_with<F, A>(limits: &str, act: F) -> (Fleet, Liar)
where
    F: Fn(Knock) -> A + Send + Sync + 'static,
    A: Future<Output = ()> + Send + 'static,
{
    let mut fleet = Fleet::files(limits);
    let liar = liar(&fleet, act);
    let config = fleet.layout.agent();
    let text = fs::read_to_string(&config).expect("the agent's configuration");
    let relays = format!("relays: [\"{}\", \"{}\"]\n", fleet.address(), liar.address);
    fs::write(&config, text + &relays).expect("the agent's configuration");
    fleet.start_relay();
    fleet.start_agent();
    eventually("the honest relay serves", || fleet.run(&["true"]).status.success());
    (fleet, liar)
}

/// A liar alone.
pub fn liar<F, A>(fleet: &Fleet, act: F) -> Liar
where
    F: Fn(Knock) -> A + Send + Sync + 'static,
    A: Future<Output = ()> + Send + 'static,
{
    let ca = fleet.layout.ca();
    let ca = CertificateAuthority::load(&ca.join(CERTIFICATE_FILE), &ca.join(KEY_FILE)).expect("the CA");
    let role = Role::Relay(RelayName::parse("liar").expect("a name"));
    let party = attached::party(&ca, role).expect("a certificate");
    let tls = party
        .server(Expect::Roles(PEERS), Leg::Outer, version::OUTER)
        .expect("TLS");
    let restart = Restart::from_key(party.credentials.get().key()).expect("secrets");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("an address");
    let endpoint = {
        let _within = runtime.enter();
        server_endpoint(socket, Arc::clone(&tls), &restart, &Times::default()).expect("a socket")
    };
    let knocks = Arc::new(AtomicUsize::new(0));
    let agent = Arc::new(watch::Sender::new(None));
    let (count, known) = (Arc::clone(&knocks), Arc::clone(&agent));
    runtime.spawn(async move {
        while let Some(incoming) = endpoint.accept().await {
            count.fetch_add(1, Ordering::Relaxed);
            let knock = Knock {
                incoming,
                party: party.clone(),
                tls: Arc::clone(&tls),
                agent: Arc::clone(&known),
            };
            tokio::spawn(act(knock));
        }
    });
    Liar {
        address,
        knocks,
        agent,
        runtime: Some(runtime),
    }
}
