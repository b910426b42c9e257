//! The first line of a recording: who, where, what, under which policy.
//!
//! The keys of asciicast version 2 come first (`version`, `width`, `height`, `timestamp`, `title`, `env`); everything
//! of ours sits under `noderelay`. Never: a secret, or a fact that is not in the session's start event as well.

use std::collections::BTreeMap;
use std::path::PathBuf;

use noderelay_audit_event::SessionStarted;
use serde::{Deserialize, Serialize};

/// Version of our part of the header and of our event codes.
pub(crate) const FORMAT: u32 = 1;

/// Longest header line: an argument vector at its limit, base64 encoded, with room for the rest.
pub(crate) const MAX_HEADER: usize = 1024 * 1024;

/// What heads a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The session, in the words of the audit log.
    pub session: SessionStarted,
    /// The terminal at the start; without one the streams are kept apart and big output is kept as a digest.
    pub terminal: Option<Terminal>,
    /// Set by the recorder when the recording could not begin on disk.
    pub held_in_memory: Option<HeldInMemory>,
}

/// The terminal of the work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terminal {
    /// Columns at the start.
    pub cols: u16,
    /// Rows at the start.
    pub rows: u16,
    /// The terminal's type, `TERM`.
    pub term: String,
}

/// A recording that began in memory, because the disk refused it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldInMemory {
    /// Why the disk refused.
    pub cause: String,
    /// Where it belongs.
    pub file: PathBuf,
}

impl Header {
    /// A header for a session with the given start event.
    pub fn new(session: SessionStarted, terminal: Option<Terminal>) -> Self {
        Self {
            session,
            terminal,
            held_in_memory: None,
        }
    }

    /// The line, ended by a line feed.
    pub(crate) fn to_line(&self) -> Result<Vec<u8>, serde_json::Error> {
        let (width, height) = self
            .terminal
            .as_ref()
            .map_or((80, 24), |terminal| (terminal.cols, terminal.rows));
        let env = self
            .terminal
            .iter()
            .map(|terminal| ("TERM".to_owned(), terminal.term.clone()))
            .collect();
        let line = serde_json::to_string(&Cast {
            version: 2,
            width,
            height,
            timestamp: self.session.started.as_second(),
            title: format!("{} in {}", self.session.node, self.session.cluster),
            env,
            noderelay: Ours {
                format: FORMAT,
                session: self.session.clone(),
                terminal: self.terminal.clone(),
                held_in_memory: self.held_in_memory.clone(),
            },
        })?;
        // Whoever prints the file, or a player that shows its title, is not deceived; a reader gets the very texts.
        let mut line = noderelay_pki::text::escape_json(&line).into_bytes();
        line.push(b'\n');
        Ok(line)
    }

    /// Reads the line, with or without its line feed.
    pub(crate) fn from_line(line: &[u8]) -> Result<Self, HeaderError> {
        #[derive(Deserialize)]
        struct Head {
            version: u64,
            noderelay: Option<Format>,
        }
        #[derive(Deserialize)]
        struct Format {
            format: u64,
        }
        let head: Head = serde_json::from_slice(line).map_err(HeaderError::NotARecording)?;
        let format = head.noderelay.map(|ours| ours.format);
        if head.version != 2 || format != Some(u64::from(FORMAT)) {
            return Err(HeaderError::Version {
                cast: head.version,
                format,
            });
        }
        let Cast {
            noderelay:
                Ours {
                    session,
                    terminal,
                    held_in_memory,
                    ..
                },
            ..
        } = serde_json::from_slice(line).map_err(HeaderError::NotARecording)?;
        Ok(Self {
            session,
            terminal,
            held_in_memory,
        })
    }
}

/// Why a first line is not our header.
#[derive(Debug, thiserror::Error)]
pub enum HeaderError {
    /// Not a recording.
    #[error("not a NodeRelay recording: its first line is not the header of one ({0})")]
    NotARecording(#[source] serde_json::Error),
    /// A recording of another version, or of another program.
    #[error(
        "asciicast version {cast}, NodeRelay format {format:?}; this build reads asciicast 2 with NodeRelay format \
         {FORMAT}: use the build that wrote it or a later one"
    )]
    Version {
        /// The asciicast version.
        cast: u64,
        /// Our own format's version, if there is one.
        format: Option<u64>,
    },
}

#[derive(Serialize, Deserialize)]
struct Cast {
    version: u32,
    width: u16,
    height: u16,
    timestamp: i64,
    title: String,
    #[serde(default)]
    env: BTreeMap<String, String>,
    noderelay: Ours,
}

#[derive(Serialize, Deserialize)]
struct Ours {
    format: u32,
    session: SessionStarted,
    terminal: Option<Terminal>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    held_in_memory: Option<HeldInMemory>,
}
