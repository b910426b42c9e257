//! Towards the node: input and local keys, the window, everything that goes out in a turn, and the last words.
//!
//! Input that finds no room waits here only when it was typed (a terminal is read on, for the key that leaves); a file or
//! pipe is simply not read. It decides nothing about the end but that the user left.

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use noderelay_proto::ToNode;
use noderelay_proto::code::Code;
use noderelay_proto::control::{Closed, Resize, Signal};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::{Ended, LEAST_PIECE, MAX_OUTGOING, Pump, report};
use crate::escape::Event;
use crate::faults::Fault;
use crate::terminal;

/// Most typed bytes that wait while the window is full: a terminal is read on, or the key that leaves would not be seen.
const MAX_WAITING: usize = 1024 * 1024;
/// How long the last words may take (the final acknowledgement, or that we leave).
const LAST_WORDS: Duration = Duration::from_millis(250);

impl Pump<'_> {
    /// Whether input may be read. A terminal is read also while the window is full: the local keys have to be seen.
    pub(super) fn has_room(&self, room: usize) -> bool {
        let typed = self.local.raw.is_some() && self.waiting.len() < MAX_WAITING;
        typed || (self.waiting.is_empty() && room >= LEAST_PIECE && self.outgoing.len() < MAX_OUTGOING)
    }

    pub(super) fn typed(&mut self, typed: std::io::Result<Bytes>) -> Option<Ended> {
        let typed = match typed {
            Ok(typed) => typed,
            // Told as its end, half of a file would be taken for the whole of it.
            Err(error) => return Some(Ended::Fault(Fault::local_io("reading standard input", &error))),
        };
        if typed.is_empty() {
            self.input_ended = true;
            if let Some(held) = self.local.keys.end() {
                self.input(held);
            }
            return None;
        }
        for event in self.local.keys.feed(typed) {
            match event {
                Event::Send(bytes) => self.input(bytes),
                Event::Leave => return Some(Ended::Left),
                Event::Help => self.local.screen.say(self.local.keys.help()),
                Event::Status => {
                    let text = report::status(self);
                    self.local.screen.say(text);
                }
            }
        }
        None
    }

    /// Sends input, or keeps what finds no room.
    fn input(&mut self, mut bytes: Bytes) {
        if self.waiting.is_empty() {
            let now = bytes.split_to(bytes.len().min(self.outbox.room()));
            self.data(now);
        }
        self.waiting.extend_from_slice(&bytes);
    }

    fn data(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.bytes_in += bytes.len() as u64;
            self.sequenced(ToNode::Data(bytes));
        }
    }

    /// Puts a frame into the sequence and on its way; `false` when there is no room.
    fn sequenced(&mut self, frame: ToNode) -> bool {
        let pushed = self.outbox.push(frame.clone()).is_ok();
        if pushed {
            frame.encode(&mut self.outgoing);
        }
        pushed
    }

    /// Everything that goes out in this turn beside input.
    pub(super) fn collect(&mut self) {
        if self.mute.is_some() {
            return;
        }
        if self.verdict.is_none() {
            self.collect_sequenced();
        }
        // With something else on its way an acknowledgement costs nothing.
        let ack = if self.outgoing.is_empty() {
            self.inbox.ack_due(self.started.elapsed())
        } else {
            self.inbox.take_ack()
        };
        if let Some(offset) = ack {
            ToNode::Ack(offset).encode(&mut self.outgoing);
        }
    }

    fn collect_sequenced(&mut self) {
        while !self.waiting.is_empty() && self.outbox.room() > 0 {
            let piece = self
                .waiting
                .split_to(self.waiting.len().min(self.outbox.room()))
                .freeze();
            self.data(piece);
        }
        if self.input_ended && self.waiting.is_empty() && !self.outbox.has_ended() {
            self.sequenced(ToNode::End);
        }
        if std::mem::take(&mut self.size_changed)
            && let Some(size) = self.local.window.as_ref().and_then(terminal::size)
        {
            let resize = Resize {
                cols: size.cols.into(),
                rows: size.rows.into(),
                xpixel: size.xpixel.into(),
                ypixel: size.ypixel.into(),
            };
            self.size_changed = !self.sequenced(ToNode::Resize(resize));
        }
        while let Some(signal) = self.signals.first().copied() {
            if !self.sequenced(ToNode::Signal(Signal { signal: signal.into() })) {
                break;
            }
            self.signals.remove(0);
        }
    }

    /// What the node has to know at the end. Bounded: the network may be gone.
    pub(super) async fn last_words<W: AsyncWrite + Unpin>(&mut self, ended: &Ended, writer: &mut W) {
        let leaving = |code: Code| {
            ToNode::Closed(Closed {
                code: code.number(),
                seen: String::new(),
            })
        };
        match ended {
            Ended::Exit(_) => {
                if let Some(offset) = self.inbox.take_ack() {
                    ToNode::Ack(offset).encode(&mut self.outgoing);
                }
            }
            Ended::Left | Ended::Signalled(_) | Ended::OutputClosed => {
                leaving(Code::SessionLeft).encode(&mut self.outgoing)
            }
            Ended::Fault(fault) if !fault.is_transport() => leaving(fault.code).encode(&mut self.outgoing),
            Ended::Closed(_) => {}
            Ended::Fault(_) => return,
        }
        let words = async {
            send(writer, &mut self.outgoing, &mut self.unflushed).await?;
            writer.shutdown().await
        };
        // Nobody is left to tell when it fails.
        let _ = timeout(LAST_WORDS, words).await;
    }
}

/// Writes what is there and makes TLS send it. May be dropped at any await.
pub(super) async fn send<W: AsyncWrite + Unpin>(
    writer: &mut W,
    outgoing: &mut BytesMut,
    unflushed: &mut bool,
) -> std::io::Result<()> {
    while !outgoing.is_empty() {
        *unflushed = true;
        let written = writer.write(outgoing).await?;
        if written == 0 {
            return Err(std::io::ErrorKind::WriteZero.into());
        }
        outgoing.advance(written);
    }
    writer.flush().await?;
    *unflushed = false;
    Ok(())
}
