//! The system's table of locks, and our own lock in it.

use super::{Holder, find};

const TABLE: &str = "\
1: POSIX  ADVISORY  WRITE 11 fd:00:4711 0 EOF
2: FLOCK  ADVISORY  WRITE 12 fd:01:4711 0 EOF
3: FLOCK  ADVISORY  WRITE 13 fd:00:4712 0 EOF
4: FLOCK  ADVISORY  WRITE 0 fd:00:4713 0 EOF
4: -> FLOCK  ADVISORY  WRITE 14 fd:00:4711 0 EOF
5: FLOCK  ADVISORY  WRITE 15 fd:00:4711 0 EOF
6: FLOCK
7: FLOCK  ADVISORY  WRITE 16 nonsense 0 EOF
";

#[test]
fn whoever_has_the_lock_is_found_and_nobody_else() {
    assert_eq!(find(TABLE, (0xfd, 0), 4711), Some(15));
    assert_eq!(find(TABLE, (0xfd, 1), 4711), Some(12));
    assert_eq!(find(TABLE, (0xfd, 0), 4713), None, "of another namespace");
    assert_eq!(find(TABLE, (0xfd, 0), 1), None);
}

#[test]
fn our_own_lock_is_named_with_us() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lock");
    let file = std::fs::File::create(&path).unwrap();
    let said = || Holder::of(path.clone()).to_string();
    assert!(said().contains("can't be seen"), "{}", said());
    file.try_lock().unwrap();
    if cfg!(target_os = "linux") {
        let (ours, user) = (format!("process {} ", std::process::id()), nix::unistd::geteuid());
        assert!(
            said().contains(&ours) && said().contains(&format!("user id {user}")),
            "{}",
            said()
        );
    }
    assert!(said().contains(&path.display().to_string()), "{}", said());
}
