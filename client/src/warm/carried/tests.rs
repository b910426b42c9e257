//! The client's end against a socket whose other end follows a script.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use noderelay_proto::code::{Class, Code, Origin};
use noderelay_proto::control::Broken;
use noderelay_proto::{Frames, FromWarm, ToWarm};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::Carried;
use crate::faults;

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), what)
        .await
        .expect("hangs")
}

fn pair() -> (Carried, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (Carried::new(ours, Frames::new()), theirs)
}

async fn say(socket: &mut UnixStream, messages: &[FromWarm]) {
    let mut bytes = BytesMut::new();
    messages.iter().for_each(|message| message.encode(&mut bytes));
    socket.write_all(&bytes).await.unwrap();
}

fn carry(bytes: &'static [u8]) -> FromWarm {
    FromWarm::Carry(Bytes::from_static(bytes))
}

fn broken(code: Code, writing: bool, by_node: bool) -> FromWarm {
    FromWarm::Broken(Broken {
        code: code.number(),
        seen: "as it was".into(),
        writing,
        by_node,
    })
}

#[tokio::test]
async fn bytes_arrive_in_order_and_end_where_the_other_side_says() {
    let (mut carried, mut socket) = pair();
    say(&mut socket, &[carry(b"one "), carry(b"two"), FromWarm::CarryEnd]).await;
    let mut all = String::new();
    soon(carried.read_to_string(&mut all)).await.unwrap();
    assert_eq!(all, "one two");
    // Reading has ended, writing has not.
    soon(carried.write_all(b"more")).await.unwrap();
}

#[tokio::test]
async fn what_is_written_leaves_in_frames_and_a_shutdown_is_said() {
    let (mut carried, mut socket) = pair();
    let bytes = vec![7; 200_000];
    let (wrote, read) = soon(async {
        tokio::join!(
            async {
                carried.write_all(&bytes).await?;
                carried.shutdown().await
            },
            async {
                let (mut frames, mut all) = (Frames::<ToWarm>::new(), Vec::new());
                loop {
                    match frames.next().unwrap() {
                        Some(ToWarm::Carry(bytes)) => all.extend_from_slice(&bytes),
                        Some(ToWarm::CarryEnd) => return all,
                        Some(other) => panic!("{other:?}"),
                        None => assert!(socket.read_buf(frames.buffer()).await.unwrap() > 0),
                    }
                }
            }
        )
    })
    .await;
    wrote.unwrap();
    assert!(read == bytes);
}

#[tokio::test]
async fn a_break_reads_as_it_would_on_the_stream_itself() {
    for (code, by_node, class, origin) in [
        (Code::RelayBusy, false, Class::Refused, Origin::Relay),
        (Code::TransportTimeout, false, Class::Transport, Origin::Client),
        (Code::IdentityExpired, true, Class::Final, Origin::Agent),
        // Whatever a carrier says of a node is not the node's word.
        (Code::IdentityExpired, false, Class::Refused, Origin::Client),
    ] {
        let (mut carried, mut socket) = pair();
        say(&mut socket, &[carry(b"last"), broken(code, false, by_node)]).await;
        let mut read = [0; 4];
        soon(carried.read_exact(&mut read)).await.unwrap();
        let error = soon(carried.read(&mut read)).await.unwrap_err();
        let fault = faults::of_stream(&error);
        assert_eq!(
            (fault.code, fault.class, fault.origin),
            (code, class, origin),
            "{fault}"
        );
        assert_eq!(fault.seen, "as it was");
        let error = soon(carried.write_all(b"x")).await.unwrap_err();
        assert_eq!(faults::of_stream(&error).code, code);
    }
}

#[tokio::test]
async fn what_can_not_be_written_can_still_be_read() {
    let (mut carried, mut socket) = pair();
    say(
        &mut socket,
        &[
            broken(Code::RelayNextHop, true, false),
            carry(b"last words"),
            FromWarm::CarryEnd,
        ],
    )
    .await;
    let mut all = String::new();
    soon(carried.read_to_string(&mut all)).await.unwrap();
    assert_eq!(all, "last words");
    let error = soon(carried.write_all(b"x")).await.unwrap_err();
    assert_eq!(faults::of_stream(&error).code, Code::RelayNextHop);
}

#[tokio::test]
async fn an_end_without_a_word_is_the_end_of_the_warm_process() {
    for garbage in [&b""[..], b"\xff\xff", b"\x40\x53\x7f"] {
        let (mut carried, mut socket) = pair();
        socket.write_all(garbage).await.unwrap();
        drop(socket);
        let error = soon(carried.read(&mut [0; 1])).await.unwrap_err();
        let fault = faults::of_stream(&error);
        assert_eq!(fault.code, Code::TransportLost, "{fault}");
        assert!(fault.seen.contains("warm process"), "{fault}");
        assert!(fault.is_transport());
        soon(carried.write_all(&[0; 100_000])).await.unwrap_err();
    }
}
