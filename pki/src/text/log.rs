//! The way out of a log: every line is made safe to show, and one that cannot be written ends nothing.
//!
//! A full disk or a collector that went away costs lines, never the program that wrote them (a log library would say so on
//! standard error, which is that very place, and panic). How many were lost is said with the next line that gets through.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use super::{escape_bytes, escape_json};

/// What did not get through, of all logs of this process.
static LOST: Mutex<Lost> = Mutex::new(Lost::NONE);

#[derive(Debug)]
struct Lost {
    lines: u64,
    /// The last one was written in part.
    cut: bool,
}

impl Lost {
    const NONE: Self = Self { lines: 0, cut: false };
}

/// Lines of a log, made safe to show whatever the texts in them are and whoever they came from. One call of `write` is one
/// line, as log libraries write.
#[derive(Debug)]
pub struct LogLines<W> {
    out: W,
    json: bool,
    lost: &'static Mutex<Lost>,
}

impl<W: Write> LogLines<W> {
    /// Lines for people.
    pub fn text(out: W) -> Self {
        let (json, lost) = (false, &LOST);
        Self { out, json, lost }
    }

    /// Lines of JSON.
    pub fn json(out: W) -> Self {
        let (json, lost) = (true, &LOST);
        Self { out, json, lost }
    }

    fn shown(&self, line: &[u8]) -> String {
        let (body, ended) = match line.strip_suffix(b"\n") {
            Some(body) => (body, true),
            None => (line, false),
        };
        let mut shown = if self.json {
            escape_json(&String::from_utf8_lossy(body))
        } else {
            escape_bytes(body, usize::MAX)
        };
        if ended {
            shown.push('\n');
        }
        shown
    }

    fn missing(&self, lost: &Lost) -> String {
        let end = if lost.cut { "\n" } else { "" };
        let lines = lost.lines;
        match (lines, self.json) {
            (0, _) => String::new(),
            (_, true) => format!(
                "{end}{{\"level\":\"ERROR\",\"message\":\"lines of this log could not be written\",\"lines\":{lines}}}\n"
            ),
            (_, false) => format!("{end}ERROR lines of this log could not be written lines={lines}\n"),
        }
    }

    /// Says whether all of it was written, and else whether a part was.
    fn put(&mut self, text: &str) -> Result<(), bool> {
        let mut left = text.as_bytes();
        while !left.is_empty() {
            match self.out.write(left) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(count @ 1..) => left = left.get(count..).unwrap_or_default(),
                Ok(0) | Err(_) => return Err(left.len() < text.len()),
            }
        }
        Ok(())
    }
}

impl<W: Write> Write for LogLines<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        let text = self.missing(&lost) + &self.shown(line);
        *lost = match self.put(&text) {
            Ok(()) => Lost::NONE,
            Err(part) => Lost {
                lines: lost.lines.saturating_add(1),
                cut: lost.cut || part,
            },
        };
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        // Nothing is held back here, and what cannot be written was counted.
        let _ = self.out.flush();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
