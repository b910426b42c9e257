//! What relays read and write: the route header, and the registration of agents.
//!
//! ```text
//! any stream      ROUTE, then bytes that no relay reads
//! control stream  agent: REGISTER        relay: REGISTERED, later PING, DRAIN
//! ```
//!
//! A refusal is no message: the relay resets the stream, or closes the connection, with a [`crate::Code`] as the error code.

use bytes::Bytes;
use noderelay_pki::name::{ClusterName, NodeName, RelayName};

use super::Control;
use super::check::Check;
use crate::error::ProtocolError;
use crate::frame::Type;
use crate::id::InstanceId;
use crate::limits::{MAX_HOPS, MAX_SHORT_TEXT, MAX_TEXT};
use crate::version::Version;

/// What a stream is for. Routes are approved per purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum Purpose {
    /// Not given: refused.
    Unspecified = 0,
    /// A session on a node.
    Session = 1,
    /// A first certificate.
    Enrol = 2,
    /// Renewal of a certificate.
    Issue = 3,
    /// Fetching a bundle.
    Bundle = 4,
    /// Depositing or fetching revocations.
    Revocation = 5,
    /// Shipping recordings and log entries.
    Store = 6,
    /// Cosigning a checkpoint.
    Witness = 7,
}

impl Purpose {
    /// The word in the fleet file, in logs and in metric labels.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unspecified => "unspecified",
            Self::Session => "session",
            Self::Enrol => "enrol",
            Self::Issue => "issue",
            Self::Bundle => "bundle",
            Self::Revocation => "revocation",
            Self::Store => "store",
            Self::Witness => "witness",
        }
    }

    /// The purpose of a word.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        (1..=7)
            .filter_map(|number| Self::try_from(number).ok())
            .find(|purpose| purpose.name() == name)
    }
}

/// The first frame of a stream: where it wants to go.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RouteHeader {
    /// Version of the outer protocol.
    #[prost(uint32, tag = "1")]
    pub version: u32,
    /// The cluster of the node.
    #[prost(string, tag = "2")]
    pub cluster: String,
    /// The node (or issuer, when the purpose says so).
    #[prost(string, tag = "3")]
    pub node: String,
    /// What for.
    #[prost(enumeration = "Purpose", tag = "4")]
    pub purpose: i32,
    /// How many relays may still take it; each lowers it by one before it passes the header on.
    #[prost(uint32, tag = "5")]
    pub hop_limit: u32,
}

impl RouteHeader {
    /// A header with the full hop limit.
    #[must_use]
    pub fn new(version: Version, cluster: impl Into<String>, node: impl Into<String>, purpose: Purpose) -> Self {
        Self {
            version: version.number(),
            cluster: cluster.into(),
            node: node.into(),
            purpose: purpose.into(),
            hop_limit: MAX_HOPS,
        }
    }

    /// The cluster.
    ///
    /// # Errors
    /// When it is no name; never after decoding.
    pub fn cluster_name(&self) -> Result<ClusterName, ProtocolError> {
        Check(Self::TYPE).name("cluster", &self.cluster)
    }

    /// The node.
    ///
    /// # Errors
    /// When it is no name; never after decoding.
    pub fn node_name(&self) -> Result<NodeName, ProtocolError> {
        Check(Self::TYPE).name("node", &self.node)
    }

    /// The header for the next hop, `None` when the hop limit is used up.
    #[must_use]
    pub fn next_hop(&self) -> Option<Self> {
        let hop_limit = self.hop_limit.checked_sub(1)?;
        Some(Self {
            hop_limit,
            ..self.clone()
        })
    }
}

impl Control for RouteHeader {
    const TYPE: Type = Type::Route;
    const LAST_FIELD: u32 = 5;

    fn validate(&self) -> Result<(), ProtocolError> {
        let check = Check(Self::TYPE);
        if self.version == 0 {
            return Err(check.bad("version", "missing"));
        }
        self.cluster_name()?;
        self.node_name()?;
        check.known::<Purpose>("purpose", self.purpose)?;
        check.most("hop_limit", self.hop_limit as usize, MAX_HOPS as usize)
    }
}

/// An agent (or issuer) attaches. Who it is stands in its certificate.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Register {
    /// 16 random bytes of this run.
    #[prost(bytes = "bytes", tag = "1")]
    pub instance_id: Bytes,
    /// Version and build, for status.
    #[prost(string, tag = "2")]
    pub software: String,
    /// Outer versions that it speaks, preferred first.
    #[prost(uint32, repeated, tag = "3")]
    pub versions: Vec<u32>,
    /// Open sessions, for status.
    #[prost(uint32, tag = "4")]
    pub sessions: u32,
    /// It is going away: attach it, but send nothing new.
    #[prost(bool, tag = "5")]
    pub draining: bool,
}

impl Register {
    /// A registration of this build.
    #[must_use]
    pub fn new(instance: InstanceId, software: impl Into<String>) -> Self {
        Self {
            instance_id: instance.to_bytes(),
            software: software.into(),
            versions: Version::ALL.iter().map(|version| version.number()).collect(),
            sessions: 0,
            draining: false,
        }
    }

    /// The instance id.
    ///
    /// # Errors
    /// When it has not 16 bytes; never after decoding.
    pub fn instance(&self) -> Result<InstanceId, ProtocolError> {
        InstanceId::from_slice(&self.instance_id)
            .ok_or_else(|| Check(Self::TYPE).bad("instance_id", "wrong number of bytes"))
    }
}

impl Control for Register {
    const TYPE: Type = Type::Register;
    const LAST_FIELD: u32 = 5;
    const REPEATED: &'static [(u32, usize)] = &[(3, 16)];

    fn validate(&self) -> Result<(), ProtocolError> {
        let check = Check(Self::TYPE);
        check.exactly("instance_id", &self.instance_id, 16)?;
        check.most("software", self.software.len(), MAX_SHORT_TEXT)?;
        check.most("versions", self.versions.len(), 16)
    }
}

/// The relay's answer to REGISTER.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Registered {
    /// The relay's name.
    #[prost(string, tag = "1")]
    pub relay: String,
    /// Version and build of the relay, for status.
    #[prost(string, tag = "2")]
    pub software: String,
    /// Another live agent holds this name: the newcomer waits, and is told when it takes over by a second REGISTERED.
    #[prost(bool, tag = "3")]
    pub parked: bool,
    /// Why it is parked, for the agent's log.
    #[prost(string, tag = "4")]
    pub seen: String,
}

impl Control for Registered {
    const TYPE: Type = Type::Registered;
    const LAST_FIELD: u32 = 4;

    fn validate(&self) -> Result<(), ProtocolError> {
        let check = Check(Self::TYPE);
        check.name::<RelayName>("relay", &self.relay)?;
        check.most("software", self.software.len(), MAX_SHORT_TEXT)?;
        check.most("seen", self.seen.len(), MAX_TEXT)
    }
}

/// The relay is going away. Whoever gets it leaves at a random moment within `spread_ms` and prefers other relays until
/// `back_ms` have passed.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Drain {
    /// Leave within this time, in milliseconds.
    #[prost(uint32, tag = "1")]
    pub spread_ms: u32,
    /// When the relay expects to be back, in milliseconds; 0 when it does not say.
    #[prost(uint32, tag = "2")]
    pub back_ms: u32,
}

impl Control for Drain {
    const TYPE: Type = Type::Drain;
    const LAST_FIELD: u32 = 2;

    fn validate(&self) -> Result<(), ProtocolError> {
        Ok(())
    }
}
