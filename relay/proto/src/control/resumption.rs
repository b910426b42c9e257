//! RESUME and RESUMED: a session goes on over a new path.
//!
//! ```text
//! client: RESUME ──> node: RESUMED, then replay | DENIED | CLOSED
//! ```
//!
//! How the proof is made and in which order it is checked stands in [`crate::resume`]; repeats of cluster, node and purpose
//! are compared as in OPEN. Never carries the key.

use bytes::Bytes;

use super::Control;
use super::check::Check;
use super::inner::{ClaimedPath, check_claimed_path, check_grants, check_target, session_id};
use super::outer::Purpose;
use crate::error::ProtocolError;
use crate::frame::Type;
use crate::id::SessionId;
use crate::limits::MAX_GRANTS;

/// The client comes back over a new path. [`crate::resume`] says how the proof is made.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Resume {
    /// The session id, 16 bytes.
    #[prost(bytes = "bytes", tag = "1")]
    pub session: Bytes,
    /// The epoch that shall begin: one more than any that the client has tried. OPEN began epoch 0.
    #[prost(uint64, tag = "2")]
    pub epoch: u64,
    /// The offset behind the last sequenced frame that the client produced.
    #[prost(uint64, tag = "3")]
    pub sent: u64,
    /// All of the node's offsets below this are consumed.
    #[prost(uint64, tag = "4")]
    pub consumed: u64,
    /// Proof of the session's key, 32 bytes.
    #[prost(bytes = "bytes", tag = "5")]
    pub mac: Bytes,
    /// The cluster, again.
    #[prost(string, tag = "6")]
    pub cluster: String,
    /// The node, again.
    #[prost(string, tag = "7")]
    pub node: String,
    /// The purpose, again.
    #[prost(enumeration = "Purpose", tag = "8")]
    pub purpose: i32,
    /// Signed grants: the session is authorized again.
    #[prost(bytes = "bytes", repeated, tag = "9")]
    pub grants: Vec<Bytes>,
    /// The path that the client says it took.
    #[prost(enumeration = "ClaimedPath", tag = "10")]
    pub claimed_path: i32,
}

impl Resume {
    /// The session id.
    ///
    /// # Errors
    /// When it has not 16 bytes; never after decoding.
    pub fn session_id(&self) -> Result<SessionId, ProtocolError> {
        session_id(Self::TYPE, &self.session)
    }
}

impl Control for Resume {
    const TYPE: Type = Type::Resume;
    const LAST_FIELD: u32 = 10;
    const REPEATED: &'static [(u32, usize)] = &[(9, MAX_GRANTS)];

    fn validate(&self) -> Result<(), ProtocolError> {
        let check = Check(Self::TYPE);
        check.exactly("session", &self.session, 16)?;
        if self.epoch == 0 {
            return Err(check.bad("epoch", "0 is the epoch of OPEN"));
        }
        check.exactly("mac", &self.mac, 32)?;
        check_target(check, &self.cluster, &self.node, self.purpose)?;
        check_grants(check, &self.grants)?;
        check_claimed_path(check, self.claimed_path)
    }
}

/// The node agrees to a RESUME.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Resumed {
    /// The epoch that began.
    #[prost(uint64, tag = "1")]
    pub epoch: u64,
    /// The offset behind the last sequenced frame that the node produced.
    #[prost(uint64, tag = "2")]
    pub sent: u64,
    /// All of the client's offsets below this are consumed.
    #[prost(uint64, tag = "3")]
    pub consumed: u64,
    /// Proof of the session's key, 32 bytes.
    #[prost(bytes = "bytes", tag = "4")]
    pub mac: Bytes,
}

impl Control for Resumed {
    const TYPE: Type = Type::Resumed;
    const LAST_FIELD: u32 = 4;

    fn validate(&self) -> Result<(), ProtocolError> {
        let check = Check(Self::TYPE);
        if self.epoch == 0 {
            return Err(check.bad("epoch", "0 is the epoch of OPEN"));
        }
        check.exactly("mac", &self.mac, 32)
    }
}
