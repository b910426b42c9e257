//! Bytes both ways between the local terminal or pipes and an open session.
//!
//! ```text
//! standard input ─> local keys ─> outbox (the window) ─> frames ─> inner TLS ─> node
//! standard output <─ screen (bounded by the window) <─ inbox <─ frames <─ inner TLS <─ node
//!                      └─ written ─> consumed ─> ACK
//! ```
//!
//! One task, one loop. Each source is asked only while there is room for what it gives, so none can fill memory and none
//! can hold up another: with standard output blocked, keys, signals and acknowledgements still pass. A key goes out in
//! the turn in which it was read; no timer is on its way.
//!
//! The end is strict: everything that came is written, then EXIT counts, then it is acknowledged. Without EXIT there is
//! no exit code, only a [`Fault`].
//!
//! It never reconnects, prints no message of its own beyond what a key or a notice asks for, and knows neither relays
//! nor certificates.

use std::os::fd::OwnedFd;
use std::pin::pin;
use std::time::Duration;

use bytes::BytesMut;
use noderelay_proto::code::{Code, Origin};
use noderelay_proto::control::SignalName;
use noderelay_proto::session::{Inbox, Outbox};
use noderelay_proto::{Frames, ToClient, ToNode};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::{Instant, sleep_until};

use crate::escape::Keys;
use crate::exit::Remote;
use crate::faults::{self, Fault};
use crate::screen::{Screen, Side};
use crate::signals::{Caught, Reaction, Reactions, Signals};
use crate::stdio::Input;
use crate::terminal::Raw;

mod alive;
mod outward;
pub(crate) mod report;

use outward::send;
pub use report::words;
#[cfg(test)]
mod tests;

/// Most bytes that wait to be encrypted. Input is not read and, under a flood of questions, the network neither.
const MAX_OUTGOING: usize = 128 * 1024;
/// Size of a read from the network.
const READ: usize = 64 * 1024;
/// Input is read in pieces of at least this size once the window has run full.
const LEAST_PIECE: usize = 4 * 1024;
/// How long a stream that takes nothing more may still have something to say.
const LAST_HEARD: Duration = Duration::from_secs(2);
/// How often it is looked whether a terminal that raw mode is owed to is ours by now.
const OWED: Duration = Duration::from_millis(250);

/// The local side of a session.
#[derive(Debug)]
pub struct Local {
    /// Standard input.
    pub input: Input,
    /// Standard output and error.
    pub screen: Screen,
    /// Signals of this process.
    pub signals: Signals,
    /// The local keys.
    pub keys: Keys,
    /// The guard of the raw terminal, if there is one.
    pub raw: Option<Raw>,
    /// The local terminal whose size counts, when the remote side has a terminal.
    pub window: Option<OwnedFd>,
    /// Whether the remote side has a terminal.
    pub terminal: bool,
    /// No notices.
    pub quiet: bool,
}

/// When the node is asked for a sign of life, and how long it may take.
#[derive(Debug, Clone, Copy)]
pub struct Liveness {
    /// Silence after which it is asked.
    pub keepalive: Duration,
    /// Time that the answer may take.
    pub patience: Duration,
}

/// What is known about the session, for `~s`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Node, cluster, path, session, as one line.
    pub session: String,
}

/// How the session ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// The remote command ended, and everything before it was written.
    Exit(Remote),
    /// The node ended it.
    Closed(Fault),
    /// The user left with the local key.
    Left,
    /// A signal ended the client.
    Signalled(Caught),
    /// Whoever read our output has gone.
    OutputClosed,
    /// The path was lost, or the node broke the protocol.
    Fault(Fault),
}

/// The end, and what was moved until then.
#[derive(Debug)]
pub struct Finished {
    /// How.
    pub ended: Ended,
    /// Bytes of input that were sent.
    pub bytes_in: u64,
    /// Bytes of output that were written.
    pub bytes_out: u64,
}

/// Runs an open session until it ends. `frames` may hold what came behind OPENED.
pub async fn run<S>(
    stream: S,
    frames: Frames<ToClient>,
    window: u64,
    local: &mut Local,
    facts: Facts,
    liveness: Liveness,
) -> Finished
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut reader, mut writer) = tokio::io::split(stream);
    let mut pump = Pump::new(frames, window, local, facts, liveness);
    let ended = pump.turn(&mut reader, &mut writer).await;
    pump.last_words(&ended, &mut writer).await;
    Finished {
        ended,
        bytes_in: pump.bytes_in,
        bytes_out: pump.local.screen.written(),
    }
}

