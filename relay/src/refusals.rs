//! Refusals in the log, so that nobody can fill it: the first ones of each minute whole, then one line with their number. The
//! metrics count every one.
//!
//! A person's refused streams are limited by themselves, connections by their code: whoever has no certificate has no name.

use std::sync::{Mutex, MutexGuard, PoisonError};

use noderelay_link::limiter::Limiter;
use noderelay_pki::Identity;
use noderelay_proto::Code;
use tokio::time::Instant;
use tracing::info;

/// What was refused of late.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<Limiter<(Option<Identity>, Code)>>);

impl Refusals {
    /// Whether a refused stream of this person is written whole.
    pub(crate) fn stream(&self, who: &Identity, code: Code, now: Instant) -> bool {
        self.limiter().admits(&(Some(who.clone()), code), now)
    }

    /// Whether a refused connection is written whole.
    pub(crate) fn connection(&self, code: Code, now: Instant) -> bool {
        self.limiter().admits(&(None, code), now)
    }

    /// Writes what was only counted, as far as the time for it has come.
    pub(crate) fn report(&self, now: Instant) {
        let counted = self.limiter().counted(now);
        for ((who, code), count) in counted {
            match who {
                Some(identity) => info!(%identity, code = code.name(), count, "further streams refused"),
                None => info!(code = code.name(), count, "further connections refused"),
            }
        }
    }

    fn limiter(&self) -> MutexGuard<'_, Limiter<(Option<Identity>, Code)>> {
        // Nothing under the lock can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
