//! Carrying between a socket and a stream: ends, breaks, back-pressure, and a client that goes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use noderelay_proto::code::Code;
use tokio::io::{DuplexStream, ReadBuf, duplex};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::*;

async fn soon<T>(what: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(20), what).await.expect("hangs")
}

/// A client's socket, carried to and from `stream`.
fn carried(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> (UnixStream, JoinHandle<()>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (ours, tokio::spawn(carry(theirs, Frames::new(), stream)))
}

fn over_memory() -> (UnixStream, DuplexStream, JoinHandle<()>) {
    let (near, far) = duplex(16 * 1024);
    let (client, task) = carried(near);
    (client, far, task)
}

async fn tell(client: &mut UnixStream, message: ToWarm) {
    let mut bytes = BytesMut::new();
    message.encode(&mut bytes);
    client.write_all(&bytes).await.unwrap();
}

async fn hear(client: &mut UnixStream, frames: &mut Frames<FromWarm>) -> Option<FromWarm> {
    soon(async {
        loop {
            if let Some(message) = frames.next().unwrap() {
                return Some(message);
            }
            if client.read_buf(frames.buffer()).await.unwrap() == 0 {
                return None;
            }
        }
    })
    .await
}

#[tokio::test]
async fn each_direction_ends_by_itself() {
    let (mut client, mut far, task) = over_memory();
    let mut frames = Frames::new();
    tell(&mut client, ToWarm::Carry(Bytes::from_static(b"question"))).await;
    tell(&mut client, ToWarm::CarryEnd).await;
    let mut all = String::new();
    soon(far.read_to_string(&mut all)).await.unwrap();
    assert_eq!(all, "question");
    far.write_all(b"answer").await.unwrap();
    assert_eq!(
        hear(&mut client, &mut frames).await,
        Some(FromWarm::Carry("answer".into()))
    );
    far.shutdown().await.unwrap();
    assert_eq!(hear(&mut client, &mut frames).await, Some(FromWarm::CarryEnd));
    assert!(!task.is_finished(), "the client goes first");
    drop(client);
    soon(task).await.unwrap();
}

#[tokio::test]
async fn a_client_that_goes_takes_its_stream_along() {
    let (client, mut far, task) = over_memory();
    drop(client);
    soon(task).await.unwrap();
    assert_eq!(soon(far.read(&mut [0; 1])).await.unwrap(), 0);
    // And one that says what it may not.
    for wrong in [&b"\x40\x50\x04\x08\x01\x10\x02"[..], b"\x3f\x00"] {
        let (mut client, _far, task) = over_memory();
        client.write_all(wrong).await.unwrap();
        soon(task).await.unwrap();
    }
}

#[tokio::test]
async fn a_client_that_goes_is_noticed_while_the_node_takes_nothing() {
    let (mut client, _far, task) = over_memory();
    // More than the stream takes: what is left waits, and nobody reads the socket.
    tell(&mut client, ToWarm::Carry(Bytes::from(vec![1; MAX_DATA]))).await;
    assert!(
        timeout(Duration::from_millis(200), async {
            while !task.is_finished() {
                tokio::task::yield_now().await
            }
        })
        .await
        .is_err()
    );
    drop(client);
    soon(task).await.unwrap();
}

#[tokio::test]
async fn a_client_that_does_not_read_stops_the_node() {
    let (_client, mut far, _task) = over_memory();
    let bytes = vec![1; 64 * 1024 * 1024];
    let written = timeout(Duration::from_millis(500), far.write_all(&bytes)).await;
    assert!(written.is_err(), "64 MiB found room somewhere");
}

/// A stream that is broken in one or both directions.
struct Breaks {
    reading: Option<quinn::ReadError>,
    writing: Option<quinn::WriteError>,
}

impl AsyncRead for Breaks {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.reading.clone() {
            Some(error) => Poll::Ready(Err(error.into())),
            None => Poll::Pending,
        }
    }
}

impl AsyncWrite for Breaks {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        match self.writing.clone() {
            Some(error) => Poll::Ready(Err(error.into())),
            None => Poll::Pending,
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn a_break_is_said_with_its_code() {
    let code = |code: Code| quinn::VarInt::from_u32(code.number());
    let (mut client, _task) = carried(Breaks {
        reading: Some(quinn::ReadError::Reset(code(Code::RelayNodeOffline))),
        writing: None,
    });
    let said = hear(&mut client, &mut Frames::new()).await;
    let Some(FromWarm::Broken(broken)) = said else {
        panic!("{said:?}");
    };
    assert_eq!(Code::from_number(broken.code), Code::RelayNodeOffline);
    assert!(!broken.writing && !broken.by_node);

    let (mut client, _task) = carried(Breaks {
        reading: None,
        writing: Some(quinn::WriteError::Stopped(code(Code::RelayBusy))),
    });
    tell(&mut client, ToWarm::Carry(Bytes::from_static(b"x"))).await;
    let said = hear(&mut client, &mut Frames::new()).await;
    let Some(FromWarm::Broken(broken)) = said else {
        panic!("{said:?}");
    };
    assert_eq!(Code::from_number(broken.code), Code::RelayBusy);
    assert!(broken.writing);

    let alert = rustls::Error::AlertReceived(rustls::AlertDescription::CertificateExpired);
    let inside = super::broken(&io::Error::new(io::ErrorKind::InvalidData, alert));
    assert!(inside.by_node && Code::from_number(inside.code) == Code::IdentityExpired);
}

#[test]
fn a_text_is_cut_between_characters() {
    assert_eq!(bounded("short"), "short");
    let long = bounded(&"ä".repeat(1000));
    assert_eq!(long.len(), MAX_TEXT);
    assert!(bounded(&format!("x{}", "ä".repeat(1000))).len() < MAX_TEXT);
}
