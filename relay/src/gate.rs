//! Who may begin a handshake: the only state that strangers can make a relay keep, and the only work that they can make it do.
//!
//! ```text
//! first packet ── address not proven, many handshakes under way ──> Retry: the sender proves that it gets our packets (RFC 9000 § 8.1)
//!      │       ── as many handshakes under way as there may be ───> Ignore: it comes again by itself
//!      │       ── its address has failed too often ───────────────> Refuse, until it has been quiet
//!      └──────────────────────────────────────────────────────────> Accept; failed ─> counted against the address
//! ```
//!
//! Failures count, not handshakes: a thousand agents behind one address that all come back after a restart are welcome, a
//! stranger behind one address is not. An address is that of IPv4, or the /64 network of IPv6, which is what one party is
//! given. A known peer over its quota is no failure: it would shut the address for the agents beside it. While an address is refused, others behind it are refused with it but for the handshakes that come back with time.
//!
//! Pure: addresses and time are arguments. It never sees a certificate, and keeps nothing about an address without failures.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

use crate::bucket::{Bucket, Rate};

/// Addresses with failures that are remembered. Beyond it those that fill up first are forgotten.
const MAX_ADDRESSES: usize = 16 * 1024;

/// The bounds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Handshakes under way above which an address has to be proven first.
    pub(crate) unproven: usize,
    /// Handshakes under way at most.
    pub(crate) handshakes: usize,
    /// Failed handshakes of one address.
    pub(crate) failures: Rate,
}

/// What to do with a first packet.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// Begin the handshake; it counts as long as this lives.
    Accept(Handshake),
    /// Have the address proven.
    Retry,
    /// Say no.
    Refuse,
    /// Say nothing.
    Ignore,
}

/// The gate. Cloning shares it.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    bounds: Bounds,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    under_way: usize,
    failed: HashMap<IpAddr, Bucket>,
}

/// A handshake under way.
#[derive(Debug)]
pub(crate) struct Handshake {
    gate: Gate,
    from: IpAddr,
}

impl Gate {
    /// A gate at which nothing has happened.
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            state: Arc::default(),
        }
    }

    /// Judges a first packet. `proven`: the sender has shown that it gets what is sent to its address.
    pub(crate) fn judge(&self, from: IpAddr, proven: bool, now: Instant) -> Verdict {
        let from = party(from);
        let Bounds {
            unproven, handshakes, ..
        } = self.bounds;
        let mut state = self.state();
        if !state.may_try(from, self.bounds.failures, now) {
            return Verdict::Refuse;
        }
        match state.under_way {
            all if all >= handshakes => Verdict::Ignore,
            many if many >= unproven && !proven => Verdict::Retry,
            _ => {
                state.under_way += 1;
                Verdict::Accept(Handshake {
                    gate: self.clone(),
                    from,
                })
            }
        }
    }

    /// Handshakes under way.
    pub(crate) fn under_way(&self) -> usize {
        self.state().under_way
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handshake {
    /// It led to nothing: no peer, or none that may be here.
    pub(crate) fn failed(self, now: Instant) {
        let rate = self.gate.bounds.failures;
        self.gate.state().count(self.from, rate, now);
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        let mut state = self.gate.state();
        state.under_way = state.under_way.saturating_sub(1);
    }
}

impl State {
    fn may_try(&mut self, from: IpAddr, rate: Rate, now: Instant) -> bool {
        let Some(bucket) = self.failed.get_mut(&from) else {
            return true;
        };
        if bucket.is_full(rate, now) {
            self.failed.remove(&from);
            return true;
        }
        // Looked at, not taken: what fails takes.
        let mut look = *bucket;
        look.take(rate, now).is_ok()
    }

    fn count(&mut self, from: IpAddr, rate: Rate, now: Instant) {
        if self.failed.len() >= MAX_ADDRESSES && !self.failed.contains_key(&from) {
            self.failed.retain(|_, bucket| !bucket.is_full(rate, now));
            if self.failed.len() >= MAX_ADDRESSES {
                // So many at once are a flood from everywhere: no list stops it, the number of handshakes does.
                self.failed.clear();
            }
        }
        let bucket = self.failed.entry(from).or_insert_with(|| Bucket::full(rate, now));
        let _ = bucket.take(rate, now);
    }
}

/// What stands for one party.
fn party(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests;
