//! Text from elsewhere, made safe to show, and durations as people write them in files.
//!
//! What it never does: change what is stored or compared. Escaping is for showing only.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

mod log;

pub use log::{Background, LogLines, last_words, lines_lost};

/// Most characters of one word of a command line that a usage error shows.
const MAX_WORD: usize = 300;

/// Shows a text that came from elsewhere: control, bidirectional and invisible characters appear as `\u{202e}`, and
/// no more than `max` characters of the input are shown (then `…`).
pub fn escape(text: &str, max: usize) -> String {
    use fmt::Write;
    let mut out = String::with_capacity(text.len().min(max.saturating_mul(4)));
    for (shown, c) in text.chars().enumerate() {
        if shown >= max {
            out.push('…');
            break;
        }
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if is_invisible(c) => {
                // Writing to a String can't fail.
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

/// As [`escape`], for bytes that should have been UTF-8: what is not appears as `\xff`.
pub fn escape_bytes(bytes: &[u8], max: usize) -> String {
    use fmt::Write;
    let mut out = String::new();
    let mut left = max;
    for chunk in bytes.utf8_chunks() {
        let part = escape(chunk.valid(), left);
        out.push_str(&part);
        let count = chunk.valid().chars().count();
        if count > left {
            return out;
        }
        left -= count;
        for byte in chunk.invalid() {
            if left == 0 {
                out.push('…');
                return out;
            }
            left -= 1;
            // Writing to a String can't fail.
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

/// A JSON text that can be printed: what [`escape`] would not show stands as JSON's own `\u` escapes, so that it means
/// the same. Line feeds stay, as JSON has them between its values only.
pub fn escape_json(json: &str) -> String {
    use fmt::Write;
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if c == '\n' || !is_invisible(c) {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a String can't fail.
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    out
}

/// The lines of a text that may hold text from elsewhere, each escaped, and those after the first moved in: what came from
/// elsewhere can't begin a line.
pub fn escape_lines(text: &str, max: usize) -> String {
    let lines: Vec<_> = text.trim_end().lines().map(|line| escape(line, max)).collect();
    lines.join("\n  ")
}

/// Lines of ours that quote what may come from elsewhere: each escaped, none lost.
pub fn escape_each_line(text: &str) -> String {
    text.split('\n')
        .map(|line| escape(line, usize::MAX))
        .collect::<Vec<_>>()
        .join("\n")
}

/// What is wrong with the words of a command line, fit to be shown. A parser quotes the words as they are, so `fault` is
/// asked about the escaped ones; `seen` is what it said about the real ones, which counts where escaping mends them.
pub fn usage(
    words: impl IntoIterator<Item = OsString>,
    seen: &str,
    fault: impl FnOnce(Vec<OsString>) -> Option<String>,
) -> String {
    let escaped = words
        .into_iter()
        .map(|word| escape_bytes(word.as_bytes(), MAX_WORD).into());
    escape_each_line(&fault(escaped.collect()).unwrap_or_else(|| seen.to_owned()))
}

/// A value as YAML that can be shown, and read again: `yaml` as it is, or `json` (which is YAML as well) with what must not
/// be shown as escapes.
pub fn shown_yaml(yaml: String, json: impl FnOnce() -> String) -> String {
    let deceives = |c: char| c != '\n' && is_invisible(c);
    if !yaml.contains(deceives) {
        return yaml;
    }
    let mut out = String::new();
    for c in json().chars() {
        match u32::from(c) {
            _ if !deceives(c) => out.push(c),
            number @ ..=0xffff => out.push_str(&format!("\\u{number:04x}")),
            number => out.push_str(&format!("\\U{number:08x}")),
        }
    }
    out.push('\n');
    out
}

/// An error with its causes: `what: why: why that`. A cause that its error tells already is not told twice.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut whole = error.to_string();
    let mut last = whole.clone();
    for cause in std::iter::successors(error.source(), |cause| cause.source()) {
        let cause = cause.to_string();
        if !last.contains(&cause) {
            whole.push_str(": ");
            whole.push_str(&cause);
        }
        last = cause;
    }
    whole
}

/// True for characters that must not be shown as they are: control characters, characters that turn the direction
/// of the text, and characters that take no room or look like nothing, so that two different names look the same.
pub fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(u32::from(c),
            0x00AD            // soft hyphen
            | 0x034F          // combining grapheme joiner
            | 0x061C          // arabic letter mark
            | 0x115F | 0x1160 // hangul fillers
            | 0x17B4 | 0x17B5 // khmer inherent vowels
            | 0x180B..=0x180F // mongolian selectors
            | 0x200B..=0x200F // zero width, direction marks
            | 0x2028..=0x202E // line and paragraph separators, direction
            | 0x2060..=0x206F // joiners, isolates, deprecated format characters
            | 0x3164          // hangul filler
            | 0xFE00..=0xFE0F // variation selectors
            | 0xFEFF          // zero width no-break space
            | 0xFFA0          // half-width hangul filler
            | 0xFFF0..=0xFFFB // specials, interlinear annotation
            | 0x1BCA0..=0x1BCA3
            | 0x1D173..=0x1D17A
            | 0xE0000..=0xE0FFF // tags, variation selectors
        )
}

/// A span of time as written in configuration: `500ms`, `30s`, `10m`, `8h`, `30d`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Period(Duration);

/// A span of time that can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{seen}\" is not a duration: write a whole number and a unit, like 500ms, 30s, 10m, 8h or 30d (at most 36500d)"
)]
pub struct PeriodError {
    seen: String,
}

impl Period {
    /// Longest span: a hundred years, so that adding one to a date can't leave the calendar.
    pub const MAX: Period = Period(Duration::from_secs(36_500 * 86_400));

    /// From seconds (at most [`Period::MAX`] is kept).
    pub const fn from_secs(seconds: u64) -> Period {
        if seconds > Period::MAX.0.as_secs() {
            Period::MAX
        } else {
            Period(Duration::from_secs(seconds))
        }
    }

    /// From milliseconds (at most [`Period::MAX`] is kept).
    pub const fn from_millis(millis: u64) -> Period {
        if millis / 1000 >= Period::MAX.0.as_secs() {
            Period::MAX
        } else {
            Period(Duration::from_millis(millis))
        }
    }

    /// The same as a [`Duration`].
    pub const fn duration(self) -> Duration {
        self.0
    }

    /// Reads `500ms`, `30s`, `10m`, `8h`, `30d`.
    pub fn parse(text: &str) -> Result<Period, PeriodError> {
        Self::read(text).ok_or_else(|| PeriodError { seen: escape(text, 32) })
    }

    fn read(text: &str) -> Option<Period> {
        let split = text.find(|c: char| !c.is_ascii_digit())?;
        let (digits, unit) = text.split_at_checked(split)?;
        if digits.len() > 1 && digits.starts_with('0') {
            return None;
        }
        let number: u64 = digits.parse().ok()?;
        let millis = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        let span = Duration::from_millis(number.checked_mul(millis)?);
        (span <= Period::MAX.0).then_some(Period(span))
    }
}

impl From<Period> for Duration {
    fn from(period: Period) -> Duration {
        period.0
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        for (unit, name) in [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")] {
            if millis >= unit && millis.is_multiple_of(unit) {
                return write!(f, "{}{name}", millis / unit);
            }
        }
        if millis == 0 {
            f.write_str("0s")
        } else {
            write!(f, "{millis}ms")
        }
    }
}

impl fmt::Debug for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Period {
    type Err = PeriodError;
    fn from_str(text: &str) -> Result<Period, PeriodError> {
        Period::parse(text)
    }
}

impl TryFrom<String> for Period {
    type Error = PeriodError;
    fn try_from(text: String) -> Result<Period, PeriodError> {
        Period::parse(&text)
    }
}

impl From<Period> for String {
    fn from(period: Period) -> String {
        period.to_string()
    }
}

#[cfg(test)]
mod tests;
