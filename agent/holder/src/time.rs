//! The holder's clock: time since boot, which no adjustment of the wall clock moves and which runs on during suspend.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Time since boot.
pub(crate) fn now() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_BOOTTIME).or_else(|_| clock_gettime(ClockId::CLOCK_MONOTONIC));
    time.map_or(Duration::ZERO, Duration::from)
}
