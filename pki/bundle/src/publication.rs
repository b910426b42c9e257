//! A verified publication: what the signers decided, how fresh it is, and its bytes.
//!
//! There is no public constructor: holding a [`Publication`] means that every step passed. It is cheap to clone.
//!
//! **Time.** Documents carry `issued` and `expires`. What counts is the *effective time*: the largest of the local clock,
//! every `issued` in this publication, and the build's own lower bound. So a clock that was set back does not revive what
//! expired, and no local time is ever kept: when the clock is right again, everything is as before.
//!
//! **Freshness.** An expired `timestamp` makes the publication *stale*: policy sees it and decides. Expired `targets`,
//! `snapshot` or `root` make it *expired*: only break-glass is left. So does a clock that is behind the signed lower bound
//! by more than [`CLOCK_TOLERANCE_SECONDS`]: nobody can say then what has expired.

use crate::fleet::FleetFile;
use crate::limits::{BUILD_LOWER_BOUND_SECONDS, CLOCK_TOLERANCE_SECONDS};
use crate::metadata::{Common, Role, Root, Signed};
use crate::principals::PrincipalsFile;
use crate::source::Files;
use jiff::{SignedDuration, Timestamp};
use std::fmt;
use std::sync::Arc;

/// Folder of the policies.
const POLICIES: &str = "policies/";

/// A verified publication.
#[derive(Clone)]
pub struct Publication {
    parts: Arc<Parts>,
}

/// The versions of the documents of a publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versions {
    /// Version of the root.
    pub root: u64,
    /// Version of the targets document: the policy version.
    pub targets: u64,
    /// Version of the snapshot.
    pub snapshot: u64,
    /// Version of the timestamp.
    pub timestamp: u64,
}

/// How fresh a publication is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// Nothing has expired.
    Fresh,
    /// The timestamp is older than it may be: newer decisions may be held back.
    Stale {
        /// Since when.
        since: Timestamp,
    },
    /// A document expired: everything but break-glass is denied.
    Expired {
        /// Which one.
        what: Role,
        /// When.
        when: Timestamp,
    },
    /// The local clock is behind what was signed: everything but break-glass is denied until the clock is right.
    ClockImplausible {
        /// What the clock shows.
        now: Timestamp,
        /// It is later than this.
        at_least: Timestamp,
    },
}

impl Freshness {
    /// Whether standing rules and grants may be evaluated at all.
    #[must_use]
    pub fn usable(&self) -> bool {
        matches!(self, Self::Fresh | Self::Stale { .. })
    }

    /// What policy sees as `context.bundle.fresh`.
    #[must_use]
    pub fn fresh(&self) -> bool {
        matches!(self, Self::Fresh)
    }

    /// The name of the state: closed set, for status, logs and metrics.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Stale { .. } => "stale",
            Self::Expired { .. } => "expired",
            Self::ClockImplausible { .. } => "clock_implausible",
        }
    }
}

impl fmt::Display for Freshness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fresh => f.write_str("fresh"),
            Self::Stale { since } => write!(f, "stale since {since}: the pipeline has not signed a newer timestamp"),
            Self::Expired { what, when } => {
                write!(f, "the {what} document expired at {when}: sign and publish a newer one")
            }
            Self::ClockImplausible { now, at_least } => {
                write!(
                    f,
                    "the clock shows {now}, but it is later than {at_least}: set the clock"
                )
            }
        }
    }
}

/// The parts, as the verification hands them over.
pub(crate) struct Parts {
    /// The trusted root from which this publication was verified.
    pub(crate) start: Vec<u8>,
    pub(crate) root_fingerprint: String,
    pub(crate) root: Signed<Root>,
    pub(crate) timestamp: Common,
    pub(crate) snapshot: Common,
    pub(crate) targets: Common,
    pub(crate) fleet: FleetFile,
    pub(crate) principals: PrincipalsFile,
    /// Content of the targets by name.
    pub(crate) files: Files,
    /// The publication as it was received, by path.
    pub(crate) raw: Arc<Files>,
}

impl Publication {
    pub(crate) fn new(parts: Parts) -> Self {
        Self { parts: Arc::new(parts) }
    }

    /// The versions of its documents.
    #[must_use]
    pub fn versions(&self) -> Versions {
        Versions {
            root: self.parts.root.common.version,
            targets: self.parts.targets.version,
            snapshot: self.parts.snapshot.version,
            timestamp: self.parts.timestamp.version,
        }
    }

    /// The version that sessions, recordings and refusals name: that of the targets document.
    #[must_use]
    pub fn policy_version(&self) -> u64 {
        self.parts.targets.version
    }

    /// The fleet file.
    #[must_use]
    pub fn fleet(&self) -> &FleetFile {
        &self.parts.fleet
    }

