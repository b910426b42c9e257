//! One bidirectional stream, as a single reader and writer: what the inner TLS runs over.
//!
//! Ends are told apart: `shutdown` is an orderly end of our direction; [`Stream::reset`] breaks both directions with a
//! code; dropping a stream whose writing was not shut down counts as broken, never as an orderly end.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use noderelay_proto::code::{Code, Refusal};
use quinn::{ConnectionError, ReadError, RecvStream, SendStream, VarInt, WriteError};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use crate::link::Lost;
use crate::urgency::Urgency;

/// Both directions of a stream.
#[derive(Debug)]
pub struct Stream {
    send: Option<SendStream>,
    recv: Option<RecvStream>,
    finished: bool,
    urgency: Urgency,
}

impl Stream {
    /// Joins the two halves.
    pub fn new(send: SendStream, recv: RecvStream) -> Stream {
        Stream {
            send: Some(send),
            recv: Some(recv),
            finished: false,
            urgency: Urgency::default(),
        }
    }

    /// The two halves again, in the state in which they are.
    pub fn into_parts(mut self) -> Option<(SendStream, RecvStream)> {
        Some((self.send.take()?, self.recv.take()?))
    }

    /// Breaks both directions; the peer reads and writes an error with this code.
    pub fn reset(mut self, code: Code) {
        self.abandon(code);
    }

    fn abandon(&mut self, code: Code) {
        let code = VarInt::from_u32(code.number());
        // Either half may have ended by itself already: then there is nothing to break.
        if let Some(mut send) = self.send.take()
            && !self.finished
        {
            let _ = send.reset(code);
        }
        if let Some(mut recv) = self.recv.take() {
            let _ = recv.stop(code);
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.abandon(Code::TransportReset);
    }
}

fn gone() -> io::Error {
    io::Error::from(io::ErrorKind::NotConnected)
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.recv.as_mut() {
            Some(recv) => AsyncRead::poll_read(Pin::new(recv), cx, buffer),
            None => Poll::Ready(Err(gone())),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let Some(send) = this.send.as_mut() else {
            return Poll::Ready(Err(gone()));
        };
        let written = AsyncWrite::poll_write(Pin::new(&mut *send), cx, bytes);
        if let Poll::Ready(Ok(count)) = &written
            && let Some(priority) = this.urgency.wrote(*count, Instant::now())
        {
            // A stream that has ended meanwhile says so itself.
            let _ = send.set_priority(priority);
        }
        written
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // QUIC sends as soon as it may.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.finished {
            return Poll::Ready(Ok(()));
        }
        let Some(send) = self.send.as_mut() else {
            return Poll::Ready(Err(gone()));
        };
        let done = AsyncWrite::poll_shutdown(Pin::new(send), cx);
        if let Poll::Ready(Ok(())) = done {
            self.finished = true;
        }
        done
    }
}

/// What the peer said when it broke the stream, or closed the connection under it.
pub fn peer_refusal(error: &io::Error) -> Option<Refusal> {
    let inner = error.get_ref()?;
    let code = match (inner.downcast_ref::<ReadError>(), inner.downcast_ref::<WriteError>()) {
        (Some(ReadError::Reset(code)), _) | (_, Some(WriteError::Stopped(code))) => *code,
        (Some(ReadError::ConnectionLost(lost)), _) | (_, Some(WriteError::ConnectionLost(lost))) => match lost {
            ConnectionError::ApplicationClosed(closed) => closed.error_code,
            _ => return None,
        },
        _ => return None,
    };
    Some(Refusal::from_wire(code.into_inner()))
}

/// How the connection under the stream ended, if that is what the error is about.
pub fn lost(error: &io::Error) -> Option<Lost> {
    let inner = error.get_ref()?;
    match (inner.downcast_ref::<ReadError>(), inner.downcast_ref::<WriteError>()) {
        (Some(ReadError::ConnectionLost(lost)), _) | (_, Some(WriteError::ConnectionLost(lost))) => Some(lost.into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
