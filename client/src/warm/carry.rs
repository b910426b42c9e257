//! Carries what a client asked for between its socket and a stream, with the ends, breaks and back-pressure of both.
//!
//! ```text
//! client ── CARRY ──> write      CARRY_END ──> orderly end       the client is gone: the stream is dropped, which breaks it
//! client <── CARRY ── read       CARRY_END <── orderly end       BROKEN <── an error, with the fault that it is
//! ```
//!
//! Each direction by itself; neither reads on before what it read is written. Never looks into the bytes, and outlives neither of its
//! ends.

use std::future::pending;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use bytes::{BufMut as _, BytesMut};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use noderelay_proto::control::Broken;
use noderelay_proto::limits::{MAX_DATA, MAX_TEXT};
use noderelay_proto::{Frames, FromWarm, ToWarm};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::{ReadHalf, WriteHalf};
use tokio::time::sleep;

use crate::faults;
use crate::frames::{self, NoMessage};

/// A client whose bytes the node does not take is looked after this often: nobody reads its socket then.
const LOOK: Duration = Duration::from_secs(1);

/// Carries until the client goes, or broke the protocol. `frames` may hold what came behind ASK.
pub(super) async fn carry<S>(mut client: UnixStream, frames: Frames<ToWarm>, stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (reader, writer) = tokio::io::split(stream);
    // A second handle for what the writing half has to be told, so that both directions can speak.
    let (from_client, mut to_client) = client.split();
    let (break_off, broken) = tokio::sync::oneshot::channel();
    let up = up(from_client, frames, writer, break_off);
    let down = async {
        down(reader, &mut to_client, broken).await;
        // The client goes when it has read it.
        pending::<()>().await;
    };
    tokio::select! {
        () = up => {}
        () = down => {}
    }
}

/// Client to stream; ends when the client is gone.
async fn up<W: AsyncWrite + Unpin>(
    mut client: ReadHalf<'_>,
    mut frames: Frames<ToWarm>,
    mut stream: W,
    break_off: tokio::sync::oneshot::Sender<Broken>,
) {
    let mut break_off = Some(break_off);
    loop {
        let message = match frames::next(&mut client, &mut frames).await {
            Ok(message) => message,
            Err(NoMessage::Ended | NoMessage::Stream(_)) => return,
            Err(NoMessage::Protocol(error)) => return tracing::warn!(%error, "a client broke the protocol"),
        };
        let written = match message {
            // What can't be written is read all the same: the client's end has to be heard.
            _ if break_off.is_none() => continue,
            ToWarm::Carry(bytes) => tokio::select! {
                written = write(&mut stream, &bytes) => written,
                () = gone(client.as_ref()) => return,
            },
            ToWarm::CarryEnd => stream.shutdown().await,
            ToWarm::Ask(_) => return tracing::warn!("a client asked a second time"),
        };
        if let Err(error) = written
            && let Some(break_off) = break_off.take()
        {
            // Nobody hears it when the other direction is broken too, and said so.
            let _ = break_off.send(Broken {
                writing: true,
                ..broken(&error)
            });
        }
    }
}

async fn write<W: AsyncWrite + Unpin>(stream: &mut W, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes).await?;
    stream.flush().await
}

/// Stream to client, until its end or break.
async fn down<R: AsyncRead + Unpin>(
    mut stream: R,
    client: &mut WriteHalf<'_>,
    mut broken_up: tokio::sync::oneshot::Receiver<Broken>,
) {
    let mut buffer = BytesMut::new();
    loop {
        let message = tokio::select! {
            biased;
            Ok(broken) = &mut broken_up, if !broken_up.is_terminated() => FromWarm::Broken(broken),
            read = read(&mut stream, &mut buffer) => match read {
                Ok(0) => FromWarm::CarryEnd,
                Ok(_) => FromWarm::Carry(buffer.split().freeze()),
                Err(error) => FromWarm::Broken(broken(&error)),
            },
        };
        let last = match &message {
            FromWarm::Carry(_) => false,
            FromWarm::Broken(broken) => !broken.writing,
            _ => true,
        };
        if say(client, &message).await.is_err() || last {
            return;
        }
    }
}

/// Reads at most one frame's worth. Cancel safe.
async fn read<R: AsyncRead + Unpin>(stream: &mut R, buffer: &mut BytesMut) -> io::Result<usize> {
    buffer.reserve(MAX_DATA);
    stream.read_buf(&mut buffer.limit(MAX_DATA)).await
}

/// Writes a frame.
pub(super) async fn say<W: AsyncWrite + Unpin>(client: &mut W, message: &FromWarm) -> io::Result<()> {
    let mut bytes = BytesMut::new();
    message.encode(&mut bytes);
    client.write_all_buf(&mut bytes).await
}

/// What an error of the stream is, for the client.
fn broken(error: &io::Error) -> Broken {
    let fault = faults::of_stream(error);
    Broken {
        code: fault.code.number(),
        seen: bounded(&fault.seen),
        writing: false,
        by_node: !fault.is_transport(),
    }
}

/// As much of a text as a message takes.
pub(super) fn bounded(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_TEXT.min(text.len()));
    text.get(..end).unwrap_or_default().to_owned()
}

/// Resolves when the other end of the socket is closed, also while nobody reads.
async fn gone(client: &UnixStream) {
    loop {
        sleep(LOOK).await;
        let mut looked = [PollFd::new(client.as_fd(), PollFlags::empty())];
        // An error says nothing about the other end.
        let _ = poll(&mut looked, PollTimeout::ZERO);
        let [looked] = looked;
        if looked
            .revents()
            .is_some_and(|events| events.contains(PollFlags::POLLHUP))
        {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
