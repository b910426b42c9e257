//! What a recording shows, made safe for the terminal of whoever looks.
//!
//! ```text
//! Reader ── events ──> Replay ── Frame { at, Output | Note } ──> the client writes, at the pace that it wants
//!                        └ Filter: text, colours, cursor, screen areas pass; what reaches beyond the screen does not
//! ```
//!
//! Passed are only sequences from a list: cursor movement, erasing, colours, scrolling, character sets, the alternate
//! screen. Left out is everything that would act on the viewer's machine: titles and clipboard (OSC), printer and
//! window commands, questions that the terminal answers by typing, mouse and paste modes, device strings. Never: more
//! than a few hundred bytes of state, whatever the recording holds; a byte that is not UTF-8.

use std::io::Read;
use std::time::Duration;

use noderelay_pki::text::{escape, escape_bytes};

use crate::Stream;
use crate::header::Header;
use crate::read::{Event, ReadError, Reader, Timed};

pub use filter::{Filter, Show};

mod filter;

/// Written after a replay on a terminal: leaves the alternate screen, shows the cursor, ends colours and scroll areas.
pub const RESET: &str = "\x1b[?1049l\x1b[!p\x1b[?25h\x1b[0m\x1b(B\r\n";

/// Longest text of a note.
const MAX_NOTE: usize = 400;

/// One step of a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Since the start of the session.
    pub at: Duration,
    /// What to show.
    pub part: Part,
}

/// What a frame shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Output, safe to be written to a terminal.
    Output(Stream, String),
    /// A remark on the session, one line without controls, to be shown apart from the output.
    Note(String),
}

/// A recording as frames.
#[derive(Debug)]
pub struct Replay<R> {
    reader: Reader<R>,
    stdout: Filter,
    stderr: Filter,
    last: Duration,
    ended: bool,
    done: bool,
}

impl<R: Read> Replay<R> {
    /// Replays what is left of the reader.
    pub fn new(reader: Reader<R>, show: Show) -> Self {
        let last = Duration::ZERO;
        Self {
            reader,
            stdout: Filter::new(show),
            stderr: Filter::new(show),
            last,
            ended: false,
            done: false,
        }
    }

    /// The header.
    pub fn header(&self) -> &Header {
        self.reader.header()
    }

    fn part(&mut self, event: Event) -> Option<Part> {
        let note = |text: String| Some(Part::Note(escape(&text, MAX_NOTE)));
        match event {
            Event::Output(stream, bytes) => {
                let mut shown = String::with_capacity(bytes.len());
                match stream {
                    Stream::Stdout => self.stdout.push(&bytes, &mut shown),
                    Stream::Stderr => self.stderr.push(&bytes, &mut shown),
                }
                (!shown.is_empty()).then_some(Part::Output(stream, shown))
            }
            Event::Resize(cols, rows) => note(format!("the terminal is now {cols}x{rows}")),
            Event::Signal(name) => note(format!("the client sent the signal {name}")),
            Event::Notice(text) => note(text),
            Event::Gap(gap) => note(format!(
                "gap from {} to {}: {} entries lost ({} bytes): {}",
                seconds(gap.from_us),
                seconds(gap.until_us),
                gap.lost_entries,
                gap.lost_bytes,
                gap.cause
            )),
            Event::Omitted(left_out) => note(format!(
                "{} bytes of {} are recorded as a digest only, from byte {} on: sha256 {}",
                left_out.bytes,
                if left_out.stream == "e" {
                    "standard error"
                } else {
                    "standard output"
                },
                left_out.from,
                left_out.sha256
            )),
            Event::End(end) => {
                self.ended = true;
                note(match (end.exit_code, end.signal) {
                    (_, Some(signal)) => format!("ended: {}, by signal {signal}", end.code),
                    (Some(code), None) => format!("ended: {}, exit code {code}", end.code),
                    (None, None) => format!("ended: {}", end.code),
                })
            }
            Event::Unknown(code) => note(format!("an event of a kind that this build does not know: {code}")),
            Event::Damaged { line } => note(format!("line {line} of the recording is damaged")),
            Event::Cut { bytes } => note(format!(
                "the recording ends in the middle of a line, after {bytes} bytes of it"
            )),
        }
    }
}

impl<R: Read> Iterator for Replay<R> {
    type Item = Result<Frame, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.done {
            match self.reader.next_event() {
                Ok(Some(Timed { at, event })) => {
                    self.last = at;
                    if let Some(part) = self.part(event) {
                        return Some(Ok(Frame { at, part }));
                    }
                }
                Ok(None) => {
                    self.done = true;
                    if !self.ended {
                        let text = "the recording has no end: the session was cut off, or is still running".to_owned();
                        return Some(Ok(Frame {
                            at: self.last,
                            part: Part::Note(text),
                        }));
                    }
                }
                Err(error) => {
                    self.done = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

/// The header for people: label and value, values without controls.
pub fn summary(header: &Header) -> Vec<(&'static str, String)> {
    let session = &header.session;
    let argv: Vec<_> = session
        .argv
        .iter()
        .map(|argument| escape_bytes(argument.as_bytes(), MAX_NOTE))
        .collect();
    let groups: Vec<_> = session.groups.iter().map(|group| group.as_str()).collect();
    let terminal = header.terminal.as_ref();
    let mut rows = vec![
        ("session", session.session.to_string()),
        ("node", format!("{} in cluster {}", session.node, session.cluster)),
        ("who", session.principal.to_string()),
        ("groups", groups.join(", ")),
        ("key", session.key_fingerprint.clone()),
        ("started", session.started.to_string()),
        (
            "command",
            if argv.is_empty() {
                "(login shell)".to_owned()
            } else {
                argv.join(" ")
            },
        ),
        ("profile", format!("{} as {}", session.profile, session.account)),
        (
            "policy",
            format!("version {}, rules {}", session.policy_version, session.rules.join(", ")),
        ),
        ("recording", session.level.to_string()),
    ];
    rows.extend(session.reason.iter().map(|reason| ("reason", reason.clone())));
    rows.extend(session.claimed.path.iter().map(|path| ("claimed path", path.clone())));
    rows.extend(terminal.map(|t| ("terminal", format!("{}x{} {}", t.cols, t.rows, t.term))));
    rows.extend(
        header
            .held_in_memory
            .iter()
            .map(|held| ("began in memory", held.cause.clone())),
    );
    rows.into_iter()
        .map(|(label, value)| (label, escape(&value, MAX_NOTE)))
        .collect()
}

fn seconds(micros: u64) -> String {
    format!("{}.{:03} s", micros / 1_000_000, micros / 1000 % 1000)
}

#[cfg(test)]
mod tests;
