//! What a peer and a person may use of a relay, and what is kept for those who must get through.
//!
//! ```text
//! connection ── seat by class (agents have seats of their own) and person ──> Seat     none left: relay.busy, relay.quota
//! stream     ── seat by class (break-glass has the last ones), person, rate ──> Seat     none left: relay.busy, relay.quota
//! seat dropped ── everything is given back
//! ```
//!
//! A person is an identity, over all of its connections. Quotas are there so that nobody can take a relay from the others, not
//! to count: they are far above what a person needs. A refusal says when to come back.
//!
//! Pure: identities and time are arguments. It never ends what it has let in.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use noderelay_pki::{Identity, RoleKind};
use noderelay_proto::{Code, Refusal};
use tokio::time::Instant;

use crate::bucket::{Bucket, Rate};

/// When a relay that is full may have room again: seats come free as others end.
const FULL: Duration = Duration::from_secs(5);
/// The part of all streams that only break-glass accounts get: 1 of this many.
const RESERVED: usize = 8;

/// The bounds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Connections of agents.
    pub(crate) agents: usize,
    /// Connections of clients.
    pub(crate) clients: usize,
    /// Connections of one person.
    pub(crate) connections_per_person: usize,
    /// Streams.
    pub(crate) streams: usize,
    /// Streams of one person.
    pub(crate) streams_per_person: usize,
    /// How fast one person opens connections and streams.
    pub(crate) opens: Rate,
}

/// Why there is no seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoSeat {
    /// The relay is full.
    #[error("the relay has no {0} left")]
    Full(&'static str),
    /// The person has as many as it may.
    #[error("this person has as many {0} here as it may")]
    Many(&'static str),
    /// The person opens too fast.
    #[error("this person opens connections and streams faster than it may")]
    Fast(Duration),
}

impl NoSeat {
    pub(crate) fn code(self) -> Code {
        match self {
            Self::Full(_) => Code::RelayBusy,
            Self::Many(_) | Self::Fast(_) => Code::RelayQuota,
        }
    }

    /// What the peer is told: the code, and when to come back.
    pub(crate) fn refusal(self) -> Refusal {
        let back = match self {
            Self::Full(_) | Self::Many(_) => FULL,
            Self::Fast(wait) => wait,
        };
        Refusal {
            code: self.code(),
            back: Some(back),
        }
    }
}

/// The seats. Cloning shares them.
#[derive(Debug, Clone)]
pub(crate) struct Quotas {
    bounds: Bounds,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    agents: usize,
    clients: usize,
    streams: usize,
    people: HashMap<Identity, Person>,
}

#[derive(Debug)]
struct Person {
    connections: usize,
    streams: usize,
    opens: Bucket,
}

#[derive(Debug, Clone, Copy)]
enum What {
    Agent,
    Client,
    Stream,
}

impl Person {
    /// Whether there is something to remember: going and coming back does not refill an opening rate.
    fn is_here(&mut self, opens: Rate, now: Instant) -> bool {
        self.connections > 0 || self.streams > 0 || !self.opens.is_full(opens, now)
    }
}

/// A seat; given back when dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    quotas: Quotas,
    who: Identity,
    what: What,
}

impl Quotas {
    /// All seats free.
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            state: Arc::default(),
        }
    }

    /// A seat for a connection.
    pub(crate) fn connection(&self, who: &Identity, now: Instant) -> Result<Seat, NoSeat> {
        let bounds = self.bounds;
        let mut state = self.state();
        let (taken, seats, what, name) = match who.kind() {
            RoleKind::Node => (state.agents, bounds.agents, What::Agent, "seats for agents"),
            _ => (state.clients, bounds.clients, What::Client, "seats for clients"),
        };
        if taken >= seats {
            return Err(NoSeat::Full(name));
        }
        if state.people.len() >= bounds.agents + bounds.clients {
            state.people.retain(|_, person| person.is_here(bounds.opens, now));
        }
        let person = state.person(who, bounds.opens, now);
        if person.connections >= bounds.connections_per_person {
            return Err(NoSeat::Many("connections"));
        }
        person.opens.take(bounds.opens, now).map_err(NoSeat::Fast)?;
        person.connections += 1;
        *state.count(what) += 1;
        Ok(self.seat(who, what))
    }

    /// A seat for a stream of somebody who has a connection.
    pub(crate) fn stream(&self, who: &Identity, now: Instant) -> Result<Seat, NoSeat> {
        let bounds = self.bounds;
        let mut state = self.state();
        let seats = match who.kind() {
            RoleKind::BreakGlass => bounds.streams,
            _ => bounds.streams - bounds.streams / RESERVED,
        };
        if state.streams >= seats {
            return Err(NoSeat::Full("streams"));
        }
        let person = state.person(who, bounds.opens, now);
        if person.streams >= bounds.streams_per_person {
            return Err(NoSeat::Many("streams"));
        }
        person.opens.take(bounds.opens, now).map_err(NoSeat::Fast)?;
        person.streams += 1;
        state.streams += 1;
        Ok(self.seat(who, What::Stream))
    }

    fn seat(&self, who: &Identity, what: What) -> Seat {
        Seat {
            quotas: self.clone(),
            who: who.clone(),
            what,
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn person(&mut self, who: &Identity, opens: Rate, now: Instant) -> &mut Person {
        self.people.entry(who.clone()).or_insert_with(|| Person {
            connections: 0,
            streams: 0,
            opens: Bucket::full(opens, now),
        })
    }

    fn count(&mut self, what: What) -> &mut usize {
        match what {
            What::Agent => &mut self.agents,
            What::Client => &mut self.clients,
            What::Stream => &mut self.streams,
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut state = self.quotas.state();
        let count = state.count(self.what);
        *count = count.saturating_sub(1);
        if let Some(person) = state.people.get_mut(&self.who) {
            match self.what {
                What::Stream => person.streams = person.streams.saturating_sub(1),
                What::Agent | What::Client => person.connections = person.connections.saturating_sub(1),
            }
        }
    }
}

#[cfg(test)]
mod tests;
