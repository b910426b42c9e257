//! Both ends of a leg over memory: a client that writes what it likes, and a holder that follows a script.
//!
//! Nothing waits for a moment: each side reads until what it waits for came or the stream ended.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use noderelay_proto::control::{Open, Opened, Resume};
use noderelay_proto::message::Message;
use tokio::io::{AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf, duplex};
use tokio::task::JoinHandle;

use super::*;
use crate::testing::Fleet;

type Ends<T> = (
    FrameReader<ReadHalf<DuplexStream>, T>,
    FrameWriter<WriteHalf<DuplexStream>>,
);

fn ends<T: Message>(stream: DuplexStream) -> Ends<T> {
    let (read, write) = tokio::io::split(stream);
    (FrameReader::new(read), FrameWriter::new(write))
}

/// A leg that runs, with its two ends.
struct Rig {
    leg: JoinHandle<Leg>,
    from_node: FrameReader<ReadHalf<DuplexStream>, ToClient>,
    client: WriteHalf<DuplexStream>,
    from_agent: FrameReader<ReadHalf<DuplexStream>, ToHolder>,
    holder: FrameWriter<WriteHalf<DuplexStream>>,
    orders: mpsc::Sender<Vec<ToHolder>>,
    stop: CancellationToken,
}

impl Rig {
    /// A leg of which `first` is queued for the client, as OPENED is.
    fn new(first: Option<ToClient>) -> Self {
        Self::with(first, 256 * 1024, Duration::from_secs(20))
    }

    /// The same with a client that takes `room` bytes unread, and is gone when it is full for `stalled`.
    fn with(first: Option<ToClient>, room: usize, stalled: Duration) -> Self {
        let (client, client_inside) = duplex(room);
        let (holder, holder_inside) = duplex(256 * 1024);
        let (reader, mut writer) = ends::<ToNode>(client_inside);
        if let Some(first) = first {
            writer.queue(&first);
        }
        let (orders, given) = mpsc::channel(1);
        let stop = CancellationToken::new();
        let leg = tokio::spawn({
            let stop = stop.clone();
            async move {
                let word = Word::new().unwrap();
                pump(
                    (reader, writer),
                    ends(holder_inside),
                    given,
                    &word,
                    stalled,
                    || false,
                    &stop,
                )
                .await
            }
        });
        let (from_node, client) = tokio::io::split(client);
        let (from_agent, holder) = ends(holder);
        Self {
            leg,
            from_node: FrameReader::new(from_node),
            client,
            from_agent,
            holder,
            orders,
            stop,
        }
    }

    async fn client_says(&mut self, message: impl Into<ToNode>) {
        let mut bytes = BytesMut::new();
        message.into().encode(&mut bytes);
        self.client.write_all(&bytes).await.unwrap();
    }

    async fn holder_says(&mut self, message: impl Into<ToClient>) {
        self.holder.send(&FromHolder::from(message.into())).await.unwrap();
    }

    /// The next message for the holder, which must be TERMINATE.
    async fn terminate(&mut self) -> Terminate {
        match soon(self.from_agent.demand()).await.unwrap() {
            ToHolder::Terminate(order) => order,
            other => panic!("{other:?}"),
        }
    }

    /// The holder goes; gives the rest of what the client was told, and the leg.
    async fn end(self) -> (Vec<ToClient>, Leg) {
        let Self {
            leg,
            mut from_node,
            from_agent,
            holder,
            client,
            orders,
            stop: _,
        } = self;
        drop((from_agent, holder));
        let mut told = Vec::new();
        while let Some(message) = soon(from_node.next()).await.unwrap() {
            told.push(message);
        }
        let leg = soon(leg).await.unwrap();
        drop((client, orders));
        (told, leg)
    }
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), what)
        .await
        .expect("hangs")
}

fn data(text: &'static [u8]) -> Bytes {
    Bytes::from_static(text)
}

fn exit(code: u32) -> Exit {
    Exit {
        code: Some(code),
        signal: None,
        core_dumped: false,
    }
}

fn ended(code: Code) -> Closed {
    Closed {
        code: code.number(),
        seen: String::new(),
    }
}

fn opened() -> Opened {
    Opened {
        session: Bytes::from_static(&[9; 16]),
        profile: "login".into(),
        recorded: 1,
        node: "gpu-7".into(),
        cluster: "alpha".into(),
        window: noderelay_proto::limits::WINDOW_TERMINAL,
        ..Opened::default()
    }
}

#[tokio::test]
async fn opened_reaches_the_client_before_the_holder_says_anything() {
    let mut rig = Rig::new(Some(opened().into()));
    assert_eq!(soon(rig.from_node.demand()).await.unwrap(), ToClient::Opened(opened()));
    rig.end().await;
}

