//! How a session ended, and the exit code that follows from it.
//!
//! The remote command's own code; 128 + n when signal n ended it; 255 for every failure of NodeRelay itself. The code 0
//! has one source only: an explicit exit of the remote command with code 0 that arrived after all output was written.

use noderelay_proto::control::Exit;

#[cfg(test)]
mod tests;

/// The exit code of every failure of NodeRelay itself, as with ssh.
pub const FAILED: u8 = 255;

/// What the remote command left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remote {
    /// It ended by itself.
    Code(u8),
    /// A signal ended it.
    Signal {
        /// The number on the node.
        number: u8,
        /// Whether a core was dumped.
        core: bool,
    },
}

impl Remote {
    /// Reads the exit message; `None` if it says neither or something impossible, which is a failure and never 0.
    pub fn from_exit(exit: &Exit) -> Option<Self> {
        match (exit.code, exit.signal) {
            (Some(code), None) => u8::try_from(code).ok().map(Self::Code),
            (None, Some(number @ 1..=127)) => u8::try_from(number).ok().map(|number| Self::Signal {
                number,
                core: exit.core_dumped,
            }),
            _ => None,
        }
    }

    /// The exit code of the client.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Code(code) => code,
            Self::Signal { number, .. } => 128 | number,
        }
    }

    /// The note on standard error when a signal ended the command.
    pub fn note(self) -> Option<String> {
        match self {
            Self::Code(_) => None,
            Self::Signal { number, core } => {
                let dumped = if core { " (core dumped)" } else { "" };
                Some(format!(
                    "the command was ended by signal {number} ({}){dumped}",
                    signal_name(number)
                ))
            }
        }
    }
}

/// The usual name of a signal number on Linux, where nodes run.
pub fn signal_name(number: u8) -> &'static str {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM",
        "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF",
        "WINCH", "IO", "PWR", "SYS",
    ];
    usize::from(number)
        .checked_sub(1)
        .and_then(|index| NAMES.get(index))
        .copied()
        .unwrap_or("real-time")
}
