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

/// A file or directory could not be used: `PATH: what is wrong with it`.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct FileError {
    /// Which one.
    pub path: PathBuf,
    /// What is wrong with it.
    #[source]
    pub problem: Problem,
}

/// What is wrong with a file or directory, without its name.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The operating system refused.
    #[error("{action}: {source}")]
    Io {
        /// What was being done.
        action: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Larger than it may be.
    #[error("larger than {max} bytes: that is not what belongs here")]
    TooLarge {
        /// Bytes allowed.
        max: usize,
    },
    /// A directory, device, pipe or socket.
    #[error("not a regular file")]
    NotAFile,
    /// Others may get at a private file or directory.
    #[error("mode {mode:04o} lets others get at it: run chmod {private:04o} on it")]
    TooWide {
        /// Its mode.
        mode: u32,
        /// The mode that it should have.
        private: u32,
    },
    /// A private file or directory belongs to somebody else.
    #[error("it belongs to user id {owner}, not to us ({us}) or root: its owner could replace it")]
    ForeignOwner {
        /// Its owner.
        owner: u32,
        /// Our effective user id.
        us: u32,
    },
}

impl Problem {
    fn of(self, path: &Path) -> FileError {
        FileError {
            path: path.to_owned(),
            problem: self,
        }
    }
}

impl FileError {
    /// The error of the operating system, if it was one.
    pub fn io(&self) -> Option<&io::Error> {
        match &self.problem {
            Problem::Io { source, .. } => Some(source),
            _ => None,
        }
    }

    /// True if the file (or a directory on the way) does not exist.
    pub fn is_missing(&self) -> bool {
        self.io().is_some_and(|error| error.kind() == io::ErrorKind::NotFound)
    }
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FileError {
    move |source| Problem::Io { action, source }.of(path)
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
    let facts = file.metadata().map_err(io_error("can't look at it", path))?;
    if !facts.is_file() {
        return Err(Problem::NotAFile.of(path));
    }
    if private {
        ours_alone(path, &facts)?;
    }
    let too_large = || Problem::TooLarge { max }.of(path);
    let size = usize::try_from(facts.len()).unwrap_or(usize::MAX);
    if size > max {
        return Err(too_large());
    }
    // Room for everything at once: a private key must not leave copies behind while the buffer grows.
    let mut bytes = Vec::with_capacity(size.saturating_add(1));
    let limit = u64::try_from(max).unwrap_or(u64::MAX).saturating_add(1);
    file.take(limit)
        .read_to_end(&mut bytes)
        .map_err(io_error("can't read", path))?;
    if bytes.len() > max {
        return Err(too_large());
    }
    Ok(bytes)
}

/// No access for group or others, and owned by us or by root.
fn ours_alone(path: &Path, facts: &fs::Metadata) -> Result<(), FileError> {
    let mode = facts.mode() & 0o7777;
    if mode & 0o077 != 0 {
        let private = if facts.is_dir() { 0o700 } else { 0o600 };
        return Err(Problem::TooWide { mode, private }.of(path));
    }
    if !is_ours(facts) && facts.uid() != 0 {
        let (owner, us) = (facts.uid(), nix::unistd::geteuid().as_raw());
        return Err(Problem::ForeignOwner { owner, us }.of(path));
    }
    Ok(())
}

/// Whether a file or folder belongs to the user that this process runs as.
pub fn is_ours(facts: &fs::Metadata) -> bool {
    facts.uid() == nix::unistd::geteuid().as_raw()
}

/// Writes a file so that a reader, or a crash, sees the old content or the new one, never a part: temporary file in
/// the same directory with exactly `mode`, synced, renamed, directory synced.
pub fn write_atomic(path: &Path, bytes: &[u8], mode: u32) -> Result<(), FileError> {
    let directory = folder_of(path);
    let temporary = beside(path)?;
    let written = write_whole(&temporary, path, bytes, mode)
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

/// Whether [`write_atomic`] could put a file there: makes its temporary file, empty, and removes it again.
///
/// # Errors
/// Why it could not: no such directory, no permission, no room.
pub fn could_write(path: &Path) -> Result<(), FileError> {
    let temporary = beside(path)?;
    let made = write_whole(&temporary, path, b"", 0o600);
    // Made or not, nothing of it is to stay.
    let _ = fs::remove_file(&temporary);
    made
}

/// The directory in which `path` lies.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// A new name in the same directory.
fn beside(path: &Path) -> Result<PathBuf, FileError> {
    let mut random = [0u8; 8];
    aws_lc_rs::rand::fill(&mut random)
        .map_err(|_| io_error("can't make a random name beside it", path)(io::Error::other("no randomness")))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name: String = name.chars().take(64).collect();
    Ok(folder_of(path).join(format!(".{name}.{}.tmp", hex::encode(random))))
}

/// Errors name `wanted`, the file that it is written for: nobody asked for the temporary one.
fn write_whole(temporary: &Path, wanted: &Path, bytes: &[u8], mode: u32) -> Result<(), FileError> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode & 0o600)
        .open(temporary)
        .map_err(io_error("can't create", wanted))?;
    file.set_permissions(fs::Permissions::from_mode(mode))
        .map_err(io_error("can't set its mode", wanted))?;
    file.write_all(bytes).map_err(io_error("can't write", wanted))?;
    file.sync_all().map_err(io_error("can't sync", wanted))
}

/// Makes a directory (and its parents) that only we can enter: mode 0700. An existing one that others can enter, or
/// that belongs to somebody else, is refused.
pub fn private_directory(path: &Path) -> Result<(), FileError> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(io_error("can't make this directory", path))?;
    let facts = fs::metadata(path).map_err(io_error("can't look at it", path))?;
    ours_alone(path, &facts)
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
