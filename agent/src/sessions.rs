//! The registry of live sessions: registered *before* the policy is asked, so that no change can fall between the decision
//! and the list that it is applied to.
//!
//! ```text
//! register ─> New ─> (refused: dropped) | begun ─> legs come and go ─> the last holder of `Live` is dropped: removed
//!          ├> Again: the same principal, key and open_id, so the same session, and the same answer
//!          └> refused: that session began, and has ended
//! ```
//!
//! An entry lives as long as somebody holds its [`Live`], and is removed exactly once, whatever ended the session. What has begun is
//! remembered for longer: a client that lost the answer repeats its wish, and must not run its command twice. The id is a name, never
//! a capability.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use noderelay_audit_event::SessionStarted;
use noderelay_holder::force::Known;
use noderelay_pki::verify::VerifiedPeer;
use noderelay_proto::code::Code;
use noderelay_proto::control::{Open, Opened};
use noderelay_proto::id::{OpenId, SessionId};

use tokio::sync::watch;
use tokio::time::Instant;

use crate::refusal::Refusal;

/// Who asked, and with which attempt: the same three again mean the same session, never a second shell.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Attempt {
    open_id: OpenId,
    principal: String,
    key: String,
}

/// For how long an attempt that began is remembered: several times what a client takes to try all its paths.
const REMEMBERED: Duration = Duration::from_secs(15 * 60);
/// How many are remembered: one begins every quarter of a second, all the time.
const MOST_REMEMBERED: usize = 4096;

#[derive(Default)]
struct Table {
    live: HashMap<Attempt, Weak<Live>>,
    /// Attempts whose command was started, the newest at the end.
    begun: VecDeque<(Instant, SessionId, Attempt)>,
}

impl Table {
    fn remember(&mut self, attempt: &Attempt, id: SessionId, now: Instant) {
        let over = |(when, ..): &(Instant, SessionId, Attempt)| now.duration_since(*when) >= REMEMBERED;
        while self.begun.len() >= MOST_REMEMBERED || self.begun.front().is_some_and(over) {
            self.begun.pop_front();
        }
        self.begun.push_back((now, id, attempt.clone()));
    }

    /// The session that this attempt began, live or not.
    fn begun(&self, attempt: &Attempt) -> Option<SessionId> {
        let found = self.begun.iter().rev().find(|(_, _, known)| known == attempt);
        found.map(|(_, id, _)| *id)
    }
}

/// The sessions of this node.
#[derive(Clone)]
pub struct Sessions {
    table: Arc<Mutex<Table>>,
    most: usize,
}

/// A live session.
pub struct Live {
    /// Its name.
    pub id: SessionId,
    /// What became of its start, once that is known.
    outcome: watch::Sender<Option<Outcome>>,
    legs: AtomicU64,
    attempt: Attempt,
    table: Arc<Mutex<Table>>,
}

/// A session whose command runs.
pub struct Begun {
    /// The wish, word for word: a repeated one must be equal.
    pub open: Open,
    /// What the client was told.
    pub opened: Opened,
    /// What stands in the record.
    pub facts: SessionStarted,
    /// What lets the agent back to the holder. Secret.
    pub token: Bytes,
    /// The process id of its command.
    pub pid: u32,
    /// The process that holds it.
    pub holder: Option<Known>,
}

/// What a start came to.
pub type Outcome = Result<Arc<Begun>, Refusal>;

fn still() -> Refusal {
    Refusal::node(
        Code::AgentNotReady,
        "the first of these equal attempts is still being served",
    )
}

/// What a registration found.
pub enum Entry {
    /// A session that is yet to begin.
    New(Arc<Live>),
    /// The session that this very attempt opened before.
    Again(Arc<Live>),
}

impl Sessions {
    /// A registry that holds at most `most` sessions at once.
    pub fn new(most: usize) -> Self {
        Self {
            table: Arc::default(),
            most,
        }
    }

