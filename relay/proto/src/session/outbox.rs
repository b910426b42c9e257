//! The sending half of an offset space: the replay buffer, which is the window.
//!
//! Never drops a frame that is not acknowledged; never holds more than the window (plus a small reserve that only signals
//! and their like may use). Small pieces of data are copied together, so that the memory held is in step with the bytes
//! held.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::{Sequenced, SessionError, Stage};
use crate::frame::Type;
use crate::limits::{COALESCE, MAX_DATA, MAX_PIECES, WINDOW_RESERVE};
use crate::varint;

/// Why our own side can't send something now, or ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// The window is full: wait for an acknowledgement.
    #[error("the window is full: {capacity} units are free, {units} are wanted")]
    Full {
        /// Free units.
        capacity: u64,
        /// Wanted units.
        units: u64,
    },
    /// It may not come at this point.
    #[error("{frame} may not follow {after}")]
    OutOfOrder {
        /// The frame.
        frame: Type,
        /// What it would come behind.
        after: Type,
    },
    /// It is not part of the offset space, or empty.
    #[error("{0} is not part of the offset space, or empty")]
    NotSequenced(Type),
    /// One frame can't carry it.
    #[error("{0} bytes are more than one data frame carries")]
    TooLong(usize),
    /// The offset space is used up (4 EiB).
    #[error("the offset space is used up")]
    Exhausted,
}

#[derive(Debug)]
struct Entry<M> {
    offset: u64,
    frame: M,
}

/// What was produced and is not yet consumed by the other side.
#[derive(Debug)]
pub struct Outbox<M> {
    acked: u64,
    head: u64,
    window: u64,
    stage: Stage,
    entries: VecDeque<Entry<M>>,
}

impl<M: Sequenced> Outbox<M> {
    /// An empty one at offset 0.
    #[must_use]
    pub const fn new(window: u64) -> Self {
        Self {
            acked: 0,
            head: 0,
            window,
            stage: Stage {
                ended: false,
                exited: false,
            },
            entries: VecDeque::new(),
        }
    }

    /// Widens the window (OPENED names it). A window never shrinks.
    pub const fn widen(&mut self, window: u64) {
        if window > self.window {
            self.window = window;
        }
    }

    /// Takes the next frame and gives its offset. The caller also writes it to the path, if there is one.
    ///
    /// # Errors
    /// [`PushError`]; nothing has changed then.
    pub fn push(&mut self, frame: M) -> Result<u64, PushError> {
        let name = frame.frame();
        let units = frame.units();
        if units == 0 {
            return Err(PushError::NotSequenced(name));
        }
        let reserve = match frame.data() {
            Some(data) if data.len() > MAX_DATA => return Err(PushError::TooLong(data.len())),
            Some(_) => 0,
            None => WINDOW_RESERVE,
        };
        let capacity = self.free(reserve);
        if units > capacity {
            return Err(PushError::Full { capacity, units });
        }
        let offset = self.head;
        let head = offset
            .checked_add(units)
            .filter(|head| *head <= varint::MAX)
            .ok_or(PushError::Exhausted)?;
        self.stage
            .advance(name)
            .map_err(|after| PushError::OutOfOrder { frame: name, after })?;
        self.store(offset, frame);
        self.head = head;
        Ok(offset)
    }

    /// Bytes of data that [`Outbox::push`] takes now, at most one frame: read no more than this from pty or stdin.
    #[must_use]
    pub fn room(&self) -> usize {
        usize::try_from(self.capacity()).unwrap_or(usize::MAX).min(MAX_DATA)
    }

