//! Splicing over real QUIC on loopback: two connections, one stream on each, joined.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quinn::{Connection, Endpoint, TransportConfig};
use tokio::task::JoinHandle;

use super::*;

const CODES: Codes = Codes {
    lost: VarInt::from_u32(200),
    aborted: VarInt::from_u32(150),
    gave_way: VarInt::from_u32(119),
};
const WINDOW: u32 = 64 * 1024;
const BOUND: Duration = Duration::from_secs(20);

/// A connection between two endpoints of this process.
struct Leg {
    outer: Connection,
    inner: Connection,
    _endpoints: (Endpoint, Endpoint),
}

async fn leg() -> Leg {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let server_tls = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let client_tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut transport = TransportConfig::default();
    transport
        .stream_receive_window(WINDOW.into())
        .keep_alive_interval(Some(Duration::from_millis(300)))
        .max_idle_timeout(Some(Duration::from_secs(2).try_into().unwrap()));
    let transport = Arc::new(transport);

    let server_crypto = quinn::crypto::rustls::QuicServerConfig::try_from(server_tls).unwrap();
    let mut server_config = quinn::ServerConfig::with_crypto(Arc::new(server_crypto));
    server_config.transport_config(transport.clone());
    let server = Endpoint::server(server_config, "127.0.0.1:0".parse().unwrap()).unwrap();
    let client_crypto = quinn::crypto::rustls::QuicClientConfig::try_from(client_tls).unwrap();
    let mut client_config = quinn::ClientConfig::new(Arc::new(client_crypto));
    client_config.transport_config(transport);
    let client = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let connecting = client
        .connect_with(client_config, server.local_addr().unwrap(), "localhost")
        .unwrap();
    let (outer, inner) = tokio::join!(connecting, async { server.accept().await.unwrap().await });
    Leg {
        outer: outer.unwrap(),
        inner: inner.unwrap(),
        _endpoints: (client, server),
    }
}

/// Client and node with a splice between them.
struct Joined {
    client: (SendStream, RecvStream),
    node: (SendStream, RecvStream),
    splice: JoinHandle<(Flow, Flow)>,
    taken: Arc<AtomicU64>,
    near: Leg,
    far: Leg,
}

fn who(name: &str) -> Identity {
    Identity::parse(&format!("spiffe://fleet.example/cluster/east/{name}")).unwrap()
}

async fn joined() -> Joined {
    joined_among(Stalled::new(1000, Duration::from_secs(1)), "user/alice").await
}

async fn joined_among(stalled: Stalled, name: &str) -> Joined {
    let who = who(name);
    let (near, far) = tokio::join!(leg(), leg());
    // A stream is seen by the other side once it carries something: `>` is eaten before the splice.
    let mut client = near.outer.open_bi().await.unwrap();
    client.0.write_all(b">").await.unwrap();
    let near_ends = near.inner.accept_bi().await.unwrap();
    let mut far_ends = far.outer.open_bi().await.unwrap();
    far_ends.0.write_all(b">").await.unwrap();
    let mut node = far.inner.accept_bi().await.unwrap();
    node.1.read_exact(&mut [0]).await.unwrap();
    let (mut near_ends, far_ends) = (Ends::new(near_ends, CODES.aborted), Ends::new(far_ends, CODES.aborted));
    near_ends.source.stream().read_exact(&mut [0]).await.unwrap();
    let taken = Arc::new(AtomicU64::new(0));
    let counted = taken.clone();
    let splice = tokio::spawn(async move {
        splice(
            near_ends,
            far_ends,
            Bytes::new(),
            CODES,
            (&stalled, &who),
            |n| _ = counted.fetch_add(n, Ordering::Relaxed),
            |_| (),
        )
        .await
    });
    Joined {
        client,
        node,
        splice,
        taken,
        near,
        far,
    }
}

async fn flows(splice: JoinHandle<(Flow, Flow)>) -> (Flow, Flow) {
    tokio::time::timeout(BOUND, splice)
        .await
        .expect("the splice ends by itself")
        .unwrap()
}

