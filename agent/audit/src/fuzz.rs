//! Fuzz bodies: recordings that somebody wrote or damaged, and output that somebody's work printed. They never panic, no byte is
//! lost on the way into a recording and out of it, and nothing that a replay shows reaches beyond the screen.
//!
//! Plain functions over any bytes: ordinary tests run them over `agent/audit/corpus/` and over mutated input, a fuzzer over
//! anything.

use std::time::Duration;

use noderelay_pki::text::is_invisible;

use crate::header::Header;
use crate::read::{Event, Reader};
use crate::replay::{Filter, Part, Replay, Show, summary};
use crate::text::Splitter;
use crate::{Stream, line};

/// A whole file: every event in its order, no more output than there are bytes, and a replay that is safe to look at.
pub fn recording(bytes: &[u8]) {
    let Ok(reader) = Reader::new(bytes) else { return };
    header(reader.header());
    let mut last = Duration::ZERO;
    let mut output = 0;
    for timed in reader {
        let Ok(timed) = timed else { return };
        assert!(last <= timed.at, "time does not go back");
        last = timed.at;
        if let Event::Output(_, bytes) = timed.event {
            output += bytes.len();
        }
    }
    assert!(output <= bytes.len(), "no more than was there");
    for show in [Show::Terminal, Show::Plain] {
        let Ok(reader) = Reader::new(bytes) else { return };
        for frame in Replay::new(reader, show) {
            match frame.map(|frame| frame.part) {
                Ok(Part::Output(_, text)) => safe(show, &text),
                Ok(Part::Note(text)) => one_line(&text),
                Err(_) => return,
            }
        }
    }
}

/// Output on its way to the terminal of whoever looks: the cut makes no difference, and what has passed passes again as it is.
pub fn filter(bytes: &[u8]) {
    for show in [Show::Terminal, Show::Plain] {
        let whole = filtered(show, bytes, bytes.len().max(1));
        assert_eq!(whole, filtered(show, bytes, 1), "the cut makes no difference");
        safe(show, &whole);
        assert_eq!(
            filtered(show, whole.as_bytes(), whole.len().max(1)),
            whole,
            "what has passed passes again"
        );
    }
}

/// Output on its way into a recording, in pieces: a reader gets exactly these bytes.
pub fn written(bytes: &[u8]) {
    const PIECES: [usize; 5] = [1, 2, 3, 7, line::MAX_PIECE];
    assert!(HEADER.is_ok(), "{HEADER:?}");
    let Ok(head) = HEADER.as_ref() else { return };
    for piece in PIECES {
        for stream in [Stream::Stdout, Stream::Stderr] {
            let mut file = head.clone();
            let mut splitter = Splitter::new(stream);
            for chunk in bytes.chunks(piece) {
                splitter.push(&mut file, Duration::ZERO, chunk);
            }
            splitter.finish(&mut file, Duration::ZERO);
            let mut seen = Vec::new();
            for timed in Reader::new(file.as_slice()).into_iter().flatten().flatten() {
                match timed.event {
                    Event::Output(from, part) => {
                        assert_eq!(from, stream);
                        seen.extend_from_slice(&part);
                    }
                    other => assert_eq!(other, Event::Output(stream, Vec::new()), "output and nothing else"),
                }
            }
            assert_eq!(seen, bytes, "nothing is lost");
        }
    }
}

/// The first line of a recording in the corpus.
static HEADER: std::sync::LazyLock<Result<Vec<u8>, String>> = std::sync::LazyLock::new(|| {
    let first = include_bytes!("../corpus/recording/session.cast").split_inclusive(|byte| *byte == b'\n');
    let header = Header::from_line(first.into_iter().next().unwrap_or_default());
    header
        .map_err(|error| error.to_string())
        .and_then(|header| header.to_line().map_err(|error| error.to_string()))
});

fn header(header: &Header) {
    let line = header.to_line();
    assert!(line.is_ok(), "what was read can be written: {line:?}");
    for line in line.iter() {
        assert_eq!(Header::from_line(line).ok().as_ref(), Some(header), "nothing is lost");
    }
    summary(header).iter().for_each(|(_, value)| one_line(value));
}

fn filtered(show: Show, bytes: &[u8], piece: usize) -> String {
    let mut filter = Filter::new(show);
    let mut out = String::new();
    bytes.chunks(piece).for_each(|chunk| filter.push(chunk, &mut out));
    out
}

/// Nothing but text and, on a terminal, sequences that begin with ESC and stay on the screen.
fn safe(show: Show, text: &str) {
    let controls = match show {
        Show::Plain => "\n\t",
        Show::Terminal => "\x08\t\n\x0b\x0c\r\x0e\x0f\x1b",
    };
    assert!(
        !text.contains(|c: char| c.is_control() && !controls.contains(c)),
        "{text:?}"
    );
    for sequence in text.split('\x1b').skip(1) {
        assert!(
            sequence.starts_with(['[', '(', ')', '#', '7', '8', 'D', 'E', 'H', 'M', 'c', '=', '>']),
            "{text:?}"
        );
        // Questions that a terminal answers by typing, and window commands.
        let body = sequence.strip_prefix('[').unwrap_or_default();
        let last = body.chars().find(|c| matches!(c, '@'..='~'));
        assert!(!matches!(last, Some('n' | 'c' | 't' | 'x' | 'i' | 'y')), "{text:?}");
    }
}

fn one_line(text: &str) {
    assert!(!text.contains(is_invisible), "unescaped: {text:?}");
}
