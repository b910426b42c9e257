//! What peers can cause again and again, so that none can fill a log with it: the first ones of each minute whole, then one number.
//!
//! ```text
//! a key's first WHOLE in SPAN ──> admitted: written whole
//!    └─ beyond: only counted ── `counted`, once the span is over ──> one line with the number
//! ```
//!
//! Pure; the clock is the caller's, and so is the choice of keys: they come from a closed set, or from identities that a CA certified.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

/// What of one key is written whole within [`SPAN`]: enough to understand any of them.
const WHOLE: u64 = 10;

/// The time after which the count begins anew.
pub const SPAN: Duration = Duration::from_secs(60);

/// Lets the first ones of each key through and counts the rest.
#[derive(Debug)]
pub struct Limiter<K> {
    open: HashMap<K, Window>,
    over: Vec<(K, u64)>,
}

#[derive(Debug, Clone, Copy)]
struct Window {
    until: Instant,
    seen: u64,
}

impl Window {
    /// How many were only counted.
    fn counted(self) -> u64 {
        self.seen.saturating_sub(WHOLE)
    }
}

impl<K> Default for Limiter<K> {
    fn default() -> Self {
        Self {
            open: HashMap::new(),
            over: Vec::new(),
        }
    }
}

impl<K: Clone + Eq + Hash> Limiter<K> {
    /// Whether this one is written whole.
    pub fn admits(&mut self, key: &K, now: Instant) -> bool {
        self.close(key, now);
        let fresh = Window {
            until: now + SPAN,
            seen: 0,
        };
        let window = self.open.entry(key.clone()).or_insert(fresh);
        window.seen += 1;
        window.seen <= WHOLE
    }

    /// What was only counted, of spans that are over.
    pub fn counted(&mut self, now: Instant) -> Vec<(K, u64)> {
        let ended: Vec<K> = self.open.keys().cloned().collect();
        ended.iter().for_each(|key| self.close(key, now));
        std::mem::take(&mut self.over)
    }

    fn close(&mut self, key: &K, now: Instant) {
        let Some(window) = self.open.get(key).filter(|window| window.until <= now) else {
            return;
        };
        if window.counted() > 0 {
            self.over.push((key.clone(), window.counted()));
        }
        self.open.remove(key);
    }
}

#[cfg(test)]
mod tests;
