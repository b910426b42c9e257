//! What still has to be written locally, in the order in which it came.
//!
//! Output and error output of the node and our own lines share one queue, so that what a user sees has the order in
//! which it was made. The queue is bounded by the receive window: the node sends nothing more until bytes were
//! *written* here, and only then they are acknowledged. A slow reader of our output therefore slows the remote command
//! and nothing else: keys, signals and the network go on.
//!
//! It never drops output, with one exception: after the reader of our output has gone, the rest is taken and thrown
//! away, so that the end of the session still arrives.

use std::collections::VecDeque;
use std::io;

use bytes::{Buf, Bytes};

use crate::modes::Tracker;
use crate::stdio::Output;

/// Where a piece goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

#[derive(Debug)]
struct Piece {
    side: Side,
    bytes: Bytes,
    /// Whether the bytes came from the node and count as consumed once written.
    counted: bool,
    /// What counts as consumed beside the bytes: the place of END and EXIT in the sequence.
    mark: bool,
}

/// Most lines of ours that wait; more are dropped (a node could otherwise fill memory with notices).
pub(crate) const MAX_LINES: usize = 32;

/// The queue and the two outputs.
#[derive(Debug)]
pub struct Screen {
    queue: VecDeque<Piece>,
    out: Output,
    err: Output,
    tracker: Option<Tracker>,
    written: u64,
    closed: bool,
}

impl Screen {
    /// A screen; `tracker` watches what goes to a terminal.
    pub fn new(out: Output, err: Output, tracker: Option<Tracker>) -> Self {
        Self {
            queue: VecDeque::new(),
            out,
            err,
            tracker,
            written: 0,
            closed: false,
        }
    }

    /// Bytes from the node.
    pub fn push(&mut self, side: Side, bytes: Bytes) {
        self.queue.push_back(Piece {
            side,
            bytes,
            counted: true,
            mark: false,
        });
    }

    /// The place of a frame without bytes: it is consumed when everything before it is written.
    pub fn mark(&mut self) {
        self.queue.push_back(Piece {
            side: Side::Out,
            bytes: Bytes::new(),
            counted: true,
            mark: true,
        });
    }

    /// A line of ours. It goes to standard error.
    pub fn say(&mut self, text: String) {
        if self.queue.iter().filter(|piece| !piece.counted).count() >= MAX_LINES {
            return;
        }
        self.queue.push_back(Piece {
            side: Side::Err,
            bytes: text.into(),
            counted: false,
            mark: false,
        });
    }

    /// Whether everything was written.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether the reader of our output has gone.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// How many bytes of the node were written so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Writes some of the queue. Returns how many units of the node's sequence are consumed by it. May be dropped at any await.
    ///
    /// # Errors
    /// Output fails for another reason than a missing reader (disk full, for example).
    pub async fn advance(&mut self) -> io::Result<u64> {
        let Some(piece) = self.queue.front_mut() else {
            return std::future::pending().await;
        };
        let output = match piece.side {
            Side::Out => &mut self.out,
            Side::Err => &mut self.err,
        };
        let done = if piece.bytes.is_empty() {
            0
        } else if self.closed && piece.side == Side::Out {
            piece.bytes.len()
        } else {
            match output.write(&piece.bytes).await {
                Ok(done) => {
                    if let (Some(tracker), true) = (self.tracker.as_mut(), piece.counted) {
                        tracker.feed(piece.bytes.get(..done).unwrap_or_default());
                    }
                    done
                }
                // Error output without a reader, and a line of ours without a place, are no reason to end anything.
                Err(error) if piece.side == Side::Err && (is_gone(&error) || !piece.counted) => piece.bytes.len(),
                Err(error) if is_gone(&error) => {
                    self.closed = true;
                    piece.bytes.len()
                }
                Err(error) => return Err(error),
            }
        };
        piece.bytes.advance(done);
        let counted = if piece.counted { done as u64 } else { 0 };
        let mark = u64::from(piece.mark);
        if piece.bytes.is_empty() {
            self.queue.pop_front();
        }
        self.written += counted;
        Ok(counted + mark)
    }
}

/// Whether there is no reader any more. A terminal that went away says EIO; the hang-up signal decides.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe || error.raw_os_error() == Some(nix::errno::Errno::EIO as i32)
}
