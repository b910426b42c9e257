//! Who may use this relay: the verified certificate of a connection becomes an admitted peer, or a code.
//!
//! ```text
//! connection ─> certificate verified (again, by this relay's clock and today's trust) ─> role ─> Admitted
//!   user, break-glass ─> client: opens streams
//!   node of this relay's own cluster ─> agent: registers, gets streams
//!   anybody else ─> refused
//! trust changes ─> verified again under the new trust: what no longer fits is closed
//! ```
//!
//! The TLS handshake has refused strangers already; what is decided here needs the relay's own place in the fleet. An
//! admitted peer is a guard: it counts as a connection until it is dropped.
//!
//! Never: asks for anything but the certificate, or ends a connection because its certificate ran out meanwhile (what
//! a session may is decided at the node, all the time).

use jiff::Timestamp;
use noderelay_link::identity_code;
use noderelay_pki::identity::Role;
use noderelay_pki::name::ClusterName;
use noderelay_pki::{Expect, Identity, PeerRefused, RoleKind, VerifiedPeer};
use noderelay_proto::{Code, Refusal};
use quinn::Connection;
use tokio::time::Instant;

use crate::attached::NodeKey;
use crate::quota::{NoSeat, Seat};
use crate::state::Relay;
use noderelay_service::metrics::Held;

/// Roles that may connect at all.
pub(crate) const ROLES: Expect = Expect::Roles(&[RoleKind::Node, RoleKind::User, RoleKind::BreakGlass]);

/// A peer that may use the relay, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) peer: VerifiedPeer,
    pub(crate) place: Place,
    at: Timestamp,
    _counted: Held,
    _seat: Seat,
}

/// What the peer is here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// Opens streams.
    Client,
    /// Gets streams.
    Agent(NodeKey),
}

/// Why a connection was not admitted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    /// The certificate does not verify.
    #[error(transparent)]
    Peer(#[from] PeerRefused),
    /// The version that TLS agreed on is none of ours.
    #[error("the connection speaks no version of the protocol that this relay knows")]
    Version,
    /// An agent of another cluster.
    #[error("the agent belongs to cluster {seen}, and this relay takes agents of {home} only: see the fleet file")]
    OtherCluster {
        /// The agent's.
        seen: ClusterName,
        /// Ours.
        home: ClusterName,
    },
    /// Nothing is left for it.
    #[error("{0}")]
    Quota(NoSeat, Box<Identity>),
    /// A role that has no place here.
    #[error("a {0} has no place at this relay")]
    Role(RoleKind),
}

impl Refused {
    pub(crate) fn code(&self) -> Code {
        match self {
            Self::Peer(refused) => identity_code(refused),
            Self::Version => Code::RelayVersion,
            Self::OtherCluster { .. } | Self::Role(_) => Code::RelayNotAdmitted,
            Self::Quota(no_seat, _) => no_seat.code(),
        }
    }

    /// Whom it was said to, when that is known.
    pub(crate) fn who(&self) -> Option<&Identity> {
        match self {
            Self::Quota(_, who) => Some(who),
            _ => None,
        }
    }

    /// What the peer is told.
    pub(crate) fn refusal(&self) -> Refusal {
        match self {
            Self::Quota(no_seat, _) => no_seat.refusal(),
            other => other.code().into(),
        }
    }
}

/// Admits the peer of a connection, or says why not.
pub(crate) fn admit(relay: &Relay, connection: &Connection, now: Timestamp) -> Result<Admitted, Refused> {
    let peer = verify(relay, connection, now)?;
    if noderelay_link::link::version(connection).is_none() {
        return Err(Refused::Version);
    }
    let home = &relay.map.get().home;
    let place = place(&peer.identity().role, &peer.identity().cluster, home)?;
    let seat = relay
        .quotas
        .connection(peer.identity(), Instant::now())
        .map_err(|no_seat| Refused::Quota(no_seat, Box::new(peer.identity().clone())))?;
    let role = peer.identity().kind();
    relay.metrics.admitted.get_or_create(&role.into()).inc();
    let counted = Held::new(&relay.metrics.connections.get_or_create_owned(&role.into()));
    Ok(Admitted {
        peer,
        place,
        at: now,
        _counted: counted,
        _seat: seat,
    })
}

impl Admitted {
    /// Looks at the peer again after trust has changed: with the clock of its admission, so that only a change of
    /// trust can put it out.
    pub(crate) fn recheck(&self, relay: &Relay, connection: &Connection) -> Result<(), Refused> {
        verify(relay, connection, self.at)?;
        place(
            &self.peer.identity().role,
            &self.peer.identity().cluster,
            &relay.map.get().home,
        )
        .map(|_| ())
    }
}

fn place(role: &Role, cluster: &ClusterName, home: &ClusterName) -> Result<Place, Refused> {
    match role {
        Role::User(_) | Role::BreakGlass(_) => Ok(Place::Client),
        Role::Node(node) if cluster == home => Ok(Place::Agent(NodeKey {
            cluster: cluster.clone(),
            node: node.clone(),
        })),
        Role::Node(_) => Err(Refused::OtherCluster {
            seen: cluster.clone(),
            home: home.clone(),
        }),
        Role::Relay(_) | Role::Issuer(_) => Err(Refused::Role(role.kind())),
    }
}

fn verify(relay: &Relay, connection: &Connection, now: Timestamp) -> Result<VerifiedPeer, PeerRefused> {
    noderelay_link::accepted(connection, &relay.party, &ROLES, now)
}

#[cfg(test)]
mod tests;
