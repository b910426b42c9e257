//! Descriptors that wake us for what they bring, and for "writable" only after they refused a write.
//!
//! A socket or terminal that is watched for "writable" reports it whenever the other side takes something: a wake-up for
//! each keystroke that says nothing. So writing is tried first; only when it is refused the kernel is asked, once, on a
//! descriptor of its own.
//!
//! tokio's pipe ends wait for readiness in one direction and read or write, whatever the descriptor is: that is all that is
//! used of them here. Nothing here buffers.

use std::future::poll_fn;
use std::io::{self, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::AsyncWrite;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::time::{Sleep, sleep};

/// When a node has no descriptor left to ask with, a refused write is tried again after this long.
const AGAIN: Duration = Duration::from_millis(10);

/// Watches a descriptor for something to read. It must be non-blocking.
pub(crate) fn watched(fd: impl AsFd) -> io::Result<Receiver> {
    Receiver::from_owned_fd_unchecked(copy(fd)?)
}

/// Waits until a descriptor that refused a write takes one. An error shows again, with its cause, at the next write.
pub(crate) async fn writable(fd: impl AsFd) {
    asked(copy(fd)).await;
}

async fn asked(copy: io::Result<OwnedFd>) {
    let mut refused = Refused::asking(copy.and_then(Sender::from_owned_fd_unchecked));
    // An error is none of the waiting's.
    let _ = poll_fn(|cx| refused.poll(cx)).await;
}

fn copy(fd: impl AsFd) -> io::Result<OwnedFd> {
    fd.as_fd().try_clone_to_owned()
}

/// The agent's half towards a holder. That the node has no descriptor left is no fault of the session's: it goes on, slower.
#[derive(Debug)]
pub struct ToHolderHalf {
    socket: UnixStream,
    refused: Option<Refused>,
    ask: fn(&UnixStream) -> io::Result<Sender>,
}

/// A write was refused; what is waited for.
#[derive(Debug)]
enum Refused {
    /// The kernel says when there is room.
    Asked(Sender),
    /// It could not be asked: until the next attempt.
    Later(Pin<Box<Sleep>>),
}

impl ToHolderHalf {
    pub(crate) fn new(socket: UnixStream) -> Self {
        Self {
            socket,
            refused: None,
            ask: |socket| copy(socket).and_then(Sender::from_owned_fd_unchecked),
        }
    }
}

impl Refused {
    /// Without a descriptor to ask with it is waited a little: who tries again at once would never let others have their turn.
    fn asking(sender: io::Result<Sender>) -> Self {
        sender.map_or_else(|_| Self::Later(Box::pin(sleep(AGAIN))), Self::Asked)
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Asked(asked) => asked.poll_write_ready(cx),
            Self::Later(sleep) => sleep.as_mut().poll(cx).map(Ok),
        }
    }
}

impl AsyncWrite for ToHolderHalf {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            if let Some(refused) = &mut self.refused {
                ready!(refused.poll(cx))?;
                self.refused = None;
            }
            match self.socket.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.refused = Some(Refused::asking((self.ask)(&self.socket)));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return Poll::Ready(done),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.socket.shutdown(Shutdown::Write))
    }
}

#[cfg(test)]
mod tests;
