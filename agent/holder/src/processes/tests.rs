//! Lines of the process table are read right, whatever a process calls itself.

use super::*;

#[test]
fn a_name_with_brackets_does_not_shift_the_fields() {
    let line = b"7 (a) R (b\x1b) S 5 6 42 34816 7 4194560 1 2 3 4 5 6 7 8 20 0 1 0 9000 77 88";
    let process = parse(7, line).unwrap();
    assert_eq!((process.parent, process.session, process.zombie), (5, 42, false));
    assert_eq!(process.known(), Known { pid: 7, started: 9000 });
    assert_eq!(process.name, "a) R (b\\x1b");
    assert!(
        parse(7, b"7 (x) Z 5 6 42 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 9")
            .unwrap()
            .zombie
    );
    for broken in [
        b"".as_slice(),
        b"7",
        b"7 )x( S 5 6 42",
        b"7 (x) S 5",
        b"7 (x) S a 6 42",
        b"7 (x) S 5 6 42 0",
    ] {
        assert_eq!(parse(7, broken), None, "{broken:?}");
    }
}

#[test]
fn own_children_are_found_and_others_are_not() {
    let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
    let found = below(own_pid());
    assert!(
        found
            .iter()
            .any(|process| process.pid == child.id() as i32 && process.name == "sleep")
    );
    assert!(!found.iter().any(|process| process.pid == 1 || process.pid == own_pid()));
    let known = Known::now(child.id()).unwrap();
    let another = Known {
        started: known.started + 1,
        ..known
    };
    assert!(known.lives() && !another.lives());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!known.lives());
}
