//! The table, and the decoder on good, cut, oversized, unknown and misdirected frames.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::limits;

fn decoder(direction: Direction, bytes: &[u8]) -> Decoder {
    let mut decoder = Decoder::new(direction);
    decoder.push(bytes);
    decoder
}

fn header(number: u64, length: u64) -> Vec<u8> {
    let mut out = BytesMut::new();
    varint::put(&mut out, number);
    varint::put(&mut out, length);
    out.to_vec()
}

#[test]
fn numbers_and_names_are_unique_and_lead_back() {
    let mut numbers = BTreeSet::new();
    let mut names = BTreeSet::new();
    for frame in Type::ALL.iter().copied() {
        assert!(numbers.insert(frame.number()));
        assert!(names.insert(frame.name()));
        assert_eq!(Type::from_number(frame.number()), Some(frame));
        assert!(!frame.directions().is_empty(), "{frame} travels nowhere");
        assert!(frame.max_len() <= limits::MAX_START);
        let longest = header(frame.number(), frame.max_len() as u64);
        assert!(longest.len() <= MAX_HEADER, "{frame}");
    }
}

#[test]
fn the_sequenced_frames_are_these() {
    let sequenced: Vec<_> = Type::ALL
        .iter()
        .filter(|frame| frame.sequenced())
        .map(|frame| frame.name())
        .collect();
    assert_eq!(sequenced, ["DATA", "DATA_ERR", "END", "RESIZE", "SIGNAL", "EXIT"]);
}

#[test]
fn golden_bytes() {
    let mut decoder = decoder(Direction::ToNode, b"\x20\x03abc\x22\x00\x30\x02\x40\x40");
    assert_eq!(decoder.next_frame(), Ok(Some((Type::Data, Bytes::from_static(b"abc")))));
    assert_eq!(decoder.next_frame(), Ok(Some((Type::End, Bytes::new()))));
    assert_eq!(
        decoder.next_frame(),
        Ok(Some((Type::Ack, Bytes::from_static(b"\x40\x40"))))
    );
    assert_eq!(decoder.next_frame(), Ok(None));
    assert_eq!(decoder.finish(), Ok(()));
}

#[test]
fn a_claimed_length_above_the_bound_is_refused_before_anything_is_allocated() {
    for direction in Direction::ALL {
        for frame in Type::ALL.iter().copied().filter(|frame| frame.travels(direction)) {
            for length in [frame.max_len() as u64 + 1, 1 << 30, varint::MAX] {
                let mut decoder = decoder(direction, &header(frame.number(), length));
                let limit = frame.max_len();
                assert_eq!(
                    decoder.next_frame(),
                    Err(ProtocolError::TooLarge { frame, length, limit })
                );
                assert!(
                    decoder.buffer().capacity() < 64,
                    "{} kept for {frame}",
                    decoder.buffer().capacity()
                );
            }
        }
    }
}

#[test]
fn the_largest_allowed_length_is_taken() {
    let mut bytes = header(Type::Data.number(), limits::MAX_DATA as u64);
    bytes.resize(bytes.len() + limits::MAX_DATA, 7);
    let (frame, payload) = decoder(Direction::ToNode, &bytes).next_frame().unwrap().unwrap();
    assert_eq!((frame, payload.len()), (Type::Data, limits::MAX_DATA));
}

#[test]
fn an_unknown_frame_is_refused_at_its_number() {
    for number in [0, 0x05, 0x19, 0x26, 0x33, 0x47, 0x56, 0x1000, varint::MAX] {
        let bytes = &header(number, 0);
        let only_the_number = &bytes[..bytes.len() - 1];
        assert_eq!(
            decoder(Direction::ToNode, only_the_number).next_frame(),
            Err(ProtocolError::UnknownFrame(number)),
            "nobody waits for its length"
        );
    }
}

#[test]
fn a_frame_in_the_wrong_direction_is_refused_at_its_number() {
    for direction in Direction::ALL {
        for frame in Type::ALL.iter().copied().filter(|frame| !frame.travels(direction)) {
            let bytes = header(frame.number(), 0);
            let mut decoder = decoder(direction, &bytes[..bytes.len() - 1]);
            assert_eq!(decoder.next_frame(), Err(ProtocolError::WrongDirection(frame)));
        }
    }
}

