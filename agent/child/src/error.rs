//! What can go wrong between "start" and the first instruction of the shell.

use std::io;

/// The step at which a child stopped. The numbers travel over the socket between the two processes of one build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
    /// Reading what to do.
    Spec = 1,
    /// Putting descriptors in their places.
    Descriptors = 2,
    /// Making a session and taking the terminal.
    Session = 3,
    /// Becoming the account.
    Identity = 4,
    /// Entering a directory.
    Directory = 5,
    /// Finding a shell that starts.
    Shell = 6,
}

impl Stage {
    pub(crate) fn from_number(number: u8) -> Option<Self> {
        [
            Self::Spec,
            Self::Descriptors,
            Self::Session,
            Self::Identity,
            Self::Directory,
            Self::Shell,
        ]
        .into_iter()
        .find(|stage| *stage as u8 == number)
    }
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Spec => "reading its orders",
            Self::Descriptors => "setting up its descriptors",
            Self::Session => "taking its terminal",
            Self::Identity => "becoming the account",
            Self::Directory => "entering a directory",
            Self::Shell => "starting a shell",
        })
    }
}

/// Why no shell or command runs.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The program could not be started again.
    #[error("cannot start {program} again: {source}")]
    Launch {
        /// The program.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// The orders did not get through.
    #[error("the new process did not take its orders: {0}")]
    Handover(#[source] io::Error),
    /// The child stopped before it became the command.
    #[error("the new process failed while {stage}: {seen}")]
    Failed {
        /// Where it stopped.
        stage: Stage,
        /// What it saw.
        seen: String,
    },
    /// The node has no shell that starts.
    #[error("this node offers no shell: tried {tried}")]
    NoShell {
        /// The shells that were tried, with the cause of each.
        tried: String,
    },
    /// The child neither became the command nor said why.
    #[error("the new process said nothing for {0:?}")]
    TimedOut(std::time::Duration),
}

impl SpawnError {
    /// The node offers no shell, as opposed to anything that went wrong on our side.
    pub fn is_no_shell(&self) -> bool {
        matches!(self, Self::NoShell { .. })
    }
}
