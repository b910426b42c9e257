//! Reading on after the command has ended: until nothing can come any more, or until only stragglers are left.
//!
//! A terminal says clearly when everything was read. A pipe does not while a background process holds it, so it is read
//! until it was silent for [`SILENCE`], at most [`TOTAL`] in all. Only time in which somebody *could* have read counts: a
//! slow reader never costs a byte, however long it takes.

use std::time::Duration;

/// Silence after which stragglers are not waited for any longer.
const SILENCE: Duration = Duration::from_millis(500);
/// Stragglers that go on writing are cut off after this long.
const TOTAL: Duration = Duration::from_secs(5);

/// How far it is.
#[derive(Debug)]
pub(crate) struct Drain {
    looked_at: Duration,
    started: bool,
    blocked: bool,
    ended: bool,
    silence: Duration,
    total: Duration,
}

impl Drain {
    pub(crate) fn new(now: Duration) -> Self {
        Self {
            looked_at: now,
            started: false,
            blocked: false,
            ended: false,
            silence: Duration::ZERO,
            total: Duration::ZERO,
        }
    }

    /// The command has ended.
    pub(crate) fn start(&mut self, now: Duration) {
        self.started = true;
        self.looked_at = now;
    }

    /// Something was read.
    pub(crate) fn heard(&mut self) {
        self.silence = Duration::ZERO;
    }

    /// Nothing can come any more.
    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    /// Whether reading is held up from now on, because nobody takes what was read.
    pub(crate) fn blocked(&mut self, blocked: bool) {
        self.blocked = blocked;
    }

    /// Whether it is over.
    pub(crate) fn is_over(&mut self, now: Duration) -> bool {
        let passed = now.saturating_sub(self.looked_at);
        self.looked_at = now;
        if self.started && !self.blocked {
            self.silence += passed;
            self.total += passed;
        }
        self.started && (self.ended || self.silence >= SILENCE || self.total >= TOTAL)
    }

    /// When to look again.
    pub(crate) fn next(&self, now: Duration) -> Option<Duration> {
        let left = SILENCE
            .saturating_sub(self.silence)
            .min(TOTAL.saturating_sub(self.total));
        (self.started && !self.blocked).then(|| now.saturating_add(left))
    }
}

#[cfg(test)]
mod tests;
