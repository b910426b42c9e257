//! Where the bytes of a publication come from: a directory, or memory. Every read is bounded.
//!
//! A directory is resolved through its symbolic links once, when it is opened: a mounted ConfigMap is replaced by a
//! symlink swap, and a reader must not take half of the old and half of the new one.

use crate::error::BundleError;
use noderelay_pki::files::Problem;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Files by their path relative to the publication (`metadata/timestamp.json`, `targets/SHA256.fleet.yaml`).
pub type Files = BTreeMap<String, Vec<u8>>;

/// A place that holds a publication.
pub trait Source: Send + Sync {
    /// The bytes of a file, or `None` when there is no such file.
    ///
    /// # Errors
    /// Larger than `max`, or unreadable.
    fn read(&self, file: &str, max: usize) -> Result<Option<Vec<u8>>, BundleError>;

    /// The bytes of a file that must be there.
    ///
    /// # Errors
    /// As [`Source::read`], and [`BundleError::Missing`].
    fn require(&self, file: &str, max: usize) -> Result<Vec<u8>, BundleError> {
        self.read(file, max)?
            .ok_or_else(|| BundleError::Missing { file: file.to_owned() })
    }
}

impl Source for Files {
    fn read(&self, file: &str, max: usize) -> Result<Option<Vec<u8>>, BundleError> {
        match self.get(file) {
            Some(bytes) if bytes.len() > max => Err(too_large(file, max)),
            found => Ok(found.cloned()),
        }
    }
}

/// A publication in a directory.
#[derive(Debug, Clone)]
pub struct Directory {
    metadata: PathBuf,
    targets: PathBuf,
}

impl Directory {
    /// Opens the publication at `path`; nothing is read yet. A directory that does not exist gives missing files.
    #[must_use]
    pub fn open(path: &Path) -> Self {
        let resolved = |part: &str| {
            let joined = path.join(part);
            std::fs::canonicalize(&joined).unwrap_or(joined)
        };
        Self {
            metadata: resolved("metadata"),
            targets: resolved("targets"),
        }
    }
}

impl Source for Directory {
    fn read(&self, file: &str, max: usize) -> Result<Option<Vec<u8>>, BundleError> {
        let path = match file.split_once('/') {
            Some(("metadata", name)) => self.metadata.join(name),
            Some(("targets", name)) => self.targets.join(name),
            _ => return Ok(None),
        };
        match noderelay_pki::files::read_bounded(&path, max) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => match error.problem {
                Problem::TooLarge { .. } => Err(too_large(file, max)),
                Problem::Io { source, .. } if source.kind() == std::io::ErrorKind::NotADirectory => Ok(None),
                problem => Err(BundleError::Unreadable {
                    file: path.display().to_string(),
                    cause: problem.to_string(),
                }),
            },
        }
    }
}

fn too_large(file: &str, max: usize) -> BundleError {
    BundleError::TooLarge {
        file: file.to_owned(),
        max: u64::try_from(max).unwrap_or(u64::MAX),
    }
}
