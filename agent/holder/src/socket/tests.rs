//! Asking for "writable" when the node has no descriptor left.

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
