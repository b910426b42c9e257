//! Refusals, so that nobody can fill a log with them: the first ones of each minute whole, then one line with their number.
//!
//! ```text
//! an authenticated person was denied     audit event, per identity
//! a stream never got as far as that      log line, per code
//!    └─ beyond the limit of a minute: only counted ── report, at every look and at the end ──> one line with the count
//! ```
//!
//! The table cannot be filled by strangers: its keys are identities that a CA of the fleet certified, and the closed set of
//! codes. The clock is the caller's.

use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use noderelay_audit_event::{DenialsCounted, Denied, Event};
use noderelay_link::limiter::{Limiter, SPAN};
use noderelay_pki::Identity;
use noderelay_proto::code::Code;
use tokio::time::Instant;

use crate::accept::Own;
use crate::events;
use crate::metrics::Metrics;

/// The refusals of one agent.
pub struct Denials {
    own: Own,
    metrics: Arc<Metrics>,
    persons: Mutex<Limiter<Identity>>,
    strangers: Mutex<Limiter<Code>>,
}

impl Denials {
    /// None yet.
    pub fn new(own: Own, metrics: Arc<Metrics>) -> Self {
        Self {
            own,
            metrics,
            persons: Mutex::new(Limiter::default()),
            strangers: Mutex::new(Limiter::default()),
        }
    }

    /// An authenticated person was denied, for that `code`.
    pub fn person(&self, code: Code, denied: Denied, now: Instant) {
        self.metrics.denied.get_or_create(&code.into()).inc();
        if lock(&self.persons).admits(&denied.principal, now) {
            events::emit(Event::Denied(denied));
        }
    }

    /// A stream was turned away before anybody was known.
    pub fn stranger(&self, code: Code, seen: &dyn Display, now: Instant) {
        self.metrics.strangers.get_or_create(&code.into()).inc();
        if lock(&self.strangers).admits(&code, now) {
            tracing::info!(%code, %seen, "a stream got no session");
        }
    }

    /// Writes the lines of what was only counted, as far as the time for it has come.
    pub fn report(&self, now: Instant) {
        let persons = lock(&self.persons).counted(now);
        for (principal, count) in persons {
            events::emit(Event::DenialsCounted(DenialsCounted {
                cluster: self.own.cluster.clone(),
                node: self.own.node.clone(),
                principal,
                count,
            }));
        }
        let strangers = lock(&self.strangers).counted(now);
        for (code, count) in strangers {
            tracing::info!(%code, count, "further streams got no session");
        }
    }

    /// Writes all that is still only counted: nothing comes any more.
    pub fn report_all(&self, now: Instant) {
        self.report(now + SPAN);
    }
}

fn lock<K>(limiter: &Mutex<Limiter<K>>) -> MutexGuard<'_, Limiter<K>> {
    // Nothing under the lock can panic half-way.
    limiter.lock().unwrap_or_else(PoisonError::into_inner)
}
