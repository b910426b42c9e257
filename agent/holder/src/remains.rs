//! What is left of a session whose holder died without a word (KILL, out of memory), and how the agent tidies it up.
//!
//! ```text
//! launch  ── locks the session's log; the open file is the holder's descriptor 2 ──> held for as long as the holder lives
//! is_held ── asks for that lock: nobody has to answer, and no process id is compared
//! note    ── what belongs to the command's kernel session while it lives, for an agent that comes later
//! kill    ── what still belongs to it: of a holder that just died      end ── of one that died with its agent, by the notes
//! remove  ── the session's folder; what the holder wrote into its log is given back
//! ```
//!
//! The command itself is killed by the kernel with its holder (see the child). What left its session (`setsid`) is not found
//! here: it belongs to nobody any more. Never touches a session that is held.

use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::io::{self, Read};
use std::path::Path;

use nix::sys::signal::{Signal, kill as signal};
use nix::unistd::Pid;

use crate::adopt::SOCKET;
use crate::launch::LOG;
pub use crate::processes::Table;
use crate::processes::{self, Known, ROUNDS};
use crate::record::{Left, NEW, RECORD, Record};

/// Most of a dead holder's log that is given back.
const MAX_LOG: u64 = 4096;

/// Whether a holder lives for the session of that folder.
///
/// # Errors
/// When that can't be known; the folder is not to be touched then.
pub fn is_held(directory: &Path) -> io::Result<bool> {
    let log = match File::open(directory.join(LOG)) {
        Ok(log) => log,
        // A holder that ends removes its log last; one that begins has it before it is a process.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    match log.try_lock() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Notes which processes a session that is held has now.
///
/// # Errors
/// When they can't be noted.
pub fn note(directory: &Path, table: &Table) -> io::Result<()> {
    match Record::read(directory) {
        Ok(record) => record.now(table).map_or(Ok(()), |now| now.write(directory)),
        // It begins, or ends, at this moment.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Kills what is left of a session that nobody holds, if what was noted of it says for certain that it is that session's.
/// Says how many there were.
///
/// # Errors
/// The processes that may be left and are not known for certain, or why that can't be known.
pub fn end(directory: &Path) -> Result<usize, String> {
    let record = match Record::read(directory) {
        Ok(record) => record,
        // There was no command yet.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(format!("what was noted of its processes cannot be read: {error}")),
    };
    end_session(|| record.left(&Table::now())).map_err(|left| {
        let pids: Vec<_> = left.iter().map(|process| process.pid.to_string()).collect();
        format!(
            "its processes have ended, but others have the number of its session and are left alone: {}",
            pids.join(", ")
        )
    })
}

/// Kills what is left of a command's session; `leader` is the command's process id, which names its session as long as one
/// process of it lives. To be called at once after the holder's end, which was noticed `when`: a session of that number in which
/// nothing is that old is another one, and left alone. Says how many were killed.
pub fn kill(leader: u32, when: Noticed) -> usize {
    let old = |there: &[Known]| there.iter().any(|process| process.started <= when.0);
    end_session(|| Left::of(processes::in_session(leader), old)).unwrap_or(0)
}

/// Kills what is left of a session until nothing is, and says how many there were; or gives what can't be told to be of it.
fn end_session(look: impl Fn() -> Left) -> Result<usize, Vec<Known>> {
    let shot = |process: &Known| signal(Pid::from_raw(process.pid), Signal::SIGKILL).is_ok();
    let mut killed = BTreeSet::new();
    for _ in 0..ROUNDS {
        match look() {
            Left::Nothing => break,
            Left::Doubtful(left) if killed.is_empty() => return Err(left),
            // Once one was of it, what that one has started meanwhile is, too.
            Left::Ours(left) | Left::Doubtful(left) => killed.extend(left.into_iter().filter(shot)),
        }
    }
    Ok(killed.len())
}

/// A moment, as the kernel counts when processes began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Noticed(u64);

impl Noticed {
    /// This one; the beginning of time, at which nothing was there, where the kernel does not say.
    pub fn now() -> Self {
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
        // Seconds with two digits behind the point, and 100 ticks a second on every Linux (`USER_HZ`).
        let first = uptime.split_whitespace().next().unwrap_or_default();
        Self(first.replace('.', "").parse().unwrap_or_default())
    }
}

/// Removes the folder of a session that nobody holds, with what NodeRelay put there; gives what its log says.
///
/// # Errors
/// When it stays, for example because somebody put something else there.
pub fn remove(directory: &Path) -> io::Result<String> {
    let mut said = Vec::new();
    if let Ok(log) = File::open(directory.join(LOG)) {
        log.take(MAX_LOG).read_to_end(&mut said)?;
    }
    for name in [SOCKET, RECORD, NEW, LOG] {
        match std::fs::remove_file(directory.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    match std::fs::remove_dir(directory) {
        // The holder's own tidying came first.
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(String::from_utf8_lossy(&said).trim().to_owned()),
    }
}
