//! A token bucket: so many at once, so many a second.
//!
//! Pure: the time is an argument. It never waits.

use std::time::Duration;

use tokio::time::Instant;

/// How much a bucket holds and how fast it fills.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rate {
    /// What may be taken at once.
    pub(crate) burst: u32,
    /// What comes back each second.
    pub(crate) per_second: f64,
}

/// The bucket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bucket {
    left: f64,
    at: Instant,
}

impl Bucket {
    /// A full one.
    pub(crate) fn full(rate: Rate, now: Instant) -> Self {
        Self {
            left: f64::from(rate.burst),
            at: now,
        }
    }

    /// Takes one, or says in what time there is one.
    pub(crate) fn take(&mut self, rate: Rate, now: Instant) -> Result<(), Duration> {
        self.fill(rate, now);
        if self.left >= 1.0 {
            self.left -= 1.0;
            return Ok(());
        }
        let seconds = (1.0 - self.left) / rate.per_second;
        Err(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
    }

    /// Whether nothing is missing: then it can be forgotten.
    pub(crate) fn is_full(&mut self, rate: Rate, now: Instant) -> bool {
        self.fill(rate, now);
        self.left >= f64::from(rate.burst)
    }

    fn fill(&mut self, rate: Rate, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + passed * rate.per_second).min(f64::from(rate.burst));
        self.at = self.at.max(now);
    }
}

#[cfg(test)]
mod tests;
