//! Frames and codes on QUIC streams: the few lines between `noderelay-proto` (bytes) and `quinn` (streams).
//!
//! Never: holds more than one bounded read, or judges the order of messages.

use bytes::BytesMut;
use noderelay_proto::{Frames, Message, ProtocolError, Refusal};
use quinn::{ReadError, RecvStream, SendStream, VarInt, WriteError};

/// One read takes at most this much: a frame of an outer leg at its bound, and an ordinary first flight of the inner
/// handshake behind it. What is left stays with the stream.
const READ: usize = 4096;

/// Why there is no next message.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// The peer broke the protocol.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// The stream was reset, or its connection is gone.
    #[error("the stream ended: {0}")]
    Stream(#[from] ReadError),
}

/// A code, with the time to come back where there is one, as QUIC carries it.
pub(crate) fn wire(refusal: impl Into<Refusal>) -> VarInt {
    let refusal = refusal.into();
    // 62 bits always fit; the code alone does without asking.
    VarInt::from_u64(refusal.to_wire()).unwrap_or(VarInt::from_u32(refusal.code.number()))
}

/// The next message, `None` at the stream's clean end. Nothing is lost when it is cancelled.
pub(crate) async fn next<M: Message>(frames: &mut Frames<M>, stream: &mut RecvStream) -> Result<Option<M>, Fault> {
    loop {
        if let Some(message) = frames.next()? {
            return Ok(Some(message));
        }
        match stream.read_chunk(READ, true).await? {
            Some(chunk) => frames.push(&chunk.bytes),
            None => return Ok(frames.finish().map(|()| None)?),
        }
    }
}

/// Writes one message whole.
pub(crate) async fn write<M: Message>(stream: &mut SendStream, message: &M) -> Result<(), WriteError> {
    let mut bytes = BytesMut::new();
    message.encode(&mut bytes);
    stream.write_chunk(bytes.freeze()).await
}
