//! The wire format of NodeRelay: bytes only, no sockets, no clock, no tokio.
//!
//! Message flow of one session, and the module that owns each part:
//!
//! ```text
//! client ── ROUTE ──> relay ── ROUTE ──> agent            outer legs      [`control::RouteHeader`]
//! agent  ── REGISTER ──> relay ── REGISTERED ──> agent    control stream  [`control::Register`]
//! client ── OPEN ──> node ── OPENED | DENIED ──> client   inner leg       [`control::Open`]
//! client <── DATA, END, RESIZE, SIGNAL, EXIT, ACK ──> node                [`frame`], [`session`]
//! client ── RESUME ──> node ── RESUMED | CLOSED ──> client                [`resume`]
//! agent  ── START ──> holder ── STARTED ──> agent         Unix socket     [`control::Start`]
//! client ── ASK ──> warm process ── ANSWER ──> client      Unix socket     [`control::Ask`]
//! ```
//!
//! Read [`version`], then [`frame`] (the one table of frame numbers), [`control`], [`code`], [`session`], [`resume`].
//! The same text for a second implementation is `docs/protocol.md`; a test keeps its tables equal to the code.
//!
//! What this crate never does: it opens nothing, waits for nothing, reads no clock, decides nothing about access, and
//! never allocates for a length that a peer merely claims.

pub mod code;
pub mod control;
pub mod error;
pub mod frame;
#[doc(hidden)]
pub mod fuzz;
pub mod id;
pub mod limits;
pub mod message;
pub mod resume;
pub mod session;
#[cfg(test)]
mod strategies;
pub mod varint;
pub mod version;

pub use code::{Class, Code, Origin, Refusal};
pub use control::RouteHeader;
pub use error::ProtocolError;
pub use frame::{Decoder, Direction, Type};
pub use id::{InstanceId, OpenId, SessionId};
pub use message::{
    Frames, FromAgent, FromHolder, FromWarm, Message, Opening, ToAgent, ToClient, ToHolder, ToNode, ToWarm,
};
pub use version::Version;