#[tokio::test]
async fn bytes_pass_both_ways_and_are_counted() {
    let mut rig = Rig::new(None);
    rig.client_says(ToNode::Data(data(b"uptime\n"))).await;
    assert_eq!(
        soon(rig.from_agent.demand()).await.unwrap(),
        ToHolder::Session(ToNode::Data(data(b"uptime\n")))
    );
    rig.holder_says(ToClient::Data(data(b"up"))).await;
    rig.holder_says(ToClient::DataErr(data(b"oh"))).await;
    rig.holder_says(exit(3)).await;
    rig.holder_says(ended(Code::Ok)).await;
    let (told, leg) = rig.end().await;
    assert_eq!(
        told,
        [
            ToClient::Data(data(b"up")),
            ToClient::DataErr(data(b"oh")),
            exit(3).into(),
            ended(Code::Ok).into()
        ]
    );
    assert_eq!((leg.bytes_in, leg.bytes_out), (7, 4));
    assert_eq!((leg.exit, leg.code), (Some(exit(3)), Code::Ok));
}

#[tokio::test]
async fn an_exit_passes_before_the_end_and_nothing_is_made_up_behind_it() {
    let mut rig = Rig::new(None);
    rig.holder_says(exit(0)).await;
    let (told, leg) = rig.end().await;
    assert_eq!(told, [ToClient::from(exit(0))]);
    assert_eq!((leg.exit, leg.code), (Some(exit(0)), Code::Ok));
}

#[tokio::test]
async fn a_holder_that_goes_without_a_word_is_told_to_the_client() {
    let mut rig = Rig::new(None);
    rig.holder_says(ToClient::Data(data(b"half a li"))).await;
    let (told, leg) = rig.end().await;
    let [ToClient::Data(_), ToClient::Closed(closed)] = &told[..] else {
        panic!("{told:?}");
    };
    assert_eq!(Code::from_number(closed.code), Code::SessionHolderLost);
    assert!(closed.seen.contains("without a word"), "{}", closed.seen);
    assert_eq!((leg.exit, leg.code), (None, Code::SessionHolderLost));
}

#[tokio::test]
async fn a_holder_that_breaks_the_protocol_is_not_said_to_be_silent() {
    let mut rig = Rig::new(None);
    rig.holder
        .send(&terminate(Code::Ok, "what an agent says"))
        .await
        .unwrap();
    let (told, leg) = rig.end().await;
    let [ToClient::Closed(closed)] = &told[..] else {
        panic!("{told:?}");
    };
    assert_eq!(leg.code, Code::SessionHolderLost);
    assert_eq!(closed.seen, CONFUSED);
}

/// Takes nothing, as the socket of a process that was killed a moment ago.
struct Deaf;

