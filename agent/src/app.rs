//! The wiring: the only file that knows all parts of the agent.
//!
//! ```text
//! Config → publication (trust, policy) → credentials → Node → one uplink for each relay
//!              └────── looked at again every `reload` ───────┘        └─ started and stopped as the fleet file says
//! ```

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use jiff::Timestamp;
use noderelay_audit_event::SessionId;
use noderelay_bundle::fleet::RelayEntry;
use noderelay_link::{Dialer, agent_transport};
use noderelay_pki::Expect;
use noderelay_pki::files::{Checked, Watched, private_directory};
use noderelay_pki::identity::Role;
use noderelay_pki::tls::{Credentials, Party};
use noderelay_proto::id::InstanceId;
use noderelay_service::Admin;
use noderelay_service::metrics::{Counts, Material};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::accept::Own;
use crate::admin::{self, Status};
use crate::config::Config;
use crate::denials::Denials;
use crate::metrics::Metrics;
use crate::places::Places;
use crate::published::{InForce, Looked, Published};
use crate::session::Node;
use crate::sessions::{Sessions, random};
use crate::standby::Standbys;
use crate::start::Launcher;
use crate::sweep;
use crate::uplink::{self, Said};

/// How long open legs have to tell their clients that the agent stops.
const FAREWELL: Duration = Duration::from_secs(2);

/// How this program is started again as a holder.
#[derive(Debug, Clone)]
pub struct Reexec {
    /// The program.
    pub program: PathBuf,
    /// The words that lead to [`noderelay_holder::holder_main`].
    pub words: Vec<OsString>,
}

/// Runs the agent until `stop`; `said` hears of each registration at a relay.
///
/// # Errors
/// Only what the operator has to mend before the agent can work at all: configuration, certificate, first publication.
pub async fn run(config: Config, reexec: Reexec, said: mpsc::Sender<Said>, stop: CancellationToken) -> Result<()> {
    private_directory(&config.state)?;
    let sessions_dir = config.state.join("sessions");
    for directory in [&sessions_dir, &config.recordings()] {
        private_directory(directory)?;
    }
    let places = Places::of(&config.state, &sessions_dir, &config.recordings())?;
    let swept = places.clone();
    let lost = tokio::task::spawn_blocking(move || sweep::sweep(&swept, Timestamp::now())).await?;
    let metrics = Arc::<Metrics>::default();
    lost.into_iter().for_each(|lost| sweep::tell(&metrics, lost));
    let now = Timestamp::now();
    let mut published = Published::open(&config.bundle, &config.state, now).await?;
    let mut credentials = Credentials::watch(&config.identity.certificate, &config.identity.key, now)?;
    let party = Party::new(credentials.live(), published.trust());
    let own = own(&credentials)?;
    published.only_for(&own.cluster, &own.node);
    tracing::info!(cluster = %own.cluster, node = %own.node, config = ?config, "the agent starts");
    let instance = InstanceId::new(random().map_err(|refusal| anyhow::anyhow!(refusal.seen))?);
    let reload = config.limits.reload.duration();
    let node = Arc::new(Node {
        launcher: Launcher {
            program: reexec.program,
            words: reexec.words,
            places: places.clone(),
            limits: config.limits.clone(),
        },
        sessions: Sessions::new(config.limits.sessions),
        standbys: Standbys::new(config.limits.standbys, config.limits.standbys_per_person),
        published: published.watch(),
        party: party.clone(),
        stop: CancellationToken::new(),
        streams: TaskTracker::new(),
        denials: Denials::new(own.clone(), Arc::clone(&metrics)),
        metrics,
        places,
        config,
        own,
    });
    let status = Arc::new(Status::new(Arc::clone(&node)));
    status.look(&published, &credentials, now);
    let admin = node.config.admin.as_deref().map(Admin::bind).transpose()?;
    let mut asked = JoinSet::new();
    if let Some(admin) = admin {
        let (status, stop) = (Arc::clone(&status), node.stop.clone());
        asked.spawn(async move {
            let more = admin::routes(Arc::clone(&status));
            if let Err(cause) = admin.serve(status, more, stop).await {
                tracing::error!(%cause, "the admin socket failed");
            }
        });
    }
    let mut uplinks = Uplinks {
        node: Arc::clone(&node),
        instance,
        said,
        running: HashMap::new(),
        tasks: JoinSet::new(),
    };
    let mut changes = published.watch();
    let mut tick = tokio::time::interval(reload);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut sweep = tokio::time::interval(node.config.limits.sweep.duration());
    sweep.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut sweeping = JoinSet::new();
    uplinks.follow(&changes.borrow_and_update().clone());
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            _ = tick.tick() => {
                let now = Timestamp::now();
                let looked = published.refresh(now).await;
                if looked != Looked::Same {
                    node.metrics.common.reloaded(Material::Bundle, looked == Looked::Taken);
                }
                note_credentials(&mut credentials, &node.metrics.common, now);
                status.look(&published, &credentials, now);
                node.denials.report(Instant::now());
            }
            // One at a time, however long a disk takes.
            _ = sweep.tick(), if sweeping.is_empty() => {
                let (places, ids) = (node.places.clone(), node.sessions.ids());
                let own: Vec<_> = ids.iter().map(|id| SessionId(*id.as_bytes())).collect();
                sweeping.spawn_blocking(move || sweep::folders(&places, &own, Timestamp::now()));
            }
            Some(Ok(lost)) = sweeping.join_next() => lost.into_iter().for_each(|lost| sweep::tell(&node.metrics, lost)),
            Ok(()) = changes.changed() => {
                let in_force = changes.borrow_and_update().clone();
                uplinks.follow(&in_force);
            }
        }
    }
    // Legs say goodbye first, then the links close; the holders go on until their window is over.
    node.stop.cancel();
    node.streams.close();
    let _ = tokio::time::timeout(FAREWELL, node.streams.wait()).await;
    uplinks.stop().await;
    node.denials.report_all(Instant::now());
    Ok(())
}

