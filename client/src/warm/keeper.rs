//! What the warm process keeps, and what it gives of it.
//!
//! ```text
//! files (certificate, key, publication) ─ looked at ─> Creds ─> relays, standbys
//!     a new certificate: everything is made anew      a new publication: what it leaves as it was stays
//! ASK ─> give ─> a standby | a stream on a connection | nothing, and the reason
//! ```
//!
//! Everything is made with the certificate that is on the disk; what was made with an older one is given to nobody. A standby rests on its
//! connection and ends with it, so it is the connections alone that are judged. One lock, never held over a wait. Never dials for a question:
//! it answers with what is there.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use noderelay_link::{Stream, backoff};
use noderelay_pki::files;
use noderelay_pki::name::ClusterName;
use noderelay_pki::tls::TlsError;
use noderelay_proto::control::{Ask, Purpose, Report, RouteHeader, WarmNode, WarmRelay};
use tokio::time::{Instant, timeout};

use super::ask::{certificate, configuration};
use super::carry::bounded;
use super::relays::{Basis, Relays, Up};
use super::seats::{Full, Seat, Seats};
use super::standby::{self, Ready, Standbys};
use crate::config::{Config, Warm};
use crate::creds::{Creds, CredsError};
use crate::target::Target;

/// Clusters whose relays are kept: those that were asked for lately, and until then the first ones of the fleet.
const CLUSTERS: usize = 4;
/// Sessions that are carried at once: a hundred times what a person has open, and a few descriptors for each.
pub(super) const CARRIED: usize = 512;
/// How long a relay's limit of streams may hold an answer up.
const OPEN: Duration = Duration::from_millis(100);
/// How long the handing over of a standby may take: it is a word between two tasks.
const HAND_OVER: Duration = Duration::from_millis(100);
/// Why nothing leads to a cluster.
const NO_RELAY: &str = "no connection to a relay of this cluster stands";
/// Largest file whose change is looked for.
const MAX_FILE: usize = 1024 * 1024;

/// Why the process has to end.
#[derive(Debug, thiserror::Error)]
#[error("the certificate has gone: {0}")]
pub(super) struct Gone(String);

/// What is kept. Shared by the tasks of the process.
#[derive(Debug)]
pub(super) struct Keeper {
    config: Config,
    configuration: [u8; 32],
    idle: Duration,
    state: Mutex<State>,
    /// One is taken for each session that is carried.
    carried: Seats,
}

#[derive(Debug)]
struct State {
    creds: Arc<Creds>,
    certificate: [u8; 32],
    files: Vec<Option<Vec<u8>>>,
    failing: String,
    clusters: Vec<ClusterName>,
    relays: Relays,
    standbys: Standbys,
    until: Instant,
    used: Instant,
    stopping: bool,
    streams: u64,
    standbys_given: u64,
}

/// What a client gets.
#[derive(Debug)]
pub(super) enum Given {
    /// An inner leg that stands.
    Standby(Ready),
    /// A stream with its route header sent.
    Stream(Stream, Arc<Up>),
}

impl Keeper {
    /// Starts to keep what `creds` lead to.
    pub(super) fn new(config: Config, creds: Creds, keep: Duration, idle: Duration) -> Self {
        let now = Instant::now();
        let fleet = creds.publication.fleet();
        let clusters = match &config.cluster {
            Some(cluster) => vec![cluster.clone()],
            None => fleet
                .clusters
                .iter()
                .map(|cluster| cluster.name.clone())
                .take(CLUSTERS)
                .collect(),
        };
        let mut state = State {
            certificate: certificate(&creds),
            files: digests(&config),
            failing: String::new(),
            clusters,
            relays: Relays::default(),
            standbys: Standbys::default(),
            until: now + keep,
            used: now,
            stopping: false,
            streams: 0,
            standbys_given: 0,
            creds: Arc::new(creds),
        };
        state.connect(&config);
        Self {
            configuration: configuration(&config),
            config,
            idle,
            state: Mutex::new(state),
            carried: Seats::new("sessions", CARRIED),
        }
    }

