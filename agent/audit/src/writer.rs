//! [`Recording`]: the witness that a session is recorded, and the only way to write to the record.
//!
//! ```text
//! create ─ header on disk, synced ─> Recording ─ output, resize, signal, notice, sync … ─ end ─> Outcome
//! create ─ into_file ─> (another process) ─ adopt ─> Recording
//! ```
//!
//! Every call hands its lines to write(2) before it returns, so what was shown is in the file even if the process dies
//! in the next instant. Never: a clock (the caller says when), a wait for the disk outside [`Recording::sync`].

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

use crate::header::{Header, HeaderError, HeldInMemory, MAX_HEADER};
use crate::line::{self, MAX_PIECE};
use crate::omit::{Omit, WHOLE};
use crate::spool::Spool;
use crate::text::Splitter;
use crate::{End, Level, SessionId, Stream};

/// An open recording. Made only here, after its header was written and synced; not clonable.
#[derive(Debug)]
pub struct Recording {
    spool: Spool,
    header: Header,
    last: Duration,
    stdout: Channel,
    stderr: Channel,
    lines: Vec<u8>,
    ended: bool,
    /// Goes before the next line.
    first_notice: Option<String>,
}

#[derive(Debug)]
struct Channel {
    omit: Omit,
    text: Splitter,
}

/// What became of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything is on disk.
    Complete,
    /// It is on disk, with gaps that it states itself.
    Gaps,
    /// Some of it is not on disk.
    Unsaved {
        /// Why not.
        cause: String,
    },
}

/// Why a recording cannot be made or continued.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The disk refuses, and the policy demands the recording.
    #[error(
        "the recording {path} cannot be written: {cause}. The policy demands it (level strict), so no session starts; \
         free space on the node, or use a break-glass account, which is recorded in memory when it must"
    )]
    Refused {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// Writing failed in mid-session, and the policy demands the recording.
    #[error(
        "the recording cannot be continued: {cause}. The policy demands it (level strict), so the session ends; free \
         space on the node, or use a break-glass account, which is recorded in memory when it must"
    )]
    Broken {
        /// What the system said.
        cause: String,
    },
    /// A recording of this session exists already.
    #[error("a recording of this session exists already: {path}")]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The disk refuses, and so does the memory.
    #[error("neither disk ({disk}) nor memory ({memory}) takes the recording {path}")]
    Nowhere {
        /// Where it belongs.
        path: PathBuf,
        /// What the disk said.
        disk: io::Error,
        /// What the memory said.
        memory: io::Error,
    },
    /// The header has no JSON form.
    #[error("the recording's header cannot be written: {0}")]
    Header(#[source] serde_json::Error),
    /// What was handed over is not an open recording.
    #[error("this open file is not a recording that can be continued: {0}")]
    NotARecording(String),
    /// The record was closed by its end.
    #[error("the recording was ended already")]
    Ended,
}

impl Recording {
    /// Where the recording of a session lies: `DIR/SESSION.cast`.
    pub fn path(dir: &Path, session: SessionId) -> PathBuf {
        dir.join(format!("{session}.cast"))
    }

    /// Makes `DIR/SESSION.cast` (mode 0600, never over an existing file) with its header, synced before this returns.
    ///
    /// When the disk refuses, level strict is an error; level required begins in memory, says so in the header, and
    /// moves to the disk as soon as it can.
    pub fn create(dir: &Path, header: &Header) -> Result<Self, RecordError> {
        let path = Self::path(dir, header.session.session);
        let first = header.to_line().map_err(RecordError::Header)?;
        match Spool::create(&path, &first) {
            Ok(file) => Ok(Self::new(file, first.len() as u64, header.clone(), false)),
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => Err(RecordError::Exists { path }),
            Err(cause) => Self::without_disk(dir, header, cause),
        }
    }

