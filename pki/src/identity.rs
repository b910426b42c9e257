//! An identity: one SPIFFE URI, the only name that a certificate carries.
//!
//! ```text
//! spiffe://<trust-domain>/cluster/<cluster>/node/<node>
//!                                          /relay/<relay>
//!                                          /issuer/<issuer>
//!                                          /user/<percent-encoded user>
//!                                          /break-glass/<account>
//! ```
//!
//! Users are percent-encoded: everything but `A-Z a-z 0-9 - . _ ~`, with upper-case hex. There is exactly one spelling
//! of an identity: what is parsed must give the same bytes when it is written again.
//!
//! What it never does: accept a second spelling, fold case, or normalise.

use std::fmt;
use std::str::FromStr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde::{Deserialize, Serialize};

use crate::name::{AccountName, ClusterName, IssuerName, NameError, NodeName, RelayName, TrustDomain, UserName};
use crate::text;

/// Longest identity URI, in bytes: a user of 1,024 bytes, all percent-encoded, and the names around it.
pub const MAX_URI: usize = 4096;

const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Who somebody is: a role in one cluster of one trust domain.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Identity {
    /// The fleet.
    pub trust_domain: TrustDomain,
    /// The home cluster: whose CA vouches for the name.
    pub cluster: ClusterName,
    /// What it is, and its name.
    pub role: Role,
}

/// What a certificate is for, and the name that goes with it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// An agent: one node.
    Node(NodeName),
    /// A relay.
    Relay(RelayName),
    /// An issuer.
    Issuer(IssuerName),
    /// A person or program that opens sessions.
    User(UserName),
    /// An emergency account.
    BreakGlass(AccountName),
}

/// The role without its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RoleKind {
    /// See [`Role::Node`].
    Node,
    /// See [`Role::Relay`].
    Relay,
    /// See [`Role::Issuer`].
    Issuer,
    /// See [`Role::User`].
    User,
    /// See [`Role::BreakGlass`].
    BreakGlass,
}

/// An identity was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// Not of the form of an identity.
    #[error(
        "\"{seen}\" is not an identity: it should be spiffe://TRUST-DOMAIN/cluster/CLUSTER/ROLE/NAME with ROLE one of \
         node, relay, issuer, user, break-glass"
    )]
    Form {
        /// What was seen, shortened and escaped.
        seen: String,
    },
    /// A second spelling of an identity.
    #[error(
        "\"{seen}\" is not the one spelling of this identity: percent-encode all but A-Z a-z 0-9 - . _ ~, in upper-case hex"
    )]
    Spelling {
        /// What was seen, shortened and escaped.
        seen: String,
    },
    /// One of the names in it is refused.
    #[error(transparent)]
    Name(#[from] NameError),
}

impl Identity {
    /// Puts the parts together.
    pub fn new(trust_domain: TrustDomain, cluster: ClusterName, role: Role) -> Identity {
        Identity {
            trust_domain,
            cluster,
            role,
        }
    }

    /// Reads a SPIFFE URI.
    pub fn parse(uri: &str) -> Result<Identity, IdentityError> {
        let form = || IdentityError::Form {
            seen: text::escape(uri, 128),
        };
        let spelling = || IdentityError::Spelling {
            seen: text::escape(uri, 128),
        };
        if uri.len() > MAX_URI {
            return Err(form());
        }
        let path = uri.strip_prefix("spiffe://").ok_or_else(form)?;
        let mut parts = path.split('/');
        let (Some(domain), Some("cluster"), Some(cluster), Some(kind), Some(name), None) = (
            parts.next(),
            parts.next(),
            parts.next(),
            parts.next(),
            parts.next(),
            parts.next(),
        ) else {
            return Err(form());
        };
        let role = match kind {
            "node" => Role::Node(NodeName::parse(name)?),
            "relay" => Role::Relay(RelayName::parse(name)?),
            "issuer" => Role::Issuer(IssuerName::parse(name)?),
            "break-glass" => Role::BreakGlass(AccountName::parse(name)?),
            "user" => {
                let user = percent_decode_str(name).decode_utf8().map_err(|_| spelling())?;
                Role::User(UserName::parse(&user)?)
            }
            _ => return Err(form()),
        };
        let identity = Identity {
            trust_domain: TrustDomain::parse(domain)?,
            cluster: ClusterName::parse(cluster)?,
            role,
        };
        if identity.to_string() == uri {
            Ok(identity)
        } else {
            Err(spelling())
        }
    }

    /// The role without its name.
    pub fn kind(&self) -> RoleKind {
        self.role.kind()
    }
}

impl Role {
    /// The role without its name.
    pub fn kind(&self) -> RoleKind {
        match self {
            Role::Node(_) => RoleKind::Node,
            Role::Relay(_) => RoleKind::Relay,
            Role::Issuer(_) => RoleKind::Issuer,
            Role::User(_) => RoleKind::User,
            Role::BreakGlass(_) => RoleKind::BreakGlass,
        }
    }

    /// The name, exact.
    pub fn name(&self) -> &str {
        match self {
            Role::Node(name) => name.as_str(),
            Role::Relay(name) => name.as_str(),
            Role::Issuer(name) => name.as_str(),
            Role::User(name) => name.as_str(),
            Role::BreakGlass(name) => name.as_str(),
        }
    }
}

impl RoleKind {
    /// Every role.
    pub const ALL: [RoleKind; 5] = [
        RoleKind::Node,
        RoleKind::Relay,
        RoleKind::Issuer,
        RoleKind::User,
        RoleKind::BreakGlass,
    ];

    /// The word in the URI and in files.
    pub fn as_str(self) -> &'static str {
        match self {
            RoleKind::Node => "node",
            RoleKind::Relay => "relay",
            RoleKind::Issuer => "issuer",
            RoleKind::User => "user",
            RoleKind::BreakGlass => "break-glass",
        }
    }
}

impl fmt::Display for RoleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = utf8_percent_encode(self.role.name(), ENCODED);
        write!(
            f,
            "spiffe://{}/cluster/{}/{}/{name}",
            self.trust_domain,
            self.cluster,
            self.kind()
        )
    }
}

impl FromStr for Identity {
    type Err = IdentityError;
    fn from_str(uri: &str) -> Result<Identity, IdentityError> {
        Identity::parse(uri)
    }
}

impl TryFrom<String> for Identity {
    type Error = IdentityError;
    fn try_from(uri: String) -> Result<Identity, IdentityError> {
        Identity::parse(&uri)
    }
}

impl From<Identity> for String {
    fn from(identity: Identity) -> String {
        identity.to_string()
    }
}

#[cfg(test)]
mod tests;
