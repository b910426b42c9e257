//! What can be wrong with bytes from a peer. Always the sender's fault; always final for the connection it came on.
//!
//! No variant holds text of the peer: only numbers and our own words, so that an error can be logged as it is.

use crate::code::Code;
use crate::frame::Type;

/// Bytes that don't follow the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// A varint in more bytes than needed.
    #[error("the peer sent a number in more bytes than it needs; both sides must follow docs/protocol.md")]
    NotShortest,
    /// A frame number that is in no version that we speak.
    #[error("the peer sent an unknown frame {0:#x}; it may be newer than this program")]
    UnknownFrame(u64),
    /// A known frame that may not travel in this direction.
    #[error("the peer sent {0}, which may not travel in this direction")]
    WrongDirection(Type),
    /// A claimed length above the bound of that frame.
    #[error("the peer announced {frame} of {length} bytes; the bound is {limit}")]
    TooLarge {
        /// The frame.
        frame: Type,
        /// The claimed length.
        length: u64,
        /// The bound.
        limit: usize,
    },
    /// The stream ended inside a frame.
    #[error("the stream ended inside a frame, {missing} or more bytes are missing")]
    Truncated {
        /// How many bytes would have been needed at least.
        missing: u64,
    },
    /// Bytes after the end of a payload.
    #[error("the peer sent {frame} with {extra} bytes behind its end")]
    Trailing {
        /// The frame.
        frame: Type,
        /// How many bytes were too many.
        extra: usize,
    },
    /// A payload that can't be decoded.
    #[error("the peer sent {frame} that can't be decoded: {what}")]
    Malformed {
        /// The frame.
        frame: Type,
        /// What was wrong.
        what: &'static str,
    },
    /// A field with a value that it may not have.
    #[error("the peer sent {frame} with a bad {field}: {what}")]
    BadField {
        /// The frame.
        frame: Type,
        /// The field.
        field: &'static str,
        /// What was wrong with it.
        what: &'static str,
    },
    /// A field that is longer, or has more entries, than it may.
    #[error("the peer sent {frame} with {seen} in {field}; the bound is {limit}")]
    OverLimit {
        /// The frame.
        frame: Type,
        /// The field.
        field: &'static str,
        /// Length or count seen.
        seen: usize,
        /// The bound.
        limit: usize,
    },
}

impl ProtocolError {
    /// The code that is sent to the peer and logged.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::NotShortest | Self::Malformed { .. } | Self::BadField { .. } => Code::ProtocolMalformed,
            Self::UnknownFrame(_) => Code::ProtocolUnknownFrame,
            Self::WrongDirection(_) => Code::ProtocolWrongDirection,
            Self::TooLarge { .. } | Self::OverLimit { .. } => Code::ProtocolTooLarge,
            Self::Truncated { .. } => Code::ProtocolTruncated,
            Self::Trailing { .. } => Code::ProtocolTrailing,
        }
    }
}

impl From<crate::varint::NotShortest> for ProtocolError {
    fn from(_: crate::varint::NotShortest) -> Self {
        Self::NotShortest
    }
}
