//! What a client says to the process of its user that keeps connections warm, over their private socket.
//!
//! ```text
//! client: ASK (a stream to a node) ──> ANSWER stream | standby, then CARRY … CARRY_END both ways | BROKEN
//!                                      ANSWER nothing: the client goes its own way
//! client: ASK (report, keep, stop) ──> REPORT
//! ```
//!
//! A stream carries the inner leg as the client makes it, a standby what is said inside an inner leg that stands already. Keys
//! never show in `Debug`.

use bytes::Bytes;
use noderelay_pki::name::{ClusterName, NodeName, RelayName};

use super::Control;
use super::check::Check;
use super::inner::check_target;
use super::outer::Purpose;
use crate::error::ProtocolError;
use crate::frame::Type;
use crate::limits::{MAX_TEXT, MAX_WARM_LIST};

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum AskFor {
    /// Not given: refused.
    Unspecified = 0,
    /// A stream to a node.
    Stream = 1,
    /// What is kept.
    Report = 2,
    /// A later end.
    Keep = 3,
    /// The end, as soon as nothing is carried.
    Stop = 4,
}

/// The first and only question on a connection.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Ask {
    /// Version of this conversation: 1.
    #[prost(uint32, tag = "1")]
    pub version: u32,
    /// What is asked for.
    #[prost(enumeration = "AskFor", tag = "2")]
    pub wish: i32,
    /// SHA-256 of the effective configuration and its path: another one's streams are not for this client.
    #[prost(bytes = "bytes", tag = "3")]
    pub configuration: Bytes,
    /// SHA-256 of the certificate that the client would show.
    #[prost(bytes = "bytes", tag = "4")]
    pub certificate: Bytes,
    /// The cluster of the node.
    #[prost(string, tag = "5")]
    pub cluster: String,
    /// The node.
    #[prost(string, tag = "6")]
    pub node: String,
    /// What the stream is for.
    #[prost(enumeration = "Purpose", tag = "7")]
    pub purpose: i32,
    /// How long to go on from now, in seconds.
    #[prost(uint32, tag = "8")]
    pub keep_secs: u32,
}

impl Ask {
    /// The version that this build speaks.
    pub const VERSION: u32 = 1;
}

impl Control for Ask {
    const TYPE: Type = Type::Ask;
    const LAST_FIELD: u32 = 8;

    fn validate(&self) -> Result<(), ProtocolError> {
        let check = Check(Self::TYPE);
        if self.version == 0 {
            return Err(check.bad("version", "missing"));
        }
        match check.known::<AskFor>("wish", self.wish)? {
            AskFor::Stream => {
                check.exactly("configuration", &self.configuration, 32)?;
                check.exactly("certificate", &self.certificate, 32)?;
                check_target(check, &self.cluster, &self.node, self.purpose)
            }
            AskFor::Keep if self.keep_secs == 0 => Err(check.bad("keep_secs", "no time at all")),
            _ => Ok(()),
        }
    }
}

/// What a client gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum Carried {
    /// Not given: refused.
    Unspecified = 0,
    /// Nothing: the client dials by itself.
    Nothing = 1,
    /// A stream with its route header sent: the inner leg is the client's to make.
    Stream = 2,
    /// An inner leg that stands: OPEN is what comes next.
    Standby = 3,
}

/// The answer to a wish for a stream.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[prost(skip_debug)]
pub struct Answer {
    /// What the client gets.
    #[prost(enumeration = "Carried", tag = "1")]
    pub carried: i32,
    /// The relay that it leads through.
    #[prost(string, tag = "2")]
    pub relay: String,
    /// The resume key of a standby's inner leg. Secret, 32 bytes; else empty.
    #[prost(bytes = "bytes", tag = "3")]
    pub resume_key: Bytes,
    /// Why there is nothing.
    #[prost(string, tag = "4")]
    pub seen: String,
    /// The round trip to the relay, in microseconds.
    #[prost(uint32, tag = "5")]
    pub rtt_us: u32,
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answer")
            .field("carried", &self.carried)
            .field("relay", &self.relay)
            .field("seen", &self.seen)
            .field("rtt_us", &self.rtt_us)
            .finish_non_exhaustive()
    }
}

impl Control for Answer {
    const TYPE: Type = Type::Answer;
    const LAST_FIELD: u32 = 5;

