//! Is the node still there? One timer, that of the pump.
//!
//! States: heard lately → silent for the keep-alive time, asked (PING) → heard again | not heard in time: the path is lost.
//! A timer that fires far too late says that this process slept, and nothing about the node: it is asked again.

use std::time::Duration;

use noderelay_proto::ToNode;
use noderelay_proto::code::Code;
use tokio::time::Instant;

use super::Pump;
use crate::faults::Fault;

/// A timer that fires this much too late means that the process was stopped meanwhile.
const STOPPED: Duration = Duration::from_secs(3);

impl Pump<'_> {
    /// When the timer has to fire next.
    pub(super) fn wake(&self) -> Instant {
        match self.inbox.ack_at() {
            Some(at) if self.mute.is_none() => (self.started + at).min(self.look_at),
            _ => self.look_at,
        }
    }

    /// The timer fired: is the node still there?
    pub(super) fn look(&mut self) {
        let now = Instant::now();
        if now < self.look_at {
            return;
        }
        let late = now.duration_since(self.look_at) > STOPPED;
        if self.verdict.is_some() {
            // Only writing is left.
            self.look_at = now + self.liveness.keepalive;
            return;
        }
        if let Some(fault) = self.mute.clone() {
            return self.cannot_hear(fault);
        }
        match self.asked {
            // We slept (laptop lid, SIGSTOP): what the clock says about the node is worth nothing. Ask again.
            Some(_) if late => self.ask(now),
            Some(asked) if self.heard >= asked => {
                self.asked = None;
                self.look_at = self.heard + self.liveness.keepalive;
            }
            Some(_) => {
                let silent = now.duration_since(self.heard).as_secs();
                let seen = format!("the node was not heard for {silent} s");
                self.cannot_hear(Fault::on_the_way(Code::TransportTimeout, seen));
            }
            None if now.duration_since(self.heard) >= self.liveness.keepalive => self.ask(now),
            None => self.look_at = self.heard + self.liveness.keepalive,
        }
    }

    fn ask(&mut self, now: Instant) {
        let number = u64::try_from(self.started.elapsed().as_millis()).unwrap_or_default();
        ToNode::Ping(number).encode(&mut self.outgoing);
        self.asked = Some(now);
        self.look_at = now + self.liveness.patience;
    }
}
