//! The socket to the agent: frames in, frames out, nothing that waits.
//!
//! What is written goes into a buffer first and leaves when the socket takes it; the owner stops producing while
//! [`Link::is_full`]. A closed or broken socket is `Gone`: the holder goes on without it. An agent whose client is lost closes
//! its half only: it is silent, and still hears how the session ends.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;

use bytes::{Buf, BytesMut};
use noderelay_proto::{Frames, FromHolder, ProtocolError, ToHolder};
use tokio::net::unix::pipe::Receiver;

use crate::socket::{watched, writable};

/// One read: a data frame and its header.
const READ: usize = 64 * 1024 + 16;
/// Unsent bytes above which nothing more is produced. The replay buffer holds the same bytes again, so this is what the
/// socket is fed from, not a second window.
const FULL: usize = 128 * 1024;

/// The connection to an agent.
#[derive(Debug)]
pub(crate) struct Link {
    stream: UnixStream,
    incoming: Receiver,
    frames: Frames<ToHolder>,
    out: BytesMut,
    /// The agent has said its last word, but still listens.
    silent: bool,
}

/// Why a link is of no use any more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Gone {
    #[error("the agent is gone")]
    Closed,
    #[error("the socket to the agent failed: {0}")]
    Broken(#[from] io::Error),
    #[error("the agent broke the protocol: {0}")]
    Protocol(#[from] ProtocolError),
}

impl Link {
    pub(crate) fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            incoming: watched(&stream)?,
            stream,
            frames: Frames::new(),
            out: BytesMut::new(),
            silent: false,
        })
    }

    /// Puts a message behind the others.
    pub(crate) fn send(&mut self, message: &FromHolder) {
        message.encode(&mut self.out);
    }

    /// The agent will say nothing more. What is said to it may still be heard.
    pub(crate) fn is_silent(&self) -> bool {
        self.silent
    }

    /// The next message that has arrived, if a whole one has.
    pub(crate) fn next(&mut self) -> Result<Option<ToHolder>, Gone> {
        if self.silent {
            return Ok(None);
        }
        loop {
            if let Some(message) = self.frames.next()? {
                return Ok(Some(message));
            }
            let buffer = self.frames.buffer();
            buffer.reserve(READ);
            match self.incoming.try_read_buf(buffer) {
                Ok(0) => {
                    self.frames.finish()?;
                    self.silent = true;
                    return Ok(None);
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Err(Gone::Closed),
                Err(error) => return Err(Gone::Broken(error)),
            }
        }
    }

    /// Writes what the socket takes.
    pub(crate) fn flush(&mut self) -> Result<(), Gone> {
        while !self.out.is_empty() {
            match self.stream.write(&self.out) {
                Ok(written) => self.out.advance(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Err(Gone::Closed),
                Err(error) => return Err(Gone::Broken(error)),
            }
        }
        Ok(())
    }

    /// Whether enough waits to be written.
    pub(crate) fn is_full(&self) -> bool {
        self.out.len() >= FULL
    }

    /// Whether anything waits to be written.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.out.is_empty()
    }

    /// Waits until [`Link::next`] or [`Link::flush`] can do something.
    pub(crate) async fn ready(&self) {
        // An error shows again, with its cause, in the call that follows.
        tokio::select! {
            _ = self.incoming.readable(), if !self.silent => {}
            () = writable(&self.stream), if self.is_waiting() => {}
            else => std::future::pending().await,
        }
    }

    /// Waits for one whole message.
    pub(crate) async fn wait(&mut self) -> Result<ToHolder, Gone> {
        loop {
            if let Some(message) = self.next()? {
                return Ok(message);
            }
            if self.silent {
                return Err(Gone::Closed);
            }
            self.ready().await;
        }
    }

    /// Writes everything, waiting for the socket.
    pub(crate) async fn drain(&mut self) -> Result<(), Gone> {
        loop {
            self.flush()?;
            if !self.is_waiting() {
                return Ok(());
            }
            writable(&self.stream).await;
        }
    }

    /// The user id of the process at the other end.
    pub(crate) fn peer_uid(&self) -> io::Result<u32> {
        let peer = nix::sys::socket::getsockopt(&self.stream, nix::sys::socket::sockopt::PeerCredentials)?;
        Ok(peer.uid())
    }
}
