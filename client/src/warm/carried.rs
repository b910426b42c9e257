//! A stream that the warm process carries, as a reader and writer: what the inner TLS runs over, or what is said inside one.
//!
//! ```text
//! write ──> CARRY …  shutdown ──> CARRY_END          read <── CARRY … | CARRY_END: the end | BROKEN: an error with its fault
//! ```
//!
//! An error reads as it would on the stream itself: [`crate::faults::of_stream`] finds the fault in it. The socket's own end without a
//! word is the end of the warm process: a lost path. Holds one frame each way.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes, BytesMut};
use noderelay_proto::code::{Code, Origin};
use noderelay_proto::control::Broken;
use noderelay_proto::limits::MAX_DATA;
use noderelay_proto::{Frames, FromWarm, ToWarm};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;

use crate::faults::Fault;

/// Free room before each read: a whole frame with its header fits.
const READ: usize = MAX_DATA + 1024;

/// The client's end.
pub struct Carried {
    socket: UnixStream,
    frames: Frames<FromWarm>,
    /// Received and not yet read.
    ready: Bytes,
    ended: bool,
    /// Why nothing more can be read.
    deaf: Option<Fault>,
    /// Why nothing more can be written.
    mute: Option<Fault>,
    /// A frame on its way.
    outgoing: BytesMut,
    finished: bool,
}

impl std::fmt::Debug for Carried {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Carried")
            .field("socket", &self.socket)
            .finish_non_exhaustive()
    }
}

impl Carried {
    /// Behind ANSWER; `frames` may hold what came with it.
    pub(super) fn new(socket: UnixStream, frames: Frames<FromWarm>) -> Self {
        Self {
            socket,
            frames,
            ready: Bytes::new(),
            ended: false,
            deaf: None,
            mute: None,
            outgoing: BytesMut::new(),
            finished: false,
        }
    }

    /// Takes the next frame; whether more has to be read first.
    fn next(&mut self) -> bool {
        match self.frames.next() {
            Ok(Some(FromWarm::Carry(bytes))) => self.ready = bytes,
            Ok(Some(FromWarm::CarryEnd)) => self.ended = true,
            Ok(Some(FromWarm::Broken(broken))) => {
                let fault = fault(&broken);
                if !broken.writing {
                    self.deaf = Some(fault.clone());
                }
                self.mute = Some(fault);
            }
            Ok(Some(other)) => self.break_off(&format!("the warm process said {} in the middle", other.frame())),
            Ok(None) => return true,
            Err(error) => self.break_off(&format!("the warm process broke its protocol: {error}")),
        }
        false
    }

    fn break_off(&mut self, seen: &str) {
        let fault = Fault::on_the_way(Code::TransportLost, seen);
        self.deaf = Some(fault.clone());
        self.mute = Some(fault);
    }

    /// Writes what is on its way.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.outgoing.is_empty() {
            if let Some(fault) = &self.mute {
                return Poll::Ready(Err(io::Error::other(fault.clone())));
            }
            ready!(self.socket.poll_write_ready(cx))?;
            match self.socket.try_write(&self.outgoing) {
                Ok(written) => self.outgoing.advance(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => {
                    self.mute = Some(gone());
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// What a word of the warm process means.
pub(crate) fn fault(broken: &Broken) -> Fault {
    let code = Code::from_number(broken.code);
    if broken.by_node {
        Fault::new(code, Origin::Agent, &broken.seen)
    } else {
        Fault::on_the_way(code, &broken.seen)
    }
}

fn gone() -> Fault {
    Fault::on_the_way(
        Code::TransportLost,
        "the warm process that carried the session has ended (noderelay warm)",
    )
}

impl AsyncRead for Carried {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            if !self.ready.is_empty() {
                let length = self.ready.len().min(buffer.remaining());
                buffer.put_slice(&self.ready.split_to(length));
                return Poll::Ready(Ok(()));
            }
            if let Some(fault) = &self.deaf {
                return Poll::Ready(Err(io::Error::other(fault.clone())));
            }
            if self.ended {
                return Poll::Ready(Ok(()));
            }
            if !self.next() {
                continue;
            }
            ready!(self.socket.poll_read_ready(cx))?;
            let this = &mut *self;
            let room = this.frames.buffer();
            room.reserve(READ);
            match this.socket.try_read_buf(room) {
                Ok(0) => this.deaf = Some(gone()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => this.deaf = Some(gone()),
            }
        }
    }
}

impl AsyncWrite for Carried {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_send(cx))?;
        if let Some(fault) = &self.mute {
            return Poll::Ready(Err(io::Error::other(fault.clone())));
        }
        let taken = bytes.get(..bytes.len().min(MAX_DATA)).unwrap_or_default();
        if taken.is_empty() {
            return Poll::Ready(Ok(0));
        }
        ToWarm::Carry(Bytes::copy_from_slice(taken)).encode(&mut self.outgoing);
        // What does not leave now leaves with the next call; an error shows there too.
        let _ = self.poll_send(cx);
        Poll::Ready(Ok(taken.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_send(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.finished {
            ready!(self.poll_send(cx))?;
            self.finished = true;
            ToWarm::CarryEnd.encode(&mut self.outgoing);
        }
        self.poll_send(cx)
    }
}

#[cfg(test)]
mod tests;
