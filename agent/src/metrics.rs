//! What the agent counts: one struct, prefix `noderelay_agent_`, described in `docs/metrics.md`.
//!
//! Labels come from closed sets only (codes): nothing that a peer chooses becomes a label. Who did what is in the audit events.
//!
//! Never: counts by guess. Gauges of what a registry knows are set from it when somebody asks.

use noderelay_proto::Code;
use noderelay_service::metrics::{ByCode, Counts};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Everything that the agent counts.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// What every service counts.
    pub common: Counts,
    /// Relays that route to this node now.
    pub relays_attached: Gauge,
    /// Relays at which another live agent of this name holds us off.
    pub relays_parked: Gauge,
    /// Links to relays that ended, or that could not be made.
    pub links_lost: Counter,
    /// Sessions that are open now.
    pub sessions_open: Gauge,
    /// Sessions that began.
    pub sessions_started: Counter,
    /// Sessions that ended, by code.
    pub sessions_ended: Family<ByCode, Counter>,
    /// Recordings that are not complete.
    pub recordings_incomplete: Counter,
    /// Wishes of known people that were refused, by code.
    pub denied: Family<ByCode, Counter>,
    /// Streams that ended before anybody was known, by code.
    pub strangers: Family<ByCode, Counter>,
    /// Clients that wait without a session.
    pub standbys: Gauge,
}

impl Metrics {
    /// Registers everything.
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("noderelay_agent");
        let common = Counts::register(&mut registry, env!("CARGO_PKG_VERSION"), env!("NODERELAY_COMMIT"));
        let mut metrics = Self {
            registry,
            common,
            relays_attached: Gauge::default(),
            relays_parked: Gauge::default(),
            links_lost: Counter::default(),
            sessions_open: Gauge::default(),
            sessions_started: Counter::default(),
            sessions_ended: Family::default(),
            recordings_incomplete: Counter::default(),
            denied: Family::default(),
            strangers: Family::default(),
            standbys: Gauge::default(),
        };
        let registry = &mut metrics.registry;
        registry.register(
            "relays_attached",
            "Relays that route to this node",
            metrics.relays_attached.clone(),
        );
        registry.register(
            "relays_parked",
            "Relays that hold this agent off for another one of its name",
            metrics.relays_parked.clone(),
        );
        registry.register(
            "links_lost",
            "Links to relays that ended or could not be made",
            metrics.links_lost.clone(),
        );
        registry.register("sessions_open", "Open sessions", metrics.sessions_open.clone());
        registry.register(
            "sessions_started",
            "Sessions that began",
            metrics.sessions_started.clone(),
        );
        registry.register(
            "sessions_ended",
            "Sessions that ended by code",
            metrics.sessions_ended.clone(),
        );
        registry.register(
            "recordings_incomplete",
            "Sessions whose recording is not complete",
            metrics.recordings_incomplete.clone(),
        );
        registry.register(
            "denied",
            "Wishes of known people that were refused by code",
            metrics.denied.clone(),
        );
        registry.register(
            "strangers",
            "Streams that ended before anybody was known by code",
            metrics.strangers.clone(),
        );
        registry.register(
            "standbys",
            "Clients that wait without a session",
            metrics.standbys.clone(),
        );
        metrics
    }

    /// Counts a session that ended.
    pub fn ended(&self, code: Code, recorded: bool) {
        self.sessions_ended.get_or_create(&code.into()).inc();
        if !recorded {
            self.recordings_incomplete.inc();
        }
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
