//! Frames over a byte stream: the only place in the agent that reads and writes them.
//!
//! A reader holds one bounded frame and one read at most; a writer holds what was queued since the last flush. After the
//! first breach of the protocol a reader repeats its error. Neither judges the order of messages.

use bytes::BytesMut;
use noderelay_proto::code::Code;
use noderelay_proto::error::ProtocolError;
use noderelay_proto::message::{Frames, Message};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// Free room before each read: a whole data frame with its header fits.
const READ: usize = 72 * 1024;

/// What went wrong with a stream of frames.
#[derive(Debug, thiserror::Error)]
pub enum FramedError {
    /// The stream failed.
    #[error("the connection failed: {0}")]
    Io(#[from] std::io::Error),
    /// The stream ended where it may not.
    #[error("the connection ended too early")]
    Ended,
    /// The peer broke the protocol.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
}

impl FramedError {
    /// The code for log and peer.
    pub fn code(&self) -> Code {
        match self {
            Self::Io(_) | Self::Ended => Code::TransportLost,
            Self::Protocol(e) => e.code(),
        }
    }
}

/// Reads messages of one direction.
pub struct FrameReader<R, T> {
    input: R,
    frames: Frames<T>,
}

impl<R: AsyncRead + Unpin, T: Message> FrameReader<R, T> {
    /// A reader at the start of a stream.
    pub fn new(input: R) -> Self {
        Self {
            input,
            frames: Frames::new(),
        }
    }

    /// What it reads from, with what was read and not taken lost.
    #[cfg(test)]
    pub fn into_inner(self) -> R {
        self.input
    }

    /// The next message, waiting for it; `None` at a clean end.
    pub async fn next(&mut self) -> Result<Option<T>, FramedError> {
        loop {
            if let Some(message) = self.buffered()? {
                return Ok(Some(message));
            }
            if !self.fill().await? {
                return Ok(None);
            }
        }
    }

    /// The next message; that the stream ends before it is an error.
    pub async fn demand(&mut self) -> Result<T, FramedError> {
        self.next().await?.ok_or(FramedError::Ended)
    }

    /// The next message that is already here.
    pub fn buffered(&mut self) -> Result<Option<T>, FramedError> {
        Ok(self.frames.next()?)
    }

    /// Waits for bytes without room for them: for a peer that may say nothing for minutes. `false` at the end. Cancel safe.
    pub async fn wait(&mut self) -> Result<bool, FramedError> {
        if self.frames.buffer().is_empty() {
            self.frames = Frames::new();
            let mut first = [0; 1];
            if self.input.read(&mut first).await? == 0 {
                return Ok(false);
            }
            self.frames.push(&first);
        }
        Ok(true)
    }

    /// Reads once; `false` at a clean end. Cancel safe.
    pub async fn fill(&mut self) -> Result<bool, FramedError> {
        let buffer = self.frames.buffer();
        buffer.reserve(READ);
        if self.input.read_buf(buffer).await? > 0 {
            return Ok(true);
        }
        self.frames.finish()?;
        Ok(false)
    }
}

/// Writes messages.
pub struct FrameWriter<W> {
    output: W,
    queued: BytesMut,
}

impl<W: AsyncWrite + Unpin> FrameWriter<W> {
    /// A writer.
    pub fn new(output: W) -> Self {
        Self {
            output,
            queued: BytesMut::new(),
        }
    }

    /// Queues a message without writing.
    pub fn queue(&mut self, message: &impl Message) {
        message.encode(&mut self.queued);
    }

    /// Writes what is queued.
    pub async fn flush(&mut self) -> Result<(), FramedError> {
        self.output.write_all_buf(&mut self.queued).await?;
        self.output.flush().await?;
        Ok(())
    }

    /// Queues and writes.
    pub async fn send(&mut self, message: &impl Message) -> Result<(), FramedError> {
        self.queue(message);
        self.flush().await
    }

    /// Ends this direction of the stream.
    pub async fn finish(&mut self) -> Result<(), FramedError> {
        self.flush().await?;
        Ok(self.output.shutdown().await?)
    }
}
