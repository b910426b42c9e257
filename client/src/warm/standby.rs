//! Inner legs to nodes that were used lately, made ahead of time and held without a session.
//!
//! ```text
//! a node is asked for ─> remembered ─> make: stream, inner TLS, STANDBY ─> STANDING_BY ─> held ─> taken (once), ended, or too old
//!                           ^                                                                      │
//!                           └──────────────────────── made anew while the node is recent ──────────┘
//! ```
//!
//! A node that refuses, or a leg that ends by itself, is followed by a pause that grows and that nobody else has. What is held is read all the time: a leg that ended is not given away.
//! Few nodes, and one leg for each. Never says OPEN, and never looks at what is said after it.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use noderelay_link::Stream;
use noderelay_link::backoff::Backoff;
use noderelay_pki::tls::Party;
use noderelay_proto::code::{Code, Origin};
use noderelay_proto::control::{self, Purpose, RouteHeader};
use noderelay_proto::resume::{self, ResumeKey};
use noderelay_proto::{Frames, ToClient, ToNode};
use tokio::io::AsyncReadExt as _;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::client::TlsStream;

use super::relays::Up;
use crate::faults::Fault;
use crate::frames;
use crate::inner;
use crate::target::Target;

/// Nodes that are remembered, and so legs that are held: one person watches no more nodes than this at once.
const NODES: usize = 8;
/// A node that was not asked for since then is not kept warm any more.
const RECENT: Duration = Duration::from_secs(15 * 60);
/// Longest wait before a leg that was lost is made again; doubles up to [`PAUSE_MAX`] while none lives long.
const PAUSE_MIN: Duration = Duration::from_secs(2);
/// Longest wait, however often it failed.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// A node that refused is left alone for this long, and for a pause.
const REFUSED: Duration = Duration::from_secs(60);
/// What the node may take to say that it stands by.
const ANSWER: Duration = Duration::from_secs(10);
/// A leg that the node ends within this time is not given away any more: OPEN has to get there.
const MARGIN: Duration = Duration::from_secs(5);

/// The nodes, the one used last at the end.
#[derive(Debug, Default)]
pub(super) struct Standbys {
    pub(super) nodes: Vec<Node>,
}

/// A node that was asked for.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) target: Target,
    /// How often.
    pub(super) uses: u32,
    /// When it last proved to this process who it is.
    pub(super) proof: Option<Instant>,
    /// Why nothing stands by.
    pub(super) seen: String,
    /// The relay over which it was reached.
    pub(super) relay: Option<String>,
    used: Instant,
    leg: Leg,
    backoff: Backoff,
}

/// The leg to a node.
#[derive(Debug)]
enum Leg {
    /// There is none, and none is made before this.
    None(Instant),
    /// It is being made.
    Making,
    /// It was held from this moment on.
    Held(Held, Instant),
}

/// A leg that stands by: whoever takes it says where it goes. Dropped, it ends.
pub(super) type Held = oneshot::Sender<oneshot::Sender<Ready>>;

/// A leg on which OPEN comes next.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) stream: Box<TlsStream<Stream>>,
    pub(super) resume_key: ResumeKey,
    pub(super) up: Arc<Up>,
}

impl Node {
    /// Whether a leg stands by.
    pub(super) fn stands_by(&self) -> bool {
        matches!(&self.leg, Leg::Held(held, _) if !held.is_closed())
    }

    fn failed(&mut self, seen: String) {
        if self.seen != seen {
            tracing::warn!(node = %self.target.node, seen, "nothing stands by");
        }
        (self.relay, self.seen) = (None, seen);
    }
}

impl Standbys {
    /// Remembers that a node was asked for; the one that was not asked for the longest makes room.
    pub(super) fn used(&mut self, target: &Target, now: Instant) {
        let mut node = match self.nodes.iter().position(|node| node.target == *target) {
            Some(at) => self.nodes.remove(at),
            None => Node {
                target: target.clone(),
                uses: 0,
                proof: None,
                seen: String::new(),
                relay: None,
                used: now,
                leg: Leg::None(now),
                backoff: Backoff::new(PAUSE_MIN, PAUSE_MAX),
            },
        };
        node.uses = node.uses.saturating_add(1);
        node.used = now;
        if self.nodes.len() >= NODES {
            self.nodes.remove(0);
        }
        self.nodes.push(node);
    }

    /// Takes the leg to a node, if one stands by. The next one is made at once.
    pub(super) fn take(&mut self, target: &Target, now: Instant) -> Option<oneshot::Receiver<Ready>> {
        let node = self.node(target)?;
        if !node.stands_by() {
            return None;
        }
        let Leg::Held(held, _) = std::mem::replace(&mut node.leg, Leg::None(now)) else {
            return None;
        };
        let (to, from) = oneshot::channel();
        held.send(to).ok()?;
        Some(from)
    }

    /// The relay over which a node was reached.
    pub(super) fn relay(&mut self, target: &Target) -> Option<String> {
        self.node(target)?.relay.clone()
    }

