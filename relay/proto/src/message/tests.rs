//! Every direction: round trip, mutated and random bytes, wrong direction, trailing bytes, and the corpora.

use proptest::prelude::*;

use super::*;
use crate::{fuzz, limits, strategies};

fn wire<T: Message>(message: &T) -> BytesMut {
    let mut out = BytesMut::new();
    message.encode(&mut out);
    out
}

fn one<T: Message>(bytes: &[u8]) -> Result<Option<T>, ProtocolError> {
    let mut frames = Frames::<T>::new();
    frames.push(bytes);
    frames.next()
}

/// Golden bytes of the frames that are no protobuf; those of control messages are in `control::tests`.
#[test]
fn golden_bytes() {
    let to_node: &[(ToNode, &[u8])] = &[
        (ToNode::Data("ls\n".into()), b"\x20\x03ls\n"),
        (ToNode::End, b"\x22\x00"),
        (ToNode::Ack(300), b"\x30\x02\x41\x2c"),
        (ToNode::Ping(0), b"\x31\x01\x00"),
        (ToNode::Pong(varint::MAX), b"\x32\x08\xff\xff\xff\xff\xff\xff\xff\xff"),
        (ToNode::Signal(Signal { signal: 2 }), b"\x24\x02\x08\x02"),
    ];
    for (message, bytes) in to_node {
        assert_eq!(wire(message).as_ref(), *bytes);
        assert_eq!(one::<ToNode>(bytes).as_ref(), Ok(&Some(message.clone())));
        assert_eq!(message.frame().number(), u64::from(bytes[0]));
    }
    let to_client: &[(ToClient, &[u8])] = &[
        (ToClient::Data("out".into()), b"\x20\x03out"),
        (ToClient::DataErr("err".into()), b"\x21\x03err"),
        (ToClient::End, b"\x22\x00"),
        (
            ToClient::Exit(Exit {
                code: Some(3),
                signal: None,
                core_dumped: false,
            }),
            b"\x25\x02\x08\x03",
        ),
    ];
    for (message, bytes) in to_client {
        assert_eq!(wire(message).as_ref(), *bytes);
        assert_eq!(one::<ToClient>(bytes).as_ref(), Ok(&Some(message.clone())));
    }
    let started = FromHolder::Started(Started { pid: 1 });
    assert_eq!(
        wire(&started).as_ref(),
        b"\x40\x41\x02\x08\x01",
        "numbers from 0x40 on take two bytes"
    );
    assert_eq!(one::<FromHolder>(b"\x40\x41\x02\x08\x01"), Ok(Some(started)));
}

fn check_directions<T: Message>(to_frame: impl Fn(&T) -> Type) {
    for frame in Type::ALL.iter().copied() {
        let decoded = T::decode(frame, Bytes::from_static(b"\x08\x01"));
        if frame.travels(T::DIRECTION) {
            assert_ne!(
                decoded.as_ref().err(),
                Some(&ProtocolError::WrongDirection(frame)),
                "{frame}"
            );
            assert!(decoded.is_err() || decoded.is_ok_and(|message| to_frame(&message) == frame));
        } else {
            assert_eq!(decoded.err(), Some(ProtocolError::WrongDirection(frame)), "{frame}");
        }
    }
}

#[test]
fn the_enums_hold_exactly_what_the_table_lets_travel() {
    check_directions(Opening::frame);
    check_directions(FromAgent::frame);
    check_directions(ToAgent::frame);
    check_directions(ToNode::frame);
    check_directions(ToClient::frame);
    check_directions(ToHolder::frame);
    check_directions(FromHolder::frame);
    check_directions(ToWarm::frame);
    check_directions(FromWarm::frame);
}

#[test]
fn trailing_bytes_are_an_error() {
    assert_eq!(one::<ToNode>(b"\x22\x00").unwrap(), Some(ToNode::End));
    assert_eq!(
        ToNode::decode(Type::End, "x".into()),
        Err(ProtocolError::Trailing {
            frame: Type::End,
            extra: 1
        })
    );
    assert_eq!(
        one::<ToNode>(b"\x30\x03\x05\x00\x00"),
        Err(ProtocolError::Trailing {
            frame: Type::Ack,
            extra: 2
        })
    );
    assert!(matches!(
        one::<ToNode>(b"\x24\x03\x08\x02\x00"),
        Err(ProtocolError::Malformed { .. })
    ));
    assert!(
        matches!(one::<ToNode>(b"\x31\x01\x40"), Err(ProtocolError::Malformed { .. })),
        "a cut number"
    );
    assert_eq!(one::<ToNode>(b"\x31\x02\x40\x01"), Err(ProtocolError::NotShortest));
    assert!(
        matches!(one::<ToNode>(b"\x30\x00"), Err(ProtocolError::Malformed { .. })),
        "an ACK of nothing"
    );
}

#[test]
fn data_of_no_bytes_is_refused() {
    assert!(matches!(
        one::<ToNode>(b"\x20\x00"),
        Err(ProtocolError::Malformed { frame: Type::Data, .. })
    ));
    assert!(matches!(
        one::<ToClient>(b"\x21\x00"),
        Err(ProtocolError::Malformed {
            frame: Type::DataErr,
            ..
        })
    ));
}

