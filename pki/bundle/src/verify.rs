//! The steps from bytes to a verified publication, numbered as in the TUF specification 1.0.31 (section 5).
//!
//! Order, for each document: strict pass → signature threshold over the exact bytes → rollback. Expiry comes after all of
//! them, by the effective time ([`crate::publication`]), and only then is anything stored ([`crate::store`]). No byte of
//! a document is used before its signatures count.
//!
//! | step | here |
//! |---|---|
//! | 5.2 trusted root | given by the store |
//! | 5.3 root N → N+1 | [`advance`]; the floors that a new root sets take effect with it |
//! | 5.4 timestamp, 5.5 snapshot, 5.6 targets | [`verify`]: strict, threshold, rollback against the floors |
//! | 5.4–5.7 names, versions, lengths, hashes | `tough`, over the same bytes ([`crate::tuf`]) |
//! | 5.3.10, 5.4.4, 5.5.6, 5.6.5 expiry | [`crate::publication::Publication::freshness`] |

use crate::error::BundleError;
use crate::fleet::FleetFile;
use crate::limits::{
    MAX_FILE, MAX_FILES, MAX_ROOT, MAX_ROOT_UPDATES, MAX_SNAPSHOT, MAX_TARGETS, MAX_TIMESTAMP, MAX_TOTAL,
};
use crate::metadata::{Common, Document, Named, Role, Root, Signed, Snapshot, Targets, TimestampDocument};
use crate::principals::PrincipalsFile;
use crate::publication::{Parts, Publication};
use crate::source::{Files, Source};
use crate::tuf;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

pub(crate) const TIMESTAMP: &str = "metadata/timestamp.json";

/// The path of a versioned document.
pub(crate) fn path_of(role: Role, version: u64) -> String {
    match role {
        Role::Timestamp => TIMESTAMP.to_owned(),
        role => format!("metadata/{version}.{role}.json"),
    }
}

/// A root that is trusted: its bytes as received, and its content.
#[derive(Debug, Clone)]
pub(crate) struct TrustedRoot {
    pub(crate) raw: Vec<u8>,
    pub(crate) signed: Signed<Root>,
}

impl TrustedRoot {
    /// 5.2: takes a root that the caller trusts. It must still be signed by its own threshold.
    pub(crate) fn parse(file: &str, raw: &[u8]) -> Result<Self, BundleError> {
        let signed = Signed::<Root>::parse(file, raw, MAX_ROOT)?;
        signed.document.require(&signed)?;
        Ok(Self {
            raw: raw.to_vec(),
            signed,
        })
    }

    pub(crate) fn fingerprint(&self) -> String {
        fingerprint(&self.raw)
    }
}

/// SHA-256 of the bytes, lower-case hex.
pub(crate) fn fingerprint(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// The least that a role's next document must reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Floor {
    /// Lower versions are refused.
    pub(crate) version: u64,
    /// What this version was, where it was seen: the same version with other content is refused.
    #[serde(default, with = "digest", skip_serializing_if = "Option::is_none")]
    pub(crate) digest: Option<[u8; 32]>,
}

impl Floor {
    pub(crate) fn of(common: &Common) -> Self {
        Self {
            version: common.version,
            digest: Some(common.digest),
        }
    }
}

/// Floors of the roles but root (whose floor is the trusted root itself). They outlive expiry and restart.
pub(crate) type Floors = BTreeMap<Role, Floor>;

/// 5.3: follows `N+1.root.json` as far as there are any. Returns the last one, and lowers or raises `floors` where a new
/// root says so.
pub(crate) fn advance(
    source: &dyn Source,
    trusted: &TrustedRoot,
    floors: &mut Floors,
) -> Result<(TrustedRoot, Files), BundleError> {
    let mut root = trusted.clone();
    let mut followed = Files::new();
    for _ in 0..MAX_ROOT_UPDATES {
        // 5.3.3
        let next = root.signed.common.version.saturating_add(1);
        let file = path_of(Role::Root, next);
        let Some(raw) = source.read(&file, MAX_ROOT)? else {
            return Ok((root, followed));
        };
        let signed = Signed::<Root>::parse(&file, &raw, MAX_ROOT)?;
        // 5.3.4, both thresholds
        for by in [&root.signed.document, &signed.document] {
            by.require(&signed).map_err(|e| BundleError::RootChain {
                version: next,
                seen: e.to_string(),
            })?;
        }
        // 5.3.5
        if signed.common.version != next {
            let seen = format!("the file says version {}", signed.common.version);
            return Err(BundleError::RootChain { version: next, seen });
        }
        set_floors(floors, &signed.document);
        // 5.3.7; 5.3.8 is the store's
        followed.insert(file, raw.clone());
        root = TrustedRoot { raw, signed };
    }
    Err(BundleError::RootChain {
        version: root.signed.common.version,
        seen: "more root versions than are followed at once".to_owned(),
    })
}

/// The floors that a root sets: the documented way back after a version was poisoned upwards. The digest is dropped: the
/// root signers name versions, not contents.
pub(crate) fn set_floors(floors: &mut Floors, root: &Root) {
    for (role, version) in &root.floors {
        floors.insert(
            *role,
            Floor {
                version: *version,
                digest: None,
            },
        );
    }
}

