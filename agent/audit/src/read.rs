//! Reads a recording: the header, then event after event, whatever became of the file.
//!
//! A line that was cut by a crash, or damaged since, becomes an event that says so; what is whole is still read. The
//! beginning of a character that waited for its rest ([`crate::line`], code `h`) is given once, with the rest if it
//! came. Never: a panic on any input, a line longer than [`crate::line::MAX_LINE`] in memory, output to a terminal.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::header::{Header, HeaderError, MAX_HEADER};
use crate::line::MAX_LINE;
use crate::{End, Gap, Omitted, Stream};

/// A recording being read.
#[derive(Debug)]
pub struct Reader<R> {
    input: BufReader<R>,
    header: Header,
    line_number: u64,
    last: Duration,
    held_stdout: Vec<u8>,
    held_stderr: Vec<u8>,
    ready: VecDeque<Timed>,
    finished: bool,
}

/// An event and when it happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Timed {
    /// Since the start of the session.
    pub at: Duration,
    /// What happened.
    pub event: Event,
}

/// What a recording can say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Output: the exact bytes.
    Output(Stream, Vec<u8>),
    /// A new size: columns, rows.
    Resize(u16, u16),
    /// A signal from the client.
    Signal(String),
    /// A notice.
    Notice(String),
    /// A stretch that could not be written when it happened.
    Gap(Gap),
    /// Output recorded by size and digest only.
    Omitted(Omitted),
    /// The end of the session.
    End(End),
    /// An event of a code that this build does not know.
    Unknown(String),
    /// A line that is no event.
    Damaged {
        /// The line's number, counted from 1.
        line: u64,
    },
    /// The file ends in the middle of a line: the writer was cut off.
    Cut {
        /// Bytes of the last, incomplete line.
        bytes: u64,
    },
}

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be read.
    #[error("the recording cannot be read: {0}")]
    Io(#[from] io::Error),
    /// The file is empty or ends within its first line; such a file never belonged to a running session.
    #[error("the recording ends after {bytes} bytes, within its header: the session never started")]
    NoHeader {
        /// Size of what is there.
        bytes: u64,
    },
    /// The first line is not our header.
    #[error(transparent)]
    Header(#[from] HeaderError),
}

impl Reader<File> {
    /// Opens a recording.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        Self::new(File::open(path)?)
    }
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    pub fn new(input: R) -> Result<Self, ReadError> {
        let mut input = BufReader::with_capacity(128 * 1024, input);
        let header = match read_line(&mut input, MAX_HEADER)? {
            Line::Whole(line) => Header::from_line(&line)?,
            Line::TooLong => Header::from_line(b"")?,
            Line::Cut(bytes) => return Err(ReadError::NoHeader { bytes }),
            Line::None => return Err(ReadError::NoHeader { bytes: 0 }),
        };
        Ok(Self {
            input,
            header,
            line_number: 1,
            last: Duration::ZERO,
            held_stdout: Vec::new(),
            held_stderr: Vec::new(),
            ready: VecDeque::new(),
            finished: false,
        })
    }

    /// Who, where, what, under which policy.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The next event; nothing at the end of the file.
    pub fn next_event(&mut self) -> Result<Option<Timed>, ReadError> {
        loop {
            if let Some(timed) = self.ready.pop_front() {
                return Ok(Some(timed));
            }
            if self.finished {
                return Ok(None);
            }
            let line = read_line(&mut self.input, MAX_LINE)?;
            self.line_number = self.line_number.saturating_add(1);
            match line {
                Line::Whole(line) => match parse(&line) {
                    Some((at, parsed)) => self.take(at, parsed),
                    None => self.ready(Event::Damaged { line: self.line_number }),
                },
                Line::TooLong => self.ready(Event::Damaged { line: self.line_number }),
                Line::Cut(bytes) => {
                    self.finish();
                    self.ready(Event::Cut { bytes });
                }
                Line::None => self.finish(),
            }
        }
    }

    fn take(&mut self, at: Duration, parsed: Parsed) {
        self.last = self.last.max(at);
        match parsed {
            Parsed::Held(stream, bytes) => {
                self.release(stream, &bytes);
                *self.held(stream) = bytes;
            }
            Parsed::Event(Event::Output(stream, bytes)) => {
                self.release(stream, &bytes);
                self.ready(Event::Output(stream, bytes));
            }
            Parsed::Event(event) => {
                if matches!(event, Event::End(_)) {
                    self.release(Stream::Stdout, &[]);
                    self.release(Stream::Stderr, &[]);
                }
                self.ready(event);
            }
        }
    }

    /// Gives what was held back of a stream, unless the bytes that follow repeat it.
    fn release(&mut self, stream: Stream, following: &[u8]) {
        let held = std::mem::take(self.held(stream));
        if !held.is_empty() && !following.starts_with(&held) {
            self.ready(Event::Output(stream, held));
        }
    }

    fn finish(&mut self) {
        self.finished = true;
        self.release(Stream::Stdout, &[]);
        self.release(Stream::Stderr, &[]);
    }

    fn held(&mut self, stream: Stream) -> &mut Vec<u8> {
        match stream {
            Stream::Stdout => &mut self.held_stdout,
            Stream::Stderr => &mut self.held_stderr,
        }
    }

    fn ready(&mut self, event: Event) {
        self.ready.push_back(Timed { at: self.last, event });
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Timed, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_event().transpose()
    }
}

