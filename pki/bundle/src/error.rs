//! Why a publication was refused: one closed set, used as status code, log field and metric label.
//!
//! Every refusal leaves the last good publication in force. The text says what was seen, whose fault it is (the pipeline,
//! a signer, the copy on this machine) and what to do; strings from the publication are shortened and escaped.

use crate::limits::MAX_SHOWN;
use crate::metadata::Role;
use jiff::Timestamp;

/// A refused publication, or a store that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BundleError {
    /// A file that must be there is not.
    #[error(
        "{file} is missing from the publication: it was emptied, half-copied or is being replaced; copy the whole directory again"
    )]
    Missing {
        /// The file, relative to the publication.
        file: String,
    },
    /// The file system gave an error.
    #[error("{file} cannot be read: {cause}; check the mount and its permissions")]
    Unreadable {
        /// The file.
        file: String,
        /// What the system said.
        cause: String,
    },
    /// A file is larger than its limit or than the signed length.
    #[error("{file} is larger than {max} bytes: refused before reading it; publish a smaller file")]
    TooLarge {
        /// The file.
        file: String,
        /// The limit.
        max: u64,
    },
    /// Not the JSON that is expected there.
    #[error("{file} is malformed: {seen}; it was not written by `noderelay policy publish`")]
    Malformed {
        /// The file.
        file: String,
        /// What was seen.
        seen: String,
    },
    /// The same key twice in one object.
    #[error("{file} has the key {key} twice in one object: two readers could see different values, so neither is used")]
    DuplicateKey {
        /// The file.
        file: String,
        /// The key, escaped.
        key: String,
    },
    /// A field that this version does not know: it could mean something, so it must be understood.
    #[error("{file} has the unknown field {field}: a newer publication needs a newer program on this machine")]
    UnknownField {
        /// The file.
        file: String,
        /// The field, escaped.
        field: String,
    },
    /// The bytes are not the one canonical form of their content.
    #[error(
        "{file} is not canonical JSON (first difference at byte {at}): signatures are over exact bytes; publish it again with `noderelay policy publish`"
    )]
    NotCanonical {
        /// The file.
        file: String,
        /// Offset of the first byte that differs.
        at: usize,
    },
    /// A version that is no whole number from 1 to 2^53−1.
    #[error("{file} has the version {seen}: versions are whole numbers from 1 to 9007199254740991")]
    BadVersion {
        /// The file.
        file: String,
        /// What was seen.
        seen: String,
    },
    /// A time outside the one grammar.
    #[error(
        "{file} has the time {seen}: times are written YYYY-MM-DDTHH:MM:SSZ, without fraction, offset or leap second"
    )]
    BadTime {
        /// The file.
        file: String,
        /// What was seen.
        seen: String,
    },
    /// One public key stands there twice, as key or as signature.
    #[error("{file} lists one signing key twice ({key}): a key counts once")]
    KeyTwice {
        /// The file.
        file: String,
        /// The key's id.
        key: String,
    },
    /// No valid signature of the role at all.
    #[error(
        "the {role} document is not signed by any key of the role {role} ({seen} signatures by others or invalid); refused"
    )]
    Unsigned {
        /// The role.
        role: Role,
        /// Signatures under the document that do not count.
        seen: usize,
    },
    /// Fewer distinct keys than the root asks for.
    #[error(
        "the {role} document is signed by {have} of the {need} keys that the root asks for ({other} more do not count); collect the missing signatures with `noderelay policy sign`"
    )]
    BelowThreshold {
        /// The role.
        role: Role,
        /// Distinct keys asked for.
        need: u64,
        /// Distinct keys with a valid signature.
        have: u64,
        /// Signatures by keys of other roles, unknown keys, or invalid.
        other: usize,
    },
    /// An older version than one that was accepted here before.
    #[error(
        "the {role} document has version {offered}, but {floor} was accepted here before: an old publication was put back; publish a newer one"
    )]
    Rollback {
        /// The role.
        role: Role,
        /// The version offered.
        offered: u64,
        /// The version that must be reached.
        floor: u64,
    },
    /// The version that was accepted before, with other content.
    #[error(
        "the {role} document has version {version} as before, but other content: two documents were signed under one version; sign the next version"
    )]
    Changed {
        /// The role.
        role: Role,
        /// The version.
        version: u64,
    },
    /// Documents that do not belong together.
    #[error(
        "{file} does not belong to the documents that name it ({seen}): files of two publications are mixed; copy the whole directory again"
    )]
    MixedUp {
        /// The file.
        file: String,
        /// What differed.
        seen: String,
    },
    /// A root that does not follow from the trusted one.
    #[error("root version {version} does not follow from the trusted root: {seen}; ask the root signers")]
    RootChain {
        /// The version of the file.
        version: u64,
        /// What was seen.
        seen: String,
    },
    /// Nothing is pinned yet.
    #[error("no root is pinned in {store}: give the root file or its fingerprint, or allow the first use")]
    NotPinned {
        /// The store's directory.
        store: String,
    },
    /// Another root is pinned.
    #[error(
        "another root is pinned here ({pinned}) than the one offered ({seen}): this is another fleet or an attack; a root changes only by rotation"
    )]
    OtherRoot {
        /// Fingerprint of the pinned root.
        pinned: String,
        /// Fingerprint offered.
        seen: String,
    },
    /// Expired, while one that has not expired is in force.
    #[error(
        "the {role} document expired at {when} (judged at {at}): the one in force stays; sign and publish a newer one"
    )]
    Expired {
        /// The role.
        role: Role,
        /// When it expired.
        when: Timestamp,
        /// The effective time of the judgement.
        at: Timestamp,
    },
    /// Signed well, but the content is not usable.
    #[error("{file} is signed but not usable: {seen}; correct it, sign and publish again")]
    Content {
        /// The file.
        file: String,
        /// What was seen.
        seen: String,
    },
    /// The store itself.
    #[error("the bundle store {store} cannot be used: {seen}")]
    State {
        /// The store's directory.
        store: String,
        /// What was seen.
        seen: String,
    },
}