    /// Enters a session, or finds the one that the same attempt opened.
    ///
    /// # Errors
    /// `session.limit` when the node is full, `session.unknown` when the one that the same attempt opened has ended.
    pub fn register(&self, peer: &VerifiedPeer, open_id: OpenId) -> Result<Entry, Refusal> {
        let attempt = Attempt {
            principal: peer.identity().to_string(),
            key: peer.key_fingerprint().to_owned(),
            open_id,
        };
        let id = SessionId::new(random()?);
        let mut table = lock(&self.table);
        if let Some(live) = table.live.get(&attempt).and_then(Weak::upgrade) {
            return Ok(Entry::Again(live));
        }
        if let Some(id) = table.begun(&attempt) {
            let seen = format!(
                "this wish was carried out already, as session {id}, which has ended: its recording has what it showed, and nothing is run a second time"
            );
            return Err(Refusal::node(Code::SessionUnknown, seen));
        }
        if table.live.len() >= self.most {
            let seen = format!("{} sessions are open, as many as this node allows", table.live.len());
            return Err(Refusal::node(Code::SessionLimit, seen));
        }
        let live = Arc::new(Live {
            id,
            outcome: watch::Sender::new(None),
            legs: AtomicU64::new(0),
            attempt: attempt.clone(),
            table: Arc::clone(&self.table),
        });
        table.live.insert(attempt, Arc::downgrade(&live));
        Ok(Entry::New(live))
    }

    /// The names of those that are live.
    pub fn ids(&self) -> Vec<SessionId> {
        // Let go of outside of the lock: the last one to let go takes it.
        let live: Vec<_> = lock(&self.table).live.values().filter_map(Weak::upgrade).collect();
        live.iter().map(|live| live.id).collect()
    }

    /// Those whose command runs.
    pub fn begun(&self) -> Vec<Arc<Begun>> {
        let live: Vec<_> = lock(&self.table).live.values().filter_map(Weak::upgrade).collect();
        let begun = |live: &Arc<Live>| live.outcome.borrow().as_ref()?.as_ref().ok().cloned();
        live.iter().filter_map(begun).collect()
    }

    /// How many are live.
    pub fn count(&self) -> usize {
        lock(&self.table).live.len()
    }
}

impl Live {
    /// The first attempt came to this; whoever repeats it gets the same.
    pub fn settle(&self, outcome: Outcome) {
        if outcome.is_ok() {
            lock(&self.table).remember(&self.attempt, self.id, Instant::now());
        }
        self.outcome.send_if_modified(|known| {
            let first = known.is_none();
            known.get_or_insert(outcome);
            first
        });
    }

    /// What the first attempt came to; waits for it, no longer than `within`.
    ///
    /// # Errors
    /// Its refusal, or `agent.not_ready` when it is still at it.
    pub async fn outcome(&self, within: Duration) -> Outcome {
        let mut outcome = self.outcome.subscribe();
        let known = tokio::time::timeout(within, outcome.wait_for(Option::is_some)).await;
        match known {
            Ok(Ok(known)) => known.clone().unwrap_or_else(|| Err(still())),
            Ok(Err(_)) | Err(_) => Err(still()),
        }
    }

    /// A number for a new leg; the newest one counts.
    pub fn new_leg(&self) -> u64 {
        self.legs.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Takes a leg's number back: it came to nothing, and the one before it goes on.
    pub fn no_leg(&self, leg: u64) {
        // Not when there is a newer one already.
        let _ = self
            .legs
            .compare_exchange(leg, leg - 1, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Whether a newer leg took over from `leg`.
    pub fn superseded(&self, leg: u64) -> bool {
        self.legs.load(Ordering::Acquire) > leg
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let mut table = lock(&self.table);
        // A successor of the same attempt may stand there already.
        let live = &mut table.live;
        if live.get(&self.attempt).is_some_and(|entry| entry.strong_count() == 0) {
            live.remove(&self.attempt);
        }
    }
}

fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    // Nothing under the lock can panic half-way, so the table is whole even when a thread did.
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Random bytes from the system.
///
/// # Errors
/// `agent.internal` when the generator fails.
pub fn random<const N: usize>() -> Result<[u8; N], Refusal> {
    let mut bytes = [0; N];
    aws_lc_rs::rand::fill(&mut bytes)
        .map_err(|_| Refusal::node(Code::AgentInternal, "the node's random generator failed"))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
