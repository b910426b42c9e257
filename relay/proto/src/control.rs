//! Control messages: protobuf payloads on hand-written structs, so that later versions can add fields.
//!
//! ```text
//! bytes → bound of the frame → strict pass (field counts, nothing twice) → prost → validate → message
//! ```
//!
//! [`outer`] holds what relays read, [`inner`], [`sequenced`] and [`resumption`] what client and node say to each other, [`holder`] what agent and holder say
//! to each other, [`warm`] what a client says to the process that keeps its connections. Decoding always validates: a message that came out of [`decode`] keeps every bound. Senders call
//! [`Control::validate`] themselves when the content comes from a user, to report it before it travels.
//!
//! Unknown fields are skipped (a newer peer may send them), but never more than a few, and no known field twice: a message
//! has one meaning. No secret shows in `Debug`. Strings of a peer are bounded here and escaped by whoever shows them.

mod check;
pub mod holder;
pub mod inner;
pub mod outer;
pub mod resumption;
pub mod sequenced;
mod strict;
pub mod warm;

use bytes::{Bytes, BytesMut};

use crate::error::ProtocolError;
use crate::frame::{Type, put_header};

pub use holder::{Account, Adopt, Adopted, Start, StartFailed, Started, Terminate, Terms};
pub use inner::{
    ClaimedPath, Closed, Denied, EnvVar, Kind, Missing, Notice, Open, Opened, RecordLevel, Standby, StandingBy,
    Terminal,
};
pub use outer::{Drain, Purpose, Register, Registered, RouteHeader};
pub use resumption::{Resume, Resumed};
pub use sequenced::{Exit, Resize, Signal, SignalName, Size};
pub use warm::{Answer, Ask, AskFor, Broken, Carried, Report, WarmNode, WarmRelay};

/// A protobuf payload of one frame.
pub trait Control: prost::Message + Default {
    /// The frame that carries it.
    const TYPE: Type;
    /// The highest field number of this version.
    const LAST_FIELD: u32;
    /// The fields that may come more than once, each with its bound.
    const REPEATED: &'static [(u32, usize)] = &[];

    /// Checks every bound and value.
    ///
    /// # Errors
    /// The first field that breaks its rule.
    fn validate(&self) -> Result<(), ProtocolError>;
}

/// Appends the whole frame.
pub fn encode<M: Control>(message: &M, out: &mut BytesMut) {
    let payload = message.encode_to_vec();
    put_header(out, M::TYPE, payload.len());
    out.extend_from_slice(&payload);
}

/// Decodes and validates a payload.
///
/// # Errors
/// [`ProtocolError`] when it breaks a bound, is no protobuf, has a field twice, or has a value that it may not have.
pub fn decode<M: Control>(payload: Bytes) -> Result<M, ProtocolError> {
    if payload.len() > M::TYPE.max_len() {
        return Err(ProtocolError::TooLarge {
            frame: M::TYPE,
            length: payload.len() as u64,
            limit: M::TYPE.max_len(),
        });
    }
    strict::check(M::TYPE, &payload, M::LAST_FIELD, M::REPEATED)?;
    let malformed = ProtocolError::Malformed {
        frame: M::TYPE,
        what: "not the protobuf message that it should be",
    };
    let message = M::decode(payload).map_err(|_| malformed)?;
    message.validate()?;
    Ok(message)
}

#[cfg(test)]
mod tests;
