//! Session recordings: what happened in a session, kept on the node before anyone sees it, and replayable.
//!
//! ```text
//! agent   Recording::create(dir, header) ── header written and synced ──> Recording ── into_file ──┐
//! holder  Recording::adopt(file, …) <── the open file, as an inherited descriptor ─────────────────┘
//!         output · resize · signal · notice     one write(2) each, before the bytes go on
//!         sync (on a timer of the caller)       end ── what became of the recording
//! client  Reader::open ── events ──> replay::Replay ── neutralised bytes ──> terminal
//! ```
//!
//! The file is an asciicast of version 2: any player plays it. What players do not know (bytes that are not UTF-8,
//! gaps, the end) sits in event codes of our own, which they skip; [`line`] has the table. Nothing is lost in it:
//! reading a recording gives exactly the bytes that were put in, except what an explicit gap or digest states.
//!
//! Never: a decision, a network, a task or a timer of its own. A [`Recording`] is made only here, so a shell that
//! demands one by value cannot be started without one.

#[doc(hidden)]
pub mod fuzz;
mod header;
pub mod line;
mod omit;
pub mod read;
pub mod remains;
pub mod replay;
mod spool;
#[cfg(test)]
mod testing;
mod text;
mod writer;

pub use header::{Header, HeldInMemory, Terminal};
pub use noderelay_audit_event as event;
pub use noderelay_audit_event::{Argument, Claimed, Level, SessionId, SessionKind, SessionStarted};
pub use read::{ReadError, Reader};
pub use writer::{Outcome, RecordError, Recording};

use serde::{Deserialize, Serialize};

/// Which of its outputs the work wrote to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    /// The terminal, or standard output.
    Stdout,
    /// Standard error of work without a terminal.
    Stderr,
}

/// How a session ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Why it ended: a name from the closed list of codes.
    pub code: String,
    /// The work's own exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u32>,
    /// The signal that ended the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<u32>,
}

/// A stretch of the session that could not be written when it happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// Writing failed from here, in microseconds since the start.
    pub from_us: u64,
    /// Writing worked again from here, in microseconds since the start.
    pub until_us: u64,
    /// How many entries were lost; 0 when memory held them all and they follow.
    pub lost_entries: u64,
    /// How many bytes of the recording were lost.
    pub lost_bytes: u64,
    /// Why writing failed.
    pub cause: String,
}

/// Output that is recorded by size and digest only, because it is big and there was no terminal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Omitted {
    /// `o` for standard output, `e` for standard error.
    pub stream: String,
    /// The first byte that is left out, counted from the stream's beginning.
    pub from: u64,
    /// How many bytes are left out so far.
    pub bytes: u64,
    /// SHA-256 of the bytes that are left out so far, lower-case hex.
    pub sha256: String,
}
