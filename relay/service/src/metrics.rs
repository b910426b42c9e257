//! What both services count: the files that they follow, and what their log lost.
//!
//! Labels come from closed sets only: nothing that a peer chooses becomes a label, so that no peer can make series. What is counted
//! is described in `docs/metrics.md`, which a test compares with what is registered.

use std::fmt;
use std::sync::atomic::Ordering;

use noderelay_proto::Code;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder, prometheus_text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use tokio::runtime::Handle;

/// A label with the name of a code.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ByCode {
    code: &'static str,
}

impl From<Code> for ByCode {
    fn from(code: Code) -> Self {
        // All numbers that this build does not know share one name.
        Self { code: code.name() }
    }
}

/// What is re-read while a service runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Material {
    /// Certificate and key.
    Identity,
    /// The signed bundle.
    Bundle,
}

impl EncodeLabelValue for Material {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        EncodeLabelValue::encode(&if *self == Self::Identity { "identity" } else { "bundle" }, encoder)
    }
}

/// A label with the material.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ByMaterial {
    material: Material,
}

/// What is counted of the files that a service follows, and of its log.
#[derive(Debug, Default)]
pub struct Counts {
    /// Changes of identity or bundle taken over.
    pub reloads: Family<ByMaterial, Counter>,
    /// Changes that could not be taken over (each look that fails counts).
    pub reload_failures: Family<ByMaterial, Counter>,
    /// Version of the policy signers' document of the bundle in force.
    pub bundle_version: Gauge,
    /// When the bundle's freshness proof ends.
    pub bundle_fresh_until: Gauge,
    /// When the service's own certificate ends.
    pub certificate_not_after: Gauge,
    log_lines_lost: Counter,
    tasks: Gauge,
}

impl Counts {
    /// Registers them, for a program of that version and commit.
    pub fn register(registry: &mut Registry, version: &'static str, commit: &'static str) -> Self {
        let counts = Self::default();
        for material in [Material::Identity, Material::Bundle] {
            counts.reloads.get_or_create(&ByMaterial { material }).inc_by(0);
            counts.reload_failures.get_or_create(&ByMaterial { material }).inc_by(0);
        }
        let build = Info::new([("version", version), ("commit", commit)]);
        registry.register("build", "The running build", build);
        registry.register("reloads", "Changed files taken over", counts.reloads.clone());
        registry.register(
            "reload_failures",
            "Looks at changed files that failed",
            counts.reload_failures.clone(),
        );
        registry.register(
            "bundle_version",
            "Version of the policy in force",
            counts.bundle_version.clone(),
        );
        registry.register(
            "bundle_fresh_until_timestamp_seconds",
            "End of the bundle's freshness proof",
            counts.bundle_fresh_until.clone(),
        );
        registry.register(
            "certificate_not_after_timestamp_seconds",
            "End of the own certificate",
            counts.certificate_not_after.clone(),
        );
        registry.register(
            "log_lines_lost",
            "Lines of the log that could not be written",
            counts.log_lines_lost.clone(),
        );
        registry.register("tasks", "Tasks under way", counts.tasks.clone());
        counts
    }

    /// Counts a look at files that had changed.
    pub fn reloaded(&self, material: Material, good: bool) {
        let family = if good { &self.reloads } else { &self.reload_failures };
        family.get_or_create(&ByMaterial { material }).inc();
    }

    /// The text of `/metrics`.
    pub fn text(&self, registry: &Registry) -> String {
        let lost = noderelay_pki::text::lines_lost();
        self.log_lines_lost.inner().store(lost, Ordering::Relaxed);
        // Asked outside of a runtime, by a test, there are none.
        let tasks = Handle::try_current().map_or(0, |runtime| runtime.metrics().num_alive_tasks());
        self.tasks.set(i64::try_from(tasks).unwrap_or(i64::MAX));
        let mut text = String::new();
        match prometheus_text::encode(&mut text, registry) {
            Ok(()) => text,
            // Writing to a string does not fail.
            Err(fmt::Error) => String::new(),
        }
    }
}

/// Raises a gauge for as long as it lives.
#[derive(Debug)]
pub struct Held(Gauge);

impl Held {
    /// Raises `gauge` by one until dropped.
    pub fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.dec();
    }
}
