//! Recordings that were cut off at any moment are closed once and lose nothing; those with a writer or an end stay as they are.

use super::*;
use crate::read::Event;
use crate::testing::{NAME, events, header, output};
use crate::{Level, Stream};

const CODE: &str = "session.holder_lost";

fn now() -> Timestamp {
    "2030-05-06T07:09:09Z".parse().unwrap()
}

#[test]
fn a_recording_that_was_cut_off_is_closed_once_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(NAME);
    let mut recording = Recording::create(dir.path(), &header(Level::Strict, None)).unwrap();
    recording
        .output(Duration::from_secs(1), Stream::Stdout, b"before\n")
        .unwrap();
    // Its writer lives.
    assert!(matches!(close(&path, CODE, "gone", now()).unwrap(), Found::Written));
    drop(recording);
    // In the middle of a line.
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend_from_slice(b"[1.5, \"o\", \"to");
    std::fs::write(&path, bytes).unwrap();
    let Found::Closed(found) = close(&path, CODE, "its holder is gone", now()).unwrap() else {
        panic!("not closed");
    };
    assert_eq!(*found, header(Level::Strict, None));
    let all = events(&path);
    assert_eq!(output(&all, Stream::Stdout), b"before\n");
    let texts = all.iter().filter_map(|timed| match &timed.event {
        Event::Notice(text) => Some(text.as_str()),
        _ => None,
    });
    let texts: Vec<&str> = texts.collect();
    assert!(texts.iter().any(|text| text.contains("was cut off")), "{texts:?}");
    assert!(texts.contains(&"its holder is gone"), "{texts:?}");
    let Event::End(end) = &all.last().unwrap().event else {
        panic!("no end: {all:?}");
    };
    assert_eq!((end.code.as_str(), end.exit_code), (CODE, None));

    let before = std::fs::read(&path).unwrap();
    assert!(matches!(close(&path, CODE, "again", now()).unwrap(), Found::Ended));
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn what_is_no_recording_or_a_link_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(NAME);
    std::fs::write(&path, "something else\n").unwrap();
    assert!(close(&path, CODE, "", now()).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"something else\n");
    let link = dir.path().join("link.cast");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(matches!(close(&link, CODE, "", now()), Err(CloseError::Io(_))));
}
