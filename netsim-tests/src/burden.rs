//! What the kernel says of a process: descriptors, memory, threads, time on a processor; and that it gives back what it took.
//!
//! Never asks the process itself, which may hang or lie.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::process::eventually;

/// Memory that an allocator may keep of what a process gave back.
const KEPT: u64 = 12 << 20;

/// What a process holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burden {
    /// Open descriptors.
    pub descriptors: usize,
    /// Resident memory, in bytes.
    pub memory: u64,
}

impl Burden {
    /// Of this process, now.
    pub fn of(pid: u32) -> Self {
        let descriptors = descriptors(pid).expect("its descriptors") as usize;
        let kib = resident(pid).expect("its memory");
        Self {
            descriptors,
            memory: kib * 1024,
        }
    }

    /// Waits until the process holds no more than this again.
    #[track_caller]
    pub fn returns(self, pid: u32, what: &str) {
        let mut now = Self::of(pid);
        let fits = |now: Self| now.descriptors <= self.descriptors && now.memory <= self.memory + KEPT;
        let looked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            eventually("it holds what it held", || {
                now = Self::of(pid);
                fits(now)
            });
        }));
        assert!(looked.is_ok(), "{what}: {self:?} became {now:?}");
    }
}

/// The time that all threads of a process were on a processor (`/proc/PID/task/*/schedstat`, nanoseconds).
pub fn on_processor(pid: u32) -> Result<Duration> {
    let mut sum = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may end in between; it is one of a pool and has done next to nothing.
        let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) else {
            continue;
        };
        let first = text.split(' ').next().context("schedstat is empty")?;
        sum += first.parse::<u64>()?;
    }
    Ok(Duration::from_nanos(sum))
}

/// Memory of a process that is in use, in kB (`VmRSS`).
pub fn resident(pid: u32) -> Result<u64> {
    number(&format!("/proc/{pid}/status"), "VmRSS:")
}

/// The same, where what several processes share counts for each in part (`Pss`).
pub fn proportional(pid: u32) -> Result<u64> {
    number(&format!("/proc/{pid}/smaps_rollup"), "Pss:")
}

/// Threads of a process.
pub fn threads(pid: u32) -> Result<u64> {
    number(&format!("/proc/{pid}/status"), "Threads:")
}

/// Open descriptors of a process.
pub fn descriptors(pid: u32) -> Result<u64> {
    Ok(fs::read_dir(format!("/proc/{pid}/fd"))?.count() as u64)
}

fn number(file: &str, name: &str) -> Result<u64> {
    let text = fs::read_to_string(file)?;
    number_in(&text, name).with_context(|| format!("{file} has no {name}"))
}

/// The number behind `name` in the text of such a file, in the unit that the kernel writes.
fn number_in(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.trim().trim_end_matches("kB").trim().parse().ok()
}

#[cfg(test)]
mod tests;
