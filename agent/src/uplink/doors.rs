//! The addresses of one uplink: which of them may be dialled now, and in which order.
//!
//! ```text
//! open ── the relay behind it was lost ──────────────> behind the others
//!   ^ └── it said when it wants to be tried again ───> closed until then (jittered, bounded) ──┐
//!   └─────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A relay speaks for its own addresses alone. Where an address says nothing about who is behind it (it was given by hand), only the
//! one that was dialled counts.
//!
//! Pure: the time is an argument. It never forgets an address.

use noderelay_pki::{Expect, Identity};
use tokio::time::Instant;

/// An address, the relay that must be behind it, and until when it is left alone.
#[derive(Debug)]
struct Door {
    address: String,
    expect: Expect,
    closed: Option<Instant>,
}

/// The addresses.
#[derive(Debug)]
pub struct Doors(Vec<Door>);

impl Doors {
    /// All of them open, the first one first.
    pub fn new(doors: Vec<(String, Expect)>) -> Self {
        let door = |(address, expect)| Door {
            address,
            expect,
            closed: None,
        };
        Self(doors.into_iter().map(door).collect())
    }

    /// Those that may be dialled.
    pub fn open(&self, now: Instant) -> Vec<(String, Expect)> {
        let open = self
            .0
            .iter()
            .filter(|door| door.closed.is_none_or(|until| until <= now));
        open.map(|door| (door.address.clone(), door.expect.clone())).collect()
    }

    /// When the first one opens, while none is open.
    pub fn opens(&self, now: Instant) -> Option<Instant> {
        let first = self.0.iter().map(|door| door.closed.unwrap_or(now)).min();
        first.filter(|first| *first > now)
    }

    /// Puts the addresses of the relay that was dialled here behind the others: whoever was just lost is not the first one to be
    /// tried again.
    pub fn last(&mut self, address: &str, relay: &Identity) {
        let its = self.those_of(address, Some(relay));
        self.0.sort_by_key(|door| its.contains(&door.address));
    }

    /// Leaves the addresses of the relay that was dialled here, if it is known, alone until then.
    pub fn close(&mut self, address: &str, relay: Option<&Identity>, until: Instant) {
        let its = self.those_of(address, relay);
        for door in self.0.iter_mut().filter(|door| its.contains(&door.address)) {
            door.closed = Some(until);
        }
    }

    /// The addresses that lead to the same relay.
    fn those_of(&self, address: &str, relay: Option<&Identity>) -> Vec<String> {
        let fits = |door: &&Door| relay.is_some_and(|relay| door.expect.check(relay).is_ok());
        let telling = !self.0.iter().all(|door| fits(&door));
        let its = self
            .0
            .iter()
            .filter(|door| door.address == address || (telling && fits(door)));
        its.map(|door| door.address.clone()).collect()
    }
}

#[cfg(test)]
mod tests;
