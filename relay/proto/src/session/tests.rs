//! Single rules by example, then random lives of a session: paths break at any moment and nothing is lost or doubled.

use std::collections::VecDeque;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::control::{Exit, Resize};
use crate::limits::{ACK_DELAY_MS, COALESCE, MAX_DATA, MAX_PIECES, WINDOW_RESERVE};

const NOW: Duration = Duration::ZERO;

fn data(bytes: &'static str) -> ToClient {
    ToClient::Data(bytes.into())
}

fn errors(bytes: &'static str) -> ToClient {
    ToClient::DataErr(bytes.into())
}

fn exit() -> ToClient {
    ToClient::Exit(Exit {
        code: Some(0),
        signal: None,
        core_dumped: false,
    })
}

fn resize(cols: u32) -> ToNode {
    ToNode::Resize(Resize {
        cols,
        rows: 1,
        xpixel: 0,
        ypixel: 0,
    })
}

#[test]
fn data_advances_by_its_length_and_every_other_frame_by_one() {
    let mut outbox = Outbox::new(100);
    assert_eq!(outbox.push(data("abc")), Ok(0));
    assert_eq!(outbox.push(errors("de")), Ok(3));
    assert_eq!(outbox.push(ToClient::End), Ok(5));
    assert_eq!(outbox.push(exit()), Ok(6));
    assert_eq!((outbox.head(), outbox.in_flight(), outbox.capacity()), (7, 7, 93));
    let mut inbox = Inbox::new(100);
    let offsets: Vec<_> = outbox
        .replay_from(0)
        .unwrap()
        .into_iter()
        .map(|frame| inbox.on_frame(frame).unwrap().unwrap().offset)
        .collect();
    assert_eq!(offsets, [0, 3, 5, 6]);
    assert!(inbox.has_ended() && inbox.has_exited());
}

#[test]
fn acks_ahead_and_behind_are_errors_and_change_nothing() {
    let mut outbox = Outbox::new(100);
    outbox.push(data("abcdef")).unwrap();
    assert_eq!(outbox.ack(7), Err(SessionError::AckAhead { offset: 7, head: 6 }));
    assert_eq!(outbox.ack(4), Ok(4));
    assert_eq!(outbox.ack(4), Ok(0), "the same again is no harm");
    assert_eq!(outbox.ack(3), Err(SessionError::AckBehind { offset: 3, acked: 4 }));
    assert_eq!(outbox.replay_from(4), Ok(vec![data("ef")]));
    assert_eq!(
        outbox.replay_from(3),
        Err(SessionError::AckBehind { offset: 3, acked: 4 })
    );
    assert_eq!(
        outbox.replay_from(7),
        Err(SessionError::AckAhead { offset: 7, head: 6 })
    );
    assert_eq!(outbox.replay_from(6), Ok(vec![]));
    assert_eq!(outbox.ack(6), Ok(2));
    assert!(outbox.is_drained());
    assert_eq!(
        SessionError::AckAhead { offset: 0, head: 0 }.code(),
        Code::SessionOffset
    );
}

#[test]
fn replay_starts_in_the_middle_of_a_frame() {
    let mut outbox = Outbox::new(100);
    outbox.push(data("abc")).unwrap();
    outbox.push(errors("def")).unwrap();
    outbox.push(ToClient::End).unwrap();
    assert_eq!(
        outbox.replay_from(1),
        Ok(vec![data("bc"), errors("def"), ToClient::End])
    );
    assert_eq!(outbox.resume(4), Ok(vec![errors("ef"), ToClient::End]));
    assert_eq!(outbox.resume(6), Ok(vec![ToClient::End]));
    assert_eq!(outbox.resume(7), Ok(vec![]));
}

