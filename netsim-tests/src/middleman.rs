//! A network in the middle: forwards datagrams between those who dial it and one server, and does to them what networks do.
//!
//! ```text
//! peer ──> front (the address that is dialled) ── a mapping for each peer: a socket of its own ──> server
//!      <── front                              <── mapping, while it is the peer's              <──
//! ```
//!
//! A test changes at any time what it does: give every peer another port or address (NAT rebinding), forget a mapping that its peer
//! did not use, drop what is too large (no ICMP tells anybody), drop one direction or both, let whoever is there now never through
//! again, or copy packets to the server from an address beside the path. It keeps the order, and delays nothing.

use std::collections::{HashMap, HashSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use tokio::net::UdpSocket;
use tokio::runtime::Runtime;
use tokio::time::Instant;

/// What is done to a datagram that passes; says whether it goes on.
pub type Look = Arc<dyn Fn(&mut [u8]) -> bool + Send + Sync>;

/// Room for a burst, so that nothing is lost but what a test wants lost.
const ROOM: usize = 4 << 20;

/// Which way a datagram goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// From whoever dialled.
    ToServer,
    /// From the server.
    ToPeer,
}

/// Forwards until it is dropped.
pub struct Middleman {
    address: SocketAddr,
    shared: Arc<Shared>,
    runtime: Option<Runtime>,
}

struct Shared {
    front: UdpSocket,
    server: SocketAddr,
    state: Mutex<State>,
}

/// One peer's place at the server's side.
struct Mapping {
    socket: Arc<UdpSocket>,
    used: Instant,
}

struct State {
    host: Ipv4Addr,
    largest: usize,
    blocked: HashSet<Way>,
    buried: HashSet<SocketAddr>,
    forget: Option<Duration>,
    look: Option<Look>,
    copying: Option<Copying>,
    mappings: HashMap<SocketAddr, Mapping>,
    /// Mappings that are nobody's any more. They stay bound: a closed port would tell the server that it is.
    retired: Vec<Arc<UdpSocket>>,
    peers: HashSet<SocketAddr>,
    passed: HashMap<Way, usize>,
    dropped: usize,
}

/// The copies of somebody beside the path.
struct Copying {
    socket: Arc<UdpSocket>,
    /// One of so many, in turn sent before and behind the packet itself.
    one_of: usize,
    seen: usize,
}

impl Middleman {
    /// In front of `server`, at a free port.
    pub fn before(server: SocketAddr) -> Self {
        let front = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        Self::at(front, server)
    }

    /// In front of `server`, where this socket is bound.
    pub fn at(front: std::net::UdpSocket, server: SocketAddr) -> Self {
        let address = front.local_addr().expect("an address");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let state = State {
            host: Ipv4Addr::LOCALHOST,
            largest: usize::MAX,
            blocked: HashSet::new(),
            buried: HashSet::new(),
            forget: None,
            look: None,
            copying: None,
            mappings: HashMap::new(),
            retired: Vec::new(),
            peers: HashSet::new(),
            passed: HashMap::new(),
            dropped: 0,
        };
        let front = runtime.block_on(async { roomy(front) });
        let shared = Arc::new(Shared {
            front,
            server,
            state: Mutex::new(state),
        });
        runtime.spawn(forward(Arc::clone(&shared)));
        Self {
            address,
            shared,
            runtime: Some(runtime),
        }
    }

    /// Where it is dialled.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Every datagram is looked at.
    pub fn look(&self, look: &Look) {
        self.state().look = Some(Arc::clone(look));
    }

    /// Every peer has another port from its next packet on.
    pub fn rebind(&self) {
        self.state().rebind();
    }

    /// Every peer has another address.
    pub fn rebind_to(&self, host: Ipv4Addr) {
        let mut state = self.state();
        state.host = host;
        state.rebind();
    }

    /// Every peer has another port each time that so much time has passed.
    pub fn rebind_every(&self, period: Duration) {
        let shared = Arc::clone(&self.shared);
        self.runtime().spawn(async move {
            loop {
                tokio::time::sleep(period).await;
                shared.state().rebind();
            }
        });
    }

    /// What is larger goes lost, without a word to anybody.
    pub fn largest(&self, bytes: usize) {
        self.state().largest = bytes;
    }

    /// What goes these ways is lost, and nothing else.
    pub fn block(&self, ways: &[Way]) {
        self.state().blocked = ways.iter().copied().collect();
    }

    /// Those who were here until now never get anything through again: whoever wants to has to come from another port.
    pub fn bury(&self) {
        let mut state = self.state();
        let peers: Vec<_> = state.peers.iter().copied().collect();
        state.buried.extend(peers);
    }

    /// A mapping over which its peer sent nothing for so long is forgotten.
    pub fn forget_after(&self, idle: Duration) {
        self.state().forget = Some(idle);
    }

    /// Somebody at `host`, who sees everything that goes to the server, sends a copy of one packet of so many there as well, in turn
    /// before and behind the packet itself, and takes what is answered.
    pub fn copy_from(&self, host: Ipv4Addr, one_of: usize) {
        let socket = {
            let _within = self.runtime().enter();
            Arc::new(towards(host, self.shared.server))
        };
        self.state().copying = Some(Copying {
            socket,
            one_of,
            seen: 0,
        });
    }

    /// Where the server sees the peer whose mapping is the newest of all.
    pub fn seen_at(&self) -> Option<SocketAddr> {
        let state = self.state();
        let newest = state.mappings.values().max_by_key(|mapping| mapping.used)?;
        newest.socket.local_addr().ok()
    }

