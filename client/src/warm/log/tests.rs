//! The log stays below its bound.

use std::io::Write as _;

use super::{Log, MAX};

#[test]
fn the_log_is_bounded_and_keeps_the_newest() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = Log::open(folder.path()).unwrap();
    let line = [b'x'; 1000];
    for _ in 0..2000 {
        log.write_all(&line).unwrap();
    }
    log.write_all(b"the last").unwrap();
    drop(log);
    // Goes on where it was.
    Log::open(folder.path()).unwrap().write_all(b" one").unwrap();
    let sizes = ["log", "log.1"].map(|name| std::fs::metadata(folder.path().join(name)).unwrap().len());
    assert!(sizes.iter().all(|size| *size <= MAX), "{sizes:?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    let text = std::fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(text.ends_with("the last one"));
}