#[test]
fn the_window_bounds_data_and_leaves_room_for_signals() {
    let mut outbox = Outbox::new(4);
    outbox.push(ToNode::Data("abcd".into())).unwrap();
    assert!(outbox.is_full());
    assert_eq!(outbox.room(), 0);
    assert_eq!(
        outbox.push(ToNode::Data("e".into())),
        Err(PushError::Full { capacity: 0, units: 1 })
    );
    for count in 0..WINDOW_RESERVE {
        assert_eq!(outbox.push(resize(1)), Ok(4 + count));
    }
    assert_eq!(outbox.push(resize(1)), Err(PushError::Full { capacity: 0, units: 1 }));
    outbox.ack(4 + WINDOW_RESERVE).unwrap();
    assert_eq!(outbox.room(), 4);
    outbox.widen(10);
    outbox.widen(3);
    assert_eq!(outbox.room(), 10, "a window never shrinks");
}

#[test]
fn what_can_not_be_sent_is_refused() {
    let mut outbox = Outbox::new(1 << 20);
    assert_eq!(outbox.push(ToNode::Ack(1)), Err(PushError::NotSequenced(Type::Ack)));
    assert_eq!(
        outbox.push(ToNode::Data(Bytes::new())),
        Err(PushError::NotSequenced(Type::Data))
    );
    let long = Bytes::from(vec![0; MAX_DATA + 1]);
    assert_eq!(outbox.push(ToNode::Data(long)), Err(PushError::TooLong(MAX_DATA + 1)));
    assert_eq!(outbox.room(), MAX_DATA, "one frame at most");
    let mut inbox = Inbox::new(10);
    assert_eq!(
        inbox.on_frame(ToNode::Ping(1)),
        Err(SessionError::NotSequenced(Type::Ping))
    );
}

#[test]
fn b007_end_of_input_is_ordered_and_a_resize_may_still_follow() {
    let mut outbox = Outbox::new(100);
    let mut inbox = Inbox::new(100);
    for frame in [ToNode::Data("abc".into()), ToNode::End, resize(1)] {
        outbox.push(frame.clone()).unwrap();
        assert_eq!(inbox.on_frame(frame.clone()).unwrap().unwrap().frame, frame);
    }
    let refused = PushError::OutOfOrder {
        frame: Type::Data,
        after: Type::End,
    };
    assert_eq!(outbox.push(ToNode::Data("d".into())), Err(refused));
    let error = SessionError::OutOfOrder {
        frame: Type::Data,
        after: Type::End,
    };
    assert_eq!(inbox.on_frame(ToNode::Data("d".into())), Err(error));
    assert_eq!(error.code(), Code::ProtocolOutOfOrder);
    assert!(matches!(
        inbox.on_frame(ToNode::End),
        Err(SessionError::OutOfOrder { .. })
    ));
}

#[test]
fn b009_nothing_comes_behind_an_exit() {
    let mut outbox = Outbox::new(100);
    let mut inbox = Inbox::new(100);
    outbox.push(data("tail")).unwrap();
    outbox.push(exit()).unwrap();
    for frame in outbox.replay_from(0).unwrap() {
        inbox.on_frame(frame).unwrap();
    }
    for frame in [data("x"), errors("x"), ToClient::End, exit()] {
        let name = frame.frame();
        let refused = PushError::OutOfOrder {
            frame: name,
            after: Type::Exit,
        };
        assert_eq!(outbox.push(frame.clone()), Err(refused));
        assert_eq!(
            inbox.on_frame(frame),
            Err(SessionError::OutOfOrder {
                frame: name,
                after: Type::Exit
            })
        );
    }
    assert!(outbox.has_exited() && !outbox.has_ended());
}

#[test]
fn a_sender_that_ignores_the_window_is_caught() {
    let mut inbox = Inbox::new(4);
    inbox.on_frame(ToNode::Data("abc".into())).unwrap();
    let overrun = SessionError::Overrun {
        outstanding: 5,
        window: 4,
    };
    assert_eq!(inbox.on_frame(ToNode::Data("de".into())), Err(overrun));
    assert_eq!(overrun.code(), Code::SessionOverrun);
    inbox.consumed(3, NOW).unwrap();
    inbox.on_frame(ToNode::Data("defg".into())).unwrap();
    inbox.on_frame(resize(1)).unwrap();
}

