//! Drafts: the exact bytes that signers sign, and their signatures.
//!
//! The first signer makes the draft; all others sign the same bytes. While it lacks signatures, a change of the content
//! replaces it under the same version, and the signatures that it had are dropped. Once it is complete, a change is the
//! next version.
//!
//! A root N+1 needs the threshold of root N as well as its own, so signers of both may sign it.

use super::{AuthorError, RolesFile, content, not_future, read, write};
use crate::error::BundleError;
use crate::key::{KeyId, PublicKey};
use crate::limits::{MAX_KEYS, MAX_ROOT, MAX_TARGETS};
use crate::metadata::{self, Document, Named, Role, Root, Signed, Targets};
use crate::signing::SigningKey;
use crate::strict;
use crate::threshold::{self, Count};
use jiff::Timestamp;
use noderelay_pki::time;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const MAX_SIGNATURE_FILE: usize = 4096;

/// A document to be signed.
#[derive(Debug, Clone)]
pub struct Draft {
    /// `root` or `targets`.
    pub role: Role,
    /// Its version.
    pub version: u64,
    /// When it was made.
    pub issued: Timestamp,
    /// When it will expire.
    pub expires: Timestamp,
    /// Who signed it so far, of those who count.
    pub signed_by: BTreeSet<PublicKey>,
    /// Who else can sign.
    pub missing: BTreeSet<PublicKey>,
    /// Distinct keys needed.
    pub threshold: u64,
    /// Whether it is complete.
    pub complete: bool,
    /// For targets: the files with length and SHA-256.
    pub files: BTreeMap<String, Named>,
}

/// The draft of `role` as the repository stands: made, or made anew, when the content is not what the last one says.
///
/// # Errors
/// Content that a node would refuse, or files that cannot be read or written.
pub fn draft(directory: &Path, role: Role, now: Timestamp) -> Result<Draft, AuthorError> {
    make(directory, role, now, false)
}

/// As [`draft`], but always a new version: before the old one expires.
///
/// # Errors
/// As [`draft`].
pub fn renew(directory: &Path, role: Role, now: Timestamp) -> Result<Draft, AuthorError> {
    make(directory, role, now, true)
}

/// Adds the signature of `key` to the draft of `role`. Signing twice changes nothing.
///
/// # Errors
/// As [`draft`]; [`AuthorError::NotASigner`] when the signature would not count.
pub fn sign(directory: &Path, key: &SigningKey, role: Role, now: Timestamp) -> Result<Draft, AuthorError> {
    let draft = draft(directory, role, now)?;
    not_future(role, draft.issued, now)?;
    if !draft.signed_by.contains(key.public()) && !draft.missing.contains(key.public()) {
        return Err(AuthorError::NotASigner {
            role,
            key: key.public().clone(),
        });
    }
    let bytes = read(&directory.join(draft_name(role, draft.version)), max_of(role))?;
    let signature = json!({"keyid": key.id().as_str(), "sig": hex::encode(key.sign(&bytes)?)});
    let name = format!("{}/{}.json", signatures_name(role, draft.version), key.id());
    write(directory, &name, &strict::canonical(&signature))?;
    match role {
        Role::Root => Roots::load(directory)?.describe(draft.version),
        _ => {
            let roots = Roots::load(directory)?;
            let signed = load::<Targets>(directory, draft.version)?;
            Ok(describe_targets(roots.authority()?, &signed))
        }
    }
}

fn make(directory: &Path, role: Role, now: Timestamp, renew: bool) -> Result<Draft, AuthorError> {
    let roles = RolesFile::load(directory)?;
    match role {
        Role::Root => make_root(directory, &roles, now, renew),
        Role::Targets => make_targets(directory, &roles, now, renew),
        role => Err(AuthorError::PipelineRole { role }),
    }
}

fn make_root(directory: &Path, roles: &RolesFile, now: Timestamp, renew: bool) -> Result<Draft, AuthorError> {
    let wanted = roles.root()?;
    let roots = Roots::load(directory)?;
    let version = match roots.all.last() {
        Some(last) if last.document == wanted && !renew && last.common.expires > now => {
            return roots.describe(last.common.version);
        }
        Some(last) if roots.complete(last.common.version) => last.common.version + 1,
        Some(last) => last.common.version,
        None => 1,
    };
    store(
        directory,
        &wanted,
        version,
        now,
        time::after(now, roles.valid.root.duration()),
    )?;
    Roots::load(directory)?.describe(version)
}

