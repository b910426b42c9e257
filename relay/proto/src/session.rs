//! The arithmetic of a session that outlives its paths: what was sent, what is consumed, what must be sent again.
//!
//! ```text
//! sender                                            receiver
//! [`Outbox`]  push ──> offset ── frame ──────────>  [`Inbox`]  on_frame ──> the new part of it
//!             ack  <──────────── ACK n <──────────            consumed, ack_due
//!             resume(n): what lies at and above n   <── a new path: resume_offset = n
//! ```
//!
//! Each direction has one offset space. DATA and DATA_ERR advance it by their length; END, RESIZE, SIGNAL and EXIT by one
//! unit each, so that their place among the bytes is kept. *Acknowledged = consumed*: written to the pty or to stdout, not
//! merely received. What is not acknowledged stays in the outbox, and the outbox's bound is the window.
//!
//! Frames carry no offset: a path delivers in order, and a new path starts at the offset that the receiver named. What the
//! receiver already has but has not consumed comes again and is dropped by its offset. So no byte is lost or doubled.
//!
//! No clock: `now` is the time since any fixed moment. No input or output. A peer that breaks the rules gives a
//! [`SessionError`]; our own side's mistakes give a [`PushError`].

mod inbox;
mod outbox;

use bytes::Bytes;

use crate::code::Code;
use crate::frame::Type;
use crate::message::{ToClient, ToNode};

pub use inbox::{Inbox, Received};
pub use outbox::{Outbox, PushError};

/// A message that can be part of an offset space.
pub trait Sequenced: Clone {
    /// Its frame.
    fn frame(&self) -> Type;

    /// Its raw bytes, when it is a data frame.
    fn data(&self) -> Option<&Bytes>;

    /// The same data frame with other bytes; other frames come back unchanged.
    #[must_use]
    fn with_data(&self, data: Bytes) -> Self;

    /// How far it advances the offset: 0 when it is not sequenced (or empty).
    fn units(&self) -> u64 {
        match self.data() {
            Some(data) => data.len() as u64,
            None => u64::from(self.frame().sequenced()),
        }
    }
}

impl Sequenced for ToNode {
    fn frame(&self) -> Type {
        Self::frame(self)
    }

    fn data(&self) -> Option<&Bytes> {
        if let Self::Data(data) = self { Some(data) } else { None }
    }

    fn with_data(&self, data: Bytes) -> Self {
        if let Self::Data(_) = self {
            Self::Data(data)
        } else {
            self.clone()
        }
    }
}

impl Sequenced for ToClient {
    fn frame(&self) -> Type {
        Self::frame(self)
    }

    fn data(&self) -> Option<&Bytes> {
        if let Self::Data(data) | Self::DataErr(data) = self {
            Some(data)
        } else {
            None
        }
    }

    fn with_data(&self, data: Bytes) -> Self {
        match self {
            Self::Data(_) => Self::Data(data),
            Self::DataErr(_) => Self::DataErr(data),
            other => other.clone(),
        }
    }
}

/// The other side broke the rules of the offset space. Final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// It consumed what was never sent.
    #[error("the peer acknowledged offset {offset}; only {head} was produced")]
    AckAhead {
        /// What it said.
        offset: u64,
        /// What there is.
        head: u64,
    },
    /// It took back an acknowledgement.
    #[error("the peer acknowledged offset {offset} after {acked}")]
    AckBehind {
        /// What it said.
        offset: u64,
        /// What it had said before.
        acked: u64,
    },
    /// It claims to have sent less than arrived.
    #[error("the peer says that it sent {sent}; {next} arrived already")]
    SentBehind {
        /// What it said.
        sent: u64,
        /// What arrived.
        next: u64,
    },
    /// It sent more than the window allows.
    #[error("the peer sent beyond the window: {outstanding} units are not consumed, the window is {window}")]
    Overrun {
        /// Units that would be unconsumed.
        outstanding: u64,
        /// The window.
        window: u64,
    },
    /// A frame came behind END or EXIT that may not.
    #[error("the peer sent {frame} after {after}")]
    OutOfOrder {
        /// The frame.
        frame: Type,
        /// What it came behind.
        after: Type,
    },
    /// A frame that is not sequenced was taken for one.
    #[error("{0} is not part of the offset space")]
    NotSequenced(Type),
}

impl SessionError {
    /// The code that is sent and logged.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::AckAhead { .. } | Self::AckBehind { .. } | Self::SentBehind { .. } => Code::SessionOffset,
            Self::Overrun { .. } => Code::SessionOverrun,
            Self::OutOfOrder { .. } | Self::NotSequenced(_) => Code::ProtocolOutOfOrder,
        }
    }
}

/// How far a direction has come: what may still follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stage {
    ended: bool,
    exited: bool,
}

impl Stage {
    /// Takes the next frame; else gives the frame behind which it may not come. After END no data and no second END, after
    /// EXIT nothing.
    fn advance(&mut self, frame: Type) -> Result<(), Type> {
        if self.exited {
            return Err(Type::Exit);
        }
        match frame {
            Type::Data | Type::DataErr | Type::End if self.ended => return Err(Type::End),
            Type::End => self.ended = true,
            Type::Exit => self.exited = true,
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
