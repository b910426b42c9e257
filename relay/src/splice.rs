//! Copies bytes between two QUIC streams, and nothing else.
//!
//! ```text
//!   peer A  ── recv ──>  pump  ── send ──>  peer B        (each direction by itself)
//!
//!   A finishes its half      → finish B's half, wait until B has everything
//!   A resets its half (code) → reset B's half with that code
//!   B stops reading (code)   → stop reading from A with that code
//!   a connection is lost     → the other side is told with the code for a lost path
//!   B takes nothing, and too many do → both halves end with the code for giving way
//! ```
//!
//! Back-pressure is the streams' own flow control: a direction reads again only when its sink took everything that was
//! read, so a sink that stalls holds at most one batch here, and the source stops at its window. The two directions
//! never wait for each other, and bulk makes way for keystrokes (`Urgency`). A few chunks are handed on as they were received; many that were
//! read at once are joined into one. A sink that takes nothing for long needs a place among those that do ([`crate::stalled`]).
//!
//! Never: reads a meaning into the bytes, times a stream out, or ends a half *cleanly* that its sender did not finish
//! (dropping a half-copied stream resets it, so that a cut can't be taken for an end).

use bytes::{Bytes, BytesMut};
use noderelay_link::Urgency;
use noderelay_pki::Identity;
use quinn::{ReadError, RecvStream, ResetError, SendStream, StoppedError, VarInt, WriteError};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::stalled::{Patience, Stalled};

/// Chunks handed on at once. A chunk is what one packet carried (about 1.4 kB on an ordinary path), so a batch is
/// about 45 kB: enough to amortise a wake-up, little enough to hold for every stalled stream.
const BATCH: usize = 32;

/// From this many chunks on they are joined.
const JOINED_FROM: usize = 4;

/// The codes that a splice says by itself; all other codes it passes on as they came.
#[derive(Debug, Clone, Copy)]
pub struct Codes {
    /// The other side's connection is gone.
    pub lost: VarInt,
    /// The splice was dropped before its end: the relay is going.
    pub aborted: VarInt,
    /// Its sink takes nothing, and there is no room for one more like it.
    pub gave_way: VarInt,
}

/// Why one direction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The source finished and the sink has every byte.
    Finished,
    /// The source reset the stream with this code.
    Reset(VarInt),
    /// The sink stopped reading with this code.
    Stopped(VarInt),
    /// The source's connection is gone.
    SourceLost,
    /// The sink's connection is gone.
    SinkLost,
    /// A sink of the stream took nothing, and the stream had to give way.
    GaveWay,
}

/// What one direction did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// Bytes handed to the sink.
    pub bytes: u64,
    /// Why it ended.
    pub end: End,
}

/// The receiving half of a stream; dropped before its end, it tells the peer to stop with a code.
#[derive(Debug)]
pub struct Source {
    stream: RecvStream,
    on_drop: Option<VarInt>,
}

impl Source {
    /// Wraps a half; `aborted` is said when it is dropped unfinished.
    pub fn new(stream: RecvStream, aborted: VarInt) -> Self {
        Self {
            stream,
            on_drop: Some(aborted),
        }
    }

    /// The stream itself, for reading what precedes the splice.
    pub fn stream(&mut self) -> &mut RecvStream {
        &mut self.stream
    }

    /// Tells the peer to stop sending.
    pub fn stop(&mut self, code: VarInt) {
        self.on_drop = None;
        // An error means that the half has ended already: nothing is left to stop.
        let _ = self.stream.stop(code);
    }

    fn ended(&mut self) {
        self.on_drop = None;
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        if let Some(code) = self.on_drop {
            self.stop(code);
        }
    }
}

/// The sending half of a stream; dropped before its end, it is reset with a code instead of quinn's implicit finish.
#[derive(Debug)]
pub struct Sink {
    stream: SendStream,
    on_drop: Option<VarInt>,
}

impl Sink {
    /// Wraps a half; `aborted` is said when it is dropped unfinished.
    pub fn new(stream: SendStream, aborted: VarInt) -> Self {
        Self {
            stream,
            on_drop: Some(aborted),
        }
    }

    /// The stream itself, for writing what precedes the splice.
    pub fn stream(&mut self) -> &mut SendStream {
        &mut self.stream
    }

    /// Abandons the half.
    pub fn reset(&mut self, code: VarInt) {
        self.on_drop = None;
        // An error means that the half has ended already.
        let _ = self.stream.reset(code);
    }

    /// Ends the half cleanly.
    pub fn finish(&mut self) {
        self.on_drop = None;
        // An error means that the half has ended already.
        let _ = self.stream.finish();
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        if let Some(code) = self.on_drop {
            self.reset(code);
        }
    }
}

/// Both halves of one stream.
#[derive(Debug)]
pub struct Ends {
    /// What the peer sends.
    pub source: Source,
    /// What the peer receives.
    pub sink: Sink,
}

impl Ends {
    /// Wraps a bidirectional stream.
    pub fn new((send, recv): (SendStream, RecvStream), aborted: VarInt) -> Self {
        Self {
            source: Source::new(recv, aborted),
            sink: Sink::new(send, aborted),
        }
    }

    /// Refuses the stream in both directions.
    pub fn refuse(&mut self, code: VarInt) {
        self.sink.reset(code);
        self.source.stop(code);
    }
}

