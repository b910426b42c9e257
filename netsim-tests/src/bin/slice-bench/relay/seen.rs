//! What the kernel says of a process: time on a processor, memory.

use std::time::Duration;

use anyhow::{Context as _, Result};

/// The time that all threads of a process were on a processor (`/proc/PID/task/*/schedstat`, nanoseconds).
pub(crate) fn on_processor(pid: u32) -> Result<Duration> {
    let mut sum = 0;
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may end in between; it is one of a pool and has done next to nothing.
        let Ok(text) = std::fs::read_to_string(task?.path().join("schedstat")) else {
            continue;
        };
        let first = text.split(' ').next().context("schedstat is empty")?;
        sum += first.parse::<u64>()?;
    }
    Ok(Duration::from_nanos(sum))
}

/// Memory of a process that is in use, in kB (`VmRSS`).
pub(crate) fn resident(pid: u32) -> Result<u64> {
    field(&format!("/proc/{pid}/status"), "VmRSS:")
}

/// The same, where what several processes share counts for each in part (`Pss`).
pub(crate) fn proportional(pid: u32) -> Result<u64> {
    field(&format!("/proc/{pid}/smaps_rollup"), "Pss:")
}

fn field(file: &str, name: &str) -> Result<u64> {
    let text = std::fs::read_to_string(file)?;
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    let value = value.with_context(|| format!("{file} has no {name}"))?;
    Ok(value.trim().trim_end_matches("kB").trim().parse()?)
}
