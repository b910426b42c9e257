//! Files that hold trust: written whole or not at all, read with a limit, private ones refused when others can read
//! them, and watched for change.
//!
//! Watching re-reads the content (through symlinks, as the kubelet swaps them) at each [`Watched::check`]:
//!
//! ```text
//! content same            -> Same
//! content new and good    -> Changed: the new value is live at once
//! new but not usable      -> Kept: the last good value stays live, the error is reported (once per new error)
//! ```
//!
//! A half-written file, a key that does not fit its certificate yet, a missing file: all of these are `Kept`, and the
//! next check tries again.
//!
//! What it never does: keep a time of its own or start a thread; whoever uses it calls `check` as often as they like.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::tls::Live;

/// Largest certificate or key file.
pub const MAX_PEM_FILE: usize = 256 * 1024;

/// A file could not be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The operating system refused.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// What was being done.
        action: &'static str,
        /// To which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Larger than it may be.
    #[error("{} is larger than {max} bytes: that is not what belongs here", path.display())]
    TooLarge {
        /// Which file.
        path: PathBuf,
        /// Bytes allowed.
        max: usize,
    },
    /// A directory, device, pipe or socket.
    #[error("{} is not a regular file", path.display())]
    NotAFile {
        /// Which path.
        path: PathBuf,
    },
    /// Others may read or write a private file.
    #[error("{} has mode {mode:04o}, so others can get at it: run chmod 0600 {}", path.display(), path.display())]
    TooWide {
        /// Which file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// A private file belongs to somebody else.
    #[error("{} belongs to user id {owner}, not to us ({us}) or root: its owner could replace it", path.display())]
    ForeignOwner {
        /// Which file.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// Our effective user id.
        us: u32,
    },
}

impl FileError {
    /// True if the file (or a directory on the way) does not exist.
    pub fn is_missing(&self) -> bool {
        matches!(self, FileError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FileError {
    move |source| FileError::Io {
        action,
        path: path.to_owned(),
        source,
    }
}

/// Reads a whole file of at most `max` bytes; only regular files (through symlinks).
pub fn read_bounded(path: &Path, max: usize) -> Result<Vec<u8>, FileError> {
    read(path, max, false)
}

/// As [`read_bounded`], but the file must be private: no access for group or others, and owned by us or by root.
pub fn read_private(path: &Path, max: usize) -> Result<Vec<u8>, FileError> {
    read(path, max, true)
}

fn read(path: &Path, max: usize, private: bool) -> Result<Vec<u8>, FileError> {
    // Not blocking: opening a pipe must not wait for its writer.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits())
        .open(path)
        .map_err(io_error("can't open", path))?;
    let facts = file.metadata().map_err(io_error("can't look at", path))?;
    if !facts.is_file() {
        return Err(FileError::NotAFile { path: path.to_owned() });
    }
    if private {
        let mode = facts.mode() & 0o7777;
        if mode & 0o077 != 0 {
            return Err(FileError::TooWide {
                path: path.to_owned(),
                mode,
            });
        }
        let us = nix::unistd::geteuid().as_raw();
        if facts.uid() != us && facts.uid() != 0 {
            return Err(FileError::ForeignOwner {
                path: path.to_owned(),
                owner: facts.uid(),
                us,
            });
        }
    }
    let size = usize::try_from(facts.len()).unwrap_or(usize::MAX);
    if size > max {
        return Err(FileError::TooLarge {
            path: path.to_owned(),
            max,
        });
    }
    // Room for everything at once: a private key must not leave copies behind while the buffer grows.
    let mut bytes = Vec::with_capacity(size.saturating_add(1));
    let limit = u64::try_from(max).unwrap_or(u64::MAX).saturating_add(1);
    file.take(limit)
        .read_to_end(&mut bytes)
        .map_err(io_error("can't read", path))?;
    if bytes.len() > max {
        return Err(FileError::TooLarge {
            path: path.to_owned(),
            max,
        });
    }
    Ok(bytes)
}

/// Writes a file so that a reader, or a crash, sees the old content or the new one, never a part: temporary file in
/// the same directory with exactly `mode`, synced, renamed, directory synced.
pub fn write_atomic(path: &Path, bytes: &[u8], mode: u32) -> Result<(), FileError> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut random = [0u8; 8];
    aws_lc_rs::rand::fill(&mut random)
        .map_err(|_| io_error("can't make a random name beside", path)(io::Error::other("no randomness")))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name: String = name.chars().take(64).collect();
    let temporary = directory.join(format!(".{name}.{}.tmp", hex::encode(random)));
    let written = write_whole(&temporary, bytes, mode)
        .and_then(|()| fs::rename(&temporary, path).map_err(io_error("can't put into place", path)));
    if written.is_err() {
        // The original error says more than a failure to tidy up.
        let _ = fs::remove_file(&temporary);
        return written;
    }
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(io_error("can't sync", directory))
}

fn write_whole(temporary: &Path, bytes: &[u8], mode: u32) -> Result<(), FileError> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode & 0o600)
        .open(temporary)
        .map_err(io_error("can't create", temporary))?;
    file.set_permissions(fs::Permissions::from_mode(mode))
        .map_err(io_error("can't set the mode of", temporary))?;
    file.write_all(bytes).map_err(io_error("can't write", temporary))?;
    file.sync_all().map_err(io_error("can't sync", temporary))
}

