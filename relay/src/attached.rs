//! The agents that are attached to this relay, by node, and what happens when two claim one node.
//!
//! ```text
//!   attach(node, instance) ─┬─ nobody there ──────────────> First        (active)
//!                           ├─ same instance ─────────────> Reconnected  (active; the old link only runs out)
//!                           └─ another instance ──────────> Parked       (the caller probes the incumbent)
//!                                 incumbent dead  → replace() → the newcomer is active
//!                                 incumbent alive → it stays, the newcomer waits parked, both are listed
//!   guard dropped ── active one → its own older link if that still stands, else the eldest parked one is active;
//!                                 nobody left: the node is remembered as departed
//! ```
//!
//! An instance id is random for each run of an agent: the same id is the same process on a new path, another id under
//! the same name is either a successor of a dead process or a copy of its key. Only the answer to a probe tells which.
//!
//! Never: does I/O, reads a clock, decides who is alive, or keeps more than a bounded number of claims for a node.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use noderelay_pki::name::{ClusterName, NodeName};
use noderelay_proto::InstanceId;
use tokio::sync::watch;

/// Newcomers that may wait for one node. Two machines with one key are a fault to show; more are an attack on memory.
pub const MAX_PARKED: usize = 4;

/// Nodes whose departure is remembered, so that "offline since" can be told from "never seen".
pub const MAX_DEPARTED: usize = 16_384;

/// Which node an agent speaks for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeKey {
    /// The node's cluster.
    pub cluster: ClusterName,
    /// The node.
    pub node: NodeName,
}

impl fmt::Display for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.cluster, self.node)
    }
}

/// One agent's claim on its node.
#[derive(Debug, Clone)]
pub struct Attachment<H> {
    /// Which run of the agent.
    pub instance: InstanceId,
    /// How to reach it.
    pub handle: H,
    /// When it registered here.
    pub since: Timestamp,
    ticket: u64,
}

/// What became of an `attach`.
#[derive(Debug)]
pub enum Placement<H> {
    /// The node had no agent here.
    First,
    /// The same process came back on a new connection. What runs on the older one runs on; the one before that, if
    /// there is one, is to be closed.
    Reconnected {
        /// A third connection of the same process.
        surplus: Option<H>,
    },
    /// Another process holds the node: probe it.
    Parked {
        /// The one that holds the node.
        incumbent: Attachment<H>,
    },
}

/// A node has `MAX_PARKED` newcomers waiting already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{MAX_PARKED} agents with other instance ids wait for this node already")]
pub struct Crowded;

/// A row of the list of agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed<H> {
    /// Which node.
    pub key: NodeKey,
    /// Which run of the agent.
    pub instance: InstanceId,
    /// How to reach it.
    pub handle: H,
    /// When it registered here.
    pub since: Timestamp,
    /// Whether it only waits, because another one holds the node.
    pub parked: bool,
}

/// How many agents there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Nodes with an agent.
    pub attached: usize,
    /// Newcomers that wait.
    pub parked: usize,
}

/// All attached agents.
pub struct Registry<H> {
    inner: Arc<Mutex<Inner<H>>>,
}

struct Inner<H> {
    slots: HashMap<NodeKey, Slot<H>>,
    /// Departure by node, and nodes by order of departure, so that the eldest can be forgotten.
    departed: HashMap<NodeKey, (Timestamp, u64)>,
    departures: BTreeMap<u64, NodeKey>,
    tickets: u64,
    parked: usize,
}

struct Slot<H> {
    active: Claim<H>,
    /// The same process' connection before this one.
    previous: Option<Claim<H>>,
    parked: VecDeque<Claim<H>>,
}

struct Claim<H> {
    attachment: Attachment<H>,
    standing: watch::Sender<Standing>,
}

/// How a claim stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It gets the node's streams.
    Active,
    /// It waits.
    Parked,
    /// Another one has taken its place.
    Replaced,
}

