//! Opens the recording of a permitted session. No recording, no shell: the type [`Recording`] is what the start takes.
//!
//! The header is on disk and synced before this returns (level `required` may begin in memory on a disk that refuses); who,
//! where, what, under which policy stands in it in the words of the audit log. Facts that somebody merely claims (path, correlation id) stand under `claimed`.

use jiff::Timestamp;
use noderelay_audit::{Header, Level, RecordError, Recording, Terminal};
use noderelay_audit_event::SessionStarted;
use noderelay_policy::{Permit, RecordLevel};
use noderelay_proto::code::Code;
use noderelay_proto::control::{Missing, Open};

use crate::places::Places;
use crate::refusal::Refusal;

/// What heads the recording.
pub fn header(started: SessionStarted, open: &Open) -> Header {
    let terminal = open.terminal.as_ref().map(|t| {
        let size = t.size();
        Terminal {
            cols: size.map_or(80, |s| s.cols),
            rows: size.map_or(24, |s| s.rows),
            term: String::from_utf8_lossy(&t.term).into_owned(),
        }
    });
    Header::new(started, terminal)
}

/// Opens the recording. May wait for the disk. Folders that are not what they were are a fault of the recorder as a full
/// disk is: the level decides.
///
/// # Errors
/// `recording.unavailable` with the cause; break-glass is the way in on a node whose disk refuses.
pub fn open(places: &Places, header: &Header) -> Result<Recording, Refusal> {
    let directory = places.recordings();
    let opened = match places.check() {
        Ok(()) => Recording::create(directory, header),
        Err(cause) => Recording::without_disk(directory, header, cause),
    };
    let session = header.session.session;
    match &opened {
        Err(error) => tracing::error!(%session, code = %Code::RecordingUnavailable, %error, "no recording, no session"),
        Ok(recording) => {
            if let Some(held) = &recording.header().held_in_memory {
                let (code, cause) = (Code::RecordingIncomplete, &held.cause);
                tracing::error!(%session, %code, %cause, "the recording begins in memory");
            }
        }
    }
    opened.map_err(|e| refusal(&e))
}

/// The level that the permit's obligations ask for.
pub fn level(permit: &Permit) -> Level {
    match permit.obligations().record {
        RecordLevel::Required => Level::Required,
        RecordLevel::Strict => Level::Strict,
    }
}

/// When a session starts, to the millisecond, as recording and holder share it.
pub fn start_of(now: Timestamp) -> Timestamp {
    Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
}

fn refusal(error: &RecordError) -> Refusal {
    Refusal::new(Code::RecordingUnavailable, Missing::Recording, error.to_string())
}

#[cfg(test)]
mod tests;
