//! The four kinds of TUF metadata, read field by field. Unknown fields, missing fields and odd values are refused: every
//! field must be understood.
//!
//! Beside the fields of the TUF specification, each document carries `issued` (when it was made: a signed lower bound of
//! the present), and a root may carry `demo` and `floors` (the versions to which the floors of nodes are set when they
//! take this root: the way back after a version was poisoned upwards).

use crate::error::BundleError;
use crate::key::{KeyId, PublicKey};
use crate::limits::{MAX_FILE_NAME, MAX_FILES};
use crate::strict::{self, Envelope};
use crate::threshold::{self, Count};
use fields::{read_keys, read_meta, read_role};
use jiff::Timestamp;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

mod fields;
mod write;

/// The TUF specification that documents are written to.
pub const SPEC_VERSION: &str = "1.0.31";

/// Who signs what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Names the keys of all roles; signed offline, rotated rarely.
    Root,
    /// Names the files; signed by the policy signers.
    Targets,
    /// Names the targets document; signed by the pipeline.
    Snapshot,
    /// Names the snapshot; signed anew by the pipeline every hour.
    Timestamp,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Root, Self::Targets, Self::Snapshot, Self::Timestamp];

    /// The name in metadata.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Targets => "targets",
            Self::Snapshot => "snapshot",
            Self::Timestamp => "timestamp",
        }
    }

    /// By its name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == name)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A document with its signatures, read but not yet verified.
#[derive(Debug, Clone)]
pub struct Signed<T> {
    /// What the role says.
    pub document: T,
    /// The fields that all roles have.
    pub common: Common,
    /// The exact bytes that the signatures are over.
    pub bytes: Vec<u8>,
    /// Key ids and signatures.
    pub signatures: Vec<(KeyId, Vec<u8>)>,
}

/// The fields that all roles have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Common {
    /// Rises with each document of the role.
    pub version: u64,
    /// The document is out of date from here on.
    pub expires: Timestamp,
    /// When it was made.
    pub issued: Timestamp,
    /// SHA-256 of the signed bytes.
    pub digest: [u8; 32],
}

/// The keys of one role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleKeys {
    /// Ids of keys in [`Root::keys`].
    pub keys: BTreeSet<KeyId>,
    /// Distinct keys that must sign.
    pub threshold: u64,
}

/// The root document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// All keys by id.
    pub keys: BTreeMap<KeyId, PublicKey>,
    /// The keys of each role; all four are there.
    pub roles: BTreeMap<Role, RoleKeys>,
    /// Versions that floors are set to by this root.
    pub floors: BTreeMap<Role, u64>,
    /// Marked as a demonstration.
    pub demo: bool,
}

/// One document as another names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named {
    /// Its version (always 0 for files, which have none).
    pub version: u64,
    /// Its length in bytes.
    pub length: u64,
    /// SHA-256 of the whole file.
    pub sha256: [u8; 32],
}

/// The timestamp document: names the snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimestampDocument {
    /// `snapshot.json`.
    pub snapshot: Named,
}

/// The snapshot document: names the targets document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// `targets.json`.
    pub targets: Named,
}

/// The targets document: names the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Targets {
    /// Files by name.
    pub files: BTreeMap<String, Named>,
}

/// A kind of document.
pub trait Document: Sized {
    /// Its role.
    const ROLE: Role;

    #[doc(hidden)]
    fn read(fields: &mut Fields<'_>) -> Result<Self, BundleError>;

    #[doc(hidden)]
    fn write(&self) -> Map<String, Value>;
}

impl<T: Document> Signed<T> {
    /// Strict pass and fields; no signature is looked at.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub fn parse(file: &str, bytes: &[u8], max: usize) -> Result<Self, BundleError> {
        let Envelope {
            signed,
            bytes,
            signatures,
        } = strict::envelope(file, bytes, max)?;
        Self::from_parts(file, signed, bytes, signatures)
    }

    /// The fields of a signed object whose bytes are known.
    pub(crate) fn from_parts(
        file: &str,
        signed: Map<String, Value>,
        bytes: Vec<u8>,
        signatures: Vec<(KeyId, Vec<u8>)>,
    ) -> Result<Self, BundleError> {
        let mut fields = Fields { file, map: signed };
        let role = fields.text("_type")?;
        if role != T::ROLE.as_str() {
            return Err(BundleError::malformed(
                file,
                format!("a {role} document where {} is expected", T::ROLE),
            ));
        }
        let spec = fields.text("spec_version")?;
        if spec != SPEC_VERSION {
            return Err(BundleError::malformed(
                file,
                format!("spec_version {spec} instead of {SPEC_VERSION}"),
            ));
        }
        let common = Common {
            version: fields.version("version")?,
            expires: fields.time("expires")?,
            issued: fields.time("issued")?,
            digest: Sha256::digest(&bytes).into(),
        };
        if common.issued >= common.expires {
            return Err(BundleError::malformed(file, "it expires before it was issued"));
        }
        let document = T::read(&mut fields)?;
        fields.done()?;
        Ok(Self {
            document,
            common,
            bytes,
            signatures,
        })
    }
}