#[test]
fn numbers_and_lengths_in_longer_forms_are_refused() {
    for bytes in [&b"\x40\x20\x01a"[..], b"\x20\x40\x01a", b"\x20\x80\x00\x00\x01a"] {
        assert_eq!(
            decoder(Direction::ToNode, bytes).next_frame(),
            Err(ProtocolError::NotShortest)
        );
    }
}

#[test]
fn a_stream_that_ends_inside_a_frame_is_an_error_at_every_cut() {
    let whole = b"\x20\x05abcde";
    for cut in 1..whole.len() {
        let mut decoder = decoder(Direction::ToNode, &whole[..cut]);
        assert_eq!(decoder.next_frame(), Ok(None));
        let missing = if cut == 1 { 1 } else { (whole.len() - cut) as u64 };
        assert_eq!(decoder.finish(), Err(ProtocolError::Truncated { missing }));
    }
}

#[test]
fn after_an_error_the_decoder_stays_with_it_and_holds_nothing() {
    let mut decoder = decoder(Direction::ToNode, b"\x01\x00\x20\x01a");
    let error = ProtocolError::WrongDirection(Type::Route);
    assert_eq!(decoder.next_frame(), Err(error));
    decoder.push(b"\x20\x01a");
    assert_eq!(decoder.next_frame(), Err(error));
    assert_eq!(decoder.finish(), Err(error));
}

#[test]
fn a_caller_that_reads_on_after_an_error_does_not_grow_the_buffer() {
    let mut decoder = decoder(Direction::ToNode, b"\x01\x00");
    let error = decoder.next_frame().unwrap_err();
    let read = [0x20; 4096];
    for _ in 0..1000 {
        decoder.push(&read);
        assert_eq!(decoder.next_frame(), Err(error));
        assert!(decoder.buffer().is_empty());
    }
    let kept = decoder.buffer().capacity();
    assert!(kept <= 4 * read.len(), "{kept} bytes kept");
    assert!(decoder.into_rest().is_empty());
}

#[test]
fn payloads_are_slices_of_the_receive_buffer() {
    let mut decoder = Decoder::new(Direction::ToClient);
    decoder.buffer().extend_from_slice(b"\x20\x04abcd\x21\x02ef");
    let start = decoder.buffer().as_ptr() as usize;
    let (_, first) = decoder.next_frame().unwrap().unwrap();
    let (_, second) = decoder.next_frame().unwrap().unwrap();
    assert_eq!(first.as_ptr() as usize, start + 2, "not copied");
    assert_eq!(second.as_ptr() as usize, start + 8, "not copied");
}

#[test]
fn what_follows_a_route_header_is_left_untouched() {
    let mut decoder = decoder(Direction::Opening, b"\x01\x02\x08\x01\x16\x03\x01not a frame at all");
    assert!(matches!(decoder.next_frame(), Ok(Some((Type::Route, _)))));
    assert_eq!(decoder.into_rest().as_ref(), b"\x16\x03\x01not a frame at all");
}

proptest! {
    #[test]
    fn frames_come_out_as_they_went_in_however_they_are_cut(
        payloads in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 1..20),
        piece in 1..100_usize,
    ) {
        let mut wire = BytesMut::new();
        for payload in &payloads {
            put_header(&mut wire, Type::Data, payload.len());
            wire.extend_from_slice(payload);
        }
        let mut decoder = Decoder::new(Direction::ToNode);
        let mut seen = Vec::new();
        for chunk in wire.chunks(piece) {
            decoder.push(chunk);
            while let Some((frame, payload)) = decoder.next_frame().unwrap() {
                prop_assert_eq!(frame, Type::Data);
                seen.push(payload.to_vec());
            }
        }
        prop_assert_eq!(decoder.finish(), Ok(()));
        prop_assert_eq!(seen, payloads);
    }
}