/// Makes a directory (and its parents) that only we can enter: mode 0700. An existing one that others can enter, or
/// that belongs to somebody else, is refused.
pub fn private_directory(path: &Path) -> Result<(), FileError> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(io_error("can't make the directory", path))?;
    let facts = fs::metadata(path).map_err(io_error("can't look at", path))?;
    let mode = facts.mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(FileError::TooWide {
            path: path.to_owned(),
            mode,
        });
    }
    let us = nix::unistd::geteuid().as_raw();
    if facts.uid() != us && facts.uid() != 0 {
        return Err(FileError::ForeignOwner {
            path: path.to_owned(),
            owner: facts.uid(),
            us,
        });
    }
    Ok(())
}

/// What a [`Watched::check`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checked {
    /// Nothing is new.
    Same,
    /// A new value is live.
    Changed,
    /// The files changed to something unusable; the last good value stays.
    Kept {
        /// Why the new content is not used.
        error: String,
        /// True when the same error was already reported by an earlier check.
        known: bool,
    },
}

type Load<T> = Box<dyn Fn(Timestamp) -> Result<T, String> + Send + Sync>;

/// A value made from files, followed as they change.
pub struct Watched<T> {
    paths: Vec<PathBuf>,
    load: Load<T>,
    live: Live<T>,
    seen: Vec<Option<Vec<u8>>>,
    failing: Option<String>,
}

impl<T> Watched<T> {
    /// Loads the first value, which must succeed. `load` reads the files itself, under its own rules (limits, modes);
    /// `paths` are the files whose change matters.
    pub fn open<E: std::fmt::Display>(
        paths: &[&Path],
        now: Timestamp,
        load: impl Fn(Timestamp) -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<Watched<T>, E> {
        let paths: Vec<PathBuf> = paths.iter().map(|path| path.to_path_buf()).collect();
        let seen = digest(&paths);
        let live = Live::new(load(now)?);
        let load: Load<T> = Box::new(move |now| load(now).map_err(|error| error.to_string()));
        Ok(Watched {
            paths,
            load,
            live,
            seen,
            failing: None,
        })
    }

    /// The handle that always gives the last good value.
    pub fn live(&self) -> Live<T> {
        self.live.clone()
    }

    /// The error of the last check, while the files are unusable.
    pub fn failing(&self) -> Option<&str> {
        self.failing.as_deref()
    }

    /// Looks at the files again.
    pub fn check(&mut self, now: Timestamp) -> Checked {
        let seen = digest(&self.paths);
        if seen == self.seen {
            // The files are back to what is live (or never changed).
            self.failing = None;
            return Checked::Same;
        }
        match (self.load)(now) {
            Ok(value) => {
                self.live.set(value);
                self.seen = seen;
                self.failing = None;
                Checked::Changed
            }
            Err(error) => {
                let known = self.failing.as_deref() == Some(error.as_str());
                self.failing = Some(error.clone());
                Checked::Kept { error, known }
            }
        }
    }
}

impl<T> std::fmt::Debug for Watched<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watched")
            .field("paths", &self.paths)
            .field("failing", &self.failing)
            .finish_non_exhaustive()
    }
}

/// One digest per file; `None` for a file that can't be read. Only digests are kept: the files may hold keys.
fn digest(paths: &[PathBuf]) -> Vec<Option<Vec<u8>>> {
    let one = |path: &PathBuf| {
        let bytes = zeroize::Zeroizing::new(read_bounded(path, 16 * 1024 * 1024).ok()?);
        Some(
            aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &bytes)
                .as_ref()
                .to_vec(),
        )
    };
    paths.iter().map(one).collect()
}

#[cfg(test)]
mod tests;
