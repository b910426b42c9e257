//! Chance whose seed is printed: a failure names it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A row of random numbers.
#[derive(Debug)]
pub struct Chance(u64);

impl Chance {
    /// A new row; its seed is printed.
    pub fn new() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let seed = now.as_nanos() as u64 | 1;
        println!("seed {seed}");
        Self(seed)
    }

    /// The row of a seed that was printed.
    pub fn of(seed: u64) -> Self {
        Self(seed.max(1))
    }

    /// Where the row goes on: a seed for the rest of it.
    pub fn seed(&self) -> u64 {
        self.0
    }

    /// The next number (xorshift64).
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below this one.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.number() >> 16) as usize % bound.max(1)
    }

    /// A moment within this time.
    pub fn within(&mut self, bound: Duration) -> Duration {
        bound.mul_f64((self.number() >> 11) as f64 / (1_u64 << 53) as f64)
    }

    /// That many bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| (self.number() >> 24) as u8).collect()
    }
}

impl Default for Chance {
    fn default() -> Self {
        Self::new()
    }
}