/// Copies in both directions until both have ended; returns `(near → far, far → near)`.
///
/// `first` are bytes that were read from the near side already and go out before anything else. `count` is called with
/// the direction's bytes as they are handed on. `who` is whose stream it is, when it needs a place among the stalled ones.
pub async fn splice(
    near: Ends,
    far: Ends,
    first: Bytes,
    codes: Codes,
    (stalled, who): (&Stalled, &Identity),
    count_out: impl Fn(u64),
    count_back: impl Fn(u64),
) -> (Flow, Flow) {
    // Both directions on one task: against a task for each, bulk, echo and memory (5 kB an idle stream, both peers
    // included) were the same within the noise of the measurement, and one task is one thing to end.
    let (out, back) = (Notify::new(), Notify::new());
    let patience = || Patience::new(stalled, who);
    tokio::join!(
        pump(
            near.source,
            far.sink,
            first,
            codes,
            patience(),
            (&out, &back),
            count_out
        ),
        pump(
            far.source,
            near.sink,
            Bytes::new(),
            codes,
            patience(),
            (&back, &out),
            count_back
        ),
    )
}

/// One direction; cut when the other one gave way, and telling it when this one did.
async fn pump(
    mut source: Source,
    mut sink: Sink,
    first: Bytes,
    codes: Codes,
    patience: Patience<'_>,
    (cut, other): (&Notify, &Notify),
    count: impl Fn(u64),
) -> Flow {
    let mut bytes = 0;
    let copied = copy(&mut source, &mut sink, first, patience, |n| {
        bytes += n;
        count(n);
    });
    let end = tokio::select! {
        biased;
        end = copied => end,
        () = cut.notified() => End::GaveWay,
    };
    match end {
        End::Finished => source.ended(),
        End::Reset(code) => {
            source.ended();
            sink.reset(code);
        }
        End::SourceLost => sink.reset(codes.lost),
        End::Stopped(code) => {
            sink.on_drop = None;
            source.stop(code);
        }
        End::SinkLost => source.stop(codes.lost),
        End::GaveWay => {
            sink.reset(codes.gave_way);
            source.stop(codes.gave_way);
            other.notify_one();
        }
    }
    Flow { bytes, end }
}

async fn copy(
    source: &mut Source,
    sink: &mut Sink,
    first: Bytes,
    mut patience: Patience<'_>,
    mut count: impl FnMut(u64),
) -> End {
    let stopped = sink.stream.stopped();
    tokio::pin!(stopped);
    let mut batch = [const { Bytes::new() }; BATCH];
    let (mut filled, mut urgency) = (0, Urgency::default());
    if let (false, [slot, ..]) = (first.is_empty(), &mut batch) {
        *slot = first;
        filled = 1;
    }
    loop {
        let mut rest = batch.get_mut(..filled).unwrap_or_default();
        patience.again();
        while !rest.is_empty() {
            let written = tokio::select! {
                biased;
                written = sink.stream.write_chunks(rest) => match written {
                    Ok(written) => written,
                    Err(WriteError::Stopped(code)) => return End::Stopped(code),
                    Err(WriteError::ConnectionLost(_) | WriteError::ClosedStream | WriteError::ZeroRttRejected) => {
                        return End::SinkLost;
                    }
                },
                // While the sink stalls nobody reads the source: its reset has to be heard all the same.
                end = cut_off(&mut source.stream) => return end,
                () = patience.gives_way() => return End::GaveWay,
            };
            count(written.bytes as u64);
            if let Some(priority) = urgency.wrote(written.bytes, Instant::now()) {
                // A stream that has ended meanwhile says so at the next write.
                let _ = sink.stream.set_priority(priority);
            }
            rest = std::mem::take(&mut rest).get_mut(written.chunks..).unwrap_or_default();
        }
        filled = tokio::select! {
            biased;
            read = source.stream.read_chunks(&mut batch) => match read {
                Ok(Some(filled)) => joined(&mut batch, filled),
                Ok(None) => break,
                Err(ReadError::Reset(code)) => return End::Reset(code),
                Err(_) => return End::SourceLost,
            },
            stop = &mut stopped => return match stop {
                Ok(Some(code)) => End::Stopped(code),
                Ok(None) | Err(_) => End::SinkLost,
            },
        };
    }
    sink.finish();
    // The half has ended for the sender; it counts as carried when the receiver has all of it.
    match stopped.await {
        Ok(_) => End::Finished,
        Err(StoppedError::ConnectionLost(_) | StoppedError::ZeroRttRejected) => End::SinkLost,
    }
}

/// Joins what was read at once into one chunk, when there is much of it; returns how many chunks there are.
///
/// quinn keeps what it sends as it was written, and looks for the place to go on at by counting chunks from the oldest that is not
/// acknowledged: many small ones cost it more than one copy costs us.
fn joined(batch: &mut [Bytes], filled: usize) -> usize {
    let (Some(chunks), true) = (batch.get_mut(..filled), filled >= JOINED_FROM) else {
        return filled;
    };
    let mut whole = BytesMut::with_capacity(chunks.iter().map(Bytes::len).sum());
    for chunk in chunks.iter_mut() {
        whole.extend_from_slice(&std::mem::take(chunk));
    }
    match chunks {
        [first, ..] => *first = whole.freeze(),
        [] => return 0,
    }
    1
}

/// Resolves when the source is reset or lost, and never when it merely finished.
async fn cut_off(source: &mut RecvStream) -> End {
    match source.received_reset().await {
        Ok(Some(code)) => End::Reset(code),
        Ok(None) => std::future::pending().await,
        Err(ResetError::ConnectionLost(_) | ResetError::ZeroRttRejected) => End::SourceLost,
    }
}

#[cfg(test)]
mod tests;
