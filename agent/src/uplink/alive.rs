//! Does the relay still hear us? What we receive says only that we hear it.
//!
//! ```text
//! answered ── BEAT while something runs, else half of the limit ──> asked (PING) ── PONG ──> answered
//!                                                                     └ nothing for the limit ──> the path is dead
//! ```
//!
//! A path that dies in one direction keeps QUIC's idle limit away from whoever still receives: the other side repeats what was not
//! acknowledged until its own limit, and only then falls silent. Asked for an answer, both know within one limit.
//!
//! Pure: the time is an argument. It sends nothing.

use std::time::Duration;

use tokio::time::Instant;

/// While streams run over a link the relay is asked this often whether it lives: a relay that was restarted answers the first
/// packet that it does not know, so this is how long a session may hang on it.
const BEAT: Duration = Duration::from_millis(250);

/// What is due.
#[derive(Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing yet.
    Nothing,
    /// A PING with this number.
    Ask(u64),
    /// No answer came for so long.
    Dead(Duration),
}

/// What is known of one link.
#[derive(Debug)]
pub struct Alive {
    limit: Duration,
    /// The number of the last PING.
    number: u64,
    asked: Instant,
    /// When the last answer came.
    answered: Instant,
    waits: bool,
}

impl Alive {
    /// A link whose registration was just answered; no answer within `limit` means that it is dead.
    pub fn new(limit: Duration, now: Instant) -> Self {
        Self {
            limit,
            number: 0,
            asked: now,
            answered: now,
            waits: false,
        }
    }

    /// When to look again.
    pub fn look_at(&self, busy: bool) -> Instant {
        let ask = self.asked + if busy { BEAT.min(self.limit / 2) } else { self.limit / 2 };
        if self.waits {
            ask.min(self.answered + self.limit)
        } else {
            ask
        }
    }

    /// What is due now.
    pub fn due(&mut self, busy: bool, now: Instant) -> Due {
        if now < self.look_at(busy) {
            return Due::Nothing;
        }
        if self.waits && now >= self.answered + self.limit {
            return Due::Dead(self.limit);
        }
        self.number += 1;
        (self.asked, self.waits) = (now, true);
        Due::Ask(self.number)
    }

    /// A PONG came. One that answers nothing we asked says nothing.
    pub fn heard(&mut self, number: u64, now: Instant) {
        if self.waits && number <= self.number {
            self.answered = now;
            self.waits = number < self.number;
        }
    }
}

#[cfg(test)]
mod tests;