fn make_targets(directory: &Path, roles: &RolesFile, now: Timestamp, renew: bool) -> Result<Draft, AuthorError> {
    let wanted = Targets {
        files: name_all(&content(directory)?),
    };
    let roots = Roots::load(directory)?;
    let authority = roots.authority()?;
    let last = versions(directory, Role::Targets)?.last().copied();
    let version = match last {
        None => 1,
        Some(version) => {
            let signed = load::<Targets>(directory, version)?;
            if signed.document == wanted && !renew && signed.common.expires > now {
                return Ok(describe_targets(authority, &signed));
            }
            // Under any root that was ever in force: what those signers completed may be published, whoever signs now.
            let complete = roots.published().any(|root| {
                let judge = &root.document;
                judge.count(&signed).reaches(judge.threshold_of(Role::Targets))
            });
            if complete { version + 1 } else { version }
        }
    };
    store(
        directory,
        &wanted,
        version,
        now,
        time::after(now, roles.valid.targets.duration()),
    )?;
    if let Some(old) = last.filter(|old| *old != version) {
        // The history is git's; here only the newest counts.
        remove(directory, Role::Targets, old)?;
    }
    Ok(describe_targets(authority, &load(directory, version)?))
}

/// Names, lengths and hashes of files.
pub(super) fn name_all(files: &crate::source::Files) -> BTreeMap<String, Named> {
    let name = |bytes: &Vec<u8>| Named {
        version: 0,
        length: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
        sha256: Sha256::digest(bytes).into(),
    };
    files.iter().map(|(file, bytes)| (file.clone(), name(bytes))).collect()
}

/// All root drafts of a repository, in order, with their signatures.
pub(super) struct Roots {
    pub(super) all: Vec<Signed<Root>>,
}

impl Roots {
    pub(super) fn load(directory: &Path) -> Result<Self, AuthorError> {
        let mut all = Vec::new();
        for (expected, version) in (1..).zip(versions(directory, Role::Root)?) {
            if version != expected {
                return Err(AuthorError::File {
                    file: draft_name(Role::Root, expected),
                    cause: "missing".to_owned(),
                });
            }
            all.push(load::<Root>(directory, version)?);
        }
        Ok(Self { all })
    }

    /// The newest complete root: it says who signs everything else.
    pub(super) fn authority(&self) -> Result<&Root, AuthorError> {
        self.published()
            .last()
            .map(|root| &root.document)
            .ok_or_else(|| match self.all.first() {
                None => AuthorError::NothingSigned { role: Role::Root },
                Some(first) => self.incomplete(first),
            })
    }

    /// The roots that are complete, from the first one on.
    pub(super) fn published(&self) -> impl Iterator<Item = &Signed<Root>> {
        self.all.iter().take_while(|root| self.complete(root.common.version))
    }

    fn incomplete(&self, root: &Signed<Root>) -> AuthorError {
        let (count, need) = (root.document.count(root), root.document.threshold_of(Role::Root));
        let missing = root
            .document
            .keys_of(Role::Root)
            .difference(&count.signers)
            .cloned()
            .collect();
        AuthorError::Incomplete {
            role: Role::Root,
            version: root.common.version,
            have: count.have(),
            need,
            missing,
        }
    }

    fn get(&self, version: u64) -> Option<&Signed<Root>> {
        self.all.iter().find(|root| root.common.version == version)
    }

    /// The roots whose thresholds a root needs: its own, and the one before it.
    fn judges(&self, version: u64) -> impl Iterator<Item = &Root> {
        [Some(version), version.checked_sub(1)]
            .into_iter()
            .flatten()
            .filter_map(|v| Some(&self.get(v)?.document))
    }

    fn complete(&self, version: u64) -> bool {
        let Some(root) = self.get(version) else { return false };
        self.judges(version)
            .all(|judge| count_by(judge, root).reaches(judge.threshold_of(Role::Root)))
    }

    fn describe(&self, version: u64) -> Result<Draft, AuthorError> {
        let root = self
            .get(version)
            .ok_or(AuthorError::NothingSigned { role: Role::Root })?;
        let allowed: BTreeSet<PublicKey> = self
            .judges(version)
            .flat_map(|judge| judge.keys_of(Role::Root))
            .collect();
        // A key that only the old root knows is not in the new root's table: signatures are matched by id over both.
        let signed_by: BTreeSet<PublicKey> = self
            .judges(version)
            .flat_map(|judge| count_by(judge, root).signers)
            .collect();
        Ok(Draft {
            role: Role::Root,
            version,
            issued: root.common.issued,
            expires: root.common.expires,
            missing: allowed.difference(&signed_by).cloned().collect(),
            signed_by,
            threshold: root.document.threshold_of(Role::Root),
            complete: self.complete(version),
            files: BTreeMap::new(),
        })
    }
}

fn count_by(judge: &Root, root: &Signed<Root>) -> Count {
    let known = root
        .signatures
        .iter()
        .filter_map(|(id, s)| Some((judge.keys.get(id)?, s.as_slice())));
    threshold::count(&judge.keys_of(Role::Root), &root.bytes, known)
}

fn describe_targets(authority: &Root, signed: &Signed<Targets>) -> Draft {
    let (count, threshold) = (authority.count(signed), authority.threshold_of(Role::Targets));
    Draft {
        role: Role::Targets,
        version: signed.common.version,
        issued: signed.common.issued,
        expires: signed.common.expires,
        missing: authority
            .keys_of(Role::Targets)
            .difference(&count.signers)
            .cloned()
            .collect(),
        complete: count.reaches(threshold),
        signed_by: count.signers,
        threshold,
        files: signed.document.files.clone(),
    }
}