#[test]
fn consuming_more_than_was_received_is_an_error() {
    let mut inbox = Inbox::new(10);
    inbox.on_frame(data("ab")).unwrap();
    assert_eq!(
        inbox.consumed(3, NOW),
        Err(SessionError::AckAhead { offset: 3, head: 2 })
    );
    assert_eq!(inbox.consumed(2, NOW), Ok(2));
}

#[test]
fn acks_wait_a_little_but_not_when_much_is_consumed() {
    let mut inbox = Inbox::new(100);
    let at = |ms| Duration::from_millis(ms);
    inbox.on_frame(data("0123456789012345678901234567890")).unwrap();
    assert_eq!(inbox.ack_due(at(0)), None, "received is not consumed");
    inbox.consumed(1, at(5)).unwrap();
    inbox.consumed(1, at(7)).unwrap();
    assert_eq!(inbox.ack_due(at(5)), None);
    assert_eq!(inbox.ack_at(), Some(at(5 + ACK_DELAY_MS)));
    assert_eq!(inbox.ack_due(at(5 + ACK_DELAY_MS)), Some(2));
    assert_eq!(
        (inbox.ack_at(), inbox.ack_due(at(1000)), inbox.take_ack()),
        (None, None, None)
    );
    inbox.consumed(25, at(50)).unwrap();
    assert_eq!(inbox.ack_due(at(50)), Some(27), "a quarter of the window");
    inbox.consumed(1, at(51)).unwrap();
    assert_eq!(inbox.take_ack(), Some(28), "goes along with data");
    inbox.consumed(3, at(52)).unwrap();
    inbox.on_frame(exit()).unwrap();
    assert_eq!(inbox.ack_due(at(52)), None);
    inbox.consumed(1, at(52)).unwrap();
    assert_eq!(inbox.ack_due(at(52)), Some(32), "the last one does not wait");
}

#[test]
fn a_new_path_drops_what_was_received_before_and_keeps_what_was_not() {
    let mut inbox = Inbox::new(100);
    inbox.on_frame(data("abcdef")).unwrap();
    inbox.consumed(2, NOW).unwrap();
    assert_eq!(inbox.resume_offset(), 2);
    assert_eq!(inbox.check_sent(5), Err(SessionError::SentBehind { sent: 5, next: 6 }));
    assert_eq!(inbox.check_sent(6), Ok(()));
    assert_eq!(inbox.on_frame(data("cd")), Ok(None), "the second copy");
    assert_eq!(
        inbox.on_frame(data("efgh")),
        Ok(Some(Received {
            offset: 6,
            frame: data("gh")
        })),
        "its new part"
    );
    assert_eq!(inbox.consumed(6, NOW), Ok(8));
}

#[test]
fn small_pieces_share_one_buffer_and_do_not_keep_large_ones_alive() {
    let large = Bytes::from(vec![b'x'; MAX_DATA]);
    let mut outbox = Outbox::new(1 << 20);
    outbox.push(ToNode::Data(large.slice(..1))).unwrap();
    let _ = outbox.push(ToNode::Data(large.slice(1..2)));
    assert!(large.is_unique(), "single keystrokes don't hold a read buffer");
    for _ in 2..10 * COALESCE {
        outbox.push(ToNode::Data(Bytes::from_static(b"k"))).unwrap();
    }
    assert_eq!(outbox.replay_from(0).unwrap().len(), 10);
    let whole = ToNode::Data(large.clone());
    outbox.push(whole).unwrap();
    let Some(ToNode::Data(held)) = outbox.replay_from(0).unwrap().pop() else {
        panic!("the last one")
    };
    assert_eq!(held.as_ptr(), large.as_ptr(), "large pieces are not copied");
}

#[test]
fn stdout_and_stderr_are_never_joined() {
    let mut outbox = Outbox::new(100);
    for frame in [data("a"), errors("b"), data("c"), data("d"), ToClient::End] {
        outbox.push(frame).unwrap();
    }
    assert_eq!(
        outbox.replay_from(0),
        Ok(vec![data("a"), errors("b"), data("cd"), ToClient::End])
    );
}

