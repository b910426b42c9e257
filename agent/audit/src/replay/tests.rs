//! A replay shows everything, says what is missing, and does nothing to the viewer.

use super::*;
use crate::testing::{NAME, header};
use crate::{End, Gap, Level, Recording, line};

fn at(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn frames(bytes: &[u8], show: Show) -> Vec<Frame> {
    Replay::new(Reader::new(bytes).unwrap(), show)
        .collect::<Result<_, _>>()
        .unwrap()
}

fn notes(frames: &[Frame]) -> Vec<&str> {
    let mut notes = Vec::new();
    for frame in frames {
        if let Part::Note(text) = &frame.part {
            notes.push(text.as_str());
        }
    }
    notes
}

#[test]
fn titles_and_the_clipboard_are_neutralised_in_a_replay() {
    let dir = tempfile::tempdir().unwrap();
    let mut recording = Recording::create(dir.path(), &header(Level::Required, Some((80, 24)))).unwrap();
    // Split over events, as it may come.
    for piece in ["a\x1b]5", "2;c;cm0gLXJmIH4K\x07b\x1b]0;ti", "tle\x1b\\c"] {
        recording.output(at(1), Stream::Stdout, piece.as_bytes()).unwrap();
    }
    recording.notice(at(2), "from \x1b]0;elsewhere\x07\u{202e}").unwrap();
    recording
        .end(
            at(3),
            &End {
                code: "ok".to_owned(),
                exit_code: Some(3),
                signal: None,
            },
        )
        .unwrap();
    let frames = frames(&std::fs::read(dir.path().join(NAME)).unwrap(), Show::Terminal);
    let output = frames.iter().filter_map(|frame| match &frame.part {
        Part::Output(_, text) => Some(text.as_str()),
        Part::Note(_) => None,
    });
    let output: String = output.collect();
    assert_eq!(output, "abc");
    assert_eq!(
        notes(&frames),
        ["from \\u{1b}]0;elsewhere\\u{7}\\u{202e}", "ended: ok, exit code 3"]
    );
}

#[test]
fn what_is_missing_is_said() {
    let mut bytes = header(Level::Required, None).to_line().unwrap();
    let gap = Gap {
        from_us: 1_500_000,
        until_us: 2_000_000,
        lost_entries: 3,
        lost_bytes: 4096,
        cause: "No space left on device".to_owned(),
    };
    line::json(&mut bytes, at(2000), 'g', &gap);
    bytes.extend_from_slice(b"nonsense\n[3.0, \"o\", \"cut he");
    let frames = frames(&bytes, Show::Plain);
    assert_eq!(
        notes(&frames),
        [
            "gap from 1.500 s to 2.000 s: 3 entries lost (4096 bytes): No space left on device",
            "line 3 of the recording is damaged",
            "the recording ends in the middle of a line, after 18 bytes of it",
            "the recording has no end: the session was cut off, or is still running",
        ]
    );
}

#[test]
fn the_summary_says_who_and_what_without_controls() {
    let mut header = header(Level::Required, Some((80, 24)));
    let hostile = "\x1b]0;x\x07\u{202e}cod\u{200b}";
    header.session.reason = Some(hostile.to_owned());
    header.session.argv.push(hostile.into());
    header.session.account = hostile.to_owned();
    header.terminal.as_mut().unwrap().term = hostile.to_owned();
    let rows = summary(&header);
    let shown = |(label, value): &(&str, String)| {
        assert!(
            !value.chars().any(noderelay_pki::text::is_invisible),
            "{label}: {value:?}"
        );
    };
    rows.iter().for_each(shown);
    let value = |label: &str| rows.iter().find(|(l, _)| *l == label).unwrap().1.clone();
    assert_eq!(value("node"), "gpu-1 in cluster alpha");
    assert_eq!(
        value("who"),
        "spiffe://example.org/cluster/alpha/user/alice%40example.org"
    );
    assert_eq!(value("command"), r"printf a\xffb  \u{1b}]0;x\u{7}\u{202e}cod\u{200b}");
    assert_eq!(value("claimed path"), "relay");
    assert!(value("terminal").starts_with("80x24 "));
}
