//! Which keys stay here and which go to the node, however they are cut into reads.

use bytes::Bytes;
use proptest::prelude::*;

use super::{Event, Keys};

/// The events of `typed` cut into pieces of `size`, neighbouring sends joined.
fn run(typed: &[u8], size: usize) -> Vec<Event> {
    let mut keys = Keys::new(Some(b'~'));
    let mut all: Vec<Event> = Vec::new();
    let mut push = |event: Event| match (all.last_mut(), event) {
        (Some(Event::Send(last)), Event::Send(next)) => *last = Bytes::from([&last[..], &next[..]].concat()),
        (_, event) => all.push(event),
    };
    for piece in typed.chunks(size.max(1)) {
        keys.feed(Bytes::copy_from_slice(piece)).into_iter().for_each(&mut push);
    }
    keys.end().map(Event::Send).into_iter().for_each(&mut push);
    all
}

fn send(bytes: &[u8]) -> Event {
    Event::Send(Bytes::copy_from_slice(bytes))
}

#[test]
fn a14_keys_work_at_the_start_of_a_line_and_nowhere_else() {
    for size in [1, 2, 3, 100] {
        assert_eq!(run(b"~.", size), [Event::Leave]);
        assert_eq!(run(b"ls\r~.", size), [send(b"ls\r"), Event::Leave]);
        assert_eq!(run(b"ls\n~?x", size), [send(b"ls\n"), Event::Help, send(b"x")]);
        assert_eq!(run(b"~s~?~.", size), [Event::Status, Event::Help, Event::Leave]);
        assert_eq!(run(b"a~.", size), [send(b"a~.")]);
        assert_eq!(run(b"~~.", size), [send(b"~.")]);
        assert_eq!(run(b"~~~.", size), [send(b"~~.")]);
        assert_eq!(run(b"~x~.", size), [send(b"~x~.")]);
        assert_eq!(run(b"~\r~.", size), [send(b"~\r"), Event::Leave]);
        assert_eq!(run(b"cd ~\r", size), [send(b"cd ~\r")]);
        assert_eq!(run(b"~", size), [send(b"~")]);
    }
}

#[test]
fn without_an_escape_key_everything_is_sent() {
    let mut keys = Keys::new(None);
    assert_eq!(keys.feed(Bytes::from_static(b"~.\r~.")), [send(b"~.\r~.")]);
    assert_eq!(keys.feed(Bytes::new()), []);
    assert_eq!(keys.end(), None);
}

#[test]
fn another_escape_key_is_shown_in_the_help() {
    let mut keys = Keys::new(Some(b'%'));
    assert_eq!(keys.feed(Bytes::from_static(b"~.\r%.")), [send(b"~.\r"), Event::Leave]);
    assert!(keys.help().contains("%s  show the status"));
}

proptest! {
    #[test]
    fn cuts_change_nothing(typed in proptest::collection::vec(prop_oneof![Just(b'~'), Just(b'\r'), Just(b'.'), Just(b's'), any::<u8>()], 0..60),
                           size in 1usize..10) {
        prop_assert_eq!(run(&typed, size), run(&typed, 1000));
    }

    #[test]
    fn input_without_the_key_is_untouched(typed in proptest::collection::vec(any::<u8>().prop_filter("no key", |b| *b != b'~'), 1..200), size in 1usize..50) {
        prop_assert_eq!(run(&typed, size), vec![Event::Send(Bytes::from(typed))]);
    }
}
