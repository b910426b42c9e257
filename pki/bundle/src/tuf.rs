//! The TUF client work-flow by `tough`, over bytes in memory that already passed the strict pass.
//!
//! `tough` gets its own temporary directory for each load and starts without history: it would otherwise keep the local
//! time as a floor and refuse everything after a clock went back. Rollback is judged in `verify` from our own floors.
//! Its expiry check is off; expiry is judged in [`crate::publication`] by the effective time.

use crate::error::{BundleError, shown};
use crate::source::Files;
use futures_core::Stream;
use noderelay_pki::files;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tough::error::Error;
use tough::{
    Bytes, ExpirationEnforcement, IntoVec, Limits, RepositoryLoader, TargetName, Transport, TransportError,
    TransportErrorKind, TransportStream,
};
use url::Url;

use crate::limits::{MAX_ROOT, MAX_ROOT_UPDATES, MAX_SNAPSHOT, MAX_TARGETS, MAX_TIMESTAMP};

/// How the temporary directories begin, also where other programs have theirs.
pub(crate) const SCRATCH: &str = "noderelay-tuf-";

/// A load takes milliseconds. What is as old as this was left by a process that was killed.
const LEFT: Duration = Duration::from_secs(3600);

/// Where temporary directories are made when `scratch` has no room: memory, on most systems.
const ELSEWHERE: &str = "/dev/shm";

/// Runs `tough` over `files`, starting from the trusted `root`, and returns the content of the named targets.
/// `scratch` is a directory in which a temporary one can be made. When its disk is full or read-only another place serves as
/// well, since nothing is kept there: a node whose disk is full must be able to start its agent.
///
/// # Errors
/// Whatever `tough` refuses, as one of our own kinds.
pub(crate) async fn load(root: &[u8], files: &Arc<Files>, scratch: &Path) -> Result<Files, BundleError> {
    let first = load_in(root, files, scratch).await;
    if !matches!(first, Err(BundleError::State { .. })) {
        return first;
    }
    for place in [&*std::env::temp_dir(), Path::new(ELSEWHERE)] {
        sweep(place);
        match load_in(root, files, place).await {
            Err(BundleError::State { .. }) => {}
            other => return other,
        }
    }
    first
}

/// Removes what was left by this user in a place that others use as well.
fn sweep(place: &Path) {
    for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
        let left = entry.file_name().to_string_lossy().starts_with(SCRATCH)
            && entry.metadata().is_ok_and(|entry| {
                entry.is_dir()
                    && files::is_ours(&entry)
                    && entry
                        .modified()
                        .is_ok_and(|when| when.elapsed().is_ok_and(|age| age > LEFT))
            });
        if left {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

async fn load_in(root: &[u8], files: &Arc<Files>, scratch: &Path) -> Result<Files, BundleError> {
    let no_room = |seen: String| BundleError::State {
        store: scratch.display().to_string(),
        seen: format!("no temporary files: {seen}"),
    };
    let directory = tempfile::Builder::new()
        .prefix(SCRATCH)
        .permissions(std::fs::Permissions::from_mode(0o700))
        .tempdir_in(scratch)
        .map_err(|e| no_room(e.to_string()))?;
    let limits = Limits {
        max_root_size: bound(MAX_ROOT),
        max_targets_size: bound(MAX_TARGETS),
        max_timestamp_size: bound(MAX_TIMESTAMP),
        max_snapshot_size: bound(MAX_SNAPSHOT),
        max_root_updates: MAX_ROOT_UPDATES,
    };
    let repository = RepositoryLoader::new(&root, base("metadata")?, base("targets")?)
        .transport(Memory {
            files: Arc::clone(files),
        })
        .limits(limits)
        .datastore(directory.path())
        .expiration_enforcement(ExpirationEnforcement::Unsafe)
        .load()
        .await
        .map_err(|e| match &e {
            Error::DatastoreCreate { .. } | Error::DatastoreOpen { .. } | Error::DatastoreRemove { .. } => {
                no_room(root_cause(&e))
            }
            other => refused(other),
        })?;
    let mut content = Files::new();
    let names: Vec<TargetName> = repository.all_targets().map(|(name, _)| name.clone()).collect();
    for name in names {
        let stream = repository.read_target(&name).await.map_err(|e| refused(&e))?;
        let stream = stream.ok_or_else(|| BundleError::Missing {
            file: shown(name.raw()),
        })?;
        let bytes = stream.into_vec().await.map_err(|e| mixed(name.raw(), &e))?;
        content.insert(name.raw().to_owned(), bytes);
    }
    Ok(content)
}

/// The path of a target's file in the publication.
pub(crate) fn target_path(name: &str, sha256: &[u8; 32]) -> String {
    format!("targets/{}.{name}", hex::encode(sha256))
}

fn bound(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

fn base(part: &str) -> Result<Url, BundleError> {
    Url::parse(&format!("memory:/{part}/")).map_err(|e| BundleError::malformed(part, e.to_string()))
}

fn mixed(file: &str, error: &Error) -> BundleError {
    match error {
        Error::Transport { source, .. } if source.kind() == TransportErrorKind::FileNotFound => {
            BundleError::Missing { file: shown(file) }
        }
        other => BundleError::MixedUp {
            file: shown(file),
            seen: shown(root_cause(other)),
        },
    }
}

/// What is left for `tough` to find after our own steps: documents that do not belong together.
fn refused(error: &Error) -> BundleError {
    match error {
        Error::Transport { url, .. } => mixed(url.path().trim_start_matches('/'), error),
        Error::ParseMetadata { role, .. } => BundleError::malformed(&role.to_string(), root_cause(error)),
        other => BundleError::MixedUp {
            file: "metadata".to_owned(),
            seen: shown(root_cause(other)),
        },
    }
}

fn root_cause(error: &Error) -> String {
    let mut text = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        text = cause.to_string();
        next = cause.source();
    }
    text
}

#[derive(Debug, Clone)]
struct Memory {
    files: Arc<Files>,
}

#[tough::async_trait]
impl Transport for Memory {
    async fn fetch(&self, url: Url) -> Result<TransportStream, TransportError> {
        match self.files.get(url.path().trim_start_matches('/')) {
            Some(bytes) => Ok(Box::pin(Once(Some(Bytes::copy_from_slice(bytes))))),
            None => Err(TransportError::new(TransportErrorKind::FileNotFound, url)),
        }
    }
}

/// A stream of one piece.
struct Once(Option<Bytes>);

impl Stream for Once {
    type Item = Result<Bytes, TransportError>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.0.take().map(Ok))
    }
}

#[cfg(test)]
mod tests;
