//! Many datagrams in one call to the kernel (GSO), and what is made of it when it refuses them.
//!
//! ```text
//! one call ── refused: EINVAL, EIO, EMSGSIZE ──> each datagram alone ─┬─ some too large ─> the path takes less: one call goes on
//!                                                                     └─ all taken ──────> no joining here: off for REST
//! ```
//!
//! The kernel refuses a joined call in the same words when a network card cannot cut, and when an interface just became smaller than
//! what was sent until now (a tunnel came up). The first lasts; the second is over as soon as the connection knows its new size, and
//! a relay's one socket carries every connection: what one path refuses must not cost all others the joining until the next start.
//! Of the datagrams that were refused together those that are small enough arrive.
//!
//! Never: counts as an error what is lost like any datagram, or asks the kernel twice for what it took.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use quinn::udp::Transmit;
use tokio::time::Instant;

/// How long nothing is joined after the kernel could not: asking again costs one refused call.
const REST: Duration = Duration::from_secs(60);

/// Numbers of Linux, as every system that has joined calls is one.
const EIO: i32 = 5;
const EINVAL: i32 = 22;
const EMSGSIZE: i32 = 90;

/// Whether a socket may join datagrams.
#[derive(Debug, Default)]
pub(super) struct Offload {
    off: AtomicBool,
    until: Mutex<Option<Instant>>,
}

/// What became of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The kernel has it.
    Taken,
    /// It was refused, and its datagrams were given alone.
    Alone,
}

impl Offload {
    /// Whether datagrams may be joined now.
    pub(super) fn joins(&self, now: impl FnOnce() -> Instant) -> bool {
        if !self.off.load(Ordering::Relaxed) {
            return true;
        }
        let mut until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        let over = until.is_none_or(|until| until <= now());
        if over {
            *until = None;
            self.off.store(false, Ordering::Relaxed);
        }
        over
    }

    /// Gives datagrams to the kernel. An error says that it has no room; then nothing counts as taken.
    pub(super) fn send(
        &self,
        transmit: &Transmit<'_>,
        now: impl FnOnce() -> Instant,
        mut kernel: impl FnMut(&Transmit<'_>) -> io::Result<()>,
    ) -> io::Result<Outcome> {
        let Err(refused) = room(kernel(transmit))? else {
            return Ok(Outcome::Taken);
        };
        let Some(size) = transmit
            .segment_size
            .filter(|size| (1..transmit.contents.len()).contains(size))
        else {
            lost(&refused, transmit);
            return Ok(Outcome::Taken);
        };
        if !matches!(refused.raw_os_error(), Some(EIO | EINVAL | EMSGSIZE)) {
            lost(&refused, transmit);
            return Ok(Outcome::Taken);
        }
        let mut all = true;
        for contents in transmit.contents.chunks(size) {
            let alone = Transmit {
                contents,
                segment_size: None,
                ..*transmit
            };
            if let Err(refused) = room(kernel(&alone))? {
                all = false;
                lost(&refused, &alone);
            }
        }
        if all {
            tracing::debug!(error = %refused, "the kernel joins no datagrams here; it is asked again later");
            *self.until.lock().unwrap_or_else(PoisonError::into_inner) = Some(now() + REST);
            self.off.store(true, Ordering::Relaxed);
        }
        Ok(Outcome::Alone)
    }
}

/// Whether the kernel has room at all; the inner result says whether it took what it was given.
fn room(taken: io::Result<()>) -> io::Result<Result<(), io::Error>> {
    match taken {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(error),
        taken => Ok(taken),
    }
}

/// Whatever else the kernel refuses is lost like any datagram; QUIC sends again what it misses. A probe that is too large for the
/// interface is no news.
fn lost(error: &io::Error, transmit: &Transmit<'_>) {
    if error.raw_os_error() != Some(EMSGSIZE) {
        tracing::debug!(%error, to = %transmit.destination, "a datagram was not taken");
    }
}

#[cfg(test)]
mod tests;