impl Root {
    /// The distinct keys of a role.
    #[must_use]
    pub fn keys_of(&self, role: Role) -> BTreeSet<PublicKey> {
        self.roles
            .get(&role)
            .into_iter()
            .flat_map(|r| &r.keys)
            .filter_map(|id| self.keys.get(id).cloned())
            .collect()
    }

    /// The threshold of a role. A root that was read has one for each.
    #[must_use]
    pub fn threshold_of(&self, role: Role) -> u64 {
        self.roles.get(&role).map_or(u64::MAX, |r| r.threshold)
    }

    /// Counts the distinct keys of the document's role, as this root names them, that signed its exact bytes.
    #[must_use]
    pub fn count<T: Document>(&self, signed: &Signed<T>) -> Count {
        let known = signed
            .signatures
            .iter()
            .filter_map(|(id, s)| Some((self.keys.get(id)?, s.as_slice())));
        let mut count = threshold::count(&self.keys_of(T::ROLE), &signed.bytes, known);
        count.others = signed.signatures.len().saturating_sub(count.signers.len());
        count
    }

    /// Requires the threshold of the document's role.
    ///
    /// # Errors
    /// [`BundleError::Unsigned`] or [`BundleError::BelowThreshold`].
    pub fn require<T: Document>(&self, signed: &Signed<T>) -> Result<(), BundleError> {
        let (count, need) = (self.count(signed), self.threshold_of(T::ROLE));
        if count.reaches(need) {
            return Ok(());
        }
        Err(match count.have() {
            0 => BundleError::Unsigned {
                role: T::ROLE,
                seen: count.others,
            },
            have => BundleError::BelowThreshold {
                role: T::ROLE,
                need,
                have,
                other: count.others,
            },
        })
    }
}

impl Document for Root {
    const ROLE: Role = Role::Root;

    fn read(fields: &mut Fields<'_>) -> Result<Self, BundleError> {
        let file = fields.file;
        if !fields.flag("consistent_snapshot")? {
            return Err(BundleError::malformed(file, "`consistent_snapshot` must be true"));
        }
        let keys = read_keys(file, fields.object("keys")?)?;
        let mut listed = fields.object("roles")?;
        let mut roles = BTreeMap::new();
        for role in Role::ALL {
            let mut entry = listed.object(role.as_str())?;
            let read = read_role(&mut entry, &keys)?;
            entry.done()?;
            roles.insert(role, read);
        }
        listed.done()?;
        let demo = fields.has("demo") && fields.flag("demo")?;
        let mut floors = BTreeMap::new();
        if fields.has("floors") {
            let mut listed = fields.object("floors")?;
            for role in [Role::Targets, Role::Snapshot, Role::Timestamp] {
                if listed.has(role.as_str()) {
                    floors.insert(role, listed.version(role.as_str())?);
                }
            }
            listed.done()?;
        }
        Ok(Self {
            keys,
            roles,
            floors,
            demo,
        })
    }

    fn write(&self) -> Map<String, Value> {
        write::root(self)
    }
}

impl Document for TimestampDocument {
    const ROLE: Role = Role::Timestamp;

    fn read(fields: &mut Fields<'_>) -> Result<Self, BundleError> {
        Ok(Self {
            snapshot: read_meta(fields, "snapshot.json")?,
        })
    }

    fn write(&self) -> Map<String, Value> {
        write::meta("snapshot.json", &self.snapshot)
    }
}

impl Document for Snapshot {
    const ROLE: Role = Role::Snapshot;

    fn read(fields: &mut Fields<'_>) -> Result<Self, BundleError> {
        Ok(Self {
            targets: read_meta(fields, "targets.json")?,
        })
    }

    fn write(&self) -> Map<String, Value> {
        write::meta("targets.json", &self.targets)
    }
}

impl Document for Targets {
    const ROLE: Role = Role::Targets;

    fn read(fields: &mut Fields<'_>) -> Result<Self, BundleError> {
        let mut listed = fields.object("targets")?;
        let names = listed.names();
        if names.len() > MAX_FILES {
            return Err(BundleError::malformed(
                fields.file,
                format!("more than {MAX_FILES} files"),
            ));
        }
        let mut files = BTreeMap::new();
        for name in names {
            if !is_file_name(&name) {
                return Err(BundleError::malformed(
                    fields.file,
                    format!("{name} is not a file name that is used here"),
                ));
            }
            let mut entry = listed.object(&name)?;
            let named = Named {
                version: 0,
                length: entry.number("length")?,
                sha256: entry.sha256()?,
            };
            entry.done()?;
            files.insert(name, named);
        }
        Ok(Self { files })
    }

    fn write(&self) -> Map<String, Value> {
        write::targets(self)
    }
}

pub use fields::Fields;
pub(crate) use write::{assemble, signed_bytes};

/// Names that files of a publication may have: one or two plain segments, so that no name leaves the directory.
#[must_use]
pub fn is_file_name(name: &str) -> bool {
    let plain = |segment: &str| {
        segment.starts_with(|c: char| c.is_ascii_alphanumeric())
            && segment
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
    };
    name.len() <= MAX_FILE_NAME && name.split('/').count() <= 2 && name.split('/').all(plain)
}