struct Pump<'a> {
    local: &'a mut Local,
    facts: Facts,
    reactions: Reactions,
    frames: Frames<ToClient>,
    inbox: Inbox<ToClient>,
    outbox: Outbox<ToNode>,
    /// Encoded and not yet handed to TLS.
    outgoing: BytesMut,
    /// TLS may hold bytes back.
    unflushed: bool,
    /// Typed, but the window had no room.
    waiting: BytesMut,
    size_changed: bool,
    signals: Vec<SignalName>,
    input_ended: bool,
    /// How it will end, once everything received is written.
    verdict: Option<Ended>,
    /// Nothing more is read from the stream.
    deaf: bool,
    /// Nothing more can be written to it, and why.
    mute: Option<Fault>,
    started: Instant,
    heard: Instant,
    asked: Option<Instant>,
    look_at: Instant,
    liveness: Liveness,
    bytes_in: u64,
}

impl<'a> Pump<'a> {
    fn new(frames: Frames<ToClient>, window: u64, local: &'a mut Local, facts: Facts, liveness: Liveness) -> Self {
        let now = Instant::now();
        Self {
            reactions: Reactions::new(local.terminal, local.raw.is_some()),
            local,
            facts,
            frames,
            inbox: Inbox::new(window),
            outbox: Outbox::new(window),
            outgoing: BytesMut::new(),
            unflushed: false,
            waiting: BytesMut::new(),
            size_changed: false,
            signals: Vec::new(),
            input_ended: false,
            verdict: None,
            deaf: false,
            mute: None,
            started: now,
            heard: now,
            asked: None,
            look_at: now + liveness.keepalive,
            liveness,
            bytes_in: 0,
        }
    }

