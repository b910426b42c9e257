//! Streams whose receiver takes nothing: how many may hold what was read for them, and who gives way when there are too many.
//!
//! ```text
//! sink took everything ── not the next batch, for `patience` ──> a place ── takes it all ──> place given back
//!                                                                  └── no place is left: somebody gives way
//! ```
//!
//! What nobody reads stays with the relay, up to a stream's window (and what its connection may hold for sending). A few such streams
//! are ordinary (a pager, a stopped terminal, a slow link), so nothing happens to them while there is room for them. When there is
//! none, the person who has the most of them loses the one that waits longest; break-glass accounts come last.
//!
//! Never: looks at bytes, counts a stream that is merely slow within `patience`, or lets one person's streams push out another's
//! while the first has more.

use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use noderelay_link::Runtime;
use noderelay_pki::{Identity, RoleKind};
use quinn::{AsyncTimer, Runtime as _};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Whoever takes a batch (some 45 kB) within this time is slow, but not stalled.
pub const PATIENCE: Duration = Duration::from_secs(1);

/// The places. Cloning shares them.
#[derive(Debug, Clone)]
pub struct Stalled {
    most: usize,
    patience: Duration,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    gave_way: u64,
    /// By age.
    waiting: BTreeMap<u64, Waiting>,
}

#[derive(Debug)]
struct Waiting {
    who: Identity,
    /// Dropped to say that the stream has to give way.
    _stays: oneshot::Sender<()>,
}

impl Stalled {
    /// `most` places, for streams whose sink took nothing for `patience`.
    pub fn new(most: usize, patience: Duration) -> Self {
        Self {
            most,
            patience,
            state: Arc::default(),
        }
    }

    /// How many streams hold a place (each direction by itself), and how many ever had to give way.
    pub fn counts(&self) -> (usize, u64) {
        let state = self.state();
        (state.waiting.len(), state.gave_way)
    }

    /// A place for a stream of `who`. It may be the one that has to give way at once.
    fn place(&self, who: &Identity) -> Place {
        let (stays, told) = oneshot::channel();
        let mut state = self.state();
        let id = state.next;
        state.next += 1;
        let who = who.clone();
        state.waiting.insert(id, Waiting { who, _stays: stays });
        if state.waiting.len() > self.most
            && let Some(id) = state.greediest()
        {
            state.waiting.remove(&id);
            state.gave_way += 1;
        }
        Place {
            id,
            told,
            stalled: self.clone(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Of the person with the most, the one that waits longest.
    fn greediest(&self) -> Option<u64> {
        let mut people = HashMap::<&Identity, (bool, usize, u64)>::new();
        for (id, waiting) in &self.waiting {
            let ordinary = waiting.who.kind() != RoleKind::BreakGlass;
            let (_, count, _) = people.entry(&waiting.who).or_insert((ordinary, 0, *id));
            *count += 1;
        }
        // Of two who have as many, the one whose stream waits longer.
        let most = |(ordinary, count, id): &(bool, usize, u64)| (*ordinary, *count, u64::MAX - id);
        people.into_values().max_by_key(most).map(|(_, _, id)| id)
    }
}

/// A place, given back when dropped.
#[derive(Debug)]
struct Place {
    id: u64,
    told: oneshot::Receiver<()>,
    stalled: Stalled,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.stalled.state().waiting.remove(&self.id);
    }
}

/// One direction of a stream of `who`, over all of its batches.
pub struct Patience<'a> {
    stalled: &'a Stalled,
    who: &'a Identity,
    since: Instant,
    /// Stays armed: most batches are taken long before.
    timer: Option<Pin<Box<dyn AsyncTimer>>>,
    place: Option<Place>,
}

impl<'a> Patience<'a> {
    /// For a stream that belongs to `who`.
    pub fn new(stalled: &'a Stalled, who: &'a Identity) -> Self {
        Self {
            stalled,
            who,
            since: Instant::now(),
            timer: None,
            place: None,
        }
    }

    /// A new batch waits for the sink: it took the one before.
    pub fn again(&mut self) {
        self.since = Instant::now();
        self.place = None;
    }

    /// Resolves when the stream has to give way. Nothing is lost when it is cancelled.
    pub async fn gives_way(&mut self) {
        if self.place.is_none() {
            let due = (self.since + self.stalled.patience).into_std();
            let timer = self.timer.get_or_insert_with(|| Runtime.new_timer(due));
            timer.as_mut().reset(due);
            poll_fn(|cx| timer.as_mut().poll(cx)).await;
        }
        let place = self.place.get_or_insert_with(|| self.stalled.place(self.who));
        // The sender never says anything: an error is the word.
        let _ = (&mut place.told).await;
    }
}

#[cfg(test)]
mod tests;
