//! What the parts of a running relay share, and its two words for the end.
//!
//! ```text
//! serving ── soft ──> draining: nothing new, open streams go on ── hard (or no stream left) ──> ended
//! ```
//!
//! Never: does anything by itself. Who changes what: `material` trust, map and health; `control` the registry;
//! `app` the two words.

use jiff::Timestamp;
use noderelay_pki::name::RelayName;
use noderelay_pki::tls::{Live, Party};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admin::AgentRow;
use crate::attached::Registry;
use crate::config::Timing;
use crate::control::AgentLink;
use crate::gate::Gate;
use crate::metrics::Metrics;
use crate::quota::Quotas;
use crate::refusals::Refusals;
use crate::route::Map;
use crate::stalled::Stalled;
use noderelay_service::{Health, Part, Report};

/// A running relay.
#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) name: RelayName,
    pub(crate) timing: Timing,
    pub(crate) party: Party,
    pub(crate) map: Live<Map>,
    /// Counts the changes of trust, so that connections can look at their peer again.
    pub(crate) trust_changes: watch::Sender<u64>,
    pub(crate) registry: Registry<AgentLink>,
    pub(crate) gate: Gate,
    pub(crate) quotas: Quotas,
    /// Streams whose receiver takes nothing.
    pub(crate) stalled: Stalled,
    /// What is written of refusals.
    pub(crate) refusals: Refusals,
    pub(crate) metrics: Metrics,
    pub(crate) health: Health,
    pub(crate) stop: Stop,
    /// Every stream that is being spliced.
    pub(crate) streams: TaskTracker,
}

/// The two words for the end of a relay, each said once. Cloning shares them.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    /// Nothing new from now on; what runs may end by itself, within the bound of the configuration.
    pub soft: CancellationToken,
    /// What still runs is cut.
    pub hard: CancellationToken,
}

impl Report for Relay {
    fn parts(&self) -> Vec<Part> {
        self.health.parts()
    }

    fn metrics(&self) -> String {
        let counts = self.registry.counts();
        self.metrics
            .agents_attached
            .set(i64::try_from(counts.attached).unwrap_or(i64::MAX));
        self.metrics
            .handshakes
            .set(i64::try_from(self.gate.under_way()).unwrap_or(i64::MAX));
        self.metrics.stalled(self.stalled.counts());
        self.metrics
            .agents_parked
            .set(i64::try_from(counts.parked).unwrap_or(i64::MAX));
        self.metrics
            .common
            .certificate_not_after
            .set(self.party.credentials.get().not_after().as_second());
        self.metrics.text()
    }
}

impl Relay {
    /// Attached and waiting agents.
    pub(crate) fn agents(&self) -> Vec<AgentRow> {
        let row = |row: crate::attached::Listed<AgentLink>| AgentRow {
            cluster: row.key.cluster.to_string(),
            node: row.key.node.to_string(),
            instance: row.instance.to_string(),
            address: row.handle.connection.remote_address().to_string(),
            since: row.since,
            parked: row.parked,
        };
        self.registry.list().into_iter().map(row).collect()
    }
}

/// The clock of the relay's edge.
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}
