//! How processes ended.
//!
//! `nix` refuses a status whose signal it has no name for (real-time signals) after it has taken the process away, so that
//! the end would be lost: this asks the kernel itself.

use nix::errno::Errno;
use nix::libc;

/// The end of one process: a code, or the signal that ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// What it gave to `exit`.
    pub code: Option<u32>,
    /// The signal that ended it.
    pub signal: Option<u32>,
    /// Whether it left a core.
    pub core_dumped: bool,
}

/// What [`next`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// This child has ended; it is gone from the process table now.
    Ended(u32, Ended),
    /// There are children and none has ended.
    Busy,
    /// There is no child.
    Alone,
}

/// Looks for a child of this process that has ended.
pub fn next() -> Next {
    loop {
        let mut status = 0;
        // SAFETY: waitpid writes one int through the pointer, which is valid for the length of the call.
        match Errno::result(unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) }) {
            Err(Errno::EINTR) => {}
            Err(_) => return Next::Alone,
            Ok(0) => return Next::Busy,
            Ok(pid) => {
                if let (Ok(pid), Some(ended)) = (u32::try_from(pid), ended(status)) {
                    return Next::Ended(pid, ended);
                }
            }
        }
    }
}

fn ended(status: i32) -> Option<Ended> {
    if libc::WIFEXITED(status) {
        let code = u32::try_from(libc::WEXITSTATUS(status)).ok();
        return Some(Ended {
            code,
            signal: None,
            core_dumped: false,
        });
    }
    if libc::WIFSIGNALED(status) {
        let signal = u32::try_from(libc::WTERMSIG(status)).ok();
        return Some(Ended {
            code: None,
            signal,
            core_dumped: libc::WCOREDUMP(status),
        });
    }
    None
}
