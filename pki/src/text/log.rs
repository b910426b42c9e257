//! The way out of a log: every line is made safe to show, and one that cannot be written ends nothing and holds nobody up.
//!
//! ```text
//! log library ── a line ──> LogLines ── made safe ──> file, pipe, terminal             of a program that may wait
//!                                    └─────────────> Background ── its thread ──> pipe  of a service
//! ```
//!
//! A full disk or a collector that went away costs lines, never the program that wrote them (a log library would say so on
//! standard error, which is that very place, and panic); nor does a collector that stands still. How many were lost is said
//! with the next line that gets through, by whoever writes to that place: only it knows what got through.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{escape_bytes, escape_json};

/// What did not get through, of all logs of this process.
static LOST: Mutex<Lost> = Mutex::new(Lost::NONE);

/// The same since the process began, also of what was said to be lost since.
static TOTAL: AtomicU64 = AtomicU64::new(0);

/// How many lines of all logs of this process did not get through.
pub fn lines_lost() -> u64 {
    TOTAL.load(Ordering::Relaxed)
}

/// Most bytes of lines that wait for a place that stands still.
const ROOM: usize = 1024 * 1024;

/// How long the end of a process waits for such a place.
const FAREWELL: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Lost {
    lines: u64,
    /// The last one was written in part.
    cut: bool,
}

impl Lost {
    const NONE: Self = Self { lines: 0, cut: false };

    /// The line that says so.
    fn said(&self, json: bool) -> String {
        let end = if self.cut { "\n" } else { "" };
        let lines = self.lines;
        match (lines, json) {
            (0, _) => String::new(),
            (_, true) => format!(
                "{end}{{\"level\":\"ERROR\",\"message\":\"lines of this log could not be written\",\"lines\":{lines}}}\n"
            ),
            (_, false) => format!("{end}ERROR lines of this log could not be written lines={lines}\n"),
        }
    }

    fn add(&mut self, lines: u64, cut: bool) {
        TOTAL.fetch_add(lines, Ordering::Relaxed);
        self.lines = self.lines.saturating_add(lines);
        self.cut |= cut;
    }
}

/// Lines of a log, made safe to show whatever the texts in them are and whoever they came from. One call of `write` is one
/// line, as log libraries write.
#[derive(Debug)]
pub struct LogLines<W> {
    out: W,
    json: bool,
    lost: &'static Mutex<Lost>,
    /// What `out` takes got through.
    at_place: bool,
}

impl LogLines<Background> {
    /// Lines of the form that the background was made for.
    pub fn behind(out: Background) -> Self {
        let (json, lost) = (out.queue.json, out.queue.lost);
        let at_place = false;
        Self {
            out,
            json,
            lost,
            at_place,
        }
    }
}

impl<W: Write> LogLines<W> {
    /// Lines for people.
    pub fn text(out: W) -> Self {
        Self::at_place(out, false)
    }

    /// Lines of JSON.
    pub fn json(out: W) -> Self {
        Self::at_place(out, true)
    }

    fn at_place(out: W, json: bool) -> Self {
        let (lost, at_place) = (&LOST, true);
        Self {
            out,
            json,
            lost,
            at_place,
        }
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
}

impl<W: Write> Write for LogLines<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let shown = self.shown(line);
        if self.at_place {
            through(&mut self.out, self.json, self.lost, shown.as_bytes());
        } else {
            // Whatever becomes of it is counted there.
            let _ = self.out.write_all(shown.as_bytes());
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        // Nothing is held back here, and what cannot be written was counted.
        let _ = self.out.flush();
        Ok(())
    }
}

/// Writes lines to the place itself, behind one that says what did not get through before.
fn through(out: &mut impl Write, json: bool, lost: &Mutex<Lost>, lines: &[u8]) {
    if lines.is_empty() {
        return;
    }
    let (told, mut text) = {
        let lost = locked(lost);
        (lost.lines, lost.said(json).into_bytes())
    };
    let first = text.len();
    text.extend_from_slice(lines);
    let outcome = put(out, &text);
    let left = outcome.err().unwrap_or_default();
    let written = text.len() - left.len();
    let mut lost = locked(lost);
    if written >= first {
        lost.lines = lost.lines.saturating_sub(told);
    }
    if let Some(last) = text.get(..written).and_then(<[u8]>::last) {
        lost.cut = *last != b'\n' && !left.is_empty();
    }
    // Not the one that says so: it is said again.
    let ours = left.get(left.len().saturating_sub(lines.len())..).unwrap_or_default();
    let missing = ours.iter().filter(|byte| **byte == b'\n').count();
    let cut = lost.cut;
    lost.add(missing.try_into().unwrap_or(u64::MAX), cut);
}

