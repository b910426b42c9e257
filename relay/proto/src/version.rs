//! Versions of the protocol: negotiated by ALPN, newest first, at least two can run side by side.
//!
//! ```text
//! outer leg (QUIC)      ALPN noderelay/1            client ↔ relay, relay ↔ relay, agent ↔ relay
//! inner leg (TLS 1.3)   ALPN noderelay-session/1    client ↔ node
//! enrolment (QUIC)      ALPN noderelay-enrol/1      reserved
//! ```
//!
//! Each version has a list of changes. A test checks that every frame and every code was brought in by exactly one
//! version, so that nothing appears on the wire without a version that announces it. A version is never edited after
//! its release; numbers are never reused.

use crate::code::Code;
use crate::frame::Type;

/// ALPN of outer legs, version 1.
pub const OUTER_V1: &[u8] = b"noderelay/1";
/// ALPN of the inner leg, version 1.
pub const INNER_V1: &[u8] = b"noderelay-session/1";
/// ALPN of connections that may only reach an issuer. Reserved: no party of this version offers it.
pub const ENROL_V1: &[u8] = b"noderelay-enrol/1";

/// Outer ALPNs in order of preference, ready for a TLS configuration.
pub const OUTER: &[&[u8]] = &[OUTER_V1];
/// Inner ALPNs in order of preference, ready for a TLS configuration.
pub const INNER: &[&[u8]] = &[INNER_V1];

/// A version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Version {
    /// The first version.
    V1,
}

/// What a version brought in.
#[derive(Clone, Copy, Debug)]
pub struct Changes {
    /// The version.
    pub version: Version,
    /// Frames that are new in it.
    pub frames: &'static [Type],
    /// Codes that are new in it.
    pub codes: &'static [Code],
    /// What is different, a sentence each.
    pub text: &'static [&'static str],
}

impl Version {
    /// Every version that this build speaks, newest (preferred) first.
    pub const ALL: &'static [Self] = &[Self::V1];

    /// The number in route headers and registrations.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::V1 => 1,
        }
    }

    /// The version of a number, if this build speaks it.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.iter().copied().find(|version| version.number() == number)
    }

    /// The ALPN of outer legs.
    #[must_use]
    pub const fn outer_alpn(self) -> &'static [u8] {
        match self {
            Self::V1 => OUTER_V1,
        }
    }

    /// The ALPN of the inner leg.
    #[must_use]
    pub const fn inner_alpn(self) -> &'static [u8] {
        match self {
            Self::V1 => INNER_V1,
        }
    }

    /// The version that an outer connection negotiated.
    #[must_use]
    pub fn from_outer_alpn(alpn: &[u8]) -> Option<Self> {
        Self::ALL.iter().copied().find(|version| version.outer_alpn() == alpn)
    }

    /// The version that an inner connection negotiated.
    #[must_use]
    pub fn from_inner_alpn(alpn: &[u8]) -> Option<Self> {
        Self::ALL.iter().copied().find(|version| version.inner_alpn() == alpn)
    }

    /// What this version brought in.
    #[must_use]
    pub const fn changes(self) -> Changes {
        match self {
            Self::V1 => Changes {
                version: Self::V1,
                frames: Type::ALL,
                codes: Code::ALL,
                text: &["The first version: every frame and code of this document."],
            },
        }
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.number())
    }
}

#[cfg(test)]
mod tests;