    /// How many dialled so far, each by the port that it came from.
    pub fn peers(&self) -> usize {
        self.state().peers.len()
    }

    /// How many mappings were made so far.
    pub fn mappings(&self) -> usize {
        let state = self.state();
        state.mappings.len() + state.retired.len()
    }

    /// How many datagrams passed this way.
    pub fn passed(&self, way: Way) -> usize {
        self.state().passed.get(&way).copied().unwrap_or_default()
    }

    /// How many were copied.
    pub fn copied(&self) -> usize {
        let state = self.state();
        let copying = state.copying.as_ref();
        copying.map_or(0, |copying| copying.seen / copying.one_of)
    }

    /// How many were dropped.
    pub fn dropped(&self) -> usize {
        self.state().dropped
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("a runtime")
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }
}

impl Drop for Middleman {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn rebind(&mut self) {
        let old = self.mappings.drain().map(|(_, mapping)| mapping.socket);
        self.retired.extend(old);
    }

    /// Whether it goes on; changes it on the way.
    fn passes(&mut self, way: Way, peer: SocketAddr, bytes: &mut [u8]) -> bool {
        let lost = bytes.len() > self.largest || self.blocked.contains(&way) || self.buried.contains(&peer);
        let goes = !lost && self.look.as_ref().is_none_or(|look| look(bytes));
        match goes {
            true => *self.passed.entry(way).or_default() += 1,
            false => self.dropped += 1,
        }
        goes
    }

    /// Whether the peer's mapping has been forgotten.
    fn forgotten(&self, mapping: &Mapping) -> bool {
        self.forget.is_some_and(|idle| mapping.used.elapsed() > idle)
    }

    /// The peer's mapping; says whether it is new.
    fn mapping(&mut self, peer: SocketAddr, server: SocketAddr) -> (Arc<UdpSocket>, bool) {
        if let Some(old) = self.mappings.remove(&peer) {
            if self.forgotten(&old) {
                self.retired.push(old.socket);
            } else {
                self.mappings.insert(peer, old);
            }
        }
        let host = self.host;
        let mut new = false;
        let mapping = self.mappings.entry(peer).or_insert_with(|| {
            new = true;
            Mapping {
                socket: Arc::new(towards(host, server)),
                used: Instant::now(),
            }
        });
        mapping.used = Instant::now();
        (Arc::clone(&mapping.socket), new)
    }

    /// Who copies this packet, and whether before the packet itself.
    fn copier(&mut self) -> Option<(Arc<UdpSocket>, bool)> {
        let copying = self.copying.as_mut()?;
        copying.seen += 1;
        let before = (copying.seen / copying.one_of) % 2 == 0;
        (copying.seen % copying.one_of == 0).then(|| (Arc::clone(&copying.socket), before))
    }

    /// Whether this socket is still the peer's.
    fn belongs(&self, peer: SocketAddr, socket: &Arc<UdpSocket>) -> bool {
        let mapping = self.mappings.get(&peer);
        mapping.is_some_and(|mapping| Arc::ptr_eq(&mapping.socket, socket) && !self.forgotten(mapping))
    }
}

fn roomy(socket: std::net::UdpSocket) -> UdpSocket {
    // Only root gets as much as it asks for.
    if setsockopt(&socket, sockopt::RcvBufForce, &ROOM).is_err() {
        let _ = setsockopt(&socket, sockopt::RcvBuf, &ROOM);
    }
    socket.set_nonblocking(true).expect("a socket");
    UdpSocket::from_std(socket).expect("a socket")
}

fn towards(host: Ipv4Addr, server: SocketAddr) -> UdpSocket {
    let socket = std::net::UdpSocket::bind((host, 0)).expect("a free port");
    socket.connect(server).expect("an address");
    roomy(socket)
}

async fn forward(shared: Arc<Shared>) {
    let mut buffer = vec![0; 65_536];
    loop {
        let Ok((length, peer)) = shared.front.recv_from(&mut buffer).await else {
            continue;
        };
        let bytes = &mut buffer[..length];
        let (socket, copier) = {
            let mut state = shared.state();
            state.peers.insert(peer);
            if !state.passes(Way::ToServer, peer, bytes) {
                continue;
            }
            let (socket, new) = state.mapping(peer, shared.server);
            if new {
                tokio::spawn(back(Arc::clone(&shared), peer, Arc::clone(&socket)));
            }
            (socket, state.copier())
        };
        // Whatever cannot be sent is lost like any datagram.
        if let Some((copier, true)) = &copier {
            let _ = copier.send(bytes).await;
        }
        let _ = socket.send(bytes).await;
        if let Some((copier, false)) = &copier {
            let _ = copier.send(bytes).await;
        }
    }
}

/// What the server sends to one mapping, for as long as that is its peer's.
async fn back(shared: Arc<Shared>, peer: SocketAddr, socket: Arc<UdpSocket>) {
    let mut buffer = vec![0; 65_536];
    loop {
        let Ok(length) = socket.recv(&mut buffer).await else {
            continue;
        };
        let bytes = &mut buffer[..length];
        let goes = {
            let mut state = shared.state();
            state.belongs(peer, &socket) && state.passes(Way::ToPeer, peer, bytes)
        };
        if goes {
            let _ = shared.front.send_to(bytes, peer).await;
        }
    }
}
