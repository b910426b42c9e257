//! The next message of a byte stream: what has come already, else what comes. It judges no message, and waits without a bound.

use std::io;

use noderelay_proto::code::{Code, Origin};
use noderelay_proto::limits::MAX_DATA;
use noderelay_proto::message::Message;
use noderelay_proto::{Frames, ProtocolError};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::faults::{self, Fault};

/// Size of a read: a whole frame of data fits.
const READ: usize = MAX_DATA + 1024;

/// Why there is no next message.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoMessage {
    /// The stream ended.
    #[error("it ended")]
    Ended,
    /// What came is not a message.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// The stream broke.
    #[error(transparent)]
    Stream(#[from] io::Error),
}

impl NoMessage {
    /// As a fault of a stream through a relay; `ended` is what its end means.
    pub(crate) fn fault(&self, ended: &str) -> Fault {
        match self {
            Self::Ended => Fault::on_the_way(Code::TransportClosed, ended),
            Self::Protocol(error) => Fault::new(error.code(), Origin::Client, error.to_string()),
            Self::Stream(error) => faults::of_stream(error),
        }
    }
}

/// Waits for the next message. Cancel safe: what was read stays in `frames`.
pub(crate) async fn next<T: Message>(
    stream: &mut (impl AsyncRead + Unpin),
    frames: &mut Frames<T>,
) -> Result<T, NoMessage> {
    loop {
        if let Some(message) = frames.next()? {
            return Ok(message);
        }
        frames.buffer().reserve(READ);
        if stream.read_buf(frames.buffer()).await? == 0 {
            return Err(NoMessage::Ended);
        }
    }
}