    /// Looks whether the files have changed.
    ///
    /// # Errors
    /// The certificate is gone, or over.
    pub(super) async fn look(&self) -> Result<(), Gone> {
        let files = digests(&self.config);
        let now = Timestamp::now();
        let unchanged = {
            let state = self.state();
            state
                .creds
                .party
                .credentials
                .get()
                .check(now)
                .map_err(|error| Gone(error.to_string()))?;
            state.files == files
        };
        if unchanged {
            return Ok(());
        }
        match Creds::load(&self.config, now).await {
            Ok(creds) => {
                let mut state = self.state();
                (state.files, state.failing) = (files, String::new());
                state.adopt(creds, &self.config);
                Ok(())
            }
            Err(error) if is_gone(&error) => Err(Gone(error.to_string())),
            Err(error) => {
                let (mut state, error) = (self.state(), error.to_string());
                if state.failing != error {
                    tracing::warn!(
                        error,
                        "the files have changed and can't be used; what was there stays in force"
                    );
                }
                state.failing = error;
                Ok(())
            }
        }
    }

    /// Gives what there is for this wish.
    ///
    /// # Errors
    /// Why there is nothing.
    pub(super) async fn give(&self, ask: &Ask) -> Result<Given, String> {
        if ask.configuration != self.configuration[..] {
            return Err("it runs with another configuration; noderelay warm stop ends it".to_owned());
        }
        // The client read its certificate a moment ago: ours may be the older one.
        if ask.certificate != self.state().certificate[..] && self.look().await.is_err() {
            return Err("its certificate has gone".to_owned());
        }
        let (found, given) = {
            let mut state = self.state();
            if state.stopping {
                return Err("it is about to end".to_owned());
            }
            if ask.certificate != state.certificate[..] {
                return Err("it has another certificate".to_owned());
            }
            let cluster: ClusterName = ask.cluster.parse().map_err(|_| "the cluster's name is none")?;
            let target = Target::find(&ask.node, Some(&cluster), None, state.creds.publication.fleet())
                .map_err(|fault| fault.seen)?;
            let now = Instant::now();
            state.used = now;
            state.standbys.used(&target, now);
            state.want(&target.cluster, &self.config);
            let relay = state.standbys.relay(&target);
            let up = state.relays.pick(&target.cluster, relay.as_deref());
            (state.standbys.take(&target, now), up)
        };
        if let Some(found) = found
            && let Ok(Ok(ready)) = timeout(HAND_OVER, found).await
        {
            self.state().standbys_given += 1;
            return Ok(Given::Standby(ready));
        }
        let Some(up) = given else {
            return Err(NO_RELAY.to_owned());
        };
        let header = RouteHeader::new(up.link.version, &ask.cluster, &ask.node, Purpose::Session);
        match timeout(OPEN, up.link.open(&header)).await {
            Ok(Ok(stream)) => {
                self.state().streams += 1;
                Ok(Given::Stream(stream, up))
            }
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("the relay takes no more streams for now".to_owned()),
        }
    }

    /// Makes the standbys that are due.
    pub(super) fn tend(self: &Arc<Self>) {
        let mut state = self.state();
        if state.stopping || self.config.warm != Warm::Standby {
            return;
        }
        let now = Instant::now();
        for target in state.standbys.due(now, backoff::random) {
            let Some(up) = state.relays.pick(&target.cluster, None) else {
                state.standbys.not_now(&target, NO_RELAY, now);
                continue;
            };
            let (keeper, creds) = (Arc::clone(self), Arc::clone(&state.creds));
            tokio::spawn(async move {
                let relay = up.relay.clone();
                let made = standby::make(up, &creds.party, &target).await;
                let made = made.map(|held| (held, relay));
                keeper
                    .state()
                    .standbys
                    .made(&target, made, Instant::now(), backoff::random());
            });
        }
    }

    /// Goes on for `period` from now, if that is later than the end.
    pub(super) fn keep(&self, period: Duration) {
        let mut state = self.state();
        let now = Instant::now();
        state.used = now;
        state.until = state.until.max(now + period);
    }

    /// Gives nothing any more, and ends everything that is not in use.
    pub(super) fn stop(&self) {
        let mut state = self.state();
        state.stopping = true;
        state.relays = Relays::default();
    }