    async fn turn<R, W>(&mut self, reader: &mut R, writer: &mut W) -> Ended
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let mut timer = pin!(sleep_until(self.look_at));
        loop {
            self.receive();
            if self.local.screen.is_closed() && self.verdict.is_none() {
                return Ended::OutputClosed;
            }
            if self.local.screen.is_empty()
                && let Some(ended) = self.verdict.take()
            {
                return ended;
            }
            self.collect();
            let room = self.outbox.room();
            let wants_input = self.verdict.is_none() && !self.input_ended && self.has_room(room);
            let wants_send = self.mute.is_none() && (self.unflushed || !self.outgoing.is_empty());
            let wants_more = !self.deaf && self.outgoing.len() < 2 * MAX_OUTGOING;
            let mut wake = self.wake();
            if self.local.raw.as_ref().is_some_and(Raw::owed) {
                wake = wake.min(Instant::now() + OWED);
            }
            // Moving it to a later time can wait until it rings: the other way costs a wake-up for each key.
            if timer.is_elapsed() || wake < timer.deadline() {
                timer.as_mut().reset(wake);
            }
            // The order is the order of urgency; each branch is bounded by what it fills, so the last is reached.
            tokio::select! {
                biased;
                caught = self.local.signals.next() => {
                    if let Some(ended) = self.caught(caught) {
                        return ended;
                    }
                }
                typed = self.local.input.read(room.max(LEAST_PIECE)), if wants_input => {
                    if let Some(ended) = self.typed(typed) {
                        return ended;
                    }
                }
                sent = send(writer, &mut self.outgoing, &mut self.unflushed), if wants_send => {
                    if let Err(error) = sent {
                        self.cannot_send(&error);
                    }
                }
                written = self.local.screen.advance(), if !self.local.screen.is_empty() => match written {
                    Ok(units) => self.consumed(units),
                    Err(error) => return Ended::Fault(Fault::local_io("writing output", &error)),
                },
                got = read(reader, &mut self.frames), if wants_more => match got {
                    Ok(0) => self.end_of_stream(),
                    Ok(_) => self.heard = Instant::now(),
                    Err(error) => self.cannot_hear(faults::of_stream(&error)),
                },
                () = &mut timer => self.look(),
            }
        }
    }

    /// Takes every whole frame that has arrived.
    fn receive(&mut self) {
        while !self.deaf {
            match self.frames.next() {
                // The end is known; the node may still want to hear that we are there while we write.
                Ok(Some(ToClient::Ping(number))) => ToNode::Pong(number).encode(&mut self.outgoing),
                Ok(Some(_)) if self.verdict.is_some() => {}
                Ok(Some(message)) => self.message(message),
                Ok(None) => return,
                Err(error) => self.cannot_hear(Fault::new(error.code(), Origin::Client, error.to_string())),
            }
        }
    }

    fn message(&mut self, message: ToClient) {
        let breach = match message {
            ToClient::Data(_) | ToClient::DataErr(_) | ToClient::End | ToClient::Exit(_) => {
                let frame = self.inbox.on_frame(message);
                match frame {
                    Ok(Some(received)) => return self.output(received.frame),
                    Ok(None) => return,
                    Err(error) => Fault::new(error.code(), Origin::Client, error.to_string()),
                }
            }
            ToClient::Ack(offset) => match self.outbox.ack(offset) {
                Ok(_) => return,
                Err(error) => Fault::new(error.code(), Origin::Client, error.to_string()),
            },
            ToClient::Ping(_) => return,
            ToClient::Pong(_) => return self.asked = None,
            ToClient::Notice(notice) => {
                // That evidence is missing is not one of the things that one may not want to hear.
                if !self.local.quiet || notice.code == Code::RecordingIncomplete.number() {
                    let line = report::notice(&notice, self.local.line_end());
                    self.local.screen.say(line);
                }
                return;
            }
            ToClient::Closed(closed) => {
                let fault = Fault::new(Code::from_number(closed.code), Origin::Agent, closed.seen);
                return self.verdict = Some(Ended::Closed(fault));
            }
            other @ (ToClient::Opened(_) | ToClient::Denied(_) | ToClient::Resumed(_) | ToClient::StandingBy(_)) => {
                Fault::new(
                    Code::ProtocolOutOfOrder,
                    Origin::Client,
                    format!("the node sent {} in an open session", other.frame()),
                )
            }
        };
        self.cannot_hear(breach);
    }

    fn output(&mut self, frame: ToClient) {
        match frame {
            ToClient::Data(bytes) => self.local.screen.push(Side::Out, bytes),
            ToClient::DataErr(bytes) => self.local.screen.push(Side::Err, bytes),
            ToClient::Exit(exit) => {
                self.local.screen.mark();
                self.verdict = Some(match Remote::from_exit(&exit) {
                    Some(remote) => Ended::Exit(remote),
                    None => Ended::Fault(Fault::new(
                        Code::ProtocolMalformed,
                        Origin::Client,
                        "the node sent an exit that says nothing",
                    )),
                });
            }
            _ => self.local.screen.mark(),
        }
    }

    fn consumed(&mut self, units: u64) {
        // More than was received cannot be written.
        let _ = self.inbox.consumed(units, self.started.elapsed());
    }

    fn end_of_stream(&mut self) {
        let code = if self.frames.finish().is_err() {
            Code::ProtocolTruncated
        } else {
            Code::TransportClosed
        };
        self.cannot_hear(Fault::on_the_way(
            code,
            "the stream ended without an exit of the command",
        ));
    }

    /// Nothing more will come. An end that is known already stays as it is.
    fn cannot_hear(&mut self, fault: Fault) {
        self.deaf = true;
        self.verdict.get_or_insert(Ended::Fault(fault));
    }

    /// Nothing more can be sent. What the node said last may still be on its way, and says more.
    fn cannot_send(&mut self, error: &std::io::Error) {
        self.mute = Some(faults::of_stream(error));
        self.outgoing.clear();
        self.look_at = Instant::now() + LAST_HEARD;
    }

    fn caught(&mut self, caught: Caught) -> Option<Ended> {
        match self.reactions.on(caught) {
            Reaction::Leave => return Some(Ended::Signalled(caught)),
            Reaction::Forward(signal) if self.signals.len() < 16 => self.signals.push(signal),
            Reaction::Forward(_) | Reaction::Ignore => {}
            Reaction::Resize => {
                self.size_changed = true;
                if let (Caught::Cont, Some(raw)) = (caught, &self.local.raw) {
                    raw.again();
                }
            }
        }
        None
    }
}

impl Local {
    /// How our own lines end: a raw terminal needs the carriage return.
    fn line_end(&self) -> &'static str {
        if self.raw.is_some() { "\r\n" } else { "\n" }
    }
}

/// Reads what is there. May be dropped at any await.
async fn read<R: AsyncRead + Unpin>(reader: &mut R, frames: &mut Frames<ToClient>) -> std::io::Result<usize> {
    let buffer = frames.buffer();
    if buffer.capacity() - buffer.len() < LEAST_PIECE {
        buffer.reserve(READ);
    }
    reader.read_buf(buffer).await
}