#[tokio::test]
async fn each_half_closes_by_itself_and_the_other_goes_on() {
    let Joined {
        mut client,
        mut node,
        splice,
        near,
        far,
        ..
    } = joined().await;
    client.0.write_all(b"question").await.unwrap();
    client.0.finish().unwrap();
    assert_eq!(node.1.read_to_end(100).await.unwrap(), b"question");
    assert!(!splice.is_finished());
    node.0.write_all(b"answer").await.unwrap();
    node.0.finish().unwrap();
    assert_eq!(client.1.read_to_end(100).await.unwrap(), b"answer");
    let (out, back) = flows(splice).await;
    assert_eq!(
        out,
        Flow {
            bytes: 8,
            end: End::Finished
        }
    );
    assert_eq!(
        back,
        Flow {
            bytes: 6,
            end: End::Finished
        }
    );
    drop((near, far));
}

#[tokio::test]
async fn the_node_may_close_its_half_first() {
    let Joined {
        mut client,
        mut node,
        splice,
        near,
        far,
        ..
    } = joined().await;
    node.0.write_all(b"bye").await.unwrap();
    node.0.finish().unwrap();
    assert_eq!(client.1.read_to_end(100).await.unwrap(), b"bye");
    client.0.write_all(b"still here").await.unwrap();
    client.0.finish().unwrap();
    assert_eq!(node.1.read_to_end(100).await.unwrap(), b"still here");
    flows(splice).await;
    drop((near, far));
}

#[tokio::test]
async fn first_bytes_go_before_everything_else() {
    let (near, far) = tokio::join!(leg(), leg());
    let mut client = near.outer.open_bi().await.unwrap();
    client.0.write_all(b"second").await.unwrap();
    client.0.finish().unwrap();
    let near_ends = Ends::new(near.inner.accept_bi().await.unwrap(), CODES.aborted);
    let far_ends = Ends::new(far.outer.open_bi().await.unwrap(), CODES.aborted);
    let (stalled, who) = (Stalled::new(1000, Duration::from_secs(1)), who("user/alice"));
    let task = tokio::spawn(async move {
        splice(
            near_ends,
            far_ends,
            Bytes::from_static(b"first "),
            CODES,
            (&stalled, &who),
            |_| (),
            |_| (),
        )
        .await
    });
    let mut node = far.inner.accept_bi().await.unwrap();
    assert_eq!(node.1.read_to_end(100).await.unwrap(), b"first second");
    node.0.finish().unwrap();
    assert_eq!(flows(task).await.0.bytes, 12);
}

#[tokio::test]
async fn a_reset_is_passed_on_with_its_code_and_leaves_the_other_half_alone() {
    let Joined {
        mut client,
        mut node,
        splice,
        near,
        far,
        ..
    } = joined().await;
    client.0.write_all(b"x").await.unwrap();
    node.1.read_exact(&mut [0]).await.unwrap();
    client.0.reset(VarInt::from_u32(77)).unwrap();
    assert_eq!(
        node.1.read_to_end(100).await.unwrap_err(),
        quinn::ReadToEndError::Read(ReadError::Reset(77u32.into()))
    );
    node.0.write_all(b"y").await.unwrap();
    client.1.read_exact(&mut [0]).await.unwrap();
    node.0.finish().unwrap();
    let (out, back) = flows(splice).await;
    assert_eq!(out.end, End::Reset(77u32.into()));
    assert_eq!(back.end, End::Finished);
    drop((near, far));
}

#[tokio::test]
async fn a_stop_is_passed_back_with_its_code() {
    let Joined {
        mut client,
        mut node,
        splice,
        near,
        far,
        ..
    } = joined().await;
    node.1.stop(VarInt::from_u32(78)).unwrap();
    assert_eq!(client.0.stopped().await.unwrap(), Some(78u32.into()));
    client.0.reset(0u32.into()).ok();
    node.0.finish().unwrap();
    client.1.read_to_end(1).await.unwrap();
    assert_eq!(flows(splice).await.0.end, End::Stopped(78u32.into()));
    drop((near, far));
}

