//! How many of something there may be at once: clients that ask, sessions that are carried.
//!
//! A seat is given back when it is dropped, on whatever way that happens. Never waits for one.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// So many and no more.
#[derive(Debug)]
pub(super) struct Seats {
    what: &'static str,
    most: usize,
    free: Arc<Semaphore>,
}

/// One of them.
pub(super) type Seat = OwnedSemaphorePermit;

/// All are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it has {most} {what} at once, as many as it takes")]
pub(super) struct Full {
    what: &'static str,
    most: usize,
}

impl Seats {
    pub(super) fn new(what: &'static str, most: usize) -> Self {
        let free = Arc::new(Semaphore::new(most));
        Self { what, most, free }
    }

    /// Takes one.
    ///
    /// # Errors
    /// None is free.
    pub(super) fn take(&self) -> Result<Seat, Full> {
        let (what, most) = (self.what, self.most);
        Arc::clone(&self.free)
            .try_acquire_owned()
            .map_err(|_| Full { what, most })
    }

    /// How many are taken.
    pub(super) fn taken(&self) -> usize {
        self.most - self.free.available_permits()
    }
}

#[cfg(test)]
mod tests;