    /// Units of data that fit in all.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.free(0)
    }

    /// Whether no data fits.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.capacity() == 0
    }

    /// Units that were produced and are not acknowledged.
    #[must_use]
    pub const fn in_flight(&self) -> u64 {
        self.head.saturating_sub(self.acked)
    }

    /// The offset behind everything produced: `sent` of RESUME and RESUMED.
    #[must_use]
    pub const fn head(&self) -> u64 {
        self.head
    }

    /// All below this is acknowledged.
    #[must_use]
    pub const fn acked(&self) -> u64 {
        self.acked
    }

    /// Whether everything was acknowledged.
    #[must_use]
    pub const fn is_drained(&self) -> bool {
        self.acked == self.head
    }

    /// Whether EXIT was produced.
    #[must_use]
    pub const fn has_exited(&self) -> bool {
        self.stage.exited
    }

    /// Whether END was produced.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.stage.ended
    }

    /// The other side consumed everything below `offset`. Gives the units that became free.
    ///
    /// # Errors
    /// When the offset was never produced, or lies below an earlier acknowledgement.
    pub fn ack(&mut self, offset: u64) -> Result<u64, SessionError> {
        self.check(offset)?;
        let freed = offset - self.acked;
        self.acked = offset;
        while let Some(front) = self.entries.front_mut() {
            let end = front.offset + front.frame.units();
            if end > offset {
                if let Some(rest) = tail(&front.frame, front.offset, offset) {
                    front.frame = rest;
                    front.offset = offset;
                }
                break;
            }
            self.entries.pop_front();
        }
        Ok(freed)
    }

    /// What must be sent again when the other side has consumed everything below `offset`.
    ///
    /// # Errors
    /// When the offset was never produced, or is acknowledged already and therefore gone.
    pub fn replay_from(&self, offset: u64) -> Result<Vec<M>, SessionError> {
        self.check(offset)?;
        let whole_or_rest = |entry: &Entry<M>| {
            if entry.offset >= offset {
                Some(entry.frame.clone())
            } else {
                tail(&entry.frame, entry.offset, offset)
            }
        };
        Ok(self.entries.iter().filter_map(whole_or_rest).collect())
    }

    /// A new path: acknowledges up to the `consumed` of the other side's RESUME or RESUMED and gives what to send there
    /// first. Call it once the other side's proof has verified.
    ///
    /// # Errors
    /// As [`Outbox::ack`].
    pub fn resume(&mut self, consumed: u64) -> Result<Vec<M>, SessionError> {
        self.ack(consumed)?;
        self.replay_from(consumed)
    }

    /// Free units, when `reserve` more than the window (and as many more pieces) may be used.
    fn free(&self, reserve: u64) -> u64 {
        if self.entries.len() as u64 >= MAX_PIECES as u64 + reserve {
            return 0;
        }
        self.window.saturating_add(reserve).saturating_sub(self.in_flight())
    }

    fn check(&self, offset: u64) -> Result<(), SessionError> {
        if offset > self.head {
            return Err(SessionError::AckAhead {
                offset,
                head: self.head,
            });
        }
        if offset < self.acked {
            return Err(SessionError::AckBehind {
                offset,
                acked: self.acked,
            });
        }
        Ok(())
    }

    /// Appends, or joins with the last entry when both are small data of one kind.
    fn store(&mut self, offset: u64, frame: M) {
        let Some(data) = frame.data().filter(|data| data.len() < COALESCE) else {
            self.entries.push_back(Entry { offset, frame });
            return;
        };
        if let Some(last) = self.entries.back_mut()
            && last.frame.frame() == frame.frame()
            && let Some(before) = last.frame.data().filter(|before| before.len() + data.len() <= COALESCE)
        {
            let mut joined = BytesMut::with_capacity(before.len() + data.len());
            joined.extend_from_slice(before);
            joined.extend_from_slice(data);
            last.frame = last.frame.with_data(joined.freeze());
            return;
        }
        let own = frame.with_data(Bytes::copy_from_slice(data));
        self.entries.push_back(Entry { offset, frame: own });
    }
}

/// The part of a data frame at and above `offset`, `None` when there is none.
fn tail<M: Sequenced>(frame: &M, start: u64, offset: u64) -> Option<M> {
    let data = frame.data()?;
    let skip = usize::try_from(offset.checked_sub(start)?).ok()?;
    (skip < data.len()).then(|| frame.with_data(data.slice(skip..)))
}
