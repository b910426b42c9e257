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
use noderelay_bundle::FleetFile;
use noderelay_bundle::fleet::{CertificateAuthority, Cluster};
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

/// What a connection rests on. While all of it is as it was, the connection is as good as a new one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Basis {
    pub(super) cluster: ClusterName,
    /// The relay's name in the fleet file, or its address.
    pub(super) label: String,
    /// Its addresses, each with whom it must lead to.
    doors: Vec<(String, Expect)>,
    /// Who vouches for the relay, and for every node that is reached over it.
    authorities: Vec<CertificateAuthority>,
}

impl Basis {
    /// The relays of a cluster that are kept.
    pub(super) fn of(fleet: &FleetFile, cluster: &ClusterName, given: &[String]) -> Vec<Self> {
        // A relay that was given by its address may be of any cluster.
        let vouching = |known: &&Cluster| !given.is_empty() || known.name == *cluster;
        let authorities: Vec<_> = fleet
            .clusters
            .iter()
            .filter(vouching)
            .flat_map(|known| known.certificate_authorities.clone())
            .collect();
        let ways = Ways::new(fleet, cluster, given).each().into_iter().take(PER_CLUSTER);
        ways.map(|(label, way)| Self {
            cluster: cluster.clone(),
            label,
            doors: way.doors(),
            authorities: authorities.clone(),
        })
        .collect()
    }
}

/// One relay's place. Dropped, it dials no more, and its connection is given to nobody.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) basis: Basis,
    state: Arc<State>,
    _task: JoinSet<()>,
}

#[derive(Debug, Default)]
struct State(Mutex<(Option<Arc<Up>>, String)>);

/// Relays of some clusters. Streams that run on their connections run on, whatever becomes of a place.
#[derive(Debug, Default)]
pub(super) struct Relays {
    pub(super) slots: Vec<Slot>,
}

impl Relays {
    /// Keeps these relays and no others; those that are kept already stay as they are.
    pub(super) fn keep(&mut self, party: &Party, wanted: Vec<Basis>) {
        self.slots.retain(|slot| wanted.contains(&slot.basis));
        for basis in wanted {
            if self.slots.iter().all(|slot| slot.basis != basis) {
                self.slots.push(Slot::new(party, basis));
            }
        }
    }

    /// A connection to a relay of `cluster`, to this one if that is up.
    pub(super) fn pick(&self, cluster: &ClusterName, relay: Option<&str>) -> Option<Arc<Up>> {
        let up: Vec<Arc<Up>> = self
            .slots
            .iter()
            .filter(|slot| slot.basis.cluster == *cluster)
            .filter_map(|slot| slot.up())
            .collect();
        let wanted = up.iter().find(|up| Some(up.relay.as_str()) == relay);
        wanted.or(up.first()).cloned()
    }
}

impl Slot {
    fn new(party: &Party, basis: Basis) -> Self {
        let (state, mut task) = (Arc::<State>::default(), JoinSet::new());
        let dialer = Dialer::new(party.clone(), client_transport());
        task.spawn(keep(Arc::clone(&state), dialer, basis.clone()));
        Self {
            basis,
            state,
            _task: task,
        }
    }

    /// The connection, while it stands.
    pub(super) fn up(&self) -> Option<Arc<Up>> {
        self.state.get().0.clone()
    }

    /// Why there is none.
    pub(super) fn seen(&self) -> String {
        self.state.get().1.clone()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // Nobody looks after the connection any more: what stands by on it ends.
        if let Some(up) = self.up() {
            up.lost.send_replace(true);
        }
    }
}

impl State {
    fn get(&self) -> MutexGuard<'_, (Option<Arc<Up>>, String)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, up: Option<Arc<Up>>, seen: &str) {
        *self.get() = (up, seen.to_owned());
    }
}

async fn keep(state: Arc<State>, dialer: Dialer, basis: Basis) {
    let mut backoff = Backoff::new(PAUSE_MIN, PAUSE_MAX);
    loop {
        let mut lived = Duration::ZERO;
        let (seen, back) = match dialer.dial_each(&basis.doors).await {
            Ok(link) => {
                let up = Arc::new(Up {
                    relay: link.peer.identity().role.name().to_owned(),
                    link,
                    since: Instant::now(),
                    lost: watch::Sender::new(false),
                });
                tracing::info!(relay = up.relay, remote = %up.link.remote, "connected");
                state.set(Some(Arc::clone(&up)), "");
                let lost = until_lost(&up.link).await;
                lived = up.since.elapsed();
                up.lost.send_replace(true);
                // Its streams hold it as long as they run; without any it ends here.
                if Arc::strong_count(&up) <= 2 {
                    up.link.connection.close(Code::Ok.number().into(), b"");
                }
                lost
            }
            Err(error) => (escape(&one_line(&error.to_string()), 500), error.back()),
        };
        let back = back.map(|back| backoff::come_back_after(back, backoff::random()));
        let pause = backoff.pause(lived, backoff::random()).max(back.unwrap_or_default());
        tracing::warn!(relay = basis.label, seen, ?pause, "not connected; dialling again");
        state.set(None, &seen);
        sleep(pause).await;
    }
}

/// Waits until the connection is lost or is not to be relied on; gives the reason, and when the relay wants to be tried again, if it said so.
async fn until_lost(link: &Link) -> (String, Option<Duration>) {
    let (mut packets, mut heard) = (0, Instant::now());
    let (mut looked, mut clock) = (Instant::now(), Timestamp::now());
    loop {
        tokio::select! {
            biased;
            error = link.connection.closed() => {
                let lost = noderelay_link::Lost::from(&error);
                return (lost.to_string(), lost.back());
            }
            () = sleep(LOOK) => {}
        }
        let now = Timestamp::now();
        let slept = noderelay_pki::time::between(clock, now).saturating_sub(looked.elapsed());
        (looked, clock) = (Instant::now(), now);
        if slept > SLEPT {
            return (
                format!("the clock moved by {} s: the machine slept", slept.as_secs()),
                None,
            );
        }
        let received = link.connection.stats().udp_rx.datagrams;
        if received != packets {
            (packets, heard) = (received, Instant::now());
        } else if heard.elapsed() > SILENT {
            return (format!("nothing was heard for {} s", SILENT.as_secs()), None);
        }
    }
}
