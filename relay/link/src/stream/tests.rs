//! Ends of streams are told apart, and the header travels with what follows.

use bytes::BytesMut;
use noderelay_proto::control::{self, Purpose, RouteHeader};
use noderelay_proto::frame::{Decoder, Direction};
use noderelay_proto::version::Version;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

fn code_of(error: &io::Error) -> Option<Code> {
    peer_refusal(error).map(|refusal| refusal.code)
}
use crate::link::Link;
use crate::testing::*;

struct Ends {
    _relay: quinn::Endpoint,
    link: Link,
    connection: quinn::Connection,
    client: Stream,
    server: Stream,
}

fn header() -> RouteHeader {
    RouteHeader::new(Version::V1, "east", "n1", Purpose::Session)
}

/// A stream with its header read off.
async fn ends() -> Ends {
    let fleet = Fleet::new();
    let (relay, address) = fleet.relay("relay/r1");
    let (dialer, addresses) = (fleet.dialer(), [address.to_string()]);
    let (link, connection) = tokio::join!(soon(dialer.dial(&addresses, RELAY)), next(&relay));
    let link = link.unwrap();
    let client = soon(link.open(&header())).await.unwrap();
    let (send, recv) = soon(connection.accept_bi()).await.unwrap();
    let mut server = Stream::new(send, recv);
    let mut expected = BytesMut::new();
    control::encode(&header(), &mut expected);
    let mut seen = vec![0; expected.len()];
    soon(server.read_exact(&mut seen)).await.unwrap();
    assert_eq!(seen, expected);
    Ends {
        _relay: relay,
        link,
        connection,
        client,
        server,
    }
}

#[tokio::test]
async fn bytes_flow_both_ways_and_each_direction_ends_by_itself() {
    let Ends {
        mut client,
        mut server,
        _relay,
        link: _link,
        connection: _connection,
    } = ends().await;
    client.write_all(b"question").await.unwrap();
    client.shutdown().await.unwrap();
    // Twice is as good as once.
    client.shutdown().await.unwrap();
    let mut seen = Vec::new();
    soon(server.read_to_end(&mut seen)).await.unwrap();
    assert_eq!(seen, b"question");
    // The other direction is still open, and takes more than any window.
    let answer = vec![7u8; 20 * 1024 * 1024];
    let mut got = Vec::new();
    let (written, read) = tokio::join!(
        async {
            server.write_all(&answer).await?;
            server.shutdown().await
        },
        soon(client.read_to_end(&mut got))
    );
    written.unwrap();
    read.unwrap();
    assert!(got == answer);
}

#[tokio::test]
async fn the_header_goes_out_with_what_follows() {
    let fleet = Fleet::new();
    let (relay, address) = fleet.relay("relay/r1");
    let (dialer, addresses) = (fleet.dialer(), [address.to_string()]);
    let (link, connection) = tokio::join!(soon(dialer.dial(&addresses, RELAY)), next(&relay));
    let link = link.unwrap();
    let mut client = link.open(&header()).await.unwrap();
    // The server has not even accepted the stream.
    client.write_all(b"inner hello").await.unwrap();
    let (_send, mut recv) = soon(connection.accept_bi()).await.unwrap();
    let mut decoder = Decoder::new(Direction::Opening);
    let chunk = soon(recv.read_chunk(4096, true)).await.unwrap().unwrap();
    decoder.push(&chunk.bytes);
    let (_, payload) = decoder.next_frame().unwrap().unwrap();
    assert_eq!(control::decode::<RouteHeader>(payload).unwrap(), header());
    assert_eq!(decoder.into_rest(), b"inner hello".as_slice());
}

