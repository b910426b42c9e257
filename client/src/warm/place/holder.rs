//! Who has the lock of a place: for people, when no warm process answers there.
//!
//! Linux lists locks with the processes that took them. Elsewhere, and for a process that can't be seen from here, the lock itself is
//! named. Never more than words: the lock decides.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use noderelay_pki::text::escape;

/// The lock, and the process that has it, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    lock: PathBuf,
    process: Option<Process>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Process {
    pid: u32,
    /// Its program's name and its user, while it lives.
    who: Option<(String, u32)>,
}

impl Holder {
    pub(super) fn of(lock: PathBuf) -> Self {
        let process = fs::metadata(&lock).ok().and_then(|facts| {
            let table = fs::read_to_string("/proc/locks").ok()?;
            let device = (nix::sys::stat::major(facts.dev()), nix::sys::stat::minor(facts.dev()));
            let pid = find(&table, device, facts.ino())?;
            let folder = Path::new("/proc").join(pid.to_string());
            let who = fs::read_to_string(folder.join("comm"))
                .ok()
                .zip(fs::metadata(&folder).ok());
            let who = who.map(|(name, facts)| (escape(name.trim_end(), 50), facts.uid()));
            Some(Process { pid, who })
        });
        Self { lock, process }
    }
}

/// The process that has a file locked, in the text of `/proc/locks`:
/// `1: FLOCK  ADVISORY  WRITE 4711 fd:00:123456 0 EOF`.
fn find(table: &str, device: (u64, u64), inode: u64) -> Option<u32> {
    table.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        // Somebody who waits for it has an arrow there.
        if words.next() != Some("FLOCK") {
            return None;
        }
        let (pid, file) = (words.nth(2)?, words.next()?);
        let mut parts = file.split(':');
        let mut number = |radix| u64::from_str_radix(parts.next()?, radix).ok();
        let found = ((number(16)?, number(16)?), number(10)?);
        // Nobody is process 0: one of another namespace is shown so.
        (found == (device, inode))
            .then(|| pid.parse().ok().filter(|pid| *pid > 0))
            .flatten()
    })
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lock = escape(&self.lock.to_string_lossy(), 300);
        match &self.process {
            None => write!(f, "{lock} is locked by a process that can't be seen from here"),
            Some(Process { pid, who: None }) => write!(f, "{lock} is locked by process {pid}"),
            Some(Process {
                pid,
                who: Some((name, user)),
            }) => write!(f, "{lock} is locked by process {pid} ({name}, user id {user})"),
        }
    }
}

#[cfg(test)]
mod tests;
