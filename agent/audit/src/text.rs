//! Turns the raw bytes of one stream into events without losing one, though characters are split between reads.
//!
//! ```text
//! bytes ── whole characters ──────────────> `o` / `e`
//!      ├── beginning of a character ──────> `h` at once (it may be the last thing seen), and again with its rest
//!      └── not UTF-8, or mostly controls ─> `b`
//! ```
//!
//! Never: replacement characters.

use std::time::Duration;

use crate::Stream;
use crate::line;

/// Switches between text and base64 within one piece; beyond that the piece is binary and stays in one event.
const MAX_SWITCHES: usize = 8;

/// The decoder of one stream.
#[derive(Debug)]
pub(crate) struct Splitter {
    stream: Stream,
    /// The beginning of a character, 0 to 3 bytes.
    held: Vec<u8>,
    joined: Vec<u8>,
}

impl Splitter {
    pub(crate) fn new(stream: Stream) -> Self {
        Self {
            stream,
            held: Vec::new(),
            joined: Vec::new(),
        }
    }

    /// Appends the events for these bytes; everything that was put in is in `out` afterwards.
    pub(crate) fn push(&mut self, out: &mut Vec<u8>, at: Duration, chunk: &[u8]) {
        if self.held.is_empty() {
            let (whole, tail) = split_tail(chunk);
            emit(out, at, self.stream, whole);
            self.hold(out, at, tail);
        } else {
            let mut joined = std::mem::take(&mut self.joined);
            joined.clear();
            joined.append(&mut self.held);
            joined.extend_from_slice(chunk);
            let (whole, tail) = split_tail(&joined);
            emit(out, at, self.stream, whole);
            self.hold(out, at, tail);
            self.joined = joined;
        }
    }

    /// Appends what is still held: the end of the stream.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>, at: Duration) {
        if !self.held.is_empty() {
            line::bytes(out, at, 'b', self.stream, &self.held);
            self.held.clear();
        }
    }

    fn hold(&mut self, out: &mut Vec<u8>, at: Duration, tail: &[u8]) {
        self.held.clear();
        self.held.extend_from_slice(tail);
        if !tail.is_empty() {
            line::bytes(out, at, 'h', self.stream, tail);
        }
    }
}

fn emit(out: &mut Vec<u8>, at: Duration, stream: Stream, mut rest: &[u8]) {
    for _ in 0..MAX_SWITCHES {
        if rest.is_empty() {
            return;
        }
        match std::str::from_utf8(rest) {
            Ok(text) => return line::output(out, at, stream, text),
            Err(error) => {
                let (valid, invalid) = rest.split_at(error.valid_up_to());
                if let Ok(text) = std::str::from_utf8(valid)
                    && !text.is_empty()
                {
                    line::output(out, at, stream, text);
                }
                let (bad, after) = invalid.split_at(error.error_len().unwrap_or(invalid.len()));
                line::bytes(out, at, 'b', stream, bad);
                rest = after;
            }
        }
    }
    if !rest.is_empty() {
        line::bytes(out, at, 'b', stream, rest);
    }
}

/// Splits off the beginning of a character at the end, if there is one.
fn split_tail(bytes: &[u8]) -> (&[u8], &[u8]) {
    for length in 1..=bytes.len().min(3) {
        let (front, tail) = bytes.split_at(bytes.len() - length);
        match tail.first() {
            // A continuation byte: the character began earlier.
            Some(0x80..=0xbf) => continue,
            Some(0xc2..=0xf4) if std::str::from_utf8(tail).is_err_and(|e| e.error_len().is_none()) => {
                return (front, tail);
            }
            _ => break,
        }
    }
    (bytes, &[])
}

#[cfg(test)]
mod tests;
