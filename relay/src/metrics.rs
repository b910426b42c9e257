//! What the relay counts: one struct, prefix `noderelay_relay_`, described in `docs/metrics.md`.
//!
//! Labels come from closed sets only (codes, roles, directions, outcomes): nothing that a peer chooses becomes a label,
//! so that no peer can make series. Names of nodes and people are in the log and on the admin socket.
//!
//! Never: counts by guess. Gauges of what a registry knows are set from it when somebody asks.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use noderelay_pki::RoleKind;
use noderelay_service::metrics::{ByCode, Counts};
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// A label with a role.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ByRole {
    role: &'static str,
}

impl From<RoleKind> for ByRole {
    fn from(role: RoleKind) -> Self {
        Self { role: role.as_str() }
    }
}

/// Which way bytes went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Way {
    /// From the client towards the node.
    ToNode,
    /// From the node towards the client.
    ToClient,
}

impl EncodeLabelValue for Way {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        EncodeLabelValue::encode(&if *self == Self::ToNode { "to_node" } else { "to_client" }, encoder)
    }
}

/// A label with a direction.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ByWay {
    way: Way,
}

/// How a conflict of two agents about one node went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The incumbent lives; the newcomer waits.
    Parked,
    /// The incumbent did not answer and was replaced.
    Replaced,
}

impl EncodeLabelValue for Verdict {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        EncodeLabelValue::encode(&if *self == Self::Parked { "parked" } else { "replaced" }, encoder)
    }
}

/// A label with a verdict.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ByVerdict {
    verdict: Verdict,
}

/// Why a first packet led to no handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Turned {
    /// The address has to be proven first.
    Retry,
    /// Too many handshakes of the address failed.
    Refused,
    /// As many handshakes are under way as there may be.
    Ignored,
}

impl EncodeLabelValue for Turned {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        let name = match self {
            Self::Retry => "retry",
            Self::Refused => "refused",
            Self::Ignored => "ignored",
        };
        EncodeLabelValue::encode(&name, encoder)
    }
}

/// A label with what became of a first packet.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ByTurned {
    answer: Turned,
}

/// Everything that the relay counts.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// Connections that are open now, by role.
    pub connections: Family<ByRole, Gauge>,
    /// Connections that were admitted, by role.
    pub admitted: Family<ByRole, Counter>,
    /// Connections that ended before they were admitted, by code.
    pub refused: Family<ByCode, Counter>,
    /// Handshakes that have begun and led to no peer yet.
    pub handshakes: Gauge,
    /// First packets that led to no handshake, by what was answered.
    pub turned_away: Family<ByTurned, Counter>,
    /// Streams that are spliced now.
    pub streams_open: Gauge,
    /// Streams that were spliced.
    pub streams_routed: Counter,
    /// Streams that were refused, by code.
    pub streams_refused: Family<ByCode, Counter>,
    /// Directions of streams whose receiver takes nothing.
    streams_stalled: Gauge,
    gave_way: Counter,
    to_node: Counter,
    to_client: Counter,
    /// Nodes with an agent.
    pub agents_attached: Gauge,
    /// Agents that wait because another one holds their node.
    pub agents_parked: Gauge,
    /// Registrations that met another instance, by verdict.
    pub conflicts: Family<ByVerdict, Counter>,
    /// What every service counts.
    pub common: Counts,
    /// 1 from the first announcement to stop.
    pub draining: Gauge,
}

