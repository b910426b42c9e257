//! Clients that came ahead of time: authenticated, without a wish, for minutes at most.
//!
//! ```text
//! STANDBY ─> a place? ─> STANDING_BY ─> OPEN ─> certificate looked at again ─> a session as any other
//!              │ no                 └─> minutes over, the agent stops: CLOSED      └─> refused: CLOSED with the reason
//!              └─> CLOSED (agent.standby)
//! ```
//!
//! A client that stands by has a place, a task and its TLS, and nothing else: no session, no decision, no buffer, and its relay is not
//! asked more often whether it lives. Nothing that was found out when it came counts when it opens.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use noderelay_pki::Identity;
use noderelay_proto::code::Code;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout};

use crate::accept::{Accepted, Early};
use crate::session::Node;

/// Who stands by. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Standbys {
    people: Arc<Mutex<HashMap<Identity, usize>>>,
    most: usize,
    per_person: usize,
}

/// A place; free again when dropped.
#[derive(Debug)]
pub struct Place {
    standbys: Standbys,
    who: Identity,
}

impl Standbys {
    /// Places for this many, and for this many of one person.
    pub fn new(most: usize, per_person: usize) -> Self {
        Self {
            people: Arc::default(),
            most,
            per_person,
        }
    }

    /// A place for this person, if there is one.
    pub fn enter(&self, who: &Identity) -> Option<Place> {
        let mut people = self.people();
        let (all, own) = (people.values().sum::<usize>(), people.get(who).copied().unwrap_or(0));
        if all >= self.most || own >= self.per_person {
            return None;
        }
        people.insert(who.clone(), own + 1);
        Some(Place {
            standbys: self.clone(),
            who: who.clone(),
        })
    }

    /// How many stand by.
    pub fn count(&self) -> usize {
        self.people().values().sum()
    }

    fn people(&self) -> MutexGuard<'_, HashMap<Identity, usize>> {
        self.people.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut people = self.standbys.people();
        if let Some(own) = people.get_mut(&self.who) {
            *own -= 1;
            if *own == 0 {
                people.remove(&self.who);
            }
        }
    }
}

/// Waits for the wish of a client that came early; nothing when it has none in time. `carried` says that something runs over the
/// link: that is so again once there is a wish.
pub async fn wait<S: AsyncRead + AsyncWrite + Unpin>(
    node: &Node,
    mut early: Early<S>,
    carried: Arc<()>,
) -> Option<(Accepted<S>, Option<Arc<()>>)> {
    let (limits, carrying) = (&node.config.limits, Arc::downgrade(&carried));
    drop(carried);
    let (within, handshake) = (limits.standby.duration(), limits.handshake.duration());
    let who = early.client().peer.identity().clone();
    let Some(place) = node.standbys.enter(&who) else {
        tracing::info!(%who, stand_by = node.standbys.count(), "no place to stand by");
        let full = "as many stand by as this node lets";
        // Whoever does not take it learns it from the end of the stream.
        let _ = timeout(handshake, early.close(Code::AgentStandby, full)).await;
        return None;
    };
    tracing::debug!(%who, stand_by = node.standbys.count(), "stands by");
    if !matches!(timeout(handshake, early.stand_by(within)).await, Ok(Ok(()))) {
        return None;
    }
    let over = tokio::select! {
        biased;
        () = node.stop.cancelled() => Some((Code::SessionAgentStopping, "the agent stops".to_owned())),
        said = early.said_something() => if said { None } else { return None },
        () = tokio::time::sleep(within) => Some((Code::AgentStandby, format!("nothing came for {within:?}"))),
    };
    drop(place);
    if let Some((code, seen)) = over {
        let _ = timeout(handshake, early.close(code, &seen)).await;
        return None;
    }
    let carried = carrying.upgrade();
    match timeout(handshake, early.open(&node.party, &node.own, Timestamp::now)).await {
        Ok(Ok(accepted)) => Some((accepted, carried)),
        Ok(Err(error)) => {
            node.denials.stranger(error.code(), &error, Instant::now());
            None
        }
        Err(_) => {
            let seen = format!("a standby began to say something and did not end within {handshake:?}");
            node.denials.stranger(Code::ProtocolTimeout, &seen, Instant::now());
            None
        }
    }
}

#[cfg(test)]
mod tests;
