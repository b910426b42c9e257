//! Connections to relays that are kept: one task for each relay, which dials again when its connection is lost.
//!
//! ```text
//! dial (new socket) ─> up: streams are opened on it ─> lost, silent, or the machine slept ─> down ─> wait ─┐
//!   ^                                                                                                      │
//!   └──────────────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Whoever opened a stream holds the connection, so that a session outlives its place here. Never gives a connection from which
//! nothing was heard for [`SILENT`]: a dead path would cost a command seconds.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use noderelay_link::backoff::{self, Backoff};
use noderelay_link::{Dialer, Link, client_transport};
use noderelay_pki::Expect;
use noderelay_pki::name::ClusterName;
use noderelay_pki::text::escape;
use noderelay_pki::tls::Party;
use noderelay_proto::code::Code;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::dial::Ways;
use crate::message::one_line;

/// A living relay answers the keepalive (two seconds): three of them unanswered, and the path is dead or very sick.
const SILENT: Duration = Duration::from_secs(7);
/// How often a connection is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// A clock that moved by this much more than our own time says that the machine slept: its mappings are gone.
const SLEPT: Duration = Duration::from_secs(5);
/// Longest wait before the first dial after a loss; doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(250);
/// Longest wait before a relay is dialled again, however often that failed.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Relays of one cluster that are kept: the second is there when the first goes.
const PER_CLUSTER: usize = 2;

/// A connection that stands.
#[derive(Debug)]
pub(super) struct Up {
    pub(super) link: Link,
    pub(super) relay: String,
    pub(super) since: Instant,
    /// It is not to be relied on any more.
    lost: watch::Sender<bool>,
}

impl Up {
    /// Resolves when the connection is lost, or not to be relied on any more.
    pub(super) async fn lost(&self) {
        // We hold the sender: an error is impossible, and would say the same.
        let _ = self.lost.subscribe().wait_for(|lost| *lost).await;
    }
}

/// One relay's place.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) cluster: ClusterName,
    /// The relay's name in the fleet file, or its address.
    pub(super) label: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    up: Option<Arc<Up>>,
    seen: String,
}

/// All relays of some clusters. Dropped, it dials no more; streams that run on its connections run on.
#[derive(Debug, Default)]
pub(super) struct Relays {
    pub(super) slots: Vec<Arc<Slot>>,
    tasks: JoinSet<()>,
}

impl Relays {
    /// Keeps relays of `cluster`, of those that `ways` lead to.
    pub(super) fn keep(&mut self, party: &Party, cluster: &ClusterName, ways: &Ways) {
        for (label, way) in ways.each().into_iter().take(PER_CLUSTER) {
            let slot = Arc::new(Slot {
                cluster: cluster.clone(),
                label,
                state: Mutex::default(),
            });
            self.slots.push(Arc::clone(&slot));
            let dialer = Dialer::new(party.clone(), client_transport());
            self.tasks.spawn(keep(slot, dialer, way.doors()));
        }
    }

    /// A connection to a relay of `cluster`, to this one if that is up.
    pub(super) fn pick(&self, cluster: &ClusterName, relay: Option<&str>) -> Option<Arc<Up>> {
        let up: Vec<Arc<Up>> = self
            .slots
            .iter()
            .filter(|slot| slot.cluster == *cluster)
            .filter_map(|slot| slot.up())
            .collect();
        let wanted = up.iter().find(|up| Some(up.relay.as_str()) == relay);
        wanted.or(up.first()).cloned()
    }
}

impl Slot {
    /// The connection, while it stands.
    pub(super) fn up(&self) -> Option<Arc<Up>> {
        self.state().up.clone()
    }

    /// Why there is none.
    pub(super) fn seen(&self) -> String {
        self.state().seen.clone()
    }

    fn set(&self, up: Option<Arc<Up>>, seen: &str) {
        *self.state() = State {
            up,
            seen: seen.to_owned(),
        };
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn keep(slot: Arc<Slot>, dialer: Dialer, doors: Vec<(String, Expect)>) {
    let mut backoff = Backoff::new(PAUSE_MIN, PAUSE_MAX);
    loop {
        let mut lived = Duration::ZERO;
        let seen = match dialer.dial_each(&doors).await {
            Ok(link) => {
                let up = Arc::new(Up {
                    relay: link.peer.identity().role.name().to_owned(),
                    link,
                    since: Instant::now(),
                    lost: watch::Sender::new(false),
                });
                tracing::info!(relay = up.relay, remote = %up.link.remote, "connected");
                slot.set(Some(Arc::clone(&up)), "");
                let seen = until_lost(&up.link).await;
                lived = up.since.elapsed();
                up.lost.send_replace(true);
                // Its streams hold it as long as they run; without any it ends here.
                if Arc::strong_count(&up) <= 2 {
                    up.link.connection.close(Code::Ok.number().into(), b"");
                }
                seen
            }
            Err(error) => escape(&one_line(&error.to_string()), 500),
        };
        let pause = backoff.pause(lived, backoff::random());
        tracing::warn!(relay = slot.label, seen, ?pause, "not connected; dialling again");
        slot.set(None, &seen);
        sleep(pause).await;
    }
}

/// Waits until the connection is lost or is not to be relied on; gives the reason.
async fn until_lost(link: &Link) -> String {
    let (mut packets, mut heard) = (0, Instant::now());
    let (mut looked, mut clock) = (Instant::now(), Timestamp::now());
    loop {
        tokio::select! {
            biased;
            error = link.connection.closed() => return noderelay_link::Lost::from(&error).to_string(),
            () = sleep(LOOK) => {}
        }
        let now = Timestamp::now();
        let slept = noderelay_pki::time::between(clock, now).saturating_sub(looked.elapsed());
        (looked, clock) = (Instant::now(), now);
        if slept > SLEPT {
            return format!("the clock moved by {} s: the machine slept", slept.as_secs());
        }
        let received = link.connection.stats().udp_rx.datagrams;
        if received != packets {
            (packets, heard) = (received, Instant::now());
        } else if heard.elapsed() > SILENT {
            return format!("nothing was heard for {} s", SILENT.as_secs());
        }
    }
}
