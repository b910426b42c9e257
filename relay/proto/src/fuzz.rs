//! Fuzz bodies: each takes any bytes and must neither panic nor accept what it would not write itself.
//!
//! Ordinary tests run them over the corpora in `relay/proto/corpus/`; fuzz targets call the same functions.

use bytes::{Bytes, BytesMut};

use crate::code::Refusal;
use crate::frame::Direction;
use crate::message::{
    Frames, FromAgent, FromHolder, FromWarm, Message, Opening, ToAgent, ToClient, ToHolder, ToNode, ToWarm,
};
use crate::session::{Inbox, Outbox, Sequenced};
use crate::varint;

/// Varints: what decodes encodes to the same bytes.
pub fn number(bytes: &[u8]) {
    if let Ok(Some((value, used))) = varint::get(bytes) {
        let mut out = BytesMut::new();
        varint::put(&mut out, value);
        assert_eq!(Some(out.as_ref()), bytes.get(..used), "one encoding for each value");
    }
}

/// A byte stream of every direction, in one piece and byte by byte: the same messages, the same end.
pub fn streams(bytes: &[u8]) {
    stream::<Opening>(bytes);
    stream::<FromAgent>(bytes);
    stream::<ToAgent>(bytes);
    stream::<ToNode>(bytes);
    stream::<ToClient>(bytes);
    stream::<ToHolder>(bytes);
    stream::<FromHolder>(bytes);
    stream::<ToWarm>(bytes);
    stream::<FromWarm>(bytes);
}

/// A byte stream of one direction.
pub fn stream<T: Message + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    let (whole, end) = read::<T>(bytes, bytes.len().max(1));
    let (pieces, piece_end) = read::<T>(bytes, 1);
    assert_eq!(whole, pieces, "the cut of the stream makes no difference");
    assert_eq!(end, piece_end, "the cut of the stream makes no difference");
    let mut out = BytesMut::new();
    whole.iter().for_each(|message| message.encode(&mut out));
    let (again, _) = read::<T>(&out, out.len().max(1));
    assert_eq!(whole, again, "what was decoded can be encoded");
}

/// The payload of each frame in every direction.
pub fn payloads(bytes: &[u8]) {
    for direction in Direction::ALL {
        payload(direction, bytes);
    }
}

/// The payload of each frame in a direction: decoding alone.
pub fn payload(direction: Direction, bytes: &[u8]) {
    let payload = Bytes::copy_from_slice(bytes);
    for &frame in crate::Type::ALL.iter().filter(|frame| frame.travels(direction)) {
        let payload = payload.clone();
        match direction {
            Direction::Opening => {
                let _ = Opening::decode(frame, payload);
            }
            Direction::FromAgent => {
                let _ = FromAgent::decode(frame, payload);
            }
            Direction::ToAgent => {
                let _ = ToAgent::decode(frame, payload);
            }
            Direction::ToNode => {
                let _ = ToNode::decode(frame, payload);
            }
            Direction::ToClient => {
                let _ = ToClient::decode(frame, payload);
            }
            Direction::ToHolder => {
                let _ = ToHolder::decode(frame, payload);
            }
            Direction::FromHolder => {
                let _ = FromHolder::decode(frame, payload);
            }
            Direction::ToWarm => {
                let _ = ToWarm::decode(frame, payload);
            }
            Direction::FromWarm => {
                let _ = FromWarm::decode(frame, payload);
            }
        }
    }
}

/// An agent's control stream, cut anywhere: the same registration, and behind it the same messages.
pub fn registration(bytes: &[u8]) {
    assert_eq!(
        registered(bytes, bytes.len().max(1)),
        registered(bytes, 1),
        "the cut of the stream makes no difference"
    );
}

/// The number by which a stream or a connection is refused. What is told by it is told again the same way.
pub fn refusal(bytes: &[u8]) {
    let Some((number, _)) = bytes.split_first_chunk() else {
        return;
    };
    let refusal = Refusal::from_wire(u64::from_be_bytes(*number));
    assert!(refusal.to_wire() < 1 << 62, "QUIC can carry it");
    assert_eq!(Refusal::from_wire(refusal.to_wire()), refusal);
    assert!(!refusal.to_string().contains(|c: char| c.is_control()));
}

/// A session's two halves under frames and numbers of a peer that follows no rule: errors, never a panic or a bound broken.
pub fn session(bytes: &[u8]) {
    const WINDOW: u64 = 4096;
    let mut inbox: Inbox<ToNode> = Inbox::new(WINDOW);
    let mut outbox: Outbox<ToNode> = Outbox::new(WINDOW);
    let mut frames: Frames<ToNode> = Frames::new();
    frames.push(bytes);
    while let Ok(Some(message)) = frames.next() {
        match message {
            ToNode::Ack(offset) => {
                let _ = outbox.ack(offset);
            }
            ToNode::Ping(offset) => {
                let _ = outbox.replay_from(offset);
            }
            ToNode::Pong(units) => {
                let _ = inbox.consumed(units, std::time::Duration::ZERO);
            }
            ToNode::Resume(resume) => {
                inbox.resume_offset();
                let _ = inbox.check_sent(resume.sent);
                let _ = outbox.resume(resume.consumed);
            }
            other => {
                let _ = outbox.push(other.clone());
                let _ = inbox.on_frame(other);
            }
        }
        assert!(
            outbox.in_flight() <= WINDOW + crate::limits::WINDOW_RESERVE,
            "the outbox keeps its bound"
        );
        let held: u64 = outbox
            .replay_from(outbox.acked())
            .unwrap_or_default()
            .iter()
            .map(Sequenced::units)
            .sum();
        assert_eq!(held, outbox.in_flight(), "everything unacknowledged is held, once");
    }
}

type Registered = (Option<Opening>, Vec<FromAgent>, Result<(), crate::ProtocolError>);

fn registered(bytes: &[u8], piece: usize) -> Registered {
    let mut opening = Frames::<Opening>::new();
    let mut chunks = bytes.chunks(piece);
    let first = loop {
        match opening.next() {
            Ok(Some(first)) => break first,
            Ok(None) => match chunks.next() {
                Some(chunk) => opening.push(chunk),
                None => return (None, Vec::new(), opening.finish()),
            },
            Err(error) => return (None, Vec::new(), Err(error)),
        }
    };
    let mut frames: Frames<FromAgent> = opening.switch();
    let mut messages = Vec::new();
    loop {
        match frames.next() {
            Ok(Some(message)) => messages.push(message),
            Ok(None) => match chunks.next() {
                Some(chunk) => frames.push(chunk),
                None => return (Some(first), messages, frames.finish()),
            },
            Err(error) => return (Some(first), messages, Err(error)),
        }
    }
}

fn read<T: Message>(bytes: &[u8], piece: usize) -> (Vec<T>, Result<(), crate::ProtocolError>) {
    let mut frames = Frames::<T>::new();
    let mut messages = Vec::new();
    for chunk in bytes.chunks(piece) {
        frames.push(chunk);
        loop {
            match frames.next() {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(error) => return (messages, Err(error)),
            }
        }
    }
    let end = frames.finish();
    (messages, end)
}
