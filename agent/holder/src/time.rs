//! The holder's clock: time since boot, which no adjustment of the wall clock moves and which runs on during suspend.

use std::pin::Pin;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use tokio::time::{Instant, Sleep};

/// Time since boot.
pub(crate) fn now() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_BOOTTIME).or_else(|_| clock_gettime(ClockId::CLOCK_MONOTONIC));
    time.map_or(Duration::ZERO, Duration::from)
}

/// The longest sleep: time since boot runs on while the machine sleeps, the runtime's timers do not.
const LONGEST: Duration = Duration::from_secs(30);

/// One timer for a loop that asks for another time in each turn.
///
/// Moving a timer to an earlier time wakes the very thread that moves it. So it stays armed for the earliest time that it was
/// set to, and may ring too early: whoever is woken looks at the clock.
#[derive(Debug)]
pub(crate) struct Alarm {
    sleep: Pin<Box<Sleep>>,
}

impl Alarm {
    /// Needs a tokio runtime.
    pub(crate) fn new() -> Self {
        Self {
            sleep: Box::pin(tokio::time::sleep(LONGEST)),
        }
    }

    /// Rings no later than at this time since boot, and within half a minute in any case.
    pub(crate) fn set(&mut self, at: Option<Duration>) {
        let wait = at.map_or(LONGEST, |at| at.saturating_sub(now()).min(LONGEST));
        let at = Instant::now() + wait;
        if self.sleep.is_elapsed() || at < self.sleep.deadline() {
            self.sleep.as_mut().reset(at);
        }
    }

    /// Waits for it.
    pub(crate) async fn rings(&mut self) {
        self.sleep.as_mut().await;
    }
}
