//! The pipeline: makes a publication out of a signed repository, and keeps its timestamp young.
//!
//! The pipeline's key signs the snapshot and the timestamp and nothing else. What it writes was verified before, as a
//! node verifies it. New files are written first and `timestamp.json` last, so that a reader of the directory sees the old
//! publication or the new one; files of the publication before stay, for readers that are in the middle.
//!
//! Versions of snapshot and timestamp are the time in seconds (or one more than before), so that a pipeline that starts
//! with an empty directory does not go back.

use super::draft::{self, Roots, counting, draft_name, name_all, versions};
use super::{AuthorError, RolesFile, content, not_future, verify_source, write};
use crate::error::BundleError;
use crate::key::KeyId;
use crate::limits::{MAX_ROOT, MAX_ROOT_UPDATES, MAX_TIMESTAMP};
use crate::metadata::{self, Document, Named, Role, Signed, Snapshot, Targets, TimestampDocument};
use crate::publication::Publication;
use crate::signing::SigningKey;
use crate::source::{Directory, Files, Source};
use crate::tuf::target_path;
use crate::verify::{TIMESTAMP, path_of};
use jiff::{SignedDuration, Timestamp};
use noderelay_pki::time;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::path::Path;

/// Publishes the repository `directory` into `out`, with the pipeline's key.
///
/// # Errors
/// Signatures are missing, files changed since they were signed, something expired, `out` holds something newer, or
/// files cannot be written. `out` is unchanged then, unless writing itself failed.
pub async fn publish(
    directory: &Path,
    out: &Path,
    key: &SigningKey,
    now: Timestamp,
) -> Result<Publication, AuthorError> {
    let roles = RolesFile::load(directory)?;
    let roots = Roots::load(directory)?;
    let authority = roots.authority()?;
    check_pipeline(authority, key)?;
    let mut files = Files::new();
    let mut before = None;
    for root in roots.published() {
        let judges = [Some(&root.document), before].into_iter().flatten();
        files.insert(
            path_of(Role::Root, root.common.version),
            metadata::assemble(&root.bytes, &counting(root, judges)),
        );
        before = Some(&root.document);
    }

    let targets = signed_targets(directory, authority)?;
    for (name, bytes) in content(directory)? {
        let Some(named) = targets.document.files.get(&name) else {
            continue;
        };
        files.insert(target_path(&name, &named.sha256), bytes);
    }
    let (version, when) = (targets.common.version, targets.common.expires);
    if when <= now {
        return Err(BundleError::Expired {
            role: Role::Targets,
            when,
            at: now,
        }
        .into());
    }
    let targets_file = metadata::assemble(&targets.bytes, &counting(&targets, [authority]));
    let targets_named = named(&targets_file, version);
    files.insert(path_of(Role::Targets, version), targets_file);

    let previous = Previous::read(out)?;
    if let Some(newer) = previous.targets.filter(|before| *before > version) {
        return Err(BundleError::Rollback {
            role: Role::Targets,
            offered: version,
            floor: newer,
        }
        .into());
    }
    let snapshot = Snapshot { targets: targets_named };
    let snapshot_version = next(previous.snapshot, now);
    let snapshot_file = sign(&snapshot, snapshot_version, now, targets.common.expires, key)?;
    let timestamp = TimestampDocument {
        snapshot: named(&snapshot_file, snapshot_version),
    };
    files.insert(path_of(Role::Snapshot, snapshot_version), snapshot_file);
    let expires = time::after(now, roles.valid.timestamp.duration());
    files.insert(
        TIMESTAMP.to_owned(),
        sign(&timestamp, next(previous.timestamp, now), now, expires, key)?,
    );

    let publication = check(&files, now).await?;
    write_all(out, &files, &previous.files)?;
    Ok(publication)
}

