//! What a [`Store`] keeps on disk: how it is written, read back, and kept from two processes at once.
//!
//! The table of files is in the parent. Both documents are replaced whole; a damaged one is told and never replaced by a
//! fresh start. It decides nothing about publications.

use super::Store;
use crate::error::BundleError;
use crate::limits::{MAX_ROOT, MAX_TOTAL};
use crate::metadata::Role;
use crate::publication::Publication;
use crate::source::Files;
use crate::verify::{self, Floor, Floors, TrustedRoot};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::time::Duration;

const TRUST: &str = "trust.json";
const LAST_GOOD: &str = "last-good.json";
const LOCK: &str = "lock";
/// Base64 makes four bytes of three; metadata comes on top.
const MAX_ARCHIVE: usize = MAX_TOTAL * 2;
const MAX_TRUST: usize = MAX_ROOT * 2;
/// How long a load waits for another process that loads: each takes milliseconds.
const LOCK_TRIES: u32 = 500;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrustFile {
    /// Fingerprint of the root that was pinned.
    pinned: String,
    /// Whether it was taken from the first publication seen.
    first_use: bool,
    /// The root trusted now, base64.
    root: String,
    #[serde(default)]
    floors: FloorsFile,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FloorsFile {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    targets: Option<Floor>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    snapshot: Option<Floor>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timestamp: Option<Floor>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Archive {
    /// The root from which the files verify, base64.
    root: String,
    /// Files by path, base64.
    files: BTreeMap<String, String>,
}

/// The trust file, decoded.
#[derive(Debug, Clone)]
pub(super) struct Trust {
    pub(super) pinned: String,
    pub(super) first_use: bool,
    pub(super) root: TrustedRoot,
    pub(super) floors: Floors,
}

impl Trust {
    /// Whether everything that the other one refuses as too old is refused here, too.
    fn covers(&self, other: &Self) -> bool {
        let reaches =
            |(role, floor): (&Role, &Floor)| self.floors.get(role).is_some_and(|own| own.version >= floor.version);
        let root = |trust: &Self| trust.root.signed.common.version;
        root(self) >= root(other) && other.floors.iter().all(reaches)
    }
}

impl Store {
    pub(super) fn trust(&self) -> Result<Trust, BundleError> {
        let unkept = self.unkept.lock().ok();
        let unkept = unkept.and_then(|unkept| Some(unkept.as_ref()?.trust.clone()));
        match (unkept, self.read_trust()?) {
            // Another process may have written something newer meanwhile.
            (Some(unkept), kept) if kept.as_ref().is_none_or(|kept| unkept.covers(kept)) => Ok(unkept),
            (_, Some(kept)) => Ok(kept),
            (_, None) => Err(BundleError::NotPinned {
                store: self.directory.display().to_string(),
            }),
        }
    }

    pub(super) fn read_trust(&self) -> Result<Option<Trust>, BundleError> {
        let Some(bytes) = self.read_file(TRUST, MAX_TRUST)? else {
            return Ok(None);
        };
        // A damaged trust file is never replaced by a fresh start: the floors would be lost with it.
        let damaged = |seen: String| self.unusable(format!("{TRUST} is damaged ({seen}); restore it from a backup"));
        let file: TrustFile = serde_json::from_slice(&bytes).map_err(|e| damaged(e.to_string()))?;
        let root = BASE64.decode(&file.root).map_err(|e| damaged(e.to_string()))?;
        let root = TrustedRoot::parse(TRUST, &root).map_err(|e| damaged(e.to_string()))?;
        let FloorsFile {
            targets,
            snapshot,
            timestamp,
        } = file.floors;
        let floors = [
            (Role::Targets, targets),
            (Role::Snapshot, snapshot),
            (Role::Timestamp, timestamp),
        ];
        let floors = floors
            .into_iter()
            .filter_map(|(role, floor)| Some((role, floor?)))
            .collect();
        Ok(Some(Trust {
            pinned: file.pinned,
            first_use: file.first_use,
            root,
            floors,
        }))
    }

    pub(super) fn write_trust(&self, trust: &Trust) -> Result<(), BundleError> {
        let floor = |role| trust.floors.get(&role).copied();
        let file = TrustFile {
            pinned: trust.pinned.clone(),
            first_use: trust.first_use,
            root: BASE64.encode(&trust.root.raw),
            floors: FloorsFile {
                targets: floor(Role::Targets),
                snapshot: floor(Role::Snapshot),
                timestamp: floor(Role::Timestamp),
            },
        };
        self.write_file(TRUST, &file)
    }

    pub(super) async fn read_last_good(&self) -> Result<Option<Publication>, BundleError> {
        if let Some(held) = self.held.lock().ok().and_then(|held| held.clone()) {
            return Ok(Some(held));
        }
        let Some(bytes) = self.read_file(LAST_GOOD, MAX_ARCHIVE)? else {
            return Ok(None);
        };
        let damaged = |seen: String| self.unusable(format!("{LAST_GOOD} is damaged: {seen}"));
        let archive: Archive = serde_json::from_slice(&bytes).map_err(|e| damaged(e.to_string()))?;
        let decode = |text: &str| BASE64.decode(text).map_err(|e| damaged(e.to_string()));
        let root = TrustedRoot::parse(LAST_GOOD, &decode(&archive.root)?)?;
        let mut files = Files::new();
        for (path, content) in &archive.files {
            files.insert(path.clone(), decode(content)?);
        }
        // Verified as it was when it came: from the root that was trusted then, without floors.
        let (last, followed) = verify::advance(&files, &root, &mut Floors::new())?;
        verify::verify(&files, &root, &last, followed, &Floors::new(), &self.directory)
            .await
            .map(Some)
    }

    pub(super) fn write_last_good(&self, publication: &Publication) -> Result<(), BundleError> {
        let files = publication
            .raw()
            .iter()
            .map(|(path, bytes)| (path.clone(), BASE64.encode(bytes)))
            .collect();
        self.write_file(
            LAST_GOOD,
            &Archive {
                root: BASE64.encode(publication.start()),
                files,
            },
        )
    }

    fn read_file(&self, name: &str, max: usize) -> Result<Option<Vec<u8>>, BundleError> {
        match noderelay_pki::files::read_bounded(&self.directory.join(name), max) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(self.unusable(error.to_string())),
        }
    }

    fn write_file(&self, name: &str, content: &impl Serialize) -> Result<(), BundleError> {
        let bytes = serde_json::to_vec(content).map_err(|e| self.unusable(format!("{name}: {e}")))?;
        noderelay_pki::files::write_atomic(&self.directory.join(name), &bytes, 0o600)
            .map_err(|e| self.unusable(format!("{name}: {e}")))
    }

    pub(super) async fn lock(&self) -> Result<File, BundleError> {
        let failed = |e: std::io::Error| self.unusable(format!("{LOCK}: {e}"));
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(self.directory.join(LOCK))
            .or_else(|error| match error.kind() {
                // What is there can still be read; the directory itself takes a lock as well.
                ErrorKind::ReadOnlyFilesystem | ErrorKind::StorageFull => File::open(&self.directory),
                _ => Err(error),
            })
            .map_err(failed)?;
        for _ in 0..LOCK_TRIES {
            match file.try_lock() {
                Ok(()) => {
                    self.sweep();
                    return Ok(file);
                }
                Err(TryLockError::WouldBlock) => tokio::time::sleep(LOCK_PAUSE).await,
                Err(TryLockError::Error(e)) => return Err(failed(e)),
            }
        }
        Err(self.unusable("another process holds its lock for long: a noderelay that is stopped or hangs; end it or continue it, then try again".to_owned()))
    }

    /// Removes what a process left that was killed in the middle; the caller holds the lock.
    fn sweep(&self) {
        for entry in std::fs::read_dir(&self.directory).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(crate::tuf::SCRATCH) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }

    pub(super) fn unusable(&self, seen: String) -> BundleError {
        BundleError::State {
            store: self.directory.display().to_string(),
            seen,
        }
    }
}