impl AsyncWrite for Deaf {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn a_holder_that_takes_nothing_more_is_not_taken_for_a_client_that_has_gone() {
    let (client, client_inside) = duplex(4096);
    let (holder, holder_inside) = duplex(4096);
    let (from_holder, _) = ends::<FromHolder>(holder_inside);
    let (_orders, given) = mpsc::channel(1);
    let leg = tokio::spawn(async move {
        let (word, stop) = (Word::new().unwrap(), CancellationToken::new());
        let holder = (from_holder, FrameWriter::new(Deaf));
        let stalled = Duration::from_secs(20);
        pump(ends(client_inside), holder, given, &word, stalled, || false, &stop).await
    });
    let (mut from_node, mut to_node) = ends::<ToClient>(client);
    to_node.send(&ToNode::Data(data(b"typed"))).await.unwrap();
    // A turn for the agent to find out.
    tokio::task::yield_now().await;
    drop(holder);
    let told = soon(from_node.next()).await.unwrap().unwrap();
    assert!(matches!(told, ToClient::Closed(closed) if closed.code == Code::SessionHolderLost.number()));
    // An orderly end behind it: what was said is not taken back.
    assert!(soon(from_node.next()).await.unwrap().is_none());
    let leg = soon(leg).await.unwrap();
    assert_eq!((leg.client_lost, leg.holder_lost), (None, true));
}

/// The client says `bytes`, then goes on as if nothing was, then closes. All that the holder is told.
async fn breach(bytes: &[u8]) -> Vec<ToHolder> {
    let mut rig = Rig::new(None);
    rig.client.write_all(bytes).await.unwrap();
    let mut told = vec![ToHolder::Terminate(rig.terminate().await)];
    // The reader may be gone by now, and that is fine.
    let _ = rig.client.write_all(&bytes.repeat(3)).await;
    let mut more = BytesMut::new();
    ToNode::Data(data(b"rm -rf\n")).encode(&mut more);
    let _ = rig.client.write_all(&more).await;
    let _ = rig.client.shutdown().await;
    while let Some(message) = soon(rig.from_agent.next()).await.unwrap() {
        told.push(message);
    }
    rig.end().await;
    told
}

#[tokio::test]
async fn a_breach_of_the_protocol_ends_the_session_once() {
    let unknown = [0x3f, 0];
    let wrong_direction = {
        let mut bytes = BytesMut::new();
        ToClient::from(exit(0)).encode(&mut bytes);
        bytes.to_vec()
    };
    let trailing = {
        let mut bytes = BytesMut::new();
        ToNode::Ping(1).encode(&mut bytes);
        bytes[1] += 1;
        bytes.extend_from_slice(b"x");
        bytes.to_vec()
    };
    for (bytes, code) in [
        (&unknown[..], Code::ProtocolUnknownFrame),
        (&wrong_direction[..], Code::ProtocolWrongDirection),
        (&trailing[..], Code::ProtocolTrailing),
    ] {
        let told = breach(bytes).await;
        let [ToHolder::Terminate(order)] = &told[..] else {
            panic!("{code}: {told:?}");
        };
        assert_eq!(Code::from_number(order.code), code);
        assert!(order.seen.starts_with("the peer sent"), "{}", order.seen);
    }
}

// What came whole before the breach counts: it was typed.
#[tokio::test]
async fn what_came_before_a_breach_is_passed_on() {
    let mut rig = Rig::new(None);
    let mut bytes = BytesMut::new();
    ToNode::Data(data(b"ls\n")).encode(&mut bytes);
    bytes.extend_from_slice(&[0x3f, 0]);
    rig.client.write_all(&bytes).await.unwrap();
    assert_eq!(
        soon(rig.from_agent.demand()).await.unwrap(),
        ToHolder::Session(ToNode::Data(data(b"ls\n")))
    );
    assert_eq!(
        Code::from_number(rig.terminate().await.code),
        Code::ProtocolUnknownFrame
    );
    rig.end().await;
}

#[tokio::test]
async fn a_second_beginning_inside_a_session_ends_it() {
    let fleet = Fleet::new();
    let again: Open = fleet.open("gpu-7");
    let resume = Resume {
        session: Bytes::from_static(&[9; 16]),
        epoch: 1,
        mac: Bytes::from_static(&[7; 32]),
        cluster: again.cluster.clone(),
        node: again.node.clone(),
        purpose: again.purpose,
        claimed_path: again.claimed_path,
        ..Resume::default()
    };
    for (message, name) in [(ToNode::from(again), "OPEN"), (ToNode::from(resume), "RESUME")] {
        let mut rig = Rig::new(None);
        rig.client_says(message).await;
        let order = rig.terminate().await;
        assert_eq!(
            Code::from_number(order.code),
            Code::ProtocolOutOfOrder,
            "{}",
            order.seen
        );
        assert_eq!(order.seen, format!("{name} inside a running session"));
        rig.end().await;
    }
}

#[tokio::test]
async fn a_client_that_says_goodbye_ends_its_session() {
    let mut rig = Rig::new(None);
    rig.client_says(ended(Code::Ok)).await;
    assert_eq!(Code::from_number(rig.terminate().await.code), Code::SessionLeft);
    rig.holder_says(ended(Code::SessionLeft)).await;
    let (told, leg) = rig.end().await;
    assert_eq!(told, [ToClient::from(ended(Code::SessionLeft))]);
    assert_eq!(leg.code, Code::SessionLeft);
}

#[tokio::test]
async fn an_order_reaches_the_holder() {
    let mut rig = Rig::new(None);
    let order = Terminate {
        code: Code::SessionPolicy.number(),
        seen: "no rule permits it".into(),
    };
    rig.orders.send(vec![order.clone().into()]).await.unwrap();
    assert_eq!(rig.terminate().await, order);
    rig.end().await;
}

#[tokio::test]
async fn a_client_that_stops_writing_still_reads() {
    let mut rig = Rig::new(None);
    rig.client_says(ToNode::Data(data(b"cat"))).await;
    rig.client.shutdown().await.unwrap();
    assert!(matches!(
        soon(rig.from_agent.demand()).await.unwrap(),
        ToHolder::Session(ToNode::Data(_))
    ));
    assert!(
        soon(rig.from_agent.next()).await.unwrap().is_none(),
        "the holder's input stays open"
    );
    rig.holder_says(ToClient::Data(data(b"late"))).await;
    rig.holder_says(exit(0)).await;
    let (told, leg) = rig.end().await;
    assert_eq!(told, [ToClient::Data(data(b"late")), exit(0).into()]);
    assert!(leg.client_lost.is_some());
    assert_eq!((leg.bytes_in, leg.exit), (3, Some(exit(0))));
}

#[tokio::test]
async fn an_agent_that_stops_says_so_and_leaves_the_session_to_its_holder() {
    let mut rig = Rig::new(None);
    rig.stop.cancel();
    let ToClient::Closed(closed) = soon(rig.from_node.demand()).await.unwrap() else {
        panic!("no CLOSED");
    };
    assert_eq!(Code::from_number(closed.code), Code::SessionAgentStopping);
    // The holder is told nothing but that the connection ended.
    assert!(soon(rig.from_agent.next()).await.unwrap().is_none());
    let (told, leg) = rig.end().await;
    assert_eq!((told, leg.code), (Vec::new(), Code::SessionAgentStopping));
}

// The log's line must not hang on somebody who does not read: the agent has 2 s for all of its legs.
#[tokio::test]
async fn an_agent_that_stops_waits_for_nobody_who_does_not_read() {
    let Rig {
        leg,
        from_node,
        from_agent,
        mut holder,
        client,
        orders,
        stop,
    } = Rig::with(None, 16, Duration::from_secs(3600));
    holder
        .send(&FromHolder::from(ToClient::Data(data(&[b'x'; 4096]))))
        .await
        .unwrap();
    stop.cancel();
    let leg = soon(leg).await.unwrap();
    assert_eq!(leg.code, Code::SessionAgentStopping);
    assert!(leg.client_lost.is_some());
    drop((from_node, from_agent, holder, client, orders));
}

#[tokio::test]
async fn a_client_that_takes_nothing_is_gone_and_its_session_stays_with_the_holder() {
    let mut rig = Rig::with(None, 16, Duration::from_millis(50));
    rig.holder_says(ToClient::Data(data(&[b'x'; 4096]))).await;
    // The leg goes on to hear how the session ends, and says why the client is not there any more.
    rig.holder_says(ended(Code::SessionWindow)).await;
    let Rig {
        leg,
        from_agent,
        holder,
        from_node,
        client,
        orders,
        stop: _stop,
    } = rig;
    drop((holder, from_agent));
    let leg = soon(leg).await.unwrap();
    let lost = leg.client_lost.unwrap();
    assert_eq!(
        (leg.code, lost.as_str()),
        (Code::SessionWindow, "the client took nothing for 50ms")
    );
    drop((from_node, client, orders));
}

// Both ends' readers may hold more than the message that was waited for before the leg began.
#[tokio::test]
async fn what_came_together_with_the_first_message_is_passed_on_at_once() {
    let (mut client, client_inside) = duplex(256 * 1024);
    let (holder, holder_inside) = duplex(256 * 1024);
    let mut bytes = BytesMut::new();
    ToNode::Ping(1).encode(&mut bytes);
    ToNode::Data(data(b"input")).encode(&mut bytes);
    client.write_all(&bytes).await.unwrap();
    let (mut from_agent, mut holder) = ends::<ToHolder>(holder);
    holder.queue(&FromHolder::from(ToClient::Pong(1)));
    holder
        .send(&FromHolder::from(ToClient::Data(data(b"output"))))
        .await
        .unwrap();
    let (mut reader, writer) = ends::<ToNode>(client_inside);
    let (mut holder_reader, holder_writer) = ends::<FromHolder>(holder_inside);
    assert!(matches!(soon(reader.demand()).await.unwrap(), ToNode::Ping(1)));
    assert!(matches!(
        soon(holder_reader.demand()).await.unwrap(),
        FromHolder::Session(ToClient::Pong(1))
    ));
    let (_orders, given) = mpsc::channel(1);
    let leg = tokio::spawn(async move {
        let stop = CancellationToken::new();
        pump(
            (reader, writer),
            (holder_reader, holder_writer),
            given,
            &Word::new().unwrap(),
            Duration::from_secs(20),
            || false,
            &stop,
        )
        .await
    });
    let mut from_node = FrameReader::<_, ToClient>::new(client);
    assert_eq!(soon(from_node.demand()).await.unwrap(), ToClient::Data(data(b"output")));
    match soon(from_agent.demand()).await.unwrap() {
        ToHolder::Session(ToNode::Data(bytes)) => assert_eq!(bytes, data(b"input")),
        other => panic!("{other:?}"),
    }
    drop((holder, from_agent, from_node));
    soon(leg).await.unwrap();
}