/// Writes all of it, or gives what is left.
fn put<'a>(out: &mut impl Write, text: &'a [u8]) -> Result<(), &'a [u8]> {
    let mut left = text;
    while !left.is_empty() {
        match out.write(left) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(count @ 1..) => left = left.get(count..).unwrap_or_default(),
            Ok(0) | Err(_) => return Err(left),
        }
    }
    Ok(())
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A place for lines behind a thread of its own, which alone waits for whoever reads there. Lines are taken whole or, when
/// too many wait already, not at all: then they are counted.
#[derive(Debug, Clone)]
pub struct Background {
    queue: Arc<Queue>,
}

#[derive(Debug)]
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    room: usize,
    json: bool,
    lost: &'static Mutex<Lost>,
}

#[derive(Debug, Default)]
struct Waiting {
    text: Vec<u8>,
    /// How many lines are missing, and before which byte of the text.
    gaps: Vec<(usize, u64)>,
    /// Missing behind the text.
    missing: u64,
    /// What was taken before is not out yet.
    busy: bool,
}

impl Background {
    /// Begins the thread, which ends with the process; `json` is the form of the lines.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn new(out: impl Write + Send + 'static, json: bool) -> io::Result<Self> {
        Self::with(out, json, ROOM, &LOST)
    }

    fn with(
        mut out: impl Write + Send + 'static,
        json: bool,
        room: usize,
        lost: &'static Mutex<Lost>,
    ) -> io::Result<Self> {
        let queue = Arc::new(Queue {
            waiting: Mutex::default(),
            changed: Condvar::new(),
            room,
            json,
            lost,
        });
        let taken = Arc::clone(&queue);
        std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || taken.serve(&mut out))?;
        Ok(Self { queue })
    }

    /// For the end of the process: waits until all that was taken is out, for a second at most.
    pub fn finish(&self) {
        let waiting = locked(&self.queue.waiting);
        let unfinished = |waiting: &mut Waiting| waiting.busy || !waiting.text.is_empty();
        // Whether it is out or not: nothing more can be done.
        let _ = self.queue.changed.wait_timeout_while(waiting, FAREWELL, unfinished);
    }
}

/// Says on standard error why a service ends. Whoever reads there may stand still: then it ends without.
pub fn last_words(text: &str) {
    let said = Background::new(io::stderr(), false).and_then(|mut out| {
        out.write_all(text.as_bytes())?;
        out.finish();
        Ok(())
    });
    if said.is_err() {
        // Without a thread it has to be waited for; and if that fails, there is no other place to say so.
        let _ = io::stderr().write_all(text.as_bytes());
    }
}

impl Queue {
    fn serve(&self, out: &mut impl Write) {
        let (mut text, mut gaps) = (Vec::new(), Vec::new());
        loop {
            {
                let mut waiting = locked(&self.waiting);
                waiting.busy = false;
                self.changed.notify_all();
                let nothing = |waiting: &mut Waiting| waiting.text.is_empty();
                let waited = self.changed.wait_while(waiting, nothing);
                waiting = waited.unwrap_or_else(PoisonError::into_inner);
                waiting.busy = true;
                text.clear();
                gaps.clear();
                std::mem::swap(&mut text, &mut waiting.text);
                std::mem::swap(&mut gaps, &mut waiting.gaps);
            }
            let mut from = 0;
            for (at, missing) in gaps.drain(..).chain([(text.len(), 0)]) {
                through(out, self.json, self.lost, text.get(from..at).unwrap_or_default());
                locked(self.lost).lines += missing;
                from = at;
            }
        }
    }
}

impl Write for Background {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let mut waiting = locked(&self.queue.waiting);
        if waiting.text.len() + text.len() > self.queue.room {
            TOTAL.fetch_add(1, Ordering::Relaxed);
            waiting.missing += 1;
            return Ok(text.len());
        }
        let missing = std::mem::take(&mut waiting.missing);
        if missing > 0 {
            let at = waiting.text.len();
            waiting.gaps.push((at, missing));
        }
        waiting.text.extend_from_slice(text);
        self.queue.changed.notify_all();
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
