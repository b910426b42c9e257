//! What the user sent and the command has not yet taken.
//!
//! ```text
//! DATA ──> queue ──> pty or stdin     consumed: written
//! END  ──> queue ──> its key, or the pipe is closed
//! RESIZE, SIGNAL     done on arrival; only their place in the order waits, so that acknowledgements stay in order
//! ```
//!
//! A resize or signal is done at once because it must get through when the command does not read. For the same reason an
//! interrupt key that is stuck behind unread input does what it would do at the terminal: it throws that input away.
//!
//! It never blocks, and never reads.

use std::collections::VecDeque;
use std::io;

use bytes::{Buf, Bytes};

/// What takes the input.
pub(crate) trait Sink {
    /// Writes some; `WouldBlock` when nothing is taken now.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// The keys that say that the input ends, or `None` after having closed it.
    fn end(&mut self, mid_line: bool) -> Option<Bytes>;
    /// The key that interrupts, when the terminal acts on it.
    fn interrupt_key(&self) -> Option<u8>;
    /// Throws away what is written and not yet read.
    fn forget(&mut self);
}

#[derive(Debug)]
enum Item {
    /// Bytes for the command; each is one unit.
    Data(Bytes),
    /// One unit that is done already.
    Done,
    /// The end: one unit when it is done.
    End,
    /// Keys of the end that are still to be written: one unit together.
    EndKeys(Bytes),
}

/// The queue.
#[derive(Debug, Default)]
pub(crate) struct Input {
    queue: VecDeque<Item>,
    /// Nobody reads any more: everything is taken and thrown away.
    closed: bool,
    mid_line: bool,
    /// What is in the queue was searched for an interrupt key already.
    searched: bool,
}

impl Input {
    pub(crate) fn data(&mut self, bytes: Bytes) {
        self.searched = false;
        self.queue.push_back(Item::Data(bytes));
    }

    pub(crate) fn done(&mut self) {
        self.queue.push_back(Item::Done);
    }

    pub(crate) fn end(&mut self) {
        self.queue.push_back(Item::End);
    }

    /// No input from now on.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// Whether a write would do something.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Writes as much as the command takes. Gives the units that are consumed.
    pub(crate) fn write(&mut self, to: &mut impl Sink) -> u64 {
        let mut units = 0;
        while let Some(item) = self.queue.front_mut() {
            let is_end = matches!(item, Item::EndKeys(_));
            match item {
                Item::Done => units += 1,
                Item::Data(data) if self.closed => units += data.len() as u64,
                Item::End | Item::EndKeys(_) if self.closed => units += 1,
                Item::End => {
                    if let Some(keys) = to.end(self.mid_line) {
                        *item = Item::EndKeys(keys);
                        continue;
                    }
                    units += 1;
                    self.closed = true;
                }
                Item::Data(data) | Item::EndKeys(data) => match to.write(data) {
                    Ok(written) => {
                        let last = written.checked_sub(1).and_then(|last| data.get(last));
                        self.mid_line = last.map_or(self.mid_line, |byte| !matches!(byte, b'\r' | b'\n'));
                        data.advance(written);
                        if !is_end {
                            units += written as u64;
                        }
                        if !data.is_empty() {
                            continue;
                        }
                        units += u64::from(is_end);
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        let dropped = self.interrupt(to);
                        if dropped == 0 {
                            break;
                        }
                        units += dropped;
                        continue;
                    }
                    // Nobody reads it and nobody will: the rest is taken, so that the sender is not held up.
                    Err(_) => {
                        self.closed = true;
                        continue;
                    }
                },
            }
            self.queue.pop_front();
        }
        units
    }

    /// Drops what stands before the last interrupt key in the queue, if there is one. Gives the units that were dropped.
    fn interrupt(&mut self, to: &mut impl Sink) -> u64 {
        if std::mem::replace(&mut self.searched, true) {
            return 0;
        }
        let Some(key) = to.interrupt_key() else { return 0 };
        let found = self.queue.iter().enumerate().rev().find_map(|(at, item)| match item {
            Item::Data(data) => data.iter().rposition(|byte| *byte == key).map(|byte| (at, byte)),
            _ => None,
        });
        let Some((at, byte)) = found else { return 0 };
        let mut dropped = 0;
        for item in self.queue.drain(..at) {
            dropped += match item {
                Item::Data(data) => data.len() as u64,
                Item::Done | Item::End | Item::EndKeys(_) => 1,
            };
        }
        if let Some(Item::Data(data)) = self.queue.front_mut() {
            data.advance(byte);
            dropped += byte as u64;
        }
        to.forget();
        self.mid_line = false;
        // Nothing to drop: the key itself is what the terminal does not take; there is room for it now.
        dropped
    }
}

#[cfg(test)]
mod tests;