#[tokio::test]
async fn a_reset_is_heard_while_the_sink_stalls() {
    let Joined {
        mut client,
        node,
        splice,
        near,
        far,
        ..
    } = joined().await;
    // The node reads nothing: fill every window until the client can't write any more.
    let piece = [0u8; 16 * 1024];
    while tokio::time::timeout(Duration::from_millis(300), client.0.write_all(&piece))
        .await
        .is_ok()
    {}
    client.0.reset(VarInt::from_u32(79)).unwrap();
    let (mut send, mut recv) = node;
    assert_eq!(recv.received_reset().await.unwrap(), Some(79u32.into()));
    send.finish().unwrap();
    client.1.read_to_end(1).await.unwrap();
    assert_eq!(flows(splice).await.0.end, End::Reset(79u32.into()));
    drop((near, far));
}

#[tokio::test]
async fn a_stalled_sink_holds_the_source_at_its_window_and_resumes_without_loss() {
    const TOTAL: usize = 8 << 20;
    let Joined {
        mut client,
        mut node,
        splice,
        taken,
        near,
        far,
    } = joined().await;
    let data: Bytes = (0..TOTAL).map(|i| (i * 31 % 251) as u8).collect::<Vec<_>>().into();
    let written = Arc::new(AtomicU64::new(0));
    let progress = written.clone();
    let sent = data.clone();
    let writer = tokio::spawn(async move {
        for piece in sent.chunks(8 * 1024) {
            client.0.write_all(piece).await.unwrap();
            progress.fetch_add(piece.len() as u64, Ordering::Relaxed);
        }
        client.0.finish().unwrap();
        client
    });
    // Wait until nothing moves any more.
    let mut before = u64::MAX;
    while before != taken.load(Ordering::Relaxed) || before == 0 {
        before = taken.load(Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let taken_stalled = taken.load(Ordering::Relaxed);
    assert!(
        taken_stalled <= u64::from(WINDOW),
        "{taken_stalled} bytes were handed to a sink with a window of {WINDOW}"
    );
    // What the client got rid of: the node's window, one batch in the splice, and the relay's own receive window.
    let written = written.load(Ordering::Relaxed);
    let bound = 3 * u64::from(WINDOW) + (BATCH * 1500) as u64;
    assert!(
        written <= bound,
        "{written} bytes left the client, the bound is {bound}"
    );
    let got = node.1.read_to_end(TOTAL).await.unwrap();
    assert!(got == data, "every byte arrives, in order");
    node.0.finish().unwrap();
    let mut client = writer.await.unwrap();
    client.1.read_to_end(1).await.unwrap();
    assert_eq!(
        flows(splice).await.0,
        Flow {
            bytes: TOTAL as u64,
            end: End::Finished
        }
    );
    drop((near, far));
}

#[tokio::test]
async fn both_directions_carry_much_at_once() {
    const TOTAL: usize = 32 << 20;
    let Joined {
        client,
        node,
        splice,
        near,
        far,
        ..
    } = joined().await;
    let pattern = |salt: usize| -> Bytes {
        (0..TOTAL)
            .map(|i| ((i ^ (i >> 8)) + salt) as u8)
            .collect::<Vec<_>>()
            .into()
    };
    let (up, down) = (pattern(1), pattern(2));
    let push = |mut send: SendStream, data: Bytes| async move {
        send.write_chunk(data).await.unwrap();
        send.finish().unwrap();
        send
    };
    let (_sent_up, _sent_down, at_node, at_client) = tokio::join!(
        push(client.0, up.clone()),
        push(node.0, down.clone()),
        async {
            let mut recv = node.1;
            recv.read_to_end(TOTAL).await.unwrap()
        },
        async {
            let mut recv = client.1;
            recv.read_to_end(TOTAL).await.unwrap()
        },
    );
    assert!(at_node == up && at_client == down);
    let (out, back) = flows(splice).await;
    assert_eq!((out.bytes, back.bytes), (TOTAL as u64, TOTAL as u64));
    drop((near, far));
}

#[tokio::test]
async fn a_lost_connection_is_told_to_the_other_side() {
    let Joined {
        client,
        mut node,
        splice,
        near,
        far,
        ..
    } = joined().await;
    near.outer.close(0u32.into(), b"");
    assert_eq!(
        node.1.read_to_end(1).await.unwrap_err(),
        quinn::ReadToEndError::Read(ReadError::Reset(CODES.lost))
    );
    assert_eq!(node.0.stopped().await.unwrap(), Some(CODES.lost));
    let (out, back) = flows(splice).await;
    assert_eq!((out.end, back.end), (End::SourceLost, End::SinkLost));
    drop((client, far));
}

#[tokio::test]
async fn b006_a_dropped_splice_is_a_reset_never_a_clean_end() {
    let Joined {
        mut client,
        mut node,
        splice,
        near,
        far,
        ..
    } = joined().await;
    node.0.write_all(b"cut h").await.unwrap();
    client.1.read_exact(&mut [0; 5]).await.unwrap();
    splice.abort();
    assert_eq!(
        client.1.read_to_end(9).await.unwrap_err(),
        quinn::ReadToEndError::Read(ReadError::Reset(CODES.aborted))
    );
    assert_eq!(
        node.1.read_to_end(9).await.unwrap_err(),
        quinn::ReadToEndError::Read(ReadError::Reset(CODES.aborted))
    );
    assert_eq!(client.0.stopped().await.unwrap(), Some(CODES.aborted));
    drop((near, far));
}

#[tokio::test]
async fn a_refused_stream_says_its_code_in_both_directions() {
    let near = leg().await;
    let mut client = near.outer.open_bi().await.unwrap();
    client.0.write_all(b"?").await.unwrap();
    Ends::new(near.inner.accept_bi().await.unwrap(), CODES.aborted).refuse(VarInt::from_u32(101));
    assert_eq!(
        client.1.read_to_end(9).await.unwrap_err(),
        quinn::ReadToEndError::Read(ReadError::Reset(101u32.into()))
    );
    assert_eq!(client.0.stopped().await.unwrap(), Some(101u32.into()));
}

/// Writes until the splice holds what nobody reads, and the window is full.
async fn fill(send: &mut SendStream) {
    let chunk = vec![7; 16 * 1024];
    while let Ok(written) = tokio::time::timeout(Duration::from_millis(100), send.write_all(&chunk)).await {
        written.unwrap();
    }
}

async fn until(stalled: &Stalled, counts: (usize, u64)) {
    let looks = async {
        while stalled.counts() != counts {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let seen = tokio::time::timeout(BOUND, looks).await;
    assert!(seen.is_ok(), "stalled, gave way: {:?}", stalled.counts());
}

#[tokio::test]
async fn of_too_many_streams_that_nobody_reads_the_greediest_persons_gives_way() {
    let stalled = Stalled::new(2, Duration::from_millis(50));
    let mut alice = joined_among(stalled.clone(), "user/alice").await;
    fill(&mut alice.client.0).await;
    let mut bob = joined_among(stalled.clone(), "user/bob").await;
    fill(&mut bob.client.0).await;
    until(&stalled, (2, 0)).await;
    // A third one is one too many, and alice has two then.
    let mut more = joined_among(stalled.clone(), "user/alice").await;
    fill(&mut more.client.0).await;
    let (out, back) = flows(alice.splice).await;
    assert_eq!([out.end, back.end], [End::GaveWay; 2]);
    assert_eq!(stalled.counts(), (2, 1));
    let stopped = tokio::time::timeout(BOUND, alice.client.0.stopped()).await.unwrap();
    assert_eq!(stopped.unwrap(), Some(CODES.gave_way));
    // Whoever is read again gives the place back, and has lost nothing.
    let reads = async {
        let mut seen = 0;
        while seen < u64::from(WINDOW) {
            seen += bob
                .node
                .1
                .read_chunk(usize::MAX, true)
                .await
                .unwrap()
                .unwrap()
                .bytes
                .len() as u64;
        }
    };
    tokio::time::timeout(BOUND, reads).await.unwrap();
    until(&stalled, (1, 1)).await;
}