    /// The nodes to which a leg is to be made now; each until [`Standbys::made`].
    pub(super) fn due(&mut self, now: Instant, random: impl Fn() -> f64) -> Vec<Target> {
        let mut due = Vec::new();
        for node in &mut self.nodes {
            if let Leg::Held(held, since) = &node.leg
                && held.is_closed()
            {
                // It ended by itself: not again at once, or a node that ends each would be asked all the time.
                let lived = now.saturating_duration_since(*since);
                node.leg = Leg::None(now + node.backoff.pause(lived, random()));
            }
            if let Leg::None(not_before) = node.leg
                && not_before <= now
                && now.saturating_duration_since(node.used) < RECENT
            {
                node.leg = Leg::Making;
                due.push(node.target.clone());
            }
        }
        due
    }

    /// Nothing leads there for now, so nothing was tried.
    pub(super) fn not_now(&mut self, target: &Target, why: &str, now: Instant) {
        if let Some(node) = self.node(target) {
            node.leg = Leg::None(now);
            node.failed(why.to_owned());
        }
    }

    /// What became of it.
    pub(super) fn made(&mut self, target: &Target, made: Result<(Held, String), Fault>, now: Instant, random: f64) {
        let Some(node) = self.node(target) else { return };
        match made {
            Ok((held, relay)) => {
                (node.leg, node.proof, node.relay) = (Leg::Held(held, now), Some(now), Some(relay));
                node.seen.clear();
            }
            Err(fault) => {
                let refused = fault.code.is_final() || fault.code == Code::AgentStandby;
                let rest = if refused { REFUSED } else { Duration::ZERO };
                node.leg = Leg::None(now + rest + node.backoff.pause(Duration::ZERO, random));
                node.failed(fault.to_string());
            }
        }
    }

    fn node(&mut self, target: &Target) -> Option<&mut Node> {
        self.nodes.iter_mut().find(|node| node.target == *target)
    }
}

/// Makes a leg and holds it, as long as its connection is to be relied on.
///
/// # Errors
/// The path failed, or the node refused.
pub(super) async fn make(up: Arc<Up>, party: &Party, target: &Target) -> Result<Held, Fault> {
    tokio::select! {
        made = leg(Arc::clone(&up), party, target) => made,
        () = up.lost() => Err(Fault::on_the_way(Code::TransportLost, "the connection to the relay was lost")),
    }
}

async fn leg(up: Arc<Up>, party: &Party, target: &Target) -> Result<Held, Fault> {
    let header = RouteHeader::new(
        up.link.version,
        target.cluster.to_string(),
        target.node.to_string(),
        Purpose::Session,
    );
    let lost = |error: &dyn std::fmt::Display| Fault::on_the_way(Code::TransportLost, error.to_string());
    let stream = timeout(ANSWER, up.link.open(&header))
        .await
        .map_err(|_| Fault::on_the_way(Code::TransportTimeout, "the relay takes no more streams for now"))?
        .map_err(|error| lost(&error))?;
    let mut early = BytesMut::new();
    let standby = control::Standby {
        cluster: header.cluster,
        node: header.node,
        purpose: header.purpose,
    };
    ToNode::from(standby).encode(&mut early);
    let mut stream = inner::connect(stream, party, &target.identity, &early, inner::HANDSHAKE).await?;
    let until = match timeout(ANSWER, answer(&mut stream)).await {
        Ok(answer) => Instant::now() + answer?,
        Err(_) => {
            let silent = "the node did not say that it stands by";
            return Err(Fault::on_the_way(Code::TransportTimeout, silent));
        }
    };
    let resume_key = stream
        .get_ref()
        .1
        .export_keying_material([0; resume::LENGTH], resume::KEY_LABEL, None)
        .map(ResumeKey::new)
        .map_err(|error| Fault::new(Code::ClientInternal, Origin::Client, error.to_string()))?;
    tracing::info!(node = %target.node, relay = up.relay, "a node stands by");
    let (held, taken) = oneshot::channel();
    let ready = Ready {
        stream: Box::new(stream),
        resume_key,
        up,
    };
    tokio::spawn(hold(ready, taken, until - MARGIN));
    Ok(held)
}

/// For how long the node stands by.
async fn answer(stream: &mut TlsStream<Stream>) -> Result<Duration, Fault> {
    let message = frames::next(stream, &mut Frames::new())
        .await
        .map_err(|error| error.fault("the node ended the stream"))?;
    match message {
        ToClient::StandingBy(standing) => Ok(Duration::from_secs(standing.secs.into()).max(MARGIN)),
        ToClient::Closed(closed) => Err(Fault::new(Code::from_number(closed.code), Origin::Agent, closed.seen)),
        other => {
            let seen = format!("the node sent {} to a standby", other.frame());
            Err(Fault::new(Code::ProtocolOutOfOrder, Origin::Client, seen))
        }
    }
}

/// Holds a leg until it is taken, ended by the node, too old, or its connection is not to be relied on. A node has nothing to say on it but its end.
async fn hold(mut ready: Ready, taken: oneshot::Receiver<oneshot::Sender<Ready>>, until: Instant) {
    let (mut said, up) = ([0; 1], Arc::clone(&ready.up));
    tokio::select! {
        biased;
        to = taken => if let Ok(to) = to {
            // Whoever asked may have gone: then the leg ends with it.
            let _ = to.send(ready);
        },
        _ = ready.stream.read(&mut said) => {}
        // A path that has died without a word breaks nothing for a long while.
        () = up.lost() => {}
        () = sleep_until(until) => {}
    }
}

#[cfg(test)]
mod tests;
