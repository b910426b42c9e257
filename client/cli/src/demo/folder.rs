//! The folder of `demo --up`: whose it is, and whether a demo runs in it.
//!
//! ```text
//! new or empty ─> marker written, locked ─────────────────────────┐
//! with marker  ─> lock ── held by a running demo ─> refused       ├─> Folder (the lock lives as long)
//!                   └── free ─> keys and signed files of the last demo removed, recordings and logs kept
//! anything else ─> refused
//! ```
//!
//! It never removes anything from a folder without the marker, and nothing before it holds the lock.

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use noderelay_pki::files;

#[cfg(test)]
mod tests;

/// Says that the folder is a demo's. Its lock says that the demo runs.
const MARKER: &str = ".noderelay-demo";
/// What a new demo makes anew.
const MADE: [&str; 11] = [
    "ca",
    "keys",
    "policy",
    "published",
    "relay",
    "client",
    "config.yaml",
    "agent/state/bundle",
    "agent/node.key",
    "agent/node.crt",
    "agent/agent.yaml",
];

/// The folder of this demo alone, as long as this value lives.
#[derive(Debug)]
pub struct Folder {
    /// The folder, absolute.
    pub path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Takes `dir`: new, empty, or left by an earlier demo, whose recordings stay.
    pub fn take(dir: &Path) -> Result<Self> {
        files::private_directory(dir)?;
        let path = dir
            .canonicalize()
            .with_context(|| format!("folder {}", dir.display()))?;
        let marker = path.join(MARKER);
        let ours = marker.symlink_metadata().is_ok_and(|facts| facts.is_file());
        let empty = std::fs::read_dir(&path)?.next().is_none();
        if !ours && !empty {
            bail!("{} holds something else; name an empty folder", path.display());
        }
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&marker)
            .with_context(|| format!("marker {}", marker.display()))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => bail!(
                "a demo runs in {} already; end it with Ctrl-C in its terminal, or name another folder",
                path.display()
            ),
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("lock of {}", marker.display()));
            }
        }
        for part in MADE {
            remove(&path.join(part))?;
        }
        Ok(Self { path, _lock: lock })
    }
}

/// Removes a file or a folder; a link is removed and not followed.
fn remove(path: &Path) -> Result<()> {
    let removed = match path.symlink_metadata() {
        Ok(facts) if facts.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("{} can't be removed", path.display()))
        }
        _ => Ok(()),
    }
}

/// A path as one word of a shell, to be copied from the terminal.
pub fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let plain = |c: char| c.is_alphanumeric() || "/._-+,:@".contains(c);
    if text.chars().all(plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}