    /// Why it is time to end, if it is.
    pub(super) fn over(&self) -> Option<&'static str> {
        let (state, now) = (self.state(), Instant::now());
        if state.until <= now {
            Some("its time is over")
        } else if self.carries() == 0 && state.used + self.idle <= now {
            Some("nobody used it")
        } else {
            None
        }
    }

    /// A place for something that is carried, to be held meanwhile.
    ///
    /// # Errors
    /// All are taken.
    pub(super) fn carrying(self: &Arc<Self>) -> Result<Carrying, Full> {
        Ok(Carrying {
            _seat: self.carried.take()?,
            keeper: Arc::clone(self),
        })
    }

    /// How much is carried.
    pub(super) fn carries(&self) -> usize {
        self.carried.taken()
    }

    /// What is kept.
    pub(super) fn report(&self) -> Report {
        let (state, now) = (self.state(), Instant::now());
        let secs = |span: Duration| u32::try_from(span.as_secs()).unwrap_or(u32::MAX);
        let left = |until: Instant| secs(until.saturating_duration_since(now));
        let micros = |rtt: Duration| u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX);
        let relays = state.relays.slots.iter().map(|slot| {
            let up = slot.up();
            WarmRelay {
                cluster: slot.basis.cluster.to_string(),
                relay: bounded(up.as_ref().map_or(&slot.basis.label, |up| &up.relay)),
                up_secs: up.as_ref().map(|up| secs(now.saturating_duration_since(up.since))),
                rtt_us: up.as_ref().map_or(0, |up| micros(up.link.connection.rtt())),
                seen: bounded(&slot.seen()),
            }
        });
        let nodes = state.standbys.nodes.iter().map(|node| WarmNode {
            cluster: node.target.cluster.to_string(),
            node: node.target.node.to_string(),
            standby: node.stands_by(),
            proof_secs: node.proof.map(|proof| secs(now.saturating_duration_since(proof))),
            uses: node.uses,
            seen: bounded(&node.seen),
        });
        let carrying = self.carries();
        Report {
            pid: std::process::id(),
            left_secs: left(state.until),
            idle_left_secs: if carrying > 0 {
                secs(self.idle)
            } else {
                left(state.used + self.idle)
            },
            carrying: u32::try_from(carrying).unwrap_or(u32::MAX),
            streams: state.streams,
            standbys: state.standbys_given,
            stopping: state.stopping,
            relays: relays.collect(),
            nodes: nodes.collect(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Something is carried.
#[derive(Debug)]
pub(super) struct Carrying {
    keeper: Arc<Keeper>,
    _seat: Seat,
}

impl Drop for Carrying {
    fn drop(&mut self) {
        // It was in use until now.
        self.keeper.state().used = Instant::now();
    }
}

impl State {
    /// Connections to the relays of every wanted cluster, and to no others; those that stand already stay.
    fn connect(&mut self, config: &Config) {
        let fleet = self.creds.publication.fleet();
        let of = |cluster| Basis::of(fleet, cluster, &config.relays);
        let wanted = self.clusters.iter().flat_map(of).collect();
        self.relays.keep(&self.creds.party, wanted);
    }

    /// A cluster whose relays are to be kept; the one that was not wanted for the longest makes room.
    fn want(&mut self, cluster: &ClusterName, config: &Config) {
        let before = self.clusters.len();
        self.clusters.retain(|known| known != cluster);
        let new = self.clusters.len() == before;
        if self.clusters.len() >= CLUSTERS {
            self.clusters.remove(0);
        }
        self.clusters.push(cluster.clone());
        if new {
            self.connect(config);
        }
    }

    /// New files: what they leave as it was stays.
    fn adopt(&mut self, creds: Creds, config: &Config) {
        let certificate = certificate(&creds);
        if certificate != self.certificate {
            tracing::info!("a new certificate: everything is made anew");
            self.relays = Relays::default();
        } else if !creds.publication.same_content(&self.creds.publication) {
            tracing::info!("a new publication: what it changes is made anew");
        }
        (self.certificate, self.creds) = (certificate, Arc::new(creds));
        self.connect(config);
    }
}

/// Whether there is nothing left to show.
fn is_gone(error: &CredsError) -> bool {
    match error {
        CredsError::Identity(TlsError::File(error)) => error.is_missing(),
        CredsError::Identity(TlsError::Expired { .. }) => true,
        _ => false,
    }
}

/// What the files hold whose change matters.
fn digests(config: &Config) -> Vec<Option<Vec<u8>>> {
    let timestamp: PathBuf = config.bundle.join("metadata").join("timestamp.json");
    let digest = |path: &PathBuf| {
        let bytes = files::read_bounded(path, MAX_FILE).ok()?;
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &bytes);
        Some(digest.as_ref().to_vec())
    };
    [&config.identity.certificate, &config.identity.key, &timestamp]
        .map(digest)
        .into()
}