    /// The principals file.
    #[must_use]
    pub fn principals(&self) -> &PrincipalsFile {
        &self.parts.principals
    }

    /// A file by its name (`nodes.yaml`).
    #[must_use]
    pub fn file(&self, name: &str) -> Option<&[u8]> {
        self.parts.files.get(name).map(Vec::as_slice)
    }

    /// The files whose name begins so (`policies/`), in the order of their names.
    pub fn files<'p>(&'p self, prefix: &'p str) -> impl Iterator<Item = (&'p str, &'p [u8])> + use<'p> {
        self.parts
            .files
            .iter()
            .filter(move |(name, _)| name.starts_with(prefix))
            .map(|(n, b)| (n.as_str(), b.as_slice()))
    }

    /// The policies by their names without the folder (`on-call.cedar`), in the order of these: so every program calls a
    /// policy the same.
    pub fn policies(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files(POLICIES)
            .filter_map(|(name, bytes)| Some((name.strip_prefix(POLICIES)?, bytes)))
    }

    /// Whether both hold the same content, signed once by the same policy signers: the targets documents are the same. Then
    /// what was made of one (policies, trust anchors) stands for the other.
    #[must_use]
    pub fn same_content(&self, other: &Self) -> bool {
        self.parts.targets == other.parts.targets
    }

    /// The publication as it was received, by path: for a mirror.
    #[must_use]
    pub fn raw(&self) -> &Files {
        &self.parts.raw
    }

    /// Fingerprint of the root in force (SHA-256 of its file, hex).
    #[must_use]
    pub fn root_fingerprint(&self) -> &str {
        &self.parts.root_fingerprint
    }

    /// The root in force.
    #[must_use]
    pub fn root(&self) -> &Root {
        &self.parts.root.document
    }

    /// Whether people are told that this is not for real nodes: the root is marked as a demonstration's, or one signer alone
    /// can decide.
    #[must_use]
    pub fn demo(&self) -> bool {
        let root = self.root();
        root.demo
            || [Role::Root, Role::Targets]
                .into_iter()
                .any(|role| root.threshold_of(role) < 2)
    }

    /// When the documents of a role expire.
    #[must_use]
    pub fn expires(&self, role: Role) -> Timestamp {
        self.common(role).expires
    }

    /// When the document of a role was issued.
    #[must_use]
    pub fn issued(&self, role: Role) -> Timestamp {
        self.common(role).issued
    }

    /// It is certainly later than this: the newest `issued` here, or the build's own lower bound.
    #[must_use]
    pub fn lower_bound(&self) -> Timestamp {
        Role::ALL
            .into_iter()
            .map(|role| self.issued(role))
            .fold(build_lower_bound(), Timestamp::max)
    }

    /// The time by which expiry is judged.
    #[must_use]
    pub fn effective_time(&self, now: Timestamp) -> Timestamp {
        now.max(self.lower_bound())
    }

    /// How fresh the publication is at `now` (the local clock).
    #[must_use]
    pub fn freshness(&self, now: Timestamp) -> Freshness {
        let at_least = self.lower_bound();
        if at_least.duration_since(now) > SignedDuration::from_secs(CLOCK_TOLERANCE_SECONDS) {
            return Freshness::ClockImplausible { now, at_least };
        }
        let at = self.effective_time(now);
        if let Some((what, when)) = self.expired_at(at) {
            return Freshness::Expired { what, when };
        }
        match self.expires(Role::Timestamp) {
            since if since <= at => Freshness::Stale { since },
            _ => Freshness::Fresh,
        }
    }

    /// The first document but the timestamp that expired before `at`.
    pub(crate) fn expired_at(&self, at: Timestamp) -> Option<(Role, Timestamp)> {
        [Role::Root, Role::Targets, Role::Snapshot]
            .into_iter()
            .map(|role| (role, self.expires(role)))
            .filter(|(_, when)| *when <= at)
            .min_by_key(|(_, when)| *when)
    }

    pub(crate) fn common(&self, role: Role) -> &Common {
        match role {
            Role::Root => &self.parts.root.common,
            Role::Targets => &self.parts.targets,
            Role::Snapshot => &self.parts.snapshot,
            Role::Timestamp => &self.parts.timestamp,
        }
    }

    pub(crate) fn start(&self) -> &[u8] {
        &self.parts.start
    }
}

impl fmt::Debug for Publication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publication")
            .field("versions", &self.versions())
            .finish_non_exhaustive()
    }
}

/// No clock is right that shows less.
#[must_use]
pub fn build_lower_bound() -> Timestamp {
    Timestamp::from_second(BUILD_LOWER_BOUND_SECONDS).unwrap_or(Timestamp::UNIX_EPOCH)
}
