//! The recorder on good days. Full and missing disks are in `disk.rs`.

use std::os::unix::fs::PermissionsExt as _;

use sha2::{Digest as _, Sha256};

use super::*;
use crate::read::Event;
use crate::testing::{NAME, events, header, output};
use crate::{Reader, SessionKind};

mod disk;

fn at(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn ok() -> End {
    End {
        code: "ok".to_owned(),
        exit_code: Some(0),
        signal: None,
    }
}

#[test]
fn the_header_is_in_the_file_before_there_is_a_recording() {
    let dir = tempfile::tempdir().unwrap();
    let recording = Recording::create(dir.path(), &header(Level::Strict, None)).unwrap();
    let path = dir.path().join(NAME);
    assert_eq!(Reader::open(&path).unwrap().header(), recording.header());
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_recording_never_replaces_another_or_follows_a_link() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(NAME);
    for level in [Level::Strict, Level::Required] {
        let _ = Recording::create(dir.path(), &header(level, None));
        let before = std::fs::read(&path).unwrap();
        assert!(matches!(
            Recording::create(dir.path(), &header(level, None)),
            Err(RecordError::Exists { .. })
        ));
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(dir.path().join("elsewhere"), &path).unwrap();
    assert!(matches!(
        Recording::create(dir.path(), &header(Level::Strict, None)),
        Err(RecordError::Exists { .. })
    ));
    assert!(!dir.path().join("elsewhere").exists());
}

#[test]
fn output_is_in_the_file_before_the_call_returns() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(NAME);
    let mut recording = Recording::create(dir.path(), &header(Level::Required, Some((80, 24)))).unwrap();
    let mut expected = Vec::new();
    for byte in "aä漢🦀\u{1b}[1m\r\n".bytes().chain([0xff, 0xf0, 0x9f]) {
        expected.push(byte);
        recording.output(at(1), Stream::Stdout, &[byte]).unwrap();
        assert_eq!(output(&events(&path), Stream::Stdout), expected);
    }
}

#[test]
fn b020_sizes_stand_in_order_with_the_output_they_belong_to() {
    let dir = tempfile::tempdir().unwrap();
    let mut recording = Recording::create(dir.path(), &header(Level::Required, Some((200, 50)))).unwrap();
    recording.output(at(10), Stream::Stdout, b"wide").unwrap();
    recording.resize(at(20), 80, 24).unwrap();
    recording.output(at(20), Stream::Stdout, b"narrow").unwrap();
    recording.resize(at(20), 81, 25).unwrap();
    recording.end(at(30), &ok()).unwrap();
    let path = dir.path().join(NAME);
    let terminal = Reader::open(&path).unwrap().header().terminal.clone().unwrap();
    assert_eq!((terminal.cols, terminal.rows), (200, 50));
    let got: Vec<_> = events(&path).into_iter().map(|timed| (timed.at, timed.event)).collect();
    let expected = [
        (at(10), Event::Output(Stream::Stdout, b"wide".to_vec())),
        (at(20), Event::Resize(80, 24)),
        (at(20), Event::Output(Stream::Stdout, b"narrow".to_vec())),
        (at(20), Event::Resize(81, 25)),
        (at(30), Event::End(ok())),
    ];
    assert_eq!(got, expected);
}

#[test]
fn b023_every_kind_of_work_is_recorded_by_the_same_rule() {
    for kind in [SessionKind::Shell, SessionKind::Exec, SessionKind::Line] {
        for terminal in [None, Some((80, 24))] {
            for level in [Level::Required, Level::Strict] {
                let dir = tempfile::tempdir().unwrap();
                let mut header = header(level, terminal);
                header.session.kind = kind;
                let mut recording = Recording::create(dir.path(), &header).unwrap();
                recording.output(at(1), Stream::Stdout, b"seen\n").unwrap();
                recording.output(at(1), Stream::Stderr, b"also seen\n").unwrap();
                assert_eq!(recording.end(at(2), &ok()).unwrap(), Outcome::Complete);
                let events = events(&dir.path().join(NAME));
                assert_eq!(output(&events, Stream::Stdout), b"seen\n");
                assert_eq!(output(&events, Stream::Stderr), b"also seen\n");
            }
        }
    }
}

#[test]
fn signals_notices_and_the_end_are_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let mut recording = Recording::create(dir.path(), &header(Level::Required, None)).unwrap();
    recording.signal(at(1), "INT").unwrap();
    recording.notice(at(2), "the path \"was\" lost\n").unwrap();
    let end = End {
        code: "session.killed".to_owned(),
        exit_code: None,
        signal: Some(9),
    };
    recording.end(at(3), &end).unwrap();
    let got: Vec<_> = events(&dir.path().join(NAME))
        .into_iter()
        .map(|timed| timed.event)
        .collect();
    let expected = [
        Event::Signal("INT".to_owned()),
        Event::Notice("the path \"was\" lost\n".to_owned()),
        Event::End(end),
    ];
    assert_eq!(got, expected);
}

#[test]
fn nothing_follows_the_end_and_time_never_runs_backwards() {
    let dir = tempfile::tempdir().unwrap();
    let mut recording = Recording::create(dir.path(), &header(Level::Required, None)).unwrap();
    recording.output(at(50), Stream::Stdout, b"a").unwrap();
    recording.output(at(20), Stream::Stdout, b"b").unwrap();
    recording.end(at(10), &ok()).unwrap();
    assert!(matches!(
        recording.output(at(60), Stream::Stdout, b"late"),
        Err(RecordError::Ended)
    ));
    assert!(matches!(recording.end(at(60), &ok()), Err(RecordError::Ended)));
    assert!(events(&dir.path().join(NAME)).iter().all(|timed| timed.at == at(50)));
}

