//! Recordings whose writer died: found, closed with the reason, and kept.
//!
//! ```text
//! close ── still locked by a writer ─> Written      (the lock lives as long as the writer, see `spool`)
//!       ├─ has its end ─────────────> Ended
//!       └─ neither ── notice and end are written, synced ──> Closed
//! ```
//!
//! Never: removes anything, or writes behind an end.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;

use crate::{End, Header, RecordError, Recording};

/// The end of a recording is one of its last lines, and all of those are short.
const TAIL: u64 = 4096;

/// What a recording was found as.
#[derive(Debug)]
pub enum Found {
    /// Somebody writes it.
    Written,
    /// It has its end.
    Ended,
    /// It was cut off, and is closed now.
    Closed(Box<Header>),
}

/// Why a recording could not be closed.
#[derive(Debug, thiserror::Error)]
pub enum CloseError {
    /// The file can't be opened or read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is none, or takes nothing more.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// Closes a recording whose writer is gone: a notice with `seen`, and an end with `code`.
///
/// # Errors
/// What stands in the way; the file is as it was.
pub fn close(path: &Path, code: &str, seen: &str, now: Timestamp) -> Result<Found, CloseError> {
    let file = File::options()
        .read(true)
        .write(true)
        .custom_flags(nix::fcntl::OFlag::O_NOFOLLOW.bits())
        .open(path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(Found::Written),
        Err(TryLockError::Error(error)) => return Err(error.into()),
    }
    if has_end(&file)? {
        return Ok(Found::Ended);
    }
    let mut recording = Recording::reopen(file)?;
    let header = recording.header().clone();
    let at = Duration::try_from(now.duration_since(header.session.started)).unwrap_or_default();
    recording.notice(at, seen)?;
    let end = End {
        code: code.to_owned(),
        ..End::default()
    };
    recording.end(at, &end)?;
    Ok(Found::Closed(Box::new(header)))
}

fn has_end(file: &File) -> io::Result<bool> {
    let length = file.metadata()?.len();
    let from = length.saturating_sub(TAIL);
    let mut tail = vec![0; usize::try_from(length - from).unwrap_or(0)];
    file.read_exact_at(&mut tail, from)?;
    Ok(tail.split(|&byte| byte == b'\n').any(|line| {
        let event: Result<(f64, String, String), _> = serde_json::from_slice(line);
        event.is_ok_and(|(_, code, _)| code == "x")
    }))
}

#[cfg(test)]
mod tests;