impl Metrics {
    /// Registers everything.
    pub fn new() -> Self {
        let bytes = Family::<ByWay, Counter>::default();
        let mut registry = Registry::with_prefix("noderelay_relay");
        let common = Counts::register(&mut registry, env!("CARGO_PKG_VERSION"), crate::COMMIT);
        let mut metrics = Self {
            registry,
            common,
            connections: Family::default(),
            admitted: Family::default(),
            refused: Family::default(),
            handshakes: Gauge::default(),
            turned_away: Family::default(),
            streams_open: Gauge::default(),
            streams_routed: Counter::default(),
            streams_refused: Family::default(),
            streams_stalled: Gauge::default(),
            gave_way: Counter::default(),
            to_node: bytes.get_or_create_owned(&ByWay { way: Way::ToNode }),
            to_client: bytes.get_or_create_owned(&ByWay { way: Way::ToClient }),
            agents_attached: Gauge::default(),
            agents_parked: Gauge::default(),
            conflicts: Family::default(),
            draining: Gauge::default(),
        };
        metrics.open_series();
        let registry = &mut metrics.registry;
        registry.register(
            "connections",
            "Open connections by role of the peer",
            metrics.connections.clone(),
        );
        registry.register(
            "connections_admitted",
            "Connections admitted by role",
            metrics.admitted.clone(),
        );
        registry.register(
            "connections_refused",
            "Connections refused by code",
            metrics.refused.clone(),
        );
        registry.register("handshakes", "Handshakes under way", metrics.handshakes.clone());
        registry.register(
            "handshakes_turned_away",
            "First packets that led to no handshake by answer",
            metrics.turned_away.clone(),
        );
        registry.register(
            "streams_open",
            "Streams that are spliced now",
            metrics.streams_open.clone(),
        );
        registry.register(
            "streams_routed",
            "Streams that were spliced",
            metrics.streams_routed.clone(),
        );
        registry.register(
            "streams_refused",
            "Streams that were refused by code",
            metrics.streams_refused.clone(),
        );
        registry.register(
            "streams_stalled",
            "Directions of streams whose receiver takes nothing",
            metrics.streams_stalled.clone(),
        );
        registry.register(
            "streams_gave_way",
            "Streams that were ended because too many were stalled",
            metrics.gave_way.clone(),
        );
        registry.register("spliced_bytes", "Bytes handed on by direction", bytes);
        registry.register(
            "agents_attached",
            "Nodes with an attached agent",
            metrics.agents_attached.clone(),
        );
        registry.register(
            "agents_parked",
            "Agents waiting behind a live incumbent",
            metrics.agents_parked.clone(),
        );
        registry.register(
            "agent_conflicts",
            "Registrations against another instance",
            metrics.conflicts.clone(),
        );
        registry.register(
            "draining",
            "1 once the relay was asked to stop",
            metrics.draining.clone(),
        );
        metrics
    }

    /// Makes the series of the small label sets, so that a rate over them starts at 0 and not at the first event.
    fn open_series(&self) {
        for role in [RoleKind::Node, RoleKind::User, RoleKind::BreakGlass] {
            self.connections.get_or_create(&role.into()).set(0);
            self.admitted.get_or_create(&role.into()).inc_by(0);
        }
        for answer in [Turned::Retry, Turned::Refused, Turned::Ignored] {
            self.turned_away.get_or_create(&ByTurned { answer }).inc_by(0);
        }
        for verdict in [Verdict::Parked, Verdict::Replaced] {
            self.conflicts.get_or_create(&ByVerdict { verdict }).inc_by(0);
        }
    }

    /// The counter of one direction's bytes.
    pub fn bytes(&self, way: Way) -> Counter<u64, AtomicU64> {
        match way {
            Way::ToNode => self.to_node.clone(),
            Way::ToClient => self.to_client.clone(),
        }
    }

    /// Counts a first packet that led to no handshake.
    pub fn turned_away(&self, answer: Turned) {
        self.turned_away.get_or_create(&ByTurned { answer }).inc();
    }

    /// Sets what is known of stalled streams: how many there are, and how many ever had to give way.
    pub fn stalled(&self, (now, gave_way): (usize, u64)) {
        self.streams_stalled.set(i64::try_from(now).unwrap_or(i64::MAX));
        self.gave_way.inner().store(gave_way, Ordering::Relaxed);
    }

    /// Counts a conflict.
    pub fn conflict(&self, verdict: Verdict) {
        self.conflicts.get_or_create(&ByVerdict { verdict }).inc();
    }

    /// The text of `/metrics`.
    pub fn text(&self) -> String {
        self.common.text(&self.registry)
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests;
