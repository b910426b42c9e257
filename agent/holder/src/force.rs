//! What the agent does with a holder that does not do its work: it ends the session's processes itself.
//!
//! ```text
//! launch ── Known: the holder's number and the moment of its start
//! hang_up  all below the holder: HUP               kill  all below the holder, then the holder: KILL
//! ```
//!
//! A number alone could be somebody else's by now, so the moment of its start is looked at before anything is signalled.

use nix::sys::signal::{Signal, kill as signal};
use nix::unistd::Pid;

pub use crate::processes::Known;
use crate::processes::{ROUNDS, below, signal_below};

/// Hangs up on everything below a holder; says how many there were.
pub fn hang_up(holder: Known) -> usize {
    if holder.lives() {
        signal_below(holder.pid, Signal::SIGHUP, |_| true)
    } else {
        0
    }
}

/// Kills everything below a holder, then the holder; says how many there were.
pub fn kill(holder: Known) -> usize {
    let mut count = 0;
    for _ in 0..ROUNDS {
        if !holder.lives() || below(holder.pid).is_empty() {
            break;
        }
        count += signal_below(holder.pid, Signal::SIGKILL, |_| true);
    }
    if holder.lives() && signal(Pid::from_raw(holder.pid), Signal::SIGKILL).is_ok() {
        count += 1;
    }
    count
}