#[test]
fn the_bound_holds_without_a_decoder_too() {
    let long = Bytes::from(vec![0; limits::MAX_DATA + 1]);
    assert!(matches!(
        ToNode::decode(Type::Data, long),
        Err(ProtocolError::TooLarge { .. })
    ));
}

#[test]
fn a_payload_error_stays() {
    let mut frames = Frames::<ToNode>::new();
    frames.push(b"\x20\x00\x20\x01a");
    let error = frames.next().unwrap_err();
    assert_eq!(frames.next(), Err(error));
    assert_eq!(frames.finish(), Err(error));
}

#[test]
fn data_leaves_and_arrives_without_a_copy() {
    let payload = Bytes::from_static(b"payload");
    let mut head = BytesMut::new();
    let body = ToClient::Data(payload.clone()).split(&mut head).unwrap();
    assert_eq!(head.as_ref(), b"\x20\x07");
    assert_eq!(body.as_ptr(), payload.as_ptr());
    assert_eq!(
        FromHolder::Session(ToClient::DataErr(payload.clone())).split(&mut head),
        Some(payload)
    );
    assert_eq!(ToNode::End.split(&mut head), None);
}

#[test]
fn a_control_stream_goes_on_behind_its_first_frame() {
    let register = Opening::Register(Register::new(crate::InstanceId::new([7; 16]), "0.1"));
    let mut bytes = wire(&register);
    FromAgent::Pong(9).encode(&mut bytes);
    let mut frames = Frames::<Opening>::new();
    frames.push(&bytes);
    assert_eq!(frames.next(), Ok(Some(register)));
    let mut frames = frames.switch::<FromAgent>();
    assert_eq!(frames.next(), Ok(Some(FromAgent::Pong(9))));
    assert_eq!(frames.finish(), Ok(()));
}

#[test]
fn holders_get_sequenced_frames_only() {
    let open = wire(&ToNode::Closed(Closed {
        code: 717,
        seen: String::new(),
    }));
    assert_eq!(one::<ToHolder>(&open), Err(ProtocolError::WrongDirection(Type::Closed)));
    assert_eq!(
        one::<ToHolder>(b"\x20\x01a"),
        Ok(Some(ToHolder::Session(ToNode::Data("a".into()))))
    );
}

macro_rules! codec_properties {
    ($name:ident, $type:ty, $strategy:expr) => {
        mod $name {
            use super::*;

            proptest! {
                #[test]
                fn round_trip(message in $strategy) {
                    let bytes = wire(&message);
                    prop_assert_eq!(one::<$type>(&bytes), Ok(Some(message.clone())));
                    for cut in 0..bytes.len() {
                        prop_assert_eq!(one::<$type>(&bytes[..cut]), Ok(None), "cut at {}", cut);
                    }
                    fuzz::stream::<$type>(&bytes);
                }

                #[test]
                fn mutated_input_never_panics(
                    message in $strategy,
                    changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
                    cut in any::<prop::sample::Index>(),
                    from in any::<bool>(),
                ) {
                    let mut bytes = wire(&message).to_vec();
                    for (position, value) in changes {
                        let position = position.index(bytes.len());
                        bytes[position] = value;
                    }
                    if from {
                        bytes.truncate(cut.index(bytes.len()));
                    }
                    fuzz::streams(&bytes);
                    fuzz::session(&bytes);
                    fuzz::payload(<$type>::DIRECTION, bytes.get(2..).unwrap_or_default());
                }

                #[test]
                fn a_wrong_length_is_an_error_or_waits(message in $strategy, claim in 0..=varint::MAX) {
                    let bytes = wire(&message);
                    let (number, used) = varint::get(&bytes).unwrap().unwrap();
                    let (length, more) = varint::get(&bytes[used..]).unwrap().unwrap();
                    prop_assume!(claim > length);
                    let mut lie = BytesMut::new();
                    varint::put(&mut lie, number);
                    varint::put(&mut lie, claim);
                    lie.extend_from_slice(&bytes[used + more..]);
                    match one::<$type>(&lie) {
                        Ok(None) => prop_assert!(claim <= message.frame().max_len() as u64),
                        Err(ProtocolError::TooLarge { length, .. }) => prop_assert_eq!(length, claim),
                        other => prop_assert!(false, "{:?}", other),
                    }
                }
            }
        }
    };
}

codec_properties!(opening, Opening, strategies::opening());
codec_properties!(from_agent, FromAgent, strategies::from_agent());
codec_properties!(to_agent, ToAgent, strategies::to_agent());
codec_properties!(to_node, ToNode, strategies::to_node());
codec_properties!(to_client, ToClient, strategies::to_client());
codec_properties!(to_holder, ToHolder, strategies::to_holder());
codec_properties!(from_holder, FromHolder, strategies::from_holder());
codec_properties!(to_warm, ToWarm, strategies::to_warm());
codec_properties!(from_warm, FromWarm, strategies::from_warm());

proptest! {
    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        fuzz::streams(&bytes);
        fuzz::session(&bytes);
    }

    #[test]
    fn any_payload(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        fuzz::payloads(&bytes);
    }
}
