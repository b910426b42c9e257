//! Which processes a session has, noted beside it for whoever comes after holder and agent died together.
//!
//! ```text
//! the command starts ──> its process      from time to time ──> those of its kernel session      dead ──> `Record::left`
//! ```
//!
//! The number of a kernel session is taken for as long as one process is in it. So when one that was noted (by number and
//! moment of start, in this boot) is still there, everything in that session is of the same session; when none is, the
//! number may be somebody else's by now, and nothing is touched.

use std::io;
use std::path::Path;

use crate::processes::{Known, Table};

/// The file in a session's folder.
pub(crate) const RECORD: &str = "processes";
/// The same while it is written.
pub(crate) const NEW: &str = "processes.new";
/// Most that is noted: one would do, the others are there for when it ends.
const MOST: usize = 64;

/// What is noted of one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    boot: String,
    /// The command, which gives the kernel session its number, then others.
    known: Vec<Known>,
}

/// What is left of a session.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Left {
    Nothing,
    /// These, for certain.
    Ours(Vec<Known>),
    /// There is a session of that number, and nothing says whose.
    Doubtful(Vec<Known>),
}

impl Left {
    /// What has the number of a session now, and whether that is `ours`.
    pub(crate) fn of(there: Vec<Known>, ours: impl FnOnce(&[Known]) -> bool) -> Self {
        if there.is_empty() {
            Self::Nothing
        } else if ours(&there) {
            Self::Ours(there)
        } else {
            Self::Doubtful(there)
        }
    }
}

impl Record {
    /// Of a command that was just started.
    pub(crate) fn of(leader: u32) -> io::Result<Self> {
        let known = Known::now(leader).ok_or(io::ErrorKind::NotFound)?;
        Ok(Self {
            boot: boot()?,
            known: vec![known],
        })
    }

    /// Reads what stands in a session's folder.
    pub(crate) fn read(folder: &Path) -> io::Result<Self> {
        parse(&std::fs::read_to_string(folder.join(RECORD))?).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Writes it there, whole or not at all.
    pub(crate) fn write(&self, folder: &Path) -> io::Result<()> {
        std::fs::write(folder.join(NEW), self.text())?;
        std::fs::rename(folder.join(NEW), folder.join(RECORD))
    }

    /// What is written.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("{}\n", self.boot);
        for known in &self.known {
            text.push_str(&format!("{} {}\n", known.pid, known.started));
        }
        text
    }

    /// The same session as it is now; `None` when nothing has changed, or nothing of it is certain.
    pub(crate) fn now(&self, table: &Table) -> Option<Self> {
        let Left::Ours(now) = self.left(table) else { return None };
        let leader = self.known.first().copied()?;
        let others = now.into_iter().filter(|known| *known != leader);
        let known: Vec<Known> = std::iter::once(leader).chain(others.take(MOST)).collect();
        (known != self.known).then(|| Self {
            boot: self.boot.clone(),
            known,
        })
    }

    /// What is left of the session.
    pub(crate) fn left(&self, table: &Table) -> Left {
        let leader = self.known.first().and_then(|leader| u32::try_from(leader.pid).ok());
        match (leader, boot()) {
            (Some(leader), Ok(boot)) if boot == self.boot => Left::of(table.in_session(leader), |there| {
                there.iter().any(|process| self.known.contains(process))
            }),
            // Nothing survives the system's end.
            _ => Left::Nothing,
        }
    }
}

/// What tells this run of the system from others.
fn boot() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?
        .trim()
        .to_owned())
}

pub(crate) fn parse(text: &str) -> Option<Record> {
    let mut lines = text.lines();
    // One word: what is read has to be what is written again.
    let boot = lines
        .next()
        .filter(|boot| !boot.is_empty() && boot.bytes().all(|byte| byte.is_ascii_graphic()))?;
    let boot = boot.to_owned();
    let known = |line: &str| {
        let (pid, started) = line.split_once(' ')?;
        Some(Known {
            pid: pid.parse().ok().filter(|pid| *pid > 1)?,
            started: started.parse().ok()?,
        })
    };
    let known = lines.map(known).collect::<Option<Vec<_>>>()?;
    (!known.is_empty()).then_some(Record { boot, known })
}

#[cfg(test)]
mod tests;