#[test]
fn another_process_continues_the_open_file() {
    let dir = tempfile::tempdir().unwrap();
    let header = header(Level::Strict, Some((80, 24)));
    let file = Recording::create(dir.path(), &header).unwrap().into_file();
    let mut recording = Recording::adopt(file, header.session.started, Level::Strict).unwrap();
    assert_eq!((recording.header(), recording.level()), (&header, Level::Strict));
    recording.output(at(1), Stream::Stdout, b"hello").unwrap();
    assert_eq!(recording.end(at(2), &ok()).unwrap(), Outcome::Complete);
    assert_eq!(output(&events(&dir.path().join(NAME)), Stream::Stdout), b"hello");
}

#[test]
fn what_is_not_the_recording_that_is_meant_is_not_continued() {
    let dir = tempfile::tempdir().unwrap();
    let header = header(Level::Required, None);
    let file = Recording::create(dir.path(), &header).unwrap().into_file();
    let started = header.session.started;
    let other = |error: RecordError| assert!(matches!(error, RecordError::NotARecording(_)), "{error}");
    other(Recording::adopt(file.try_clone().unwrap(), started, Level::Strict).unwrap_err());
    other(Recording::adopt(file, started + Duration::from_secs(1), Level::Required).unwrap_err());
    other(Recording::reopen(tempfile::tempfile().unwrap()).unwrap_err());
    other(Recording::reopen(File::options().read(true).write(true).open("/dev/null").unwrap()).unwrap_err());
    let text = dir.path().join("text");
    std::fs::write(&text, "hello\n").unwrap();
    other(Recording::reopen(File::options().read(true).write(true).open(&text).unwrap()).unwrap_err());
    assert_eq!(std::fs::read(&text).unwrap(), b"hello\n");
}

#[test]
fn a_line_that_the_writer_before_left_unfinished_is_removed_and_noted() {
    let dir = tempfile::tempdir().unwrap();
    let mut recording = Recording::create(dir.path(), &header(Level::Required, None)).unwrap();
    recording.output(at(1), Stream::Stdout, b"whole").unwrap();
    drop(recording);
    let path = dir.path().join(NAME);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend_from_slice(&[b'x'; 10_000]);
    std::fs::write(&path, bytes).unwrap();
    let mut recording = Recording::reopen(File::options().read(true).write(true).open(&path).unwrap()).unwrap();
    recording.end(at(2), &ok()).unwrap();
    let events: Vec<_> = events(&path).into_iter().map(|timed| timed.event).collect();
    assert!(
        matches!(&events[1], Event::Notice(text) if text.contains("10000 bytes")),
        "{events:?}"
    );
    assert_eq!(events[2], Event::End(ok()));
}

#[test]
fn big_output_without_a_terminal_is_kept_by_size_and_digest() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(NAME);
    let mut recording = Recording::create(dir.path(), &header(Level::Strict, None)).unwrap();
    let piece: Vec<u8> = (0..=250).cycle().take(100_000).collect();
    let mut whole = Vec::new();
    for n in 0..200 {
        recording.output(at(n), Stream::Stdout, &piece).unwrap();
        whole.extend_from_slice(&piece);
    }
    recording.output(at(300), Stream::Stderr, b"small").unwrap();
    recording.sync(at(301)).unwrap();
    recording.output(at(302), Stream::Stdout, b"last").unwrap();
    whole.extend_from_slice(b"last");
    assert_eq!(recording.end(at(303), &ok()).unwrap(), Outcome::Complete);
    let events = events(&path);
    let kept = WHOLE as usize;
    assert!(output(&events, Stream::Stdout) == whole[..kept]);
    assert_eq!(output(&events, Stream::Stderr), b"small");
    let digests = events.iter().filter_map(|timed| match &timed.event {
        Event::Omitted(omitted) => Some(omitted.clone()),
        _ => None,
    });
    let digests: Vec<_> = digests.collect();
    assert_eq!(digests.len(), 2);
    let last = &digests[1];
    assert_eq!(
        (last.stream.as_str(), last.from, last.bytes),
        ("o", WHOLE, (whole.len() - kept) as u64)
    );
    assert_eq!(last.sha256, hex::encode(Sha256::digest(&whole[kept..])));
}

#[test]
fn output_on_a_terminal_is_always_kept_whole() {
    let dir = tempfile::tempdir().unwrap();
    let mut recording = Recording::create(dir.path(), &header(Level::Strict, Some((80, 24)))).unwrap();
    let line = "y\r\n".repeat(20_000);
    for n in 0..300 {
        recording.output(at(n), Stream::Stdout, line.as_bytes()).unwrap();
    }
    recording.end(at(400), &ok()).unwrap();
    assert!(output(&events(&dir.path().join(NAME)), Stream::Stdout) == line.repeat(300).as_bytes());
}

#[test]
fn a_folder_that_others_write_to_or_that_is_a_link_is_no_place_for_a_recording() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let open = dir.path().join("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
    let error = Recording::create(&open, &header(Level::Strict, None)).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("others may write into its folder (mode 0777)"),
        "{error}"
    );
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(dir.path(), &link).unwrap();
    assert!(matches!(
        Recording::create(&link, &header(Level::Strict, None)),
        Err(RecordError::Refused { .. })
    ));
    // Under the other level it goes on in memory, and not to that place later.
    let mut recording = Recording::create(&open, &header(Level::Required, None)).unwrap();
    recording.flush(at(1));
    assert!(recording.unsaved().unwrap().contains("only in memory"));
    assert_eq!(std::fs::read_dir(&open).unwrap().count(), 0);
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o700)).unwrap();
    recording.flush(at(3));
    assert_eq!(recording.unsaved(), None);
}