/// Holds a claim; dropping it gives the node up.
pub struct Guard<H> {
    inner: Arc<Mutex<Inner<H>>>,
    key: NodeKey,
    ticket: u64,
    standing: watch::Receiver<Standing>,
    now: fn() -> Timestamp,
}

impl<H: Clone> Registry<H> {
    /// An empty registry.
    pub fn new() -> Self {
        Self {
            inner: Arc::new(Mutex::new(Inner {
                slots: HashMap::new(),
                departed: HashMap::new(),
                departures: BTreeMap::new(),
                tickets: 0,
                parked: 0,
            })),
        }
    }

    /// Enters a claim. `clock` is read once more when the guard is dropped.
    pub fn attach(
        &self,
        key: NodeKey,
        instance: InstanceId,
        handle: H,
        clock: fn() -> Timestamp,
    ) -> Result<(Guard<H>, Placement<H>), Crowded> {
        let mut locked = lock(&self.inner);
        let inner = &mut *locked;
        inner.tickets += 1;
        let ticket = inner.tickets;
        let attachment = Attachment {
            instance,
            handle,
            since: clock(),
            ticket,
        };
        let (standing, mut seen) = watch::channel(Standing::Active);
        let claim = Claim { attachment, standing };
        let placement = match inner.slots.get_mut(&key) {
            None => {
                inner.forget_departure(&key);
                inner.slots.insert(
                    key.clone(),
                    Slot {
                        active: claim,
                        previous: None,
                        parked: VecDeque::new(),
                    },
                );
                Placement::First
            }
            Some(slot) if slot.active.attachment.instance == instance => {
                let older = std::mem::replace(&mut slot.active, claim);
                older.standing.send_replace(Standing::Replaced);
                let surplus = slot.previous.replace(older).map(|claim| claim.attachment.handle);
                Placement::Reconnected { surplus }
            }
            Some(slot) => {
                // The same newcomer on a new connection takes its own place in the queue.
                let own = slot
                    .parked
                    .iter()
                    .position(|parked| parked.attachment.instance == instance);
                if own.is_none() && slot.parked.len() >= MAX_PARKED {
                    return Err(Crowded);
                }
                claim.standing.send_replace(Standing::Parked);
                let incumbent = slot.active.attachment.clone();
                if let Some(older) = own.and_then(|at| slot.parked.remove(at)) {
                    older.standing.send_replace(Standing::Replaced);
                    inner.parked -= 1;
                }
                slot.parked.push_back(claim);
                inner.parked += 1;
                Placement::Parked { incumbent }
            }
        };
        drop(locked);
        seen.mark_unchanged();
        Ok((
            Guard {
                inner: self.inner.clone(),
                key,
                ticket,
                standing: seen,
                now: clock,
            },
            placement,
        ))
    }

    /// The agent that gets the node's streams.
    pub fn find(&self, key: &NodeKey) -> Option<Attachment<H>> {
        lock(&self.inner)
            .slots
            .get(key)
            .map(|slot| slot.active.attachment.clone())
    }

    /// Since when the node has had no agent here, if it ever had one and that is not long ago.
    pub fn departed(&self, key: &NodeKey) -> Option<Timestamp> {
        lock(&self.inner).departed.get(key).map(|(at, _)| *at)
    }

    /// The incumbent did not answer: the one that holds `guard` takes its place. Returns the dead one's handle, to be
    /// closed; `None` when the incumbent is another one by now (or `guard` is active already): probe again.
    pub fn replace(&self, incumbent: &Attachment<H>, guard: &Guard<H>) -> Option<H> {
        let mut inner = lock(&self.inner);
        let slot = inner.slots.get_mut(&guard.key)?;
        if slot.active.attachment.ticket != incumbent.ticket {
            return None;
        }
        let at = slot
            .parked
            .iter()
            .position(|claim| claim.attachment.ticket == guard.ticket)?;
        let newcomer = slot.parked.remove(at)?;
        newcomer.standing.send_replace(Standing::Active);
        let dead = std::mem::replace(&mut slot.active, newcomer);
        dead.standing.send_replace(Standing::Replaced);
        slot.previous = None;
        inner.parked -= 1;
        Some(dead.attachment.handle)
    }