    /// What becomes of a recording when its place cannot be used, for `cause`: an error under level strict; under level
    /// required it begins in memory, says so in the header, and moves to its place when that can be used again.
    pub fn without_disk(dir: &Path, header: &Header, cause: io::Error) -> Result<Self, RecordError> {
        let path = Self::path(dir, header.session.session);
        match cause {
            cause if header.session.level == Level::Strict => Err(RecordError::Refused { path, cause }),
            disk => {
                let mut header = header.clone();
                header.held_in_memory = Some(HeldInMemory {
                    cause: disk.to_string(),
                    file: path.clone(),
                });
                let first = header.to_line().map_err(RecordError::Header)?;
                match Spool::create_in_memory(&first) {
                    Ok(file) => Ok(Self::new(file, first.len() as u64, header, true)),
                    Err(memory) => Err(RecordError::Nowhere { path, disk, memory }),
                }
            }
        }
    }

    /// The open file, to be handed to the process that records.
    pub fn into_file(self) -> File {
        self.spool.into_file()
    }

    /// Continues a recording that another process created; checks that it is the one that is meant.
    pub fn adopt(file: File, started: Timestamp, level: Level) -> Result<Self, RecordError> {
        let recording = Self::reopen(file)?;
        let session = &recording.header.session;
        if session.started != started || session.level != level {
            return Err(RecordError::NotARecording(format!(
                "it is of a session that started at {} with level {}, expected {started} and {level}",
                session.started, session.level
            )));
        }
        Ok(recording)
    }

    /// Continues a recording as its own header says. The file must be open for reading and writing.
    pub fn reopen(file: File) -> Result<Self, RecordError> {
        let not = |why: String| RecordError::NotARecording(why);
        let facts = file.metadata().map_err(|e| not(e.to_string()))?;
        if !facts.is_file() {
            return Err(not("not a regular file".to_owned()));
        }
        let header = read_header(&file).map_err(|e| not(e.to_string()))?;
        let end = whole_lines(&file, facts.len()).map_err(|e| not(e.to_string()))?;
        // An anonymous file has no name; one that was moved to the disk since has.
        let in_memory = facts.nlink() == 0;
        let torn = facts.len() - end;
        if torn > 0 {
            file.set_len(end).map_err(|e| not(e.to_string()))?;
        }
        let mut recording = Self::new(file, end, header, in_memory);
        recording.first_notice = (torn > 0)
            .then(|| format!("the writer before was cut off: {torn} bytes of a line without end were removed"));
        Ok(recording)
    }

    /// The header, as it stands in the file.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// What the policy demands of this recording.
    pub fn level(&self) -> Level {
        self.header.session.level
    }

    /// Records output, `at` this long after the session's start. The bytes may go on when this returns without error.
    pub fn output(&mut self, at: Duration, stream: Stream, bytes: &[u8]) -> Result<(), RecordError> {
        let at = self.begin(at)?;
        let channel = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        for piece in channel.omit.keep(bytes).chunks(MAX_PIECE) {
            channel.text.push(&mut self.lines, at, piece);
        }
        self.put(at)
    }

    /// Records a new size of the terminal; in order with the output around it.
    pub fn resize(&mut self, at: Duration, cols: u16, rows: u16) -> Result<(), RecordError> {
        self.event(at, 'r', &format!("{cols}x{rows}"))
    }

    /// Records a signal that the client sent, by its name without `SIG`.
    pub fn signal(&mut self, at: Duration, name: &str) -> Result<(), RecordError> {
        self.event(at, 's', name)
    }

    /// Records something worth knowing in between, for example that the path was lost and came back.
    pub fn notice(&mut self, at: Duration, text: &str) -> Result<(), RecordError> {
        self.event(at, 'm', text)
    }

    /// Tries again to write what the disk refused, and to move a recording out of memory. Costs nothing otherwise.
    pub fn flush(&mut self, at: Duration) {
        let at = self.advance(at);
        self.spool.settle(at);
    }

    /// Asks the disk to keep what was written. To be called on a timer (seconds), never for each piece of output.
    pub fn sync(&mut self, at: Duration) -> Result<(), RecordError> {
        let at = self.begin(at)?;
        self.report_omitted(at);
        self.put(at)?;
        self.spool.sync(at).map_err(|cause| RecordError::Broken { cause })
    }

