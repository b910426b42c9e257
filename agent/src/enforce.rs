//! An order that ends a session ends it, whatever has become of the session's holder.
//!
//! ```text
//! TERMINATE, PING ──> holder ── PONG within [`HEARD`] ──> it hangs up and kills; it has the time for both, and a margin
//!                           └── nothing ──> the agent hangs up itself, and kills after the grace
//! the session is over ──> nothing more            time is up ──> all that came out of the session is killed, then its holder
//! the agent stops ──> a holder that heard it does the rest alone; for one that did not, time is up now
//! ```
//!
//! A holder can hang: its disk does not answer, or somebody stopped it. Then its socket takes the order, or does not, and
//! nobody hears it. What the agent does is done beside the leg, which may be waiting for that very socket, and which ends
//! before an agent that stops has done this.
//!
//! It decides nothing, and touches no process but the holder that this agent started and what is below it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use noderelay_holder::force;
use noderelay_proto::code::Code;
use noderelay_proto::control::Terminate;
use noderelay_proto::id::SessionId;
use noderelay_proto::message::{FromHolder, ToClient, ToHolder, ToNode};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::refusal::Refusal;
use crate::sessions::random;

/// A holder answers within microseconds, on a busy node within some ten milliseconds.
const HEARD: Duration = Duration::from_millis(500);

/// What a holder that heard the order gets beyond the time that it needs itself.
const MARGIN: Duration = Duration::from_secs(2);

/// What is listened for in the words of a holder.
#[derive(Clone, Debug)]
pub struct Word {
    /// The number of our own PING; nobody else knows it.
    number: u64,
    /// Our PING came back: what was said before it was heard.
    heard: CancellationToken,
    /// The session's end was told.
    over: CancellationToken,
    /// The order that ends the session.
    order: Arc<OnceLock<Terminate>>,
}

impl Word {
    /// With a new number.
    ///
    /// # Errors
    /// `agent.internal` when the system gives no random numbers.
    pub fn new() -> Result<Self, Refusal> {
        Ok(Self {
            // A varint has 62 bits.
            number: u64::from_be_bytes(random()?) >> 2,
            heard: CancellationToken::new(),
            over: CancellationToken::new(),
            order: Arc::default(),
        })
    }

    /// Why a session has ended whose holder is gone, or is not to be understood any more: by the order that it had got, or by
    /// that loss.
    pub fn without_holder(&self, seen: &str) -> (Code, String) {
        match self.order.get() {
            Some(order) => (Code::from_number(order.code), order.seen.clone()),
            None => (Code::SessionHolderLost, seen.to_owned()),
        }
    }

    /// Listens to a word of the holder's; says whether it was for us alone.
    pub fn note(&self, message: &FromHolder) -> bool {
        match message {
            FromHolder::Session(ToClient::Pong(number)) if *number == self.number => {
                self.heard.cancel();
                return true;
            }
            FromHolder::Session(ToClient::Exit(_) | ToClient::Closed(_)) => self.over.cancel(),
            _ => {}
        }
        false
    }
}

/// Sees to the end of one session, for as long as it is kept, and of one whose end was ordered when the agent stops.
pub struct Enforcer {
    session: SessionId,
    holder: Option<force::Known>,
    grace: Duration,
    word: Word,
    at_work: bool,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Enforcer {
    /// For a session whose processes have `grace` between HUP and KILL. Its work is one of the `tasks` that the agent waits
    /// for when it stops.
    pub fn new(
        session: SessionId,
        holder: Option<force::Known>,
        grace: Duration,
        word: Word,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> Self {
        Self {
            session,
            holder,
            grace,
            word,
            at_work: false,
            tasks: tasks.clone(),
            stop: stop.clone(),
        }
    }

    /// An order is about to be given; gives what is to be said. Of those that end the session the first counts.
    pub fn given(&mut self, order: ToHolder) -> Vec<ToHolder> {
        let ToHolder::Terminate(end) = &order else {
            return vec![order];
        };
        self.word.order.get_or_init(|| end.clone());
        if let (Some(holder), false) = (self.holder, self.at_work) {
            self.at_work = true;
            let (word, stop) = (self.word.clone(), self.stop.clone());
            self.tasks.spawn(enforce(self.session, holder, self.grace, word, stop));
        }
        vec![order, ToNode::Ping(self.word.number).into()]
    }
}

impl Drop for Enforcer {
    fn drop(&mut self) {
        // Legs end with the agent, sessions do not: then it is not over.
        if !self.stop.is_cancelled() {
            self.word.over.cancel();
        }
    }
}

async fn enforce(session: SessionId, holder: force::Known, grace: Duration, word: Word, stop: CancellationToken) {
    let heard = tokio::select! {
        biased;
        () = word.over.cancelled() => return,
        () = word.heard.cancelled() => true,
        () = tokio::time::sleep(HEARD) => false,
    };
    let patience = if heard {
        grace + grace.max(Duration::from_secs(1)) + MARGIN
    } else {
        let count = at(move || force::hang_up(holder)).await;
        if count > 0 {
            tracing::error!(%session, count, "the session's holder heard no order within {HEARD:?}; the agent hung up itself");
        }
        grace
    };
    tokio::select! {
        biased;
        () = word.over.cancelled() => return,
        () = stop.cancelled() => if heard { return },
        () = tokio::time::sleep(patience) => {}
    }
    let count = at(move || force::kill(holder)).await;
    if count == 0 {
        return;
    }
    tracing::error!(%session, count, "the session's holder ended nothing in time; the agent killed it and all below it");
}

/// The process table of a full node takes its time.
async fn at(work: impl FnOnce() -> usize + Send + 'static) -> usize {
    tokio::task::spawn_blocking(work).await.unwrap_or(0)
}
