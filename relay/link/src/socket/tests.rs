//! The socket against the kernel: packets arrive, and a full send buffer is waited out.

use quinn::udp::Transmit;
use tokio::net::UdpSocket as Peer;

use super::*;

fn quiet() -> Arc<dyn AsyncUdpSocket> {
    QuietRuntime
        .wrap_udp_socket(UdpSocket::bind("127.0.0.1:0").unwrap())
        .unwrap()
}

fn packet<'a>(to: SocketAddr, contents: &'a [u8]) -> Transmit<'a> {
    Transmit {
        destination: to,
        ecn: None,
        contents,
        segment_size: None,
        src_ip: None,
    }
}

#[tokio::test]
async fn packets_go_both_ways() {
    let (socket, peer) = (quiet(), Peer::bind("127.0.0.1:0").await.unwrap());
    socket.try_send(&packet(peer.local_addr().unwrap(), b"ping")).unwrap();
    let mut buffer = [0; 16];
    let (n, from) = peer.recv_from(&mut buffer).await.unwrap();
    assert_eq!((&buffer[..n], from), (&b"ping"[..], socket.local_addr().unwrap()));
    peer.send_to(b"pong", from).await.unwrap();
    let mut meta = [RecvMeta::default()];
    let received = std::future::poll_fn(|cx| socket.poll_recv(cx, &mut [IoSliceMut::new(&mut buffer)], &mut meta));
    assert_eq!(received.await.unwrap(), 1);
    assert_eq!(&buffer[..meta[0].len], b"pong");
}

/// The poller may be asked again and again, and is ready at once while the socket takes packets.
#[tokio::test]
async fn a_socket_that_takes_packets_is_writable_each_time() {
    let mut poller = quiet().create_io_poller();
    for _ in 0..3 {
        std::future::poll_fn(|cx| poller.as_mut().poll_writable(cx))
            .await
            .unwrap();
    }
}
