//! Input reaches the command in order, its end once, and an interrupt key passes what nobody reads.

use super::*;

/// Takes `room` bytes, then blocks.
#[derive(Default)]
struct Fake {
    seen: Vec<u8>,
    room: usize,
    terminal: bool,
    broken: bool,
    closed: bool,
    forgot: bool,
}

impl Sink for Fake {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.broken {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if self.room == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let taken = bytes.len().min(self.room);
        self.room -= taken;
        self.seen.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn end(&mut self, mid_line: bool) -> Option<Bytes> {
        self.closed = !self.terminal;
        self.terminal
            .then(|| Bytes::from_static(if mid_line { b"\x04\x04" } else { b"\x04" }))
    }

    fn interrupt_key(&self) -> Option<u8> {
        self.terminal.then_some(3)
    }

    fn forget(&mut self) {
        self.forgot = true;
        self.room = 100;
    }
}

fn input(parts: &[&'static [u8]]) -> Input {
    let mut input = Input::default();
    parts.iter().for_each(|part| input.data(Bytes::from_static(part)));
    input
}

#[test]
fn what_is_written_is_consumed_and_the_rest_waits() {
    let mut input = input(&[b"abc", b"def"]);
    input.done();
    let mut sink = Fake {
        room: 4,
        ..Fake::default()
    };
    assert_eq!(input.write(&mut sink), 4);
    assert_eq!(input.write(&mut sink), 0);
    assert!(input.is_waiting());
    sink.room = 100;
    assert_eq!(input.write(&mut sink), 3);
    assert_eq!(sink.seen, b"abcdef");
    assert!(!input.is_waiting());
}

#[test]
fn b007_the_end_closes_a_pipe_once_everything_is_written() {
    let mut input = input(&[b"abc"]);
    input.end();
    let mut sink = Fake {
        room: 2,
        ..Fake::default()
    };
    assert_eq!(input.write(&mut sink), 2);
    assert!(!sink.closed);
    sink.room = 9;
    assert_eq!(input.write(&mut sink), 2);
    assert!(sink.closed);
    input.data(Bytes::from_static(b"late"));
    assert_eq!((input.write(&mut sink), sink.seen.as_slice()), (4, b"abc".as_slice()));
}

#[test]
fn b007_the_end_is_a_key_on_a_terminal_twice_within_a_line() {
    for (typed, seen) in [
        (b"ab\n".as_slice(), b"ab\n\x04".as_slice()),
        (b"ab", b"ab\x04\x04"),
        (b"", b"\x04"),
    ] {
        let mut input = Input::default();
        input.data(Bytes::from_static(typed));
        input.end();
        let mut sink = Fake {
            room: typed.len() + 1,
            terminal: true,
            ..Fake::default()
        };
        let first = input.write(&mut sink);
        sink.room = 9;
        assert_eq!(first + input.write(&mut sink), typed.len() as u64 + 1);
        assert_eq!(sink.seen, seen);
    }
}

#[test]
fn input_that_nobody_reads_is_taken() {
    let mut input = input(&[b"abc", b"def"]);
    input.end();
    let mut sink = Fake {
        broken: true,
        ..Fake::default()
    };
    assert_eq!(input.write(&mut sink), 7);
    assert!(!input.is_waiting());
}

#[test]
fn an_interrupt_key_is_not_held_up_by_a_paste() {
    let mut sink = Fake {
        terminal: true,
        ..Fake::default()
    };
    let mut paste = input(&[b"paste", b"more\x03x\x03after", b"last"]);
    // "paste" and "more.x." are dropped (and count), then the last key and all behind it is written.
    assert_eq!(paste.write(&mut sink), 5 + 6 + 10);
    assert!(sink.forgot);
    assert_eq!(sink.seen, b"\x03afterlast");

    // A program that takes keys as they are (no such key) is left alone, and so is a pipe.
    let mut sink = Fake::default();
    let mut paste = input(&[b"paste\x03"]);
    assert_eq!(paste.write(&mut sink), 0);
    assert!(!sink.forgot && paste.is_waiting());
}
