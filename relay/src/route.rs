//! Where a stream goes next: a pure function over the fleet file, the attached agents and the route header.
//!
//! ```text
//! header ─> version ─> role and purpose ─> hop limit ─> cluster in the fleet? ─> ours? ─> agent attached? ─> Route
//! ```
//!
//! Next hops come from the signed fleet file and from agents that showed a certificate to this very relay; nothing that
//! a peer claims about others is used. A refusal is one closed code and never final: the client tries the next relay.
//!
//! Never: does I/O, waits, reads a clock, or looks at anything behind the header.

use std::collections::BTreeSet;

use noderelay_bundle::fleet::FleetFile;
use noderelay_pki::RoleKind;
use noderelay_pki::name::{ClusterName, NodeName};
use noderelay_proto::control::Purpose;
use noderelay_proto::{Code, RouteHeader, Version};

use crate::attached::NodeKey;

/// What the relay needs of the fleet file to decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Map {
    /// The relay's own cluster: agents of this cluster attach here.
    pub home: ClusterName,
    /// Every cluster of the fleet.
    pub clusters: BTreeSet<ClusterName>,
}

impl Map {
    /// The part of the fleet file that routing needs.
    pub fn new(home: ClusterName, fleet: &FleetFile) -> Self {
        Self {
            home,
            clusters: fleet.clusters.iter().map(|cluster| cluster.name.clone()).collect(),
        }
    }
}

/// What is known here about a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup<H> {
    /// Its agent is attached.
    Attached(H),
    /// Its agent was attached, or is about to leave.
    Offline,
    /// It never was, as far as this relay remembers.
    Unknown,
}

/// The party that gets the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hop<H> {
    /// The node's own agent, attached to this relay.
    Agent(H),
}

/// A decided route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route<H> {
    /// The next party.
    pub hop: Hop<H>,
    /// The header to write to it, hop limit lowered.
    pub header: RouteHeader,
    /// The node at the end.
    pub node: NodeKey,
}

/// Why a stream goes nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The header is of a version that this build does not know.
    #[error("the route header is of version {0}, which this relay does not speak")]
    Version(u32),
    /// A name in the header is not one.
    #[error("the route header names no valid cluster and node")]
    Names,
    /// This role may not open streams of this purpose.
    #[error("a {role} may not open streams for {}", purpose.name())]
    Purpose {
        /// Who asks.
        role: RoleKind,
        /// What for.
        purpose: Purpose,
    },
    /// The stream has passed enough relays.
    #[error("the hop limit is used up")]
    HopLimit,
    /// The fleet file has no such cluster.
    #[error("the fleet file has no such cluster")]
    NoSuchCluster,
    /// The cluster is another one, and no approved route leads there from here.
    #[error("no approved route leads from this relay to that cluster")]
    NoRoute,
    /// No agent of that name was seen here.
    #[error("no agent of that name has attached to this relay")]
    NoSuchNode,
    /// The agent was here.
    #[error("the agent of that node is not attached any more")]
    Offline,
}

impl Refused {
    /// The code that the peer gets.
    pub const fn code(&self) -> Code {
        match self {
            Self::Version(_) => Code::RelayVersion,
            Self::Names => Code::RelayBadHeader,
            Self::Purpose { .. } => Code::RelayPurpose,
            Self::HopLimit => Code::RelayHopLimit,
            Self::NoSuchCluster => Code::RelayNoSuchCluster,
            Self::NoRoute => Code::RelayNoRoute,
            Self::NoSuchNode => Code::RelayNoSuchNode,
            Self::Offline => Code::RelayNodeOffline,
        }
    }
}

/// Decides where a stream of a peer of this role goes.
pub fn decide<H>(
    map: &Map,
    role: RoleKind,
    header: &RouteHeader,
    lookup: impl FnOnce(&NodeKey) -> Lookup<H>,
) -> Result<Route<H>, Refused> {
    if Version::from_number(header.version).is_none() {
        return Err(Refused::Version(header.version));
    }
    let cluster = ClusterName::parse(&header.cluster).map_err(|_| Refused::Names)?;
    let node = NodeName::parse(&header.node).map_err(|_| Refused::Names)?;
    let purpose = header.purpose();
    match (role, purpose) {
        (RoleKind::User | RoleKind::BreakGlass, Purpose::Session) => {}
        _ => return Err(Refused::Purpose { role, purpose }),
    }
    let onward = header.next_hop().ok_or(Refused::HopLimit)?;
    if !map.clusters.contains(&cluster) {
        return Err(Refused::NoSuchCluster);
    }
    if cluster != map.home {
        return Err(Refused::NoRoute);
    }
    let node = NodeKey { cluster, node };
    match lookup(&node) {
        Lookup::Attached(handle) => Ok(Route {
            hop: Hop::Agent(handle),
            header: onward,
            node,
        }),
        Lookup::Offline => Err(Refused::Offline),
        Lookup::Unknown => Err(Refused::NoSuchNode),
    }
}

#[cfg(test)]
mod tests;
