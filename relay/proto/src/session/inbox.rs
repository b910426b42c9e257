//! The receiving half of an offset space: drops what came twice, counts what is consumed, says when to acknowledge.
//!
//! States of one unit: not here → received (`next`) → consumed → acknowledged. On a new path the cursor goes back to
//! `consumed`; frames below `next` are then duplicates.
//!
//! Never stores a frame: it hands on the new part of each, at once.

use std::marker::PhantomData;
use std::time::Duration;

use super::{Sequenced, SessionError, Stage};
use crate::limits::{ACK_DELAY_MS, ACK_EVERY, WINDOW_RESERVE};

/// The new part of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received<M> {
    /// Its offset.
    pub offset: u64,
    /// The frame, without what was received before.
    pub frame: M,
}

/// What came from the other side.
#[derive(Debug)]
pub struct Inbox<M> {
    cursor: u64,
    next: u64,
    consumed: u64,
    acked: u64,
    window: u64,
    stage: Stage,
    pending_since: Option<Duration>,
    message: PhantomData<fn() -> M>,
}

impl<M: Sequenced> Inbox<M> {
    /// An empty one at offset 0.
    #[must_use]
    pub const fn new(window: u64) -> Self {
        Self {
            cursor: 0,
            next: 0,
            consumed: 0,
            acked: 0,
            window,
            stage: Stage {
                ended: false,
                exited: false,
            },
            pending_since: None,
            message: PhantomData,
        }
    }

    /// Widens the window (OPENED names it). A window never shrinks.
    pub const fn widen(&mut self, window: u64) {
        if window > self.window {
            self.window = window;
        }
    }

    /// Takes the next sequenced frame of the path; gives the part that is new, `None` when none is.
    ///
    /// # Errors
    /// When the frame may not come here, or goes beyond the window.
    pub fn on_frame(&mut self, frame: M) -> Result<Option<Received<M>>, SessionError> {
        let name = frame.frame();
        let units = frame.units();
        if units == 0 {
            return Err(SessionError::NotSequenced(name));
        }
        let start = self.cursor;
        let end = start.saturating_add(units);
        if end <= self.next {
            self.cursor = end;
            return Ok(None);
        }
        let reserve = if frame.data().is_some() { 0 } else { WINDOW_RESERVE };
        let outstanding = end - self.consumed;
        if outstanding > self.window.saturating_add(reserve) {
            return Err(SessionError::Overrun {
                outstanding,
                window: self.window,
            });
        }
        self.stage
            .advance(name)
            .map_err(|after| SessionError::OutOfOrder { frame: name, after })?;
        let offset = start.max(self.next);
        let frame = match (usize::try_from(offset - start), frame.data()) {
            (Ok(skip @ 1..), Some(data)) if skip < data.len() => frame.with_data(data.slice(skip..)),
            _ => frame,
        };
        self.cursor = end;
        self.next = end;
        Ok(Some(Received { offset, frame }))
    }

    /// `units` more are consumed: written to the pty or stdout, the signal sent, the size set. In order, as received. Gives
    /// what is consumed in all.
    ///
    /// # Errors
    /// When more would be consumed than was received (our own mistake).
    pub fn consumed(&mut self, units: u64, now: Duration) -> Result<u64, SessionError> {
        let consumed = self.consumed.saturating_add(units);
        if consumed > self.next {
            return Err(SessionError::AckAhead {
                offset: consumed,
                head: self.next,
            });
        }
        self.consumed = consumed;
        if consumed > self.acked {
            self.pending_since.get_or_insert(now);
        }
        Ok(consumed)
    }

    /// The offset to send in an ACK now, if one is due: a good part of the window, or something that has waited long
    /// enough, or the end of everything.
    pub fn ack_due(&mut self, now: Duration) -> Option<u64> {
        let waiting = self.consumed - self.acked;
        let much = waiting >= (self.window / ACK_EVERY).max(1);
        let long = self.ack_at().is_some_and(|at| now >= at);
        let last = (self.stage.ended || self.stage.exited) && self.consumed == self.next;
        if waiting > 0 && (much || long || last) {
            self.take_ack()
        } else {
            None
        }
    }

    /// When [`Inbox::ack_due`] will be due at the latest: set a timer.
    #[must_use]
    pub fn ack_at(&self) -> Option<Duration> {
        self.pending_since
            .map(|since| since.saturating_add(Duration::from_millis(ACK_DELAY_MS)))
    }

    /// The offset to send in an ACK, due or not, `None` when the other side knows already: goes well with data that leaves
    /// anyway.
    pub fn take_ack(&mut self) -> Option<u64> {
        self.pending_since = None;
        (self.consumed > self.acked).then(|| {
            self.acked = self.consumed;
            self.acked
        })
    }

    /// A new path: gives the offset for `consumed` of RESUME or RESUMED, and expects the path to start there. Received but
    /// unconsumed frames stay valid; their second copy is dropped.
    pub const fn resume_offset(&mut self) -> u64 {
        self.cursor = self.consumed;
        self.acked = self.consumed;
        self.pending_since = None;
        self.consumed
    }

    /// Checks `sent` of the other side's RESUME or RESUMED.
    ///
    /// # Errors
    /// When it says that it sent less than arrived.
    pub const fn check_sent(&self, sent: u64) -> Result<(), SessionError> {
        if sent < self.next {
            Err(SessionError::SentBehind { sent, next: self.next })
        } else {
            Ok(())
        }
    }

    /// The offset behind everything received.
    #[must_use]
    pub const fn next_offset(&self) -> u64 {
        self.next
    }

    /// All below this is consumed.
    #[must_use]
    pub const fn consumed_offset(&self) -> u64 {
        self.consumed
    }

    /// Whether END was received.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.stage.ended
    }

    /// Whether EXIT was received: the sequence is complete.
    #[must_use]
    pub const fn has_exited(&self) -> bool {
        self.stage.exited
    }
}
