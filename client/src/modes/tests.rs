//! Which terminal modes are noticed, and how they are undone.

use proptest::prelude::*;

use super::{Modes, Tracker};

fn reset_after(output: &[u8], size: usize) -> String {
    let modes = Modes::default();
    let mut tracker = Tracker::new(modes.clone());
    for piece in output.chunks(size.max(1)) {
        tracker.feed(piece);
    }
    String::from_utf8(modes.reset()).unwrap()
}

#[test]
fn an_orderly_session_resets_nothing() {
    let vim = b"\x1b[?1049h\x1b[22;0;0t\x1b[>4;2m\x1b[?1h\x1b=\x1b[?2004h\x1b[?1004h\x1b[1;24r\x1b[?12h\x1b[?25l\x1b[31mtext\x1b[m\
                \x1b]0;title\x07\x1b[?25h\x1b[?1004l\x1b[?2004l\x1b[>4;m\x1b[?1l\x1b>\x1b[r\x1b[?1049l\x1b[23;0;0t$ ";
    for size in [1, 2, 3, 7, 4096] {
        assert_eq!(reset_after(vim, size), "");
    }
    assert_eq!(reset_after(b"plain text only\r\n", 5), "");
}

#[test]
fn b003_what_was_left_on_is_switched_off() {
    for size in [1, 3, 4096] {
        let all = reset_after(
            b"\x1b[?1049h\x1b[?25l\x1b[?1002;1006h\x1b[?2004h\x1b[>1u\x1b[>4;1m\x1b=\x1b[5;10r\x1b(0\x1b[4 q\x1b[1;31m",
            size,
        );
        for part in [
            "\x1b[?1049l",
            "\x1b[?25h",
            "\x1b[?1002l",
            "\x1b[?1006l",
            "\x1b[?2004l",
            "\x1b[<99u",
            "\x1b[>4;0m",
            "\x1b>",
            "\x1b[r",
            "\x1b(B",
            "\x1b[0 q",
            "\x1b[0m",
        ] {
            assert!(all.contains(part), "{part:?} in {all:?}");
        }
        // The mouse goes before the screen, so that no report lands on the local one.
        assert!(all.find("\x1b[?1002l") < all.find("\x1b[?1049l"));
    }
}

#[test]
fn a_sequence_that_was_cut_is_cancelled_first() {
    assert!(reset_after(b"\x1b]0;half a title", 4).starts_with("\x18\x1b\\"));
    assert!(reset_after(b"\x1b[?10", 4).starts_with("\x18\x1b\\"));
    assert_eq!(reset_after(b"\x1b]0;title\x1b\\", 4), "");
}

#[test]
fn text_inside_strings_is_not_read_as_modes() {
    assert_eq!(reset_after(b"\x1b]8;;[?1049h\x07", 3), "");
    assert_eq!(reset_after(b"\x1bPq[?1000h\x1b\\", 3), "");
}

#[test]
fn a_full_reset_clears_all() {
    assert_eq!(reset_after(b"\x1b[?1049h\x1b[?2004h\x1bc", 2), "");
}

proptest! {
    #[test]
    fn any_bytes_cut_anywhere(output in proptest::collection::vec(prop_oneof![Just(0x1b), Just(b'['), Just(b'?'), Just(b'h'), Just(b'2'), any::<u8>()], 0..300), size in 1usize..20) {
        prop_assert_eq!(reset_after(&output, size), reset_after(&output, 10_000));
    }
}
