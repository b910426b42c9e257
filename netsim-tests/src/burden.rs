//! What a process holds: descriptors and memory, before and after somebody attacked it.

use std::fs;

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
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd"))
            .expect("its descriptors")
            .count();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib: u64 = line
            .and_then(|line| line.trim().strip_suffix(" kB"))
            .and_then(|number| number.parse().ok())
            .expect("its memory");
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