impl BundleError {
    /// The name of the refusal: closed set, for status, logs and metrics.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "bundle.missing",
            Self::Unreadable { .. } => "bundle.unreadable",
            Self::TooLarge { .. } => "bundle.too_large",
            Self::Malformed { .. } => "bundle.malformed",
            Self::DuplicateKey { .. } => "bundle.duplicate_key",
            Self::UnknownField { .. } => "bundle.unknown_field",
            Self::NotCanonical { .. } => "bundle.not_canonical",
            Self::BadVersion { .. } => "bundle.bad_version",
            Self::BadTime { .. } => "bundle.bad_time",
            Self::KeyTwice { .. } => "bundle.key_twice",
            Self::Unsigned { .. } => "bundle.unsigned",
            Self::BelowThreshold { .. } => "bundle.below_threshold",
            Self::Rollback { .. } => "bundle.rollback",
            Self::Changed { .. } => "bundle.changed",
            Self::MixedUp { .. } => "bundle.mixed_up",
            Self::RootChain { .. } => "bundle.root_chain",
            Self::NotPinned { .. } => "bundle.not_pinned",
            Self::OtherRoot { .. } => "bundle.other_root",
            Self::Expired { .. } => "bundle.expired",
            Self::Content { .. } => "bundle.content",
            Self::State { .. } => "bundle.state",
        }
    }

    /// True when the same directory may be good a moment later (it was being replaced), so that a reader tries again soon.
    #[must_use]
    pub fn may_heal(&self) -> bool {
        matches!(
            self,
            Self::Missing { .. } | Self::Unreadable { .. } | Self::MixedUp { .. }
        )
    }

    pub(crate) fn malformed(file: &str, seen: impl AsRef<str>) -> Self {
        Self::Malformed {
            file: file.to_owned(),
            seen: shown(seen),
        }
    }

    pub(crate) fn content(file: &str, seen: impl AsRef<str>) -> Self {
        Self::Content {
            file: file.to_owned(),
            seen: shown(seen),
        }
    }
}

/// Text from elsewhere, short and escaped.
pub(crate) fn shown(text: impl AsRef<str>) -> String {
    noderelay_pki::text::escape(text.as_ref(), MAX_SHOWN)
}