pub(super) fn draft_name(role: Role, version: u64) -> String {
    format!("drafts/{version}.{role}.json")
}

fn signatures_name(role: Role, version: u64) -> String {
    format!("signatures/{version}.{role}")
}

fn max_of(role: Role) -> usize {
    if role == Role::Root { MAX_ROOT } else { MAX_TARGETS }
}

/// The versions of a role's drafts, rising.
pub(super) fn versions(directory: &Path, role: Role) -> Result<Vec<u64>, AuthorError> {
    let suffix = format!(".{role}.json");
    let names = entries(&directory.join("drafts"))?;
    let mut versions: Vec<u64> = names
        .iter()
        .filter_map(|name| name.strip_suffix(&suffix)?.parse().ok())
        .collect();
    versions.sort_unstable();
    Ok(versions)
}

/// A draft with its signatures.
pub(super) fn load<T: Document>(directory: &Path, version: u64) -> Result<Signed<T>, AuthorError> {
    let name = draft_name(T::ROLE, version);
    let bytes = read(&directory.join(&name), max_of(T::ROLE))?;
    let Value::Object(signed) = strict::value(&name, &bytes, max_of(T::ROLE))? else {
        return Err(BundleError::malformed(&name, "not an object").into());
    };
    let mut signatures = Vec::new();
    let folder = signatures_name(T::ROLE, version);
    for file in entries(&directory.join(&folder))?
        .into_iter()
        .filter(|f| f.ends_with(".json"))
        .take(MAX_KEYS)
    {
        let name = format!("{folder}/{file}");
        let bytes = read(&directory.join(&name), MAX_SIGNATURE_FILE)?;
        let value = strict::value(&name, &bytes, MAX_SIGNATURE_FILE)?;
        let (id, signature) = strict::signature(&name, value)?;
        if file.strip_suffix(".json") != Some(id.as_str()) {
            return Err(BundleError::malformed(&name, format!("it holds the signature of {id}")).into());
        }
        signatures.push((id, signature));
    }
    let signed = Signed::<T>::from_parts(&name, signed, bytes, signatures)?;
    if signed.common.version != version {
        return Err(BundleError::malformed(&name, format!("it says version {}", signed.common.version)).into());
    }
    Ok(signed)
}

/// The signatures that count under the given roots, in a fixed order: nothing else is published.
pub(super) fn counting<'r, T: Document>(
    signed: &Signed<T>,
    judges: impl IntoIterator<Item = &'r Root>,
) -> Vec<(KeyId, Vec<u8>)> {
    let known: BTreeMap<KeyId, PublicKey> = judges
        .into_iter()
        .flat_map(|judge| judge.keys_of(T::ROLE))
        .map(|key| (key.id(), key))
        .collect();
    let valid = |id: &KeyId, s: &[u8]| known.get(id).is_some_and(|key| key.verifies(&signed.bytes, s));
    let mut counting: Vec<_> = signed
        .signatures
        .iter()
        .filter(|(id, s)| valid(id, s))
        .cloned()
        .collect();
    counting.sort();
    counting
}

/// Writes a draft; signatures of an earlier one under that version are dropped.
fn store<T: Document>(
    directory: &Path,
    document: &T,
    version: u64,
    now: Timestamp,
    expires: Timestamp,
) -> Result<(), AuthorError> {
    let bytes = metadata::signed_bytes(document, version, now, expires);
    remove(directory, T::ROLE, version)?;
    write(directory, &draft_name(T::ROLE, version), &bytes)
}

fn remove(directory: &Path, role: Role, version: u64) -> Result<(), AuthorError> {
    let (folder, file) = (
        directory.join(signatures_name(role, version)),
        directory.join(draft_name(role, version)),
    );
    let missing = |e: &std::io::Error| e.kind() == std::io::ErrorKind::NotFound;
    let failed = |path: &Path, e: std::io::Error| AuthorError::File {
        file: path.display().to_string(),
        cause: e.to_string(),
    };
    match std::fs::remove_dir_all(&folder) {
        Err(e) if !missing(&e) => return Err(failed(&folder, e)),
        _ => {}
    }
    match std::fs::remove_file(&file) {
        Err(e) if !missing(&e) => Err(failed(&file, e)),
        _ => Ok(()),
    }
}

pub(super) fn entries(folder: &Path) -> Result<Vec<String>, AuthorError> {
    let failed = |e: std::io::Error| AuthorError::File {
        file: folder.display().to_string(),
        cause: e.to_string(),
    };
    let listed = match std::fs::read_dir(folder) {
        Ok(listed) => listed,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(failed(e)),
    };
    let mut names = Vec::new();
    for entry in listed {
        names.push(entry.map_err(failed)?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}
