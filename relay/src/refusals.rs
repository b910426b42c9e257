//! Refusals in the log, so that nobody can fill it: the first ones of each minute whole, then one line with their number. The
//! metrics count every one.
//!
//! A person's refused streams and connections are limited by themselves, other connections by their code: whoever has no certificate
//! has no name.

use std::sync::{Mutex, MutexGuard, PoisonError};

use noderelay_link::limiter::{Limiter, SPAN};
use noderelay_pki::Identity;
use noderelay_proto::Code;
use tokio::time::Instant;
use tracing::info;

/// What was refused of late.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<Limiter<Key>>);

type Key = (What, Option<Identity>, Code);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum What {
    Stream,
    Connection,
}

impl Refusals {
    /// Whether a refused stream of this person is written whole.
    pub(crate) fn stream(&self, who: &Identity, code: Code, now: Instant) -> bool {
        self.limiter().admits(&(What::Stream, Some(who.clone()), code), now)
    }

    /// Whether a refused connection is written whole, of whoever is known.
    pub(crate) fn connection(&self, who: Option<&Identity>, code: Code, now: Instant) -> bool {
        self.limiter().admits(&(What::Connection, who.cloned(), code), now)
    }

    /// Writes what was only counted, as far as the time for it has come.
    pub(crate) fn report(&self, now: Instant) {
        let counted = self.limiter().counted(now);
        for ((what, who, code), count) in counted {
            let (identity, code) = (who.map(tracing::field::display), code.name());
            match what {
                What::Stream => info!(identity, code, count, "further streams refused"),
                What::Connection => info!(identity, code, count, "further connections refused"),
            }
        }
    }

    /// Writes all that is still only counted: nothing comes any more.
    pub(crate) fn report_all(&self, now: Instant) {
        self.report(now + SPAN);
    }

    fn limiter(&self) -> MutexGuard<'_, Limiter<Key>> {
        // Nothing under the lock can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
