//! After a crash no folder is lost and no recording left open; what lives, and what is not ours, stays as it is.

use std::fs::File;

use noderelay_audit::read::Event;
use noderelay_audit::{Header, Reader, Recording};

use super::*;
use crate::testing::{places, started};

/// A session's folder with a log, as `launch` makes it; locked for as long as the file is open.
fn folder(places: &Places, number: u8) -> (std::path::PathBuf, File) {
    let folder = places.session(SessionId([number; 16]));
    std::fs::create_dir(&folder).unwrap();
    let log = File::create(folder.join("holder.log")).unwrap();
    log.try_lock().unwrap();
    std::fs::write(folder.join("holder.sock"), "").unwrap();
    (folder, log)
}

fn end(places: &Places, number: u8) -> Option<String> {
    let path = places.recordings().join(format!("{}.cast", SessionId([number; 16])));
    Reader::open(&path)
        .unwrap()
        .find_map(|timed| match timed.unwrap().event {
            Event::End(end) => Some(end.code),
            _ => None,
        })
}

fn recording(places: &Places, number: u8) -> Recording {
    Recording::create(places.recordings(), &Header::new(started(number), None)).unwrap()
}

#[test]
fn dead_sessions_are_closed_with_the_reason_and_live_ones_are_left_alone() {
    let root = tempfile::tempdir().unwrap();
    let places = places(root.path());
    let (dead, log) = folder(&places, 1);
    std::fs::write(dead.join("holder.log"), "2030 holder: out of memory\n").unwrap();
    drop((log, recording(&places, 1)));
    let (live, _log) = folder(&places, 2);
    let _writer = recording(&places, 2);
    // The agent died between the recording and the holder: there is no folder.
    drop(recording(&places, 3));
    // No file of ours.
    let other = places.sessions().join("notes");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(places.recordings().join("notes.cast"), "mine\n").unwrap();

    let mut closed: Vec<_> = sweep(&places, Timestamp::now())
        .into_iter()
        .map(|s| s.session.0[0])
        .collect();
    closed.sort_unstable();
    assert_eq!(closed, [1, 3]);
    assert!(!dead.exists() && live.join("holder.sock").exists() && other.exists());
    assert_eq!(end(&places, 1).as_deref(), Some("session.holder_lost"));
    assert_eq!(end(&places, 2), None);
    assert_eq!(end(&places, 3).as_deref(), Some("session.holder_lost"));
    // One of our own is left to whoever serves it.
    let (own, log) = folder(&places, 4);
    drop(log);
    assert!(folders(&places, &[SessionId([4; 16])], Timestamp::now()).is_empty() && own.exists());
    folders(&places, &[], Timestamp::now());
    assert!(!own.exists());
    // The next start finds nothing new to say.
    assert!(sweep(&places, Timestamp::now()).is_empty());
}

#[test]
fn a_holder_that_lives_after_all_is_not_buried() {
    let root = tempfile::tempdir().unwrap();
    let places = places(root.path());
    let (dead, log) = folder(&places, 1);
    let writer = recording(&places, 1);
    drop((log, writer));
    assert!(!bury(&places, SessionId([1; 16]), i32::MAX as u32, Timestamp::now()));
    assert!(!dead.exists());
    assert_eq!(end(&places, 1).as_deref(), Some("session.holder_lost"));
    let (live, _log) = folder(&places, 2);
    let _writer = recording(&places, 2);
    assert!(bury(&places, SessionId([2; 16]), i32::MAX as u32, Timestamp::now()));
    assert!(live.exists());
    assert_eq!(end(&places, 2), None);
}
