//! How long to wait before a relay is dialled again: pure, the random number comes from the caller.
//!
//! ```text
//! failure: anything between nothing and the bound; the bound doubles up to `most` ── a steady link sets it back
//! drain:   anything between nothing and the spread that the relay announced
//! refusal: the time to come back that the relay announced, and anything up to half as long again
//! ```
//!
//! The whole span is used (full jitter): a thousand agents, or people, that lost one relay in the same moment come back evenly
//! spread. Never waits itself.

use std::time::Duration;

/// A link that lived this long starts again with the shortest bound.
pub const STEADY: Duration = Duration::from_secs(30);

/// Longest time that is followed, of a spread or until coming back: a relay's word must not keep an agent away for long.
pub const LONGEST_SPREAD: Duration = Duration::from_secs(300);

/// The waits of one connection that is kept.
#[derive(Debug)]
pub struct Backoff {
    least: Duration,
    most: Duration,
    bound: Duration,
}

impl Backoff {
    /// Waits of up to `least` at first, of up to `most` in the end.
    pub fn new(least: Duration, most: Duration) -> Self {
        Self {
            least,
            most,
            bound: least,
        }
    }

    /// The next wait, after a link that lived for `lived` (not at all when nobody answered).
    pub fn pause(&mut self, lived: Duration, random: f64) -> Duration {
        if lived >= STEADY {
            self.bound = self.least;
        }
        let pause = within(self.bound, random);
        self.bound = (self.bound * 2).min(self.most);
        pause
    }
}

/// When to leave a relay that drains and wants its agents gone within `announced`.
pub fn leave_after(announced: Duration, random: f64) -> Duration {
    within(announced.min(LONGEST_SPREAD), random)
}

/// When to come back to a relay that said `announced`: never sooner, and those who were all told the same not all at once.
pub fn come_back_after(announced: Duration, random: f64) -> Duration {
    let announced = announced.min(LONGEST_SPREAD);
    announced + within(announced / 2, random)
}

fn within(bound: Duration, random: f64) -> Duration {
    bound.mul_f64(random.clamp(0.0, 1.0))
}

/// A random number from 0 to 1; the middle when the generator fails.
pub fn random() -> f64 {
    let mut bytes = [0; 4];
    let drawn = aws_lc_rs::rand::fill(&mut bytes);
    drawn.map_or(0.5, |()| f64::from(u32::from_be_bytes(bytes)) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests;