/// 5.4 to 5.7 under a trusted root. `followed` are the files of the root chain, kept with the publication.
pub(crate) async fn verify(
    source: &dyn Source,
    start: &TrustedRoot,
    root: &TrustedRoot,
    followed: Files,
    floors: &Floors,
    scratch: &Path,
) -> Result<Publication, BundleError> {
    let keys = &root.signed.document;
    let mut files = followed;

    // 5.4 timestamp
    let timestamp = document::<TimestampDocument>(source, &mut files, TIMESTAMP, MAX_TIMESTAMP, keys, floors)?;
    // 5.5 snapshot
    let named = timestamp.document.snapshot;
    let file = path_of(Role::Snapshot, named.version);
    let snapshot = document::<Snapshot>(source, &mut files, &file, MAX_SNAPSHOT, keys, floors)?;
    belongs(&files, &file, &named, snapshot.common.version)?;
    // 5.6 targets
    let named = snapshot.document.targets;
    let file = path_of(Role::Targets, named.version);
    let targets = document::<Targets>(source, &mut files, &file, MAX_TARGETS, keys, floors)?;
    belongs(&files, &file, &named, targets.common.version)?;
    // 5.7 files, read up to their signed length
    read_files(source, &mut files, &targets.document)?;

    let files = Arc::new(files);
    let content = tuf::load(&start.raw, &files, scratch).await?;
    let fleet = FleetFile::parse(required(&content, "fleet.yaml")?)?;
    let principals = PrincipalsFile::parse(required(&content, "principals.yaml")?)?;
    principals.check_against(&fleet)?;
    Ok(Publication::new(Parts {
        start: start.raw.clone(),
        root_fingerprint: root.fingerprint(),
        root: root.signed.clone(),
        timestamp: timestamp.common,
        snapshot: snapshot.common,
        targets: targets.common,
        fleet,
        principals,
        files: content,
        raw: files,
    }))
}

/// One document: strict pass, threshold, rollback.
fn document<T: Document>(
    source: &dyn Source,
    files: &mut Files,
    file: &str,
    max: usize,
    root: &Root,
    floors: &Floors,
) -> Result<Signed<T>, BundleError> {
    let raw = source.require(file, max)?;
    let signed = Signed::<T>::parse(file, &raw, max)?;
    // 5.4.2, 5.5.3, 5.6.3
    root.require(&signed)?;
    // 5.4.3, 5.5.5
    let (role, offered) = (T::ROLE, signed.common.version);
    if let Some(floor) = floors.get(&role) {
        if offered < floor.version {
            return Err(BundleError::Rollback {
                role,
                offered,
                floor: floor.version,
            });
        }
        if offered == floor.version && floor.digest.is_some_and(|digest| digest != signed.common.digest) {
            return Err(BundleError::Changed { role, version: offered });
        }
    }
    files.insert(file.to_owned(), raw);
    Ok(signed)
}

/// That a document is the one that the document above it names. `tough` looks at this again; here the refusal gets the
/// name of the file.
fn belongs(files: &Files, file: &str, named: &Named, version: u64) -> Result<(), BundleError> {
    let raw = files.get(file).map(Vec::as_slice).unwrap_or_default();
    let sha256: [u8; 32] = Sha256::digest(raw).into();
    let seen = if version != named.version {
        format!("version {version} instead of {}", named.version)
    } else if u64::try_from(raw.len()) != Ok(named.length) {
        format!("{} bytes instead of {}", raw.len(), named.length)
    } else if sha256 != named.sha256 {
        "another hash".to_owned()
    } else {
        return Ok(());
    };
    Err(BundleError::MixedUp {
        file: file.to_owned(),
        seen,
    })
}

fn read_files(source: &dyn Source, files: &mut Files, targets: &Targets) -> Result<(), BundleError> {
    debug_assert!(targets.files.len() <= MAX_FILES);
    let mut total = 0usize;
    for (name, named) in &targets.files {
        let length = usize::try_from(named.length).unwrap_or(usize::MAX);
        total = total.saturating_add(length);
        if length > MAX_FILE || total > MAX_TOTAL {
            let max = u64::try_from(if length > MAX_FILE { MAX_FILE } else { MAX_TOTAL }).unwrap_or(u64::MAX);
            return Err(BundleError::TooLarge {
                file: name.clone(),
                max,
            });
        }
        let path = tuf::target_path(name, &named.sha256);
        let raw = source.require(&path, length)?;
        if raw.len() != length {
            return Err(BundleError::MixedUp {
                file: path,
                seen: format!("{} bytes instead of {length}", raw.len()),
            });
        }
        files.insert(path, raw);
    }
    Ok(())
}

fn required<'c>(content: &'c Files, name: &str) -> Result<&'c [u8], BundleError> {
    content
        .get(name)
        .map(Vec::as_slice)
        .ok_or_else(|| BundleError::content(name, "the publication does not name this file"))
}

mod digest {
    //! A digest as hex text.
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    #[expect(clippy::ref_option, reason = "serde gives a reference to the field")]
    pub(super) fn serialize<S: Serializer>(digest: &Option<[u8; 32]>, serializer: S) -> Result<S::Ok, S::Error> {
        match digest {
            Some(digest) => serializer.serialize_str(&hex::encode(digest)),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<[u8; 32]>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|t| crate::key::bytes(&t).ok_or_else(|| D::Error::custom("not a SHA-256 in hex")))
            .transpose()
    }
}
