//! The processes of a session, and ending them.
//!
//! The holder adopts what its descendants leave behind (it is their "subreaper"), so everything that came out of the
//! session is found below it, whoever's child it has become.
//!
//! Who is meant, [`Reach`]:
//! * `Session`: what still belongs to the command's kernel session: its children, `&` and `nohup` jobs.
//! * `Everything`: also what left it (`setsid`, a terminal multiplexer, a daemon). For ends by authority.
//!
//! Ids are looked up again before each signal; nothing outside the holder's own tree is ever signalled.

use std::collections::BTreeMap;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Which processes an end is meant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// What is still in the command's session.
    Session,
    /// All that came out of it.
    Everything,
}

/// One process below the holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    parent: i32,
    session: i32,
    zombie: bool,
    /// When it began, in ticks since boot.
    started: u64,
    pub(crate) name: String,
}

/// A process that can't be mistaken for another one of the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Known {
    pub(crate) pid: i32,
    pub(crate) started: u64,
}

impl Known {
    /// The process that has this number now.
    pub(crate) fn now(pid: u32) -> Option<Self> {
        let pid = i32::try_from(pid).ok()?;
        one(pid).map(|process| process.known())
    }

    /// Whether it is still there.
    pub(crate) fn lives(self) -> bool {
        one(self.pid).is_some_and(|process| process.known() == self)
    }
}

impl Process {
    pub(crate) fn known(&self) -> Known {
        Known {
            pid: self.pid,
            started: self.started,
        }
    }
}

/// How often is looked for more to kill: whoever is about to start another process may do so between a look and its end.
pub(crate) const ROUNDS: usize = 8;

/// Signals everything within reach and says how many there were. `leader` is the command's process id.
pub(crate) fn signal(leader: u32, reach: Reach, signal: Signal) -> usize {
    signal_below(own_pid(), signal, |process| {
        reach == Reach::Everything || Ok(process.session) == i32::try_from(leader)
    })
}

/// Signals every process below `root` that is `meant`, and says how many there were.
pub(crate) fn signal_below(root: i32, signal: Signal, meant: impl Fn(&Process) -> bool) -> usize {
    let mut count = 0;
    for process in below(root).into_iter().filter(meant) {
        if kill(Pid::from_raw(process.pid), signal).is_ok() {
            count += 1;
        }
        if signal == Signal::SIGHUP {
            // A stopped process takes no notice otherwise.
            let _ = kill(Pid::from_raw(process.pid), Signal::SIGCONT);
        }
    }
    count
}

/// What left the command's session and is still there.
pub(crate) fn escaped(leader: u32) -> Vec<Process> {
    below(own_pid())
        .into_iter()
        .filter(|process| Ok(process.session) != i32::try_from(leader))
        .collect()
}

fn own_pid() -> i32 {
    nix::unistd::getpid().as_raw()
}

/// The processes of a kernel session, whoever's children they are: for a session whose holder, and with it the tree, is gone.
pub(crate) fn in_session(leader: u32) -> Vec<Known> {
    Table::now().in_session(leader)
}

/// The processes of the system at one moment: read once, asked about many sessions.
#[derive(Debug)]
pub struct Table(BTreeMap<i32, Process>);

impl Table {
    /// As it is now.
    pub fn now() -> Self {
        Self(all())
    }

    pub(crate) fn in_session(&self, leader: u32) -> Vec<Known> {
        let belongs = |process: &&Process| !process.zombie && Ok(process.session) == i32::try_from(leader);
        self.0.values().filter(belongs).map(Process::known).collect()
    }
}

/// All living descendants of `root`.
pub(crate) fn below(root: i32) -> Vec<Process> {
    let all = all();
    let belongs = |process: &Process| {
        let mut parent = process.parent;
        // No chain is longer than the list; a list read while it changes could otherwise have a loop.
        for _ in 0..all.len() {
            match all.get(&parent) {
                _ if parent == root => return true,
                Some(above) => parent = above.parent,
                None => return false,
            }
        }
        false
    };
    all.values()
        .filter(|process| !process.zombie && belongs(process))
        .cloned()
        .collect()
}

/// The process table.
fn all() -> BTreeMap<i32, Process> {
    let mut all: BTreeMap<i32, Process> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if let Some(process) = one(pid) {
            all.insert(pid, process);
        }
    }
    all
}

fn one(pid: i32) -> Option<Process> {
    parse(pid, &std::fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// The second field is a name in brackets which may itself hold brackets and spaces.
pub(crate) fn parse(pid: i32, stat: &[u8]) -> Option<Process> {
    let open = stat.iter().position(|byte| *byte == b'(')?;
    let close = stat.iter().rposition(|byte| *byte == b')')?;
    let name = stat.get(open + 1..close)?.escape_ascii().to_string();
    let rest = std::str::from_utf8(stat.get(close + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let _group = fields.next()?;
    let session = fields.next()?.parse().ok()?;
    // Field 22 of all; 7 to 21 lie between.
    let started = fields.nth(15)?.parse().ok()?;
    Some(Process {
        pid,
        parent,
        session,
        zombie: matches!(state, "Z" | "X"),
        started,
        name,
    })
}

#[cfg(test)]
mod tests;