/// Signs a new timestamp for the publication in `out`: the pipeline's hourly step. It needs no repository. The new
/// timestamp is valid as long as the one before was.
///
/// # Errors
/// `out` holds no publication that verifies, something else in it expired, or the key is not the pipeline's.
pub async fn refresh(out: &Path, key: &SigningKey, now: Timestamp) -> Result<Publication, AuthorError> {
    let source = Directory::open(out);
    let mut files = Files::new();
    for version in 1..=MAX_ROOT_UPDATES {
        let path = path_of(Role::Root, version);
        let Some(root) = source.read(&path, MAX_ROOT)? else {
            break;
        };
        files.insert(path, root);
    }
    let first = source.require(&path_of(Role::Root, 1), MAX_ROOT)?;
    let before = verify_source(&source, &first).await?;
    check_pipeline(before.root(), key)?;
    files.extend(before.raw().iter().map(|(path, bytes)| (path.clone(), bytes.clone())));
    let old = source.require(TIMESTAMP, MAX_TIMESTAMP)?;
    let old = Signed::<TimestampDocument>::parse(TIMESTAMP, &old, MAX_TIMESTAMP)?;
    let valid = old.common.expires.duration_since(old.common.issued);
    let expires = now.checked_add(valid).unwrap_or(Timestamp::MAX);
    let version = next(Some(old.common.version), now);
    files.insert(TIMESTAMP.to_owned(), sign(&old.document, version, now, expires, key)?);
    let publication = check(&files, now).await?;
    write(
        out,
        TIMESTAMP,
        files.get(TIMESTAMP).map(Vec::as_slice).unwrap_or_default(),
    )?;
    Ok(publication)
}

fn check_pipeline(root: &metadata::Root, key: &SigningKey) -> Result<(), AuthorError> {
    for role in [Role::Snapshot, Role::Timestamp] {
        if !root.keys_of(role).contains(key.public()) {
            return Err(AuthorError::NotASigner {
                role,
                key: key.public().clone(),
            });
        }
        if root.threshold_of(role) > 1 {
            let seen = "a pipeline of more than one key is not supported: its threshold must be 1".to_owned();
            return Err(AuthorError::Roles { seen });
        }
    }
    Ok(())
}

/// The newest targets draft: complete, and still what the files are.
fn signed_targets(directory: &Path, authority: &metadata::Root) -> Result<Signed<Targets>, AuthorError> {
    let version = versions(directory, Role::Targets)?
        .last()
        .copied()
        .ok_or(AuthorError::NothingSigned { role: Role::Targets })?;
    let targets = draft::load::<Targets>(directory, version)?;
    let is = name_all(&content(directory)?);
    let signed = &targets.document.files;
    let names: BTreeSet<&String> = is.keys().chain(signed.keys()).collect();
    let names: Vec<String> = names
        .into_iter()
        .filter(|name| is.get(*name) != signed.get(*name))
        .cloned()
        .collect();
    if !names.is_empty() {
        return Err(AuthorError::Changed { version, names });
    }
    let (count, need) = (authority.count(&targets), authority.threshold_of(Role::Targets));
    if !count.reaches(need) {
        let missing = authority
            .keys_of(Role::Targets)
            .difference(&count.signers)
            .cloned()
            .collect();
        return Err(AuthorError::Incomplete {
            role: Role::Targets,
            version,
            have: count.have(),
            need,
            missing,
        });
    }
    tracing::debug!(draft = draft_name(Role::Targets, version), "signed targets");
    Ok(targets)
}

/// What lies in the output directory already. It is only looked at for version numbers, never trusted.
struct Previous {
    timestamp: Option<u64>,
    snapshot: Option<u64>,
    targets: Option<u64>,
    /// Its files, which stay for readers in the middle.
    files: BTreeSet<String>,
}