fn own(credentials: &Watched<Credentials>) -> Result<Own> {
    let credentials = credentials.live().get();
    let identity = credentials.identity();
    match &identity.role {
        Role::Node(name) => Ok(Own {
            cluster: identity.cluster.clone(),
            node: name.clone(),
        }),
        _ => bail!("the agent's certificate is for {identity}; a node certificate is needed"),
    }
}

fn note_credentials(credentials: &mut Watched<Credentials>, counts: &Counts, now: Timestamp) {
    match credentials.check(now) {
        Checked::Changed => {
            counts.reloaded(Material::Identity, true);
            tracing::info!("a new certificate is in use");
        }
        Checked::Kept { error, known } => {
            counts.reloaded(Material::Identity, false);
            if !known {
                tracing::warn!(%error, "the certificate files can't be used; the last good ones stay");
            }
        }
        Checked::Same => {}
    }
}

/// An address, and the relay that must be behind it.
type Door = (String, Expect);

/// The uplinks that run, by the addresses of their relays.
struct Uplinks {
    node: Arc<Node>,
    instance: InstanceId,
    said: mpsc::Sender<Said>,
    running: HashMap<Vec<Door>, CancellationToken>,
    tasks: JoinSet<()>,
}

impl Uplinks {
    /// Starts what is new in the fleet file and stops what is gone.
    fn follow(&mut self, in_force: &InForce) {
        let wanted = self.wanted(in_force);
        if wanted.is_empty() {
            tracing::warn!(cluster = %self.node.own.cluster, "the fleet file names no relay for our cluster");
        }
        self.running.retain(|doors, stop| {
            let keep = wanted.contains(doors);
            if !keep {
                stop.cancel();
            }
            keep
        });
        for doors in wanted {
            if !self.running.contains_key(&doors) {
                let stop = CancellationToken::new();
                let dialer = Dialer::new(
                    self.node.party.clone(),
                    agent_transport(self.node.config.limits.streams(), &self.node.config.quic),
                );
                let (node, said) = (Arc::clone(&self.node), self.said.clone());
                let task = uplink::keep(node, dialer, doors.clone(), self.instance, said, stop.clone());
                self.tasks.spawn(task);
                self.running.insert(doors, stop);
            }
        }
    }

    /// The addresses of each uplink. Every relay belongs to one uplink, so that two uplinks never share a relay and all
    /// relays are tried; which one comes first differs from node to node.
    fn wanted(&self, in_force: &InForce) -> Vec<Vec<Door>> {
        let (config, cluster) = (&self.node.config, &self.node.own.cluster);
        let mut relays: Vec<Vec<Door>> = if config.relays.is_empty() {
            let fleet = in_force.publication.fleet();
            let doors = |relay: &RelayEntry| {
                let expect = fleet.expected(cluster, relay);
                relay.addresses.iter().map(|a| (a.clone(), expect.clone())).collect()
            };
            fleet.relays(cluster).iter().map(doors).collect()
        } else {
            let any = Expect::Relay {
                cluster: Some(cluster.clone()),
            };
            config.relays.iter().map(|a| vec![(a.clone(), any.clone())]).collect()
        };
        if !relays.is_empty() {
            let spread: usize = self.node.own.node.as_str().bytes().map(usize::from).sum();
            let first = spread % relays.len();
            relays.rotate_left(first);
        }
        let mut uplinks = vec![Vec::new(); config.limits.relays.min(relays.len())];
        for (doors, uplink) in relays.into_iter().zip((0..uplinks.len()).cycle()) {
            if let Some(all) = uplinks.get_mut(uplink) {
                all.extend(doors);
            }
        }
        uplinks
    }

    async fn stop(mut self) {
        self.running.values().for_each(CancellationToken::cancel);
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        // What does not end in time ends with the set.
        let _ = tokio::time::timeout(FAREWELL, ended).await;
    }
}

/// Stops on SIGTERM and SIGINT.
pub fn stop_on_signals() -> Result<CancellationToken> {
    use tokio::signal::unix::{SignalKind, signal};
    let stop = CancellationToken::new();
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let token = stop.clone();
    tokio::spawn(async move {
        tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
        token.cancel();
    });
    Ok(stop)
}
