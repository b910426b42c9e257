//! Audit events: small, typed, versioned facts about sessions, one JSON object a line.
//!
//! ```text
//! agent, relay, issuer ── Record { version, at, event } ── to_json_line ──> log target `audit`, later the node's log
//!                                                          from_json_line ──> audit show, tests
//! ```
//!
//! A name of an event and of a field is never given a new meaning; new fields are optional; a reader refuses a
//! version that it does not know. What somebody merely claimed sits under `claimed`.
//!
//! Never: sealing, files, sockets, a clock. Relays use this crate, so it stays free of `age` and of the recorder.

#[doc(hidden)]
pub mod fuzz;
mod session;

pub use session::{
    Argument, Claimed, DenialsCounted, Denied, Level, SessionEnded, SessionId, SessionKind, SessionStarted,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Version of the event format that this build writes.
pub const VERSION: u32 = 1;

/// Longest line that is read: an argument vector at its limit, base64 encoded, with room for the rest.
pub const MAX_LINE: usize = 1024 * 1024;

/// One event with the time at which it was noted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Format version, [`VERSION`] when written by this build.
    #[serde(rename = "v")]
    pub version: u32,
    /// When it was noted, by the clock of the host that noted it.
    pub at: Timestamp,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// What happened. The closed list of events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event")]
pub enum Event {
    /// A session was permitted, its recording exists, its work is about to start.
    #[serde(rename = "session.started")]
    SessionStarted(SessionStarted),
    /// A session ended.
    #[serde(rename = "session.ended")]
    SessionEnded(SessionEnded),
    /// An authenticated principal was refused.
    #[serde(rename = "session.denied")]
    Denied(Denied),
    /// More of the same within a minute: counted, not written one by one.
    #[serde(rename = "session.denials_counted")]
    DenialsCounted(DenialsCounted),
}

impl Event {
    /// The event's name, as in the JSON and in metric labels.
    pub fn name(&self) -> &'static str {
        match self {
            Self::SessionStarted(_) => "session.started",
            Self::SessionEnded(_) => "session.ended",
            Self::Denied(_) => "session.denied",
            Self::DenialsCounted(_) => "session.denials_counted",
        }
    }

    /// Stamps the event with the time at which it was noted.
    pub fn at(self, at: Timestamp) -> Record {
        Record {
            version: VERSION,
            at,
            event: self,
        }
    }
}

/// Why an event could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// The event cannot be expressed as JSON.
    #[error("this audit event cannot be written as JSON: {0}")]
    Encode(#[source] serde_json::Error),
    /// The line is not an event of this format.
    #[error("not an audit event: {0}")]
    Decode(#[source] serde_json::Error),
    /// The line is longer than any event.
    #[error("a line of {0} bytes is longer than any audit event ({MAX_LINE})")]
    TooLong(usize),
    /// The line was written by a format that this build does not read.
    #[error(
        "audit event of format version {0}; this build reads version {VERSION}: use the build that wrote it or a later one"
    )]
    Version(u64),
}

impl Record {
    /// One line of JSON, ended by a line feed. What a terminal would not show as it is stands as `\\u` escapes: nobody is
    /// deceived by a log that is simply printed, and nothing is lost.
    pub fn to_json_line(&self) -> Result<String, EventError> {
        let line = serde_json::to_string(self).map_err(EventError::Encode)?;
        let mut line = noderelay_pki::text::escape_json(&line);
        line.push('\n');
        Ok(line)
    }

    /// Reads one line as written by [`Record::to_json_line`].
    pub fn from_json_line(line: &str) -> Result<Self, EventError> {
        #[derive(Deserialize)]
        struct Head {
            v: u64,
        }
        if line.len() > MAX_LINE {
            return Err(EventError::TooLong(line.len()));
        }
        let head: Head = serde_json::from_str(line).map_err(EventError::Decode)?;
        if head.v != u64::from(VERSION) {
            return Err(EventError::Version(head.v));
        }
        serde_json::from_str(line).map_err(EventError::Decode)
    }
}

#[cfg(test)]
mod tests;