#[tokio::test]
async fn a_reset_carries_its_code_to_reader_and_writer() {
    let Ends {
        mut client,
        server,
        _relay,
        link: _link,
        connection: _connection,
    } = ends().await;
    server.reset(Code::RelayNoSuchNode);
    let error = soon(client.read_u8()).await.unwrap_err();
    assert_eq!((code_of(&error), lost(&error)), (Some(Code::RelayNoSuchNode), None));
    let error = soon(async {
        loop {
            if let Err(error) = client.write_all(b"x").await {
                return error;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(code_of(&error), Some(Code::RelayNoSuchNode));
}

#[tokio::test]
async fn a_dropped_stream_is_broken_not_ended() {
    let Ends {
        mut client,
        mut server,
        _relay,
        link: _link,
        connection: _connection,
    } = ends().await;
    server.write_all(b"half of the out").await.unwrap();
    drop(server);
    let mut seen = Vec::new();
    let error = soon(client.read_to_end(&mut seen)).await.unwrap_err();
    assert_eq!(code_of(&error), Some(Code::TransportReset));
}

#[tokio::test]
async fn after_an_orderly_end_dropping_loses_nothing() {
    let Ends {
        mut client,
        mut server,
        _relay,
        link: _link,
        connection: _connection,
    } = ends().await;
    let answer = vec![7u8; 1024 * 1024];
    server.write_all(&answer).await.unwrap();
    server.shutdown().await.unwrap();
    drop(server);
    let mut seen = Vec::new();
    soon(client.read_to_end(&mut seen)).await.unwrap();
    assert!(seen == answer);
}

#[tokio::test]
async fn the_code_of_a_closed_connection_is_seen_on_its_streams() {
    let Ends {
        mut client,
        server: _server,
        _relay,
        link,
        connection,
    } = ends().await;
    connection.close(Code::RelayDraining.number().into(), b"\x1b[31m text from elsewhere");
    let error = soon(client.read_u8()).await.unwrap_err();
    assert_eq!(code_of(&error), Some(Code::RelayDraining));
    assert_eq!(lost(&error), Some(Lost::Closed(Code::RelayDraining.into())));
    assert_eq!(link.lost(), Some(Lost::Closed(Code::RelayDraining.into())));
    let error = link.open(&header()).await.map(drop).unwrap_err();
    assert!(
        error.to_string().contains("relay.draining") && !error.to_string().contains("text"),
        "{error}"
    );
}

#[tokio::test]
async fn the_halves_can_be_taken_apart() {
    let Ends {
        client,
        server,
        _relay,
        link: _link,
        connection: _connection,
    } = ends().await;
    let (mut send, _recv) = client.into_parts().unwrap();
    let (_send, mut recv) = server.into_parts().unwrap();
    send.write_all(b"raw").await.unwrap();
    send.finish().unwrap();
    assert_eq!(soon(recv.read_to_end(10)).await.unwrap(), b"raw");
}

#[test]
fn other_errors_have_no_code() {
    assert_eq!(code_of(&io::Error::from(io::ErrorKind::BrokenPipe)), None);
    assert_eq!(lost(&io::Error::other("x")), None);
}

/// Far less than the window that the first stream has filled: what is on its way, and some packets more.
const AHEAD: usize = 512 * 1024;

#[tokio::test]
async fn a_keystroke_overtakes_all_that_another_stream_has_to_send() {
    let Ends {
        mut client,
        server,
        _relay,
        link,
        connection,
    } = ends().await;
    let mut typed = soon(link.open(&header())).await.unwrap();
    let (_, mut far) = soon(connection.accept_bi()).await.unwrap();
    let (_, mut bulk) = server.into_parts().unwrap();
    let mut expected = BytesMut::new();
    control::encode(&header(), &mut expected);
    let mut seen = vec![0; expected.len()];
    soon(far.read_exact(&mut seen)).await.unwrap();
    // All that the window takes is there to be sent before anything of it is: nobody else runs until this waits.
    let much = vec![0; 4 * 1024 * 1024];
    let mut cx = Context::from_waker(std::task::Waker::noop());
    let mut queued = 0;
    while let Poll::Ready(count) = Pin::new(&mut client).poll_write(&mut cx, &much) {
        queued += count.unwrap();
    }
    assert!(queued > 2 * AHEAD, "{queued}");
    let written = Pin::new(&mut typed).poll_write(&mut cx, b"x");
    assert!(matches!(written, Poll::Ready(Ok(1))));
    let mut before = 0;
    let mut key = [0];
    loop {
        tokio::select! {
            biased;
            read = far.read(&mut key) => break assert_eq!(read.unwrap(), Some(1)),
            read = bulk.read_chunk(usize::MAX, true) => before += read.unwrap().unwrap().bytes.len(),
        }
    }
    assert!(before < AHEAD, "{before} of {queued} bytes came first");
}
