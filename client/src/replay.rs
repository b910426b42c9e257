//! `noderelay replay FILE`: shows a recording, at its own pace or faster, without letting it touch the terminal.
//!
//! What the recording holds was made safe by [`noderelay_audit::replay`]: titles, clipboard, questions to the terminal
//! and the like are left out. Notes (resizes, gaps, the end) go to standard error, so that standard output has the
//! session's output alone.
//!
//! It reads one file and connects to nothing.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use noderelay_audit::replay::{Part, RESET, Replay, Show, summary};
use noderelay_audit::{ReadError, Reader};
use thiserror::Error;
use tokio::time::sleep;

#[cfg(test)]
mod tests;

/// How it is shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReplayOptions {
    /// Times as fast; not a positive number: without waiting.
    pub speed: f64,
    /// Longest pause.
    pub idle: Option<Duration>,
    /// Output goes to a terminal.
    pub terminal: bool,
    /// No header, no notes.
    pub quiet: bool,
}

impl Default for ReplayOptions {
    fn default() -> Self {
        Self {
            speed: 1.0,
            idle: None,
            terminal: false,
            quiet: false,
        }
    }
}

/// Why it could not be shown.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// The recording.
    #[error(transparent)]
    Recording(#[from] ReadError),
    /// The output.
    #[error("output: {0}")]
    Output(#[from] io::Error),
}

/// Shows the recording: its output on `out`, header and notes on `notes`.
///
/// # Errors
/// The recording cannot be read, or `out` takes no more. When nobody reads the notes, there is nobody to tell.
pub async fn replay(
    file: &Path,
    options: ReplayOptions,
    out: &mut impl Write,
    notes: &mut impl Write,
) -> Result<(), ReplayError> {
    let show = if options.terminal { Show::Terminal } else { Show::Plain };
    let replay = Replay::new(Reader::open(file)?, show);
    if !options.quiet {
        for (label, value) in summary(replay.header()) {
            let _ = writeln!(notes, "{label:<16} {value}");
        }
        let _ = writeln!(notes);
    }
    let shown = frames(replay, options, out, notes).await;
    if options.terminal {
        // Also after an error: what was shown may have moved the terminal anywhere.
        out.write_all(RESET.as_bytes())?;
        out.flush()?;
    }
    shown
}

async fn frames<R: io::Read>(
    replay: Replay<R>,
    options: ReplayOptions,
    out: &mut impl Write,
    notes: &mut impl Write,
) -> Result<(), ReplayError> {
    let mut last = Duration::ZERO;
    for frame in replay {
        let frame = frame?;
        let pause = pause(frame.at.saturating_sub(last), options);
        last = last.max(frame.at);
        if !pause.is_zero() {
            out.flush()?;
            sleep(pause).await;
        }
        match frame.part {
            Part::Output(_, text) => out.write_all(text.as_bytes())?,
            Part::Note(text) if !options.quiet => {
                out.flush()?;
                let end = if options.terminal { "\r\n" } else { "\n" };
                let _ = write!(notes, "{end}[{text}]{end}");
            }
            Part::Note(_) => {}
        }
    }
    Ok(out.flush()?)
}

/// How long to wait for something that came `after` what was shown last.
fn pause(after: Duration, options: ReplayOptions) -> Duration {
    if !(options.speed.is_finite() && options.speed > 0.0) {
        return Duration::ZERO;
    }
    let after = options.idle.map_or(after, |idle| after.min(idle));
    Duration::try_from_secs_f64(after.as_secs_f64() / options.speed).unwrap_or(Duration::ZERO)
}