#[test]
fn many_small_pieces_fill_the_buffer_before_they_cost_much_more_than_their_bytes() {
    let mut outbox = Outbox::new(crate::limits::WINDOW_BULK);
    let mut pieces = 0;
    while !outbox.is_full() {
        outbox
            .push(if pieces % 2 == 0 { data("o") } else { errors("e") })
            .unwrap();
        pieces += 1;
    }
    assert_eq!(pieces, MAX_PIECES);
    assert_eq!(
        (outbox.room(), outbox.push(data("o"))),
        (0, Err(PushError::Full { capacity: 0, units: 1 }))
    );
    outbox.push(ToClient::End).unwrap();
    outbox.push(exit()).unwrap();
    outbox.ack(2).unwrap();
    assert!(outbox.is_full(), "END and EXIT took the two places");
    outbox.ack(3).unwrap();
    assert!(!outbox.is_full());
}

/// One unit of what a person would notice: a byte on a channel, or an event.
type Unit = (Type, u8);

fn units(frame: &ToClient) -> Vec<Unit> {
    match frame.data() {
        Some(data) => data.iter().map(|byte| (frame.frame(), *byte)).collect(),
        None => vec![(frame.frame(), 0)],
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// The sender produces so many bytes on stdout or stderr.
    Produce(usize, bool),
    /// The path delivers so many frames.
    Deliver(usize),
    /// The receiver consumes so many units of what it has.
    Consume(usize),
    /// So much time passes; an acknowledgement that is due is sent.
    Wait(u64),
    /// An acknowledgement goes along with data.
    Piggyback,
    /// So many acknowledgements arrive.
    DeliverAcks(usize),
    /// The path breaks: everything on its way is lost. Both resume over a new one.
    Break,
    /// The path breaks in the middle of a resume: RESUME arrived, RESUMED did not.
    BreakTwice,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (1..300_usize, any::<bool>()).prop_map(|(length, stderr)| Step::Produce(length, stderr)),
        5 => (1..6_usize).prop_map(Step::Deliver),
        5 => (1..400_usize).prop_map(Step::Consume),
        3 => (0..30_u64).prop_map(Step::Wait),
        1 => Just(Step::Piggyback),
        3 => (1..4_usize).prop_map(Step::DeliverAcks),
        2 => Just(Step::Break),
        1 => Just(Step::BreakTwice),
    ];
    proptest::collection::vec(step, 1..120)
}

/// Both ends of one direction and the path between them.
struct World {
    outbox: Outbox<ToClient>,
    inbox: Inbox<ToClient>,
    path: VecDeque<ToClient>,
    acks: VecDeque<u64>,
    received: VecDeque<Unit>,
    produced: Vec<Unit>,
    consumed: Vec<Unit>,
    now: Duration,
    next_byte: u8,
    window: u64,
}

impl World {
    fn new(window: u64) -> Self {
        Self {
            outbox: Outbox::new(window),
            inbox: Inbox::new(window),
            path: VecDeque::new(),
            acks: VecDeque::new(),
            received: VecDeque::new(),
            produced: Vec::new(),
            consumed: Vec::new(),
            now: NOW,
            next_byte: 0,
            window,
        }
    }