enum Parsed {
    Held(Stream, Vec<u8>),
    Event(Event),
}

fn parse(line: &[u8]) -> Option<(Duration, Parsed)> {
    let (seconds, code, data): (f64, String, String) = serde_json::from_slice(line).ok()?;
    let at = Duration::try_from_secs_f64(seconds).ok()?;
    let event = match code.as_str() {
        "o" => Event::Output(Stream::Stdout, data.into_bytes()),
        "e" => Event::Output(Stream::Stderr, data.into_bytes()),
        "b" => {
            let (stream, bytes) = marked(&data)?;
            Event::Output(stream, bytes)
        }
        "h" => {
            let (stream, bytes) = marked(&data)?;
            return Some((at, Parsed::Held(stream, bytes)));
        }
        "r" => {
            let (cols, rows) = data.split_once('x')?;
            Event::Resize(cols.parse().ok()?, rows.parse().ok()?)
        }
        "s" => Event::Signal(data),
        "m" => Event::Notice(data),
        "g" => Event::Gap(serde_json::from_str(&data).ok()?),
        "d" => Event::Omitted(serde_json::from_str(&data).ok()?),
        "x" => Event::End(serde_json::from_str(&data).ok()?),
        _ => Event::Unknown(code),
    };
    Some((at, Parsed::Event(event)))
}

fn marked(data: &str) -> Option<(Stream, Vec<u8>)> {
    let (mark, encoded) = data.split_once(':')?;
    let stream = match mark {
        "o" => Stream::Stdout,
        "e" => Stream::Stderr,
        _ => return None,
    };
    Some((stream, STANDARD.decode(encoded).ok()?))
}

enum Line {
    Whole(Vec<u8>),
    TooLong,
    Cut(u64),
    None,
}

/// Reads to the next line feed, keeping no more than `limit` bytes.
fn read_line(input: &mut impl BufRead, limit: usize) -> io::Result<Line> {
    let mut line = Vec::new();
    let mut length = 0_u64;
    loop {
        let available = match input.fill_buf() {
            Ok(available) => available,
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => continue,
            Err(cause) => return Err(cause),
        };
        if available.is_empty() {
            return Ok(if length == 0 { Line::None } else { Line::Cut(length) });
        }
        let (part, ended) = match available.iter().position(|&byte| byte == b'\n') {
            Some(end) => (available.split_at(end).0, true),
            None => (available, false),
        };
        length = length.saturating_add(part.len() as u64);
        if length <= limit as u64 {
            line.extend_from_slice(part);
        }
        let used = part.len() + usize::from(ended);
        input.consume(used);
        if ended {
            return Ok(if length <= limit as u64 {
                Line::Whole(line)
            } else {
                Line::TooLong
            });
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
