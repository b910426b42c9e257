//! Names, parsed once into types: a bare string is never a name.
//!
//! Names of machines and of things that we name ourselves (clusters, nodes, relays, issuers, break-glass accounts,
//! profiles, trust domains) are RFC 1123 subdomains in lower case, as Kubernetes checks them: at most 253 bytes of
//! `a-z 0-9 - .`, each label begins and ends with a letter or a digit. Names of users and groups come from identity
//! providers: exact UTF-8, 1 to 1,024 bytes, never case-folded and never normalised, without characters that can't be
//! seen or that turn the text around.
//!
//! What it never does: repair a name. A name that is not exact is refused, with what was seen.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::text;

/// Longest machine name, in bytes (RFC 1123 subdomain).
pub const MAX_MACHINE_NAME: usize = 253;
/// Longest user or group name, in bytes.
pub const MAX_PERSON_NAME: usize = 1024;

/// A name was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} \"{seen}\" is refused: {problem}")]
pub struct NameError {
    /// What the name should have been the name of.
    pub kind: &'static str,
    /// The text that was seen, shortened and escaped.
    pub seen: String,
    /// The rule that it breaks.
    pub problem: Problem,
}

/// The rule that a refused name breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// No character at all.
    #[error("it is empty")]
    Empty,
    /// Longer than allowed.
    #[error("it has {seen} bytes and {max} are allowed")]
    TooLong {
        /// Bytes seen.
        seen: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// Not an RFC 1123 subdomain in lower case.
    #[error("use lower-case letters, digits, '-' and '.', with a letter or digit at both ends of each part")]
    NotASubdomain,
    /// A control, bidirectional or invisible character.
    #[error("it contains the invisible or control character U+{0:04X}")]
    Invisible(u32),
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $kind:literal, $check:path) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(Box<str>);

        impl $type {
            /// Checks the text and makes the name.
            pub fn parse(text: &str) -> Result<Self, NameError> {
                match $check(text) {
                    Ok(()) => Ok(Self(text.into())),
                    Err(problem) => Err(NameError { kind: $kind, seen: text::escape(text, 64), problem }),
                }
            }

            /// The exact text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl AsRef<str> for $type {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $type {
            type Err = NameError;
            fn from_str(text: &str) -> Result<Self, NameError> {
                Self::parse(text)
            }
        }

        impl TryFrom<String> for $type {
            type Error = NameError;
            fn try_from(text: String) -> Result<Self, NameError> {
                Self::parse(&text)
            }
        }

        impl TryFrom<&str> for $type {
            type Error = NameError;
            fn try_from(text: &str) -> Result<Self, NameError> {
                Self::parse(text)
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> String {
                name.0.into()
            }
        }
    };
}

name!(
    /// The trust domain of a fleet: the first part of every identity.
    TrustDomain, "trust domain", subdomain
);
name!(
    /// One cluster.
    ClusterName, "cluster name", subdomain
);
name!(
    /// One node of a cluster, as Kubernetes names it.
    NodeName, "node name", subdomain
);
name!(
    /// One relay.
    RelayName, "relay name", subdomain
);
name!(
    /// One issuer.
    IssuerName, "issuer name", subdomain
);
name!(
    /// A break-glass account.
    AccountName, "account name", subdomain
);
name!(
    /// A profile: how a session appears on the node.
    ProfileName, "profile name", subdomain
);
name!(
    /// A user as the cluster's API server attests it: exact bytes, never folded or normalised.
    UserName, "user name", person
);
name!(
    /// A group as the cluster's API server attests it: exact bytes, never folded or normalised.
    GroupName, "group name", person
);

fn subdomain(text: &str) -> Result<(), Problem> {
    if text.is_empty() {
        return Err(Problem::Empty);
    }
    if text.len() > MAX_MACHINE_NAME {
        return Err(Problem::TooLong {
            seen: text.len(),
            max: MAX_MACHINE_NAME,
        });
    }
    let label = |label: &str| {
        let bytes = label.as_bytes();
        let edge = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        edge(bytes.first())
            && edge(bytes.last())
            && bytes
                .iter()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
    };
    if text.split('.').all(label) {
        Ok(())
    } else {
        Err(Problem::NotASubdomain)
    }
}

fn person(text: &str) -> Result<(), Problem> {
    if text.is_empty() {
        return Err(Problem::Empty);
    }
    if text.len() > MAX_PERSON_NAME {
        return Err(Problem::TooLong {
            seen: text.len(),
            max: MAX_PERSON_NAME,
        });
    }
    match text.chars().find(|c| text::is_invisible(*c)) {
        Some(c) => Err(Problem::Invisible(u32::from(c))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