    fn send(&mut self, frame: ToClient) {
        let before = self.outbox.head();
        assert_eq!(self.outbox.push(frame.clone()), Ok(before));
        self.produced.extend(units(&frame));
        self.path.push_back(frame);
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Produce(length, stderr) => {
                let length = length.min(self.outbox.room());
                if length > 0 {
                    let bytes: Vec<u8> = (0..length).map(|_| self.byte()).collect();
                    self.send(if stderr {
                        ToClient::DataErr(bytes.into())
                    } else {
                        ToClient::Data(bytes.into())
                    });
                }
            }
            Step::Deliver(count) => (0..count).for_each(|_| self.deliver()),
            Step::Consume(count) => {
                let count = count.min(self.received.len());
                self.consumed.extend(self.received.drain(..count));
                assert_eq!(
                    self.inbox.consumed(count as u64, self.now),
                    Ok(self.consumed.len() as u64)
                );
            }
            Step::Wait(ms) => {
                self.now += Duration::from_millis(ms);
                self.acks.extend(self.inbox.ack_due(self.now));
            }
            Step::Piggyback => self.acks.extend(self.inbox.take_ack()),
            Step::DeliverAcks(count) => {
                for _ in 0..count {
                    if let Some(offset) = self.acks.pop_front() {
                        self.outbox.ack(offset).unwrap();
                    }
                }
            }
            Step::Break => self.resume(),
            Step::BreakTwice => {
                let offset = self.inbox.resume_offset();
                self.outbox.resume(offset).unwrap();
                self.path.clear();
                self.acks.clear();
                self.resume();
            }
        }
        assert!(self.outbox.in_flight() <= self.window + WINDOW_RESERVE);
        let kept: u64 = self
            .outbox
            .replay_from(self.outbox.acked())
            .unwrap()
            .iter()
            .map(Sequenced::units)
            .sum();
        assert_eq!(kept, self.outbox.in_flight(), "what is not acknowledged is kept, once");
        assert!(
            self.outbox.acked() <= self.consumed.len() as u64,
            "acknowledged means consumed"
        );
    }

    fn byte(&mut self) -> u8 {
        self.next_byte = self.next_byte.wrapping_add(1);
        self.next_byte
    }

    fn deliver(&mut self) {
        if let Some(frame) = self.path.pop_front()
            && let Some(new) = self.inbox.on_frame(frame).unwrap()
        {
            assert_eq!(new.offset, (self.consumed.len() + self.received.len()) as u64);
            self.received.extend(units(&new.frame));
        }
    }

    fn resume(&mut self) {
        self.path.clear();
        self.acks.clear();
        let offset = self.inbox.resume_offset();
        self.inbox.check_sent(self.outbox.head()).unwrap();
        self.path.extend(self.outbox.resume(offset).unwrap());
    }

    /// Everything arrives, is consumed and acknowledged.
    fn settle(&mut self) {
        while !self.path.is_empty() || !self.received.is_empty() {
            self.step(&Step::Deliver(1));
            self.step(&Step::Consume(usize::MAX));
        }
        self.step(&Step::Wait(ACK_DELAY_MS));
        self.step(&Step::DeliverAcks(self.acks.len()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn no_byte_is_lost_or_doubled_whenever_paths_break(steps in steps(), window in 1..2000_u64) {
        let mut world = World::new(window);
        for step in &steps {
            world.step(step);
            prop_assert!(world.produced.starts_with(&world.consumed), "in order, nothing lost, nothing doubled");
        }
        world.send(ToClient::End);
        world.send(exit());
        world.step(&Step::Break);
        world.settle();
        prop_assert_eq!(&world.consumed, &world.produced);
        prop_assert!(world.outbox.is_drained(), "the exit is acknowledged");
        prop_assert!(world.inbox.has_exited());
    }

    #[test]
    fn any_numbers_from_a_peer_are_answered_by_an_error_or_keep_the_rules(
        pushes in proptest::collection::vec(1..50_usize, 0..20),
        acks in proptest::collection::vec(0..1200_u64, 0..20),
    ) {
        let mut outbox = Outbox::new(1000);
        for length in pushes {
            let _ = outbox.push(ToNode::Data(Bytes::from(vec![0; length])));
        }
        for offset in acks {
            let (acked, head) = (outbox.acked(), outbox.head());
            match outbox.ack(offset) {
                Ok(freed) => {
                    prop_assert!(acked <= offset && offset <= head);
                    prop_assert_eq!(freed, offset - acked);
                }
                Err(SessionError::AckAhead { .. }) => prop_assert!(offset > head),
                Err(SessionError::AckBehind { .. }) => prop_assert!(offset < acked),
                Err(other) => prop_assert!(false, "{}", other),
            }
        }
    }
}
