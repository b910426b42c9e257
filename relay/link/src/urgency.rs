//! Which of the streams of a connection is sent first: keystrokes and their echo before what is bulk.
//!
//! ```text
//! at first, and after [`REST`] without a write ── urgent ── more than [`BURST`] bytes ──> bulk ── [`REST`] ──> urgent
//! ```
//!
//! A relay cannot read what it carries, and need not: a person types little and reads a screen at a time. Streams of the same
//! urgency take turns packet by packet.
//!
//! Pure: the time is an argument. It holds nothing back.

use std::time::Duration;

use tokio::time::Instant;

/// What a stream may send and still be urgent: some full screens.
const BURST: usize = 64 * 1024;

/// A stream that sent nothing for so long is urgent again.
const REST: Duration = Duration::from_secs(1);

/// quinn's usual priority.
const URGENT: i32 = 0;

/// One that comes after it.
const BULK: i32 = -1;

/// What is known of one direction of a stream.
#[derive(Debug, Default)]
pub struct Urgency {
    sent: usize,
    last: Option<Instant>,
}

impl Urgency {
    /// So many bytes were written; gives the stream's new priority when it has changed with them.
    pub fn wrote(&mut self, bytes: usize, now: Instant) -> Option<i32> {
        let was_bulk = self.sent > BURST;
        let rested = self
            .last
            .is_some_and(|last| now.saturating_duration_since(last) >= REST);
        self.sent = if rested { bytes } else { self.sent.saturating_add(bytes) };
        self.last = Some(now);
        match (was_bulk, self.sent > BURST) {
            (false, true) => Some(BULK),
            (true, false) => Some(URGENT),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
