//! Which exit code follows from what the node says.

use noderelay_proto::control::Exit;

use super::Remote;

fn exit(code: Option<u32>, signal: Option<u32>) -> Exit {
    Exit {
        code,
        signal,
        ..Exit::default()
    }
}

#[test]
fn b008_codes_pass_through_and_signals_are_128_plus_n() {
    for code in [0, 1, 126, 127, 130, 255] {
        let remote = Remote::from_exit(&exit(Some(code), None)).unwrap();
        assert_eq!((u32::from(remote.exit_code()), remote.note()), (code, None));
    }
    for (number, code, name) in [
        (11, 139, "SEGV"),
        (9, 137, "KILL"),
        (1, 129, "HUP"),
        (34, 162, "real-time"),
    ] {
        let remote = Remote::from_exit(&exit(None, Some(number))).unwrap();
        assert_eq!(remote.exit_code(), code);
        assert!(remote.note().unwrap().contains(&format!("signal {number} ({name})")));
    }
    let core = Remote::Signal { number: 6, core: true };
    assert_eq!(
        core.note().unwrap(),
        "the command was ended by signal 6 (ABRT) (core dumped)"
    );
}

#[test]
fn b006_an_exit_that_says_nothing_is_no_exit() {
    for (code, signal) in [
        (None, None),
        (Some(256), None),
        (Some(u32::MAX), None),
        (None, Some(0)),
        (None, Some(128)),
        (Some(0), Some(9)),
    ] {
        assert_eq!(Remote::from_exit(&exit(code, signal)), None);
    }
}
