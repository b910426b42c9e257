//! A recording can be read whatever became of it: cut at every byte, damaged, or full of nonsense.

use proptest::prelude::*;

use super::*;
use crate::testing::{NAME, events, header, output};
use crate::{Level, Recording, Stream};

/// What the reader makes of event lines without a header: all output bytes, of both streams.
pub(crate) fn output_of(lines: &[u8]) -> Vec<u8> {
    let mut whole = header(Level::Required, None).to_line().unwrap();
    whole.extend_from_slice(lines);
    let events: Vec<_> = Reader::new(whole.as_slice())
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let pieces = events.into_iter().filter_map(|timed| match timed.event {
        Event::Output(_, bytes) => Some(bytes),
        _ => None,
    });
    pieces.collect::<Vec<_>>().concat()
}

fn sample() -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let mut recording = Recording::create(dir.path(), &header(Level::Strict, None)).unwrap();
    let at = Duration::from_millis;
    recording.output(at(1), Stream::Stdout, "ä\n".as_bytes()).unwrap();
    recording.output(at(2), Stream::Stdout, b"\xf0\x9f").unwrap();
    recording.output(at(3), Stream::Stderr, b"err\xff").unwrap();
    recording.output(at(4), Stream::Stdout, b"\xa6\x80").unwrap();
    recording.resize(at(5), 80, 24).unwrap();
    recording
        .end(
            at(6),
            &End {
                code: "ok".to_owned(),
                exit_code: Some(0),
                signal: None,
            },
        )
        .unwrap();
    std::fs::read(dir.path().join(NAME)).unwrap()
}

#[test]
fn the_header_comes_back_as_it_went() {
    for terminal in [None, Some((200, 50))] {
        let dir = tempfile::tempdir().unwrap();
        let header = header(Level::Required, terminal);
        Recording::create(dir.path(), &header).unwrap();
        let path = dir.path().join(NAME);
        assert_eq!(Reader::open(&path).unwrap().header(), &header);
        let first: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let (width, height) = terminal.unwrap_or((80, 24));
        assert_eq!(
            (&first["version"], &first["width"], &first["height"]),
            (&2.into(), &width.into(), &height.into())
        );
        assert_eq!(first["timestamp"], 1904281689);
    }
}

#[test]
fn cut_at_every_offset_it_still_opens() {
    let whole = sample();
    let header_end = whole.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    let mut longest = 0;
    for cut in 0..=whole.len() {
        let part = &whole[..cut];
        match Reader::new(part) {
            Err(ReadError::NoHeader { bytes }) => {
                assert!(cut < header_end);
                assert_eq!(bytes, cut as u64);
            }
            Err(other) => panic!("cut at {cut}: {other}"),
            Ok(reader) => {
                assert!(cut >= header_end);
                let events: Vec<_> = reader.collect::<Result<_, _>>().unwrap();
                let cut_in_line = part.last() != Some(&b'\n');
                assert_eq!(
                    events.iter().any(|timed| matches!(timed.event, Event::Cut { .. })),
                    cut_in_line,
                    "{cut}"
                );
                assert!(
                    !events.iter().any(|timed| matches!(timed.event, Event::Damaged { .. })),
                    "{cut}"
                );
                // What was whole stays: output only ever grows with the file.
                let length = output(&events, Stream::Stdout).len() + output(&events, Stream::Stderr).len();
                assert!(length >= longest, "{cut}");
                longest = length;
            }
        }
    }
    assert_eq!(longest, "ä\n🦀".len() + b"err\xff".len());
}

#[test]
fn a_damaged_line_costs_only_itself() {
    let whole = String::from_utf8(sample()).unwrap();
    let lines: Vec<_> = whole.lines().collect();
    for damage in [
        "",
        "x",
        "[",
        "[1.0,\"o\"]",
        "[-1,\"o\",\"\"]",
        "[1e400,\"o\",\"\"]",
        "[1,\"b\",\"q:\"]",
        "[1,\"r\",\"0\"]",
        "\u{0}",
    ] {
        let mut damaged: Vec<&str> = lines.clone();
        damaged[1] = damage;
        let text = damaged.join("\n") + "\n";
        let events: Vec<_> = Reader::new(text.as_bytes()).unwrap().collect::<Result<_, _>>().unwrap();
        assert_eq!(events[0].event, Event::Damaged { line: 2 }, "{damage}");
        assert_eq!(output(&events, Stream::Stderr), b"err\xff");
        assert!(events.iter().any(|timed| matches!(timed.event, Event::End(_))));
    }
}

#[test]
fn a_line_without_end_is_not_taken_into_memory() {
    let mut input = header(Level::Required, None).to_line().unwrap();
    input.extend_from_slice(&vec![b'['; 3 * MAX_LINE]);
    input.extend_from_slice(b"\n[1, \"m\", \"after\"]\n");
    let events: Vec<_> = Reader::new(input.as_slice())
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(events[0].event, Event::Damaged { line: 2 });
    assert_eq!(events[1].event, Event::Notice("after".to_owned()));
}

#[test]
fn other_files_are_refused_with_the_reason() {
    let error = |bytes: &[u8]| Reader::new(bytes).unwrap_err().to_string();
    assert!(error(b"").contains("never started"));
    assert!(error(b"hello\n").contains("not a NodeRelay recording"));
    assert!(error(b"{\"version\":2,\"width\":80,\"height\":24}\n").contains("NodeRelay format None"));
    assert!(error(b"{\"version\":3,\"noderelay\":{\"format\":1}}\n").contains("asciicast version 3"));
    assert!(error(b"{\"version\":2,\"noderelay\":{\"format\":9}}\n").contains("format Some(9)"));
    assert!(error(&[vec![b'x'; MAX_HEADER + 1], vec![b'\n']].concat()).contains("not a NodeRelay recording"));
}

#[test]
fn unknown_events_are_named_and_skipped() {
    let mut input = header(Level::Required, None).to_line().unwrap();
    input.extend_from_slice(b"[1, \"i\", \"typed\"]\n[2, \"zz\", \"\"]\n");
    let events: Vec<_> = Reader::new(input.as_slice())
        .unwrap()
        .map(|timed| timed.unwrap().event)
        .collect();
    assert_eq!(
        events,
        [Event::Unknown("i".to_owned()), Event::Unknown("zz".to_owned())]
    );
}

#[test]
fn players_find_an_asciicast_of_version_2() {
    let whole = String::from_utf8(sample()).unwrap();
    for line in whole.lines().skip(1) {
        let (time, code, _): (f64, String, String) = serde_json::from_str(line).unwrap();
        assert!(time >= 0.0 && code.len() == 1, "{line}");
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.cast");
    std::fs::write(&path, whole).unwrap();
    assert_eq!(output(&events(&path), Stream::Stdout), "ä\n🦀".as_bytes().to_vec());
}

proptest! {
    #[test]
    fn any_bytes_after_the_header_are_events(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut input = header(Level::Required, None).to_line().unwrap();
        input.extend_from_slice(&bytes);
        Reader::new(input.as_slice()).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
    }

    #[test]
    fn a_flipped_bit_never_stops_the_reader(at in any::<prop::sample::Index>(), bit in 0_u8..8) {
        let mut input = sample();
        let at = at.index(input.len());
        input[at] ^= 1 << bit;
        if let Ok(reader) = Reader::new(input.as_slice()) {
            reader.collect::<Result<Vec<_>, _>>().unwrap();
        }
    }
}