impl Previous {
    fn read(out: &Path) -> Result<Self, AuthorError> {
        let source = Directory::open(out);
        let mut previous = Self {
            timestamp: None,
            snapshot: None,
            targets: None,
            files: BTreeSet::new(),
        };
        let Some(bytes) = source.read(TIMESTAMP, MAX_TIMESTAMP)? else {
            return Ok(previous);
        };
        let timestamp = Signed::<TimestampDocument>::parse(TIMESTAMP, &bytes, MAX_TIMESTAMP)?;
        previous.timestamp = Some(timestamp.common.version);
        let version = timestamp.document.snapshot.version;
        previous.snapshot = Some(version);
        let file = path_of(Role::Snapshot, version);
        previous.files.insert(file.clone());
        let Some(bytes) = source.read(&file, crate::limits::MAX_SNAPSHOT)? else {
            return Ok(previous);
        };
        let snapshot = Signed::<Snapshot>::parse(&file, &bytes, crate::limits::MAX_SNAPSHOT)?;
        let version = snapshot.document.targets.version;
        previous.targets = Some(version);
        let file = path_of(Role::Targets, version);
        previous.files.insert(file.clone());
        let Some(bytes) = source.read(&file, crate::limits::MAX_TARGETS)? else {
            return Ok(previous);
        };
        let targets = Signed::<Targets>::parse(&file, &bytes, crate::limits::MAX_TARGETS)?;
        previous.files.extend(
            targets
                .document
                .files
                .iter()
                .map(|(name, named)| target_path(name, &named.sha256)),
        );
        Ok(previous)
    }
}

fn next(previous: Option<u64>, now: Timestamp) -> u64 {
    let by_time = u64::try_from(now.as_second()).unwrap_or(1).max(1);
    previous.map_or(by_time, |before| by_time.max(before.saturating_add(1)))
}

fn named(file: &[u8], version: u64) -> Named {
    Named {
        version,
        length: u64::try_from(file.len()).unwrap_or(u64::MAX),
        sha256: Sha256::digest(file).into(),
    }
}

fn sign<T: Document>(
    document: &T,
    version: u64,
    now: Timestamp,
    expires: Timestamp,
    key: &SigningKey,
) -> Result<Vec<u8>, AuthorError> {
    let bytes = metadata::signed_bytes(document, version, now, expires);
    let signature: (KeyId, Vec<u8>) = (key.id(), key.sign(&bytes)?);
    Ok(metadata::assemble(&bytes, &[signature]))
}

/// Verifies what is about to be written as a new node would, and that nothing but the timestamp's hour is against it.
async fn check(files: &Files, now: Timestamp) -> Result<Publication, AuthorError> {
    let first = files.require(&path_of(Role::Root, 1), MAX_ROOT)?;
    let publication = verify_source(files, &first).await?;
    for role in [Role::Root, Role::Targets, Role::Snapshot] {
        not_future(role, publication.issued(role), now)?;
    }
    // A second, so that a clock with fractions does not make the new documents look future.
    let at = publication.effective_time(now.saturating_add(SignedDuration::from_secs(1)).unwrap_or(now));
    match publication.expired_at(at) {
        Some((role, when)) => Err(BundleError::Expired { role, when, at }.into()),
        None => Ok(publication),
    }
}

fn write_all(out: &Path, files: &Files, keep: &BTreeSet<String>) -> Result<(), AuthorError> {
    let last = |path: &str| path == TIMESTAMP;
    for (path, bytes) in files.iter().filter(|(path, _)| !last(path)) {
        let same = std::fs::read(out.join(path)).is_ok_and(|there| there == *bytes);
        if !same {
            write(out, path, bytes)?;
        }
    }
    for (path, bytes) in files.iter().filter(|(path, _)| last(path)) {
        write(out, path, bytes)?;
    }
    // What two publications ago left behind; never anything that is not ours by its form.
    let stale = |path: &String| !files.contains_key(path) && !keep.contains(path);
    for name in draft::entries(&out.join("metadata"))? {
        let path = format!("metadata/{name}");
        if (name.ends_with(".snapshot.json") || name.ends_with(".targets.json")) && stale(&path) {
            let _ = std::fs::remove_file(out.join(path));
        }
    }
    for name in draft::entries(&out.join("targets"))? {
        let ours = name
            .split_once('.')
            .is_some_and(|(hash, _)| crate::key::bytes::<32>(hash).is_some());
        let folder = out.join("targets").join(&name);
        if ours && folder.is_dir() {
            for file in draft::entries(&folder)? {
                let path = format!("targets/{name}/{file}");
                if stale(&path) {
                    let _ = std::fs::remove_file(out.join(path));
                }
            }
            // Only an empty one goes.
            let _ = std::fs::remove_dir(folder);
        } else if ours && stale(&format!("targets/{name}")) {
            let _ = std::fs::remove_file(folder);
        }
    }
    Ok(())
}
