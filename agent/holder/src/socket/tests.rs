//! Asking for "writable" when the node has no descriptor left.

use std::io::Read as _;

use tokio::io::AsyncWriteExt as _;

use super::*;

#[tokio::test]
async fn without_a_descriptor_to_ask_with_a_write_is_tried_again_after_a_rest() {
    let start = tokio::time::Instant::now();
    asked(Err(io::Error::from_raw_os_error(24))).await;
    assert!(start.elapsed() >= AGAIN, "{:?}", start.elapsed());
}

#[tokio::test]
async fn room_is_reported_at_once() {
    let (socket, _other) = UnixStream::pair().unwrap();
    socket.set_nonblocking(true).unwrap();
    tokio::time::timeout(Duration::from_secs(10), writable(&socket))
        .await
        .unwrap();
}

/// Fills a socket, then lets its other end read all of it.
async fn through(ask: fn(&UnixStream) -> io::Result<Sender>) -> Vec<u8> {
    let (socket, mut other) = UnixStream::pair().unwrap();
    socket.set_nonblocking(true).unwrap();
    let mut half = ToHolderHalf {
        ask,
        ..ToHolderHalf::new(socket)
    };
    let more_than_it_takes = vec![7; 1024 * 1024];
    let writes = async {
        half.write_all(&more_than_it_takes).await?;
        half.shutdown().await
    };
    let reads = tokio::task::spawn_blocking(move || {
        let mut all = Vec::new();
        other.read_to_end(&mut all).map(|_| all)
    });
    let (written, read) = tokio::time::timeout(Duration::from_secs(20), async { tokio::join!(writes, reads) })
        .await
        .unwrap();
    written.unwrap();
    read.unwrap().unwrap()
}

#[tokio::test]
async fn a_shortage_of_descriptors_fails_no_leg() {
    for ask in [
        (|_| Err(io::Error::from_raw_os_error(24))) as fn(&UnixStream) -> io::Result<Sender>,
        |_| Err(io::Error::from_raw_os_error(23)),
        |socket| copy(socket).and_then(Sender::from_owned_fd_unchecked),
    ] {
        assert_eq!(through(ask).await, vec![7; 1024 * 1024]);
    }
}