    /// Numbers for metrics.
    pub fn counts(&self) -> Counts {
        let inner = lock(&self.inner);
        Counts {
            attached: inner.slots.len(),
            parked: inner.parked,
        }
    }

    /// Every claim, by node; the active one first.
    pub fn list(&self) -> Vec<Listed<H>> {
        let inner = lock(&self.inner);
        let mut rows: Vec<Listed<H>> = inner
            .slots
            .iter()
            .flat_map(|(key, slot)| {
                std::iter::once((&slot.active, false))
                    .chain(slot.parked.iter().map(|claim| (claim, true)))
                    .map(|(claim, parked)| Listed {
                        key: key.clone(),
                        instance: claim.attachment.instance,
                        handle: claim.attachment.handle.clone(),
                        since: claim.attachment.since,
                        parked,
                    })
            })
            .collect();
        rows.sort_by(|a, b| (&a.key, a.parked, a.since).cmp(&(&b.key, b.parked, b.since)));
        rows
    }
}

impl<H: Clone> Default for Registry<H> {
    fn default() -> Self {
        Self::new()
    }
}

impl<H> fmt::Debug for Registry<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = lock(&self.inner);
        f.debug_struct("Registry")
            .field("attached", &inner.slots.len())
            .field("parked", &inner.parked)
            .finish()
    }
}

impl<H> Guard<H> {
    /// How the claim stands now.
    pub fn standing(&self) -> Standing {
        *self.standing.borrow()
    }

    /// How the claim stands, told to the agent now: [`Guard::changed`] waits for what comes after.
    pub fn acknowledge(&mut self) -> Standing {
        *self.standing.borrow_and_update()
    }

    /// Waits until the claim stands differently from what was acknowledged last.
    pub async fn changed(&mut self) -> Standing {
        if self.standing.changed().await.is_err() {
            // The registry has let go of the claim.
            return std::future::pending().await;
        }
        *self.standing.borrow_and_update()
    }
}

impl<H> fmt::Debug for Guard<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("key", &self.key)
            .field("standing", &self.standing())
            .finish()
    }
}

impl<H> Drop for Guard<H> {
    fn drop(&mut self) {
        let now = (self.now)();
        lock(&self.inner).leave(&self.key, self.ticket, now);
    }
}

impl<H> Inner<H> {
    fn leave(&mut self, key: &NodeKey, ticket: u64, now: Timestamp) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        if slot.active.attachment.ticket == ticket {
            let heir = slot.previous.take().or_else(|| {
                let eldest = slot.parked.pop_front()?;
                self.parked -= 1;
                Some(eldest)
            });
            match heir {
                Some(heir) => {
                    heir.standing.send_replace(Standing::Active);
                    slot.active = heir;
                }
                None => {
                    self.slots.remove(key);
                    self.remember_departure(key, now);
                }
            }
            return;
        }
        slot.previous.take_if(|claim| claim.attachment.ticket == ticket);
        let before = slot.parked.len();
        slot.parked.retain(|claim| claim.attachment.ticket != ticket);
        self.parked -= before - slot.parked.len();
    }

    fn remember_departure(&mut self, key: &NodeKey, now: Timestamp) {
        self.forget_departure(key);
        self.tickets += 1;
        self.departed.insert(key.clone(), (now, self.tickets));
        self.departures.insert(self.tickets, key.clone());
        if self.departures.len() > MAX_DEPARTED
            && let Some((_, eldest)) = self.departures.pop_first()
        {
            self.departed.remove(&eldest);
        }
    }

    fn forget_departure(&mut self, key: &NodeKey) {
        if let Some((_, order)) = self.departed.remove(key) {
            self.departures.remove(&order);
        }
    }
}

fn lock<H>(inner: &Mutex<Inner<H>>) -> MutexGuard<'_, Inner<H>> {
    // Every change under the lock is complete before anything that could panic: a poisoned lock is still consistent.
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