    fn validate(&self) -> Result<(), ProtocolError> {
        let check = Check(Self::TYPE);
        let carried = check.known::<Carried>("carried", self.carried)?;
        check.exactly(
            "resume_key",
            &self.resume_key,
            if carried == Carried::Standby { 32 } else { 0 },
        )?;
        check.name_or_empty::<RelayName>("relay", &self.relay)?;
        check.most("seen", self.seen.len(), MAX_TEXT)
    }
}

/// One relay in a report.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct WarmRelay {
    /// Its cluster.
    #[prost(string, tag = "1")]
    pub cluster: String,
    /// Its name, or the address that is dialled.
    #[prost(string, tag = "2")]
    pub relay: String,
    /// For how many seconds the connection has stood; absent while there is none.
    #[prost(uint32, optional, tag = "3")]
    pub up_secs: Option<u32>,
    /// The round trip, in microseconds.
    #[prost(uint32, tag = "4")]
    pub rtt_us: u32,
    /// Why there is no connection.
    #[prost(string, tag = "5")]
    pub seen: String,
}

/// One node in a report.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct WarmNode {
    /// Its cluster.
    #[prost(string, tag = "1")]
    pub cluster: String,
    /// Its name.
    #[prost(string, tag = "2")]
    pub node: String,
    /// An inner leg to it stands by.
    #[prost(bool, tag = "3")]
    pub standby: bool,
    /// Seconds since it last proved who it is; absent when it has not.
    #[prost(uint32, optional, tag = "4")]
    pub proof_secs: Option<u32>,
    /// How often it was asked for.
    #[prost(uint32, tag = "5")]
    pub uses: u32,
    /// Why nothing stands by.
    #[prost(string, tag = "6")]
    pub seen: String,
}

/// What the process keeps.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Report {
    /// Its process id.
    #[prost(uint32, tag = "1")]
    pub pid: u32,
    /// Seconds until it ends at the latest.
    #[prost(uint32, tag = "2")]
    pub left_secs: u32,
    /// Seconds until it ends if nobody uses it.
    #[prost(uint32, tag = "3")]
    pub idle_left_secs: u32,
    /// Streams that it carries now.
    #[prost(uint32, tag = "4")]
    pub carrying: u32,
    /// Streams that it gave.
    #[prost(uint64, tag = "5")]
    pub streams: u64,
    /// Standbys that it gave.
    #[prost(uint64, tag = "6")]
    pub standbys: u64,
    /// It ends as soon as it carries nothing.
    #[prost(bool, tag = "7")]
    pub stopping: bool,
    /// The relays.
    #[prost(message, repeated, tag = "8")]
    pub relays: Vec<WarmRelay>,
    /// The nodes.
    #[prost(message, repeated, tag = "9")]
    pub nodes: Vec<WarmNode>,
}

impl Control for Report {
    const TYPE: Type = Type::Report;
    const LAST_FIELD: u32 = 9;
    const REPEATED: &'static [(u32, usize)] = &[(8, MAX_WARM_LIST), (9, MAX_WARM_LIST)];

    fn validate(&self) -> Result<(), ProtocolError> {
        let check = Check(Self::TYPE);
        check.most("relays", self.relays.len(), MAX_WARM_LIST)?;
        check.most("nodes", self.nodes.len(), MAX_WARM_LIST)?;
        for relay in &self.relays {
            check.name::<ClusterName>("relays.cluster", &relay.cluster)?;
            check.most("relays.relay", relay.relay.len(), MAX_TEXT)?;
            check.most("relays.seen", relay.seen.len(), MAX_TEXT)?;
        }
        for node in &self.nodes {
            check.name::<ClusterName>("nodes.cluster", &node.cluster)?;
            check.name::<NodeName>("nodes.node", &node.node)?;
            check.most("nodes.seen", node.seen.len(), MAX_TEXT)?;
        }
        Ok(())
    }
}

/// What was carried is broken, with what the stream itself would have said.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Broken {
    /// The code.
    #[prost(uint32, tag = "1")]
    pub code: u32,
    /// What was seen.
    #[prost(string, tag = "2")]
    pub seen: String,
    /// Only the direction from the client: what comes from the node goes on.
    #[prost(bool, tag = "3")]
    pub writing: bool,
    /// The node itself said so, inside the inner TLS.
    #[prost(bool, tag = "4")]
    pub by_node: bool,
}

impl Control for Broken {
    const TYPE: Type = Type::Broken;
    const LAST_FIELD: u32 = 4;

    fn validate(&self) -> Result<(), ProtocolError> {
        Check(Self::TYPE).most("seen", self.seen.len(), MAX_TEXT)
    }
}