    /// Records the end, after the last output, and syncs. Nothing can be recorded after it.
    pub fn end(&mut self, at: Duration, end: &End) -> Result<Outcome, RecordError> {
        let at = self.begin(at)?;
        self.stdout.text.finish(&mut self.lines, at);
        self.stderr.text.finish(&mut self.lines, at);
        self.report_omitted(at);
        line::json(&mut self.lines, at, 'x', end);
        self.ended = true;
        self.put(at)?;
        self.spool.sync(at).map_err(|cause| RecordError::Broken { cause })?;
        Ok(match self.spool.unsaved() {
            Some(cause) => Outcome::Unsaved { cause },
            None if self.spool.lost_any() => Outcome::Gaps,
            None => Outcome::Complete,
        })
    }

    /// Why the recording is not on disk as a whole right now, if it is not: for status and metrics.
    pub fn unsaved(&self) -> Option<String> {
        self.spool.unsaved()
    }

    fn new(file: File, end: u64, header: Header, in_memory: bool) -> Self {
        let strict = header.session.level == Level::Strict;
        let belongs_at = header
            .held_in_memory
            .as_ref()
            .filter(|_| in_memory)
            .map(|held| held.file.clone());
        let whole = header.terminal.is_none().then_some(WHOLE);
        let channel = |stream| Channel {
            omit: Omit::new(stream, whole),
            text: Splitter::new(stream),
        };
        Self {
            spool: Spool::continue_at(file, end, strict, belongs_at),
            header,
            last: Duration::ZERO,
            stdout: channel(Stream::Stdout),
            stderr: channel(Stream::Stderr),
            lines: Vec::new(),
            ended: false,
            first_notice: None,
        }
    }

    fn event(&mut self, at: Duration, code: char, data: &str) -> Result<(), RecordError> {
        let at = self.begin(at)?;
        line::text(&mut self.lines, at, code, data);
        self.put(at)
    }

    fn begin(&mut self, at: Duration) -> Result<Duration, RecordError> {
        if self.ended {
            return Err(RecordError::Ended);
        }
        self.lines.clear();
        let at = self.advance(at);
        if let Some(notice) = self.first_notice.take() {
            line::text(&mut self.lines, at, 'm', &notice);
        }
        Ok(at)
    }

    /// Time in a recording never runs backwards.
    fn advance(&mut self, at: Duration) -> Duration {
        self.last = self.last.max(at);
        self.last
    }

    fn put(&mut self, at: Duration) -> Result<(), RecordError> {
        self.spool
            .put(at, &self.lines)
            .map_err(|cause| RecordError::Broken { cause })
    }

    fn report_omitted(&mut self, at: Duration) {
        for channel in [&mut self.stdout, &mut self.stderr] {
            if let Some(omitted) = channel.omit.report() {
                line::json(&mut self.lines, at, 'd', &omitted);
            }
        }
    }
}

fn read_header(file: &File) -> Result<Header, ReopenError> {
    let mut line = Vec::new();
    let mut block = [0; 4096];
    while line.len() < MAX_HEADER {
        let read = file.read_at(&mut block, line.len() as u64)?;
        let read = block.get(..read).unwrap_or_default();
        if read.is_empty() {
            return Err(ReopenError::NoHeader);
        }
        if let Some(end) = read.iter().position(|&byte| byte == b'\n') {
            line.extend(read.iter().take(end));
            return Ok(Header::from_line(&line)?);
        }
        line.extend_from_slice(read);
    }
    Err(ReopenError::NoHeader)
}

/// Where the last whole line ends: whoever wrote before may have died in the middle of one.
fn whole_lines(file: &File, length: u64) -> io::Result<u64> {
    let mut end = length;
    let mut block = [0; 4096];
    while end > 0 {
        let from = end.saturating_sub(block.len() as u64);
        let part = block
            .get_mut(..usize::try_from(end - from).unwrap_or(0))
            .unwrap_or_default();
        file.read_exact_at(part, from)?;
        if let Some(at) = part.iter().rposition(|&byte| byte == b'\n') {
            return Ok(from + at as u64 + 1);
        }
        end = from;
    }
    Ok(0)
}

#[derive(Debug, thiserror::Error)]
enum ReopenError {
    #[error("it has no header")]
    NoHeader,
    #[error(transparent)]
    Header(#[from] HeaderError),
    #[error(transparent)]
    Io(#[from] io::Error),
}

#[cfg(test)]
mod tests;
