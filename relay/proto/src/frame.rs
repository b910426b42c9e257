//! Frames: the one table of their numbers, and the decoder that cuts a byte stream into them.
//!
//! ```text
//! frame = varint number, varint length, payload of that length
//! ```
//!
//! Numbers are never reused; a removed frame stays in the table, marked. Each frame has a bound, and a set of directions
//! in which it may travel; both are judged from the frame's first bytes, before its payload is waited for or stored.
//! Payloads are slices of the receive buffer, never copies.
//!
//! The decoder never allocates for a claimed length above the bound, and after an error it repeats that error for ever
//! and drops whatever else arrives.

use bytes::{Buf, Bytes, BytesMut};

use crate::error::ProtocolError;
use crate::limits::{MAX_CONTROL, MAX_DATA, MAX_OPEN, MAX_ROUTE, MAX_SMALL, MAX_START, MAX_VARINT};
use crate::varint;

/// Where a frame may travel. One byte stream has one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The first frame of a stream that somebody opened to a relay, or a relay to an agent.
    Opening,
    /// Control stream, agent (or issuer) to relay, after its first frame.
    FromAgent,
    /// Control stream, relay to agent (or issuer).
    ToAgent,
    /// Inner leg, client to node.
    ToNode,
    /// Inner leg, node to client.
    ToClient,
    /// Private socket, agent to holder.
    ToHolder,
    /// Private socket, holder to agent.
    FromHolder,
    /// Private socket, client to the process that keeps its connections warm.
    ToWarm,
    /// Private socket, that process to the client.
    FromWarm,
}

impl Direction {
    /// Every direction.
    pub const ALL: [Self; 9] = [
        Self::Opening,
        Self::FromAgent,
        Self::ToAgent,
        Self::ToNode,
        Self::ToClient,
        Self::ToHolder,
        Self::FromHolder,
        Self::ToWarm,
        Self::FromWarm,
    ];
}

macro_rules! frames {
    ($($variant:ident $number:literal $name:literal max $max:expr, $sequenced:literal, [$($direction:ident)*] $summary:literal;)*) => {
        /// A frame's number. Closed: a number that is not here is an error.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Type {
            $(#[doc = $summary] $variant,)*
        }

        impl Type {
            /// Every frame, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The number on the wire.
            #[must_use]
            pub const fn number(self) -> u64 {
                match self { $(Self::$variant => $number,)* }
            }

            /// The frame of a number.
            #[must_use]
            pub const fn from_number(number: u64) -> Option<Self> {
                match number { $($number => Some(Self::$variant),)* _ => None }
            }

            /// The name in documents and logs.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The longest payload that it may have.
            #[must_use]
            pub const fn max_len(self) -> usize {
                match self { $(Self::$variant => $max,)* }
            }

            /// Whether it takes part in the offset space of its direction.
            #[must_use]
            pub const fn sequenced(self) -> bool {
                match self { $(Self::$variant => $sequenced,)* }
            }

            /// The directions in which it may travel.
            #[must_use]
            pub const fn directions(self) -> &'static [Direction] {
                match self { $(Self::$variant => &[$(Direction::$direction),*],)* }
            }

            /// What it is for, in a sentence.
            #[must_use]
            pub const fn summary(self) -> &'static str {
                match self { $(Self::$variant => $summary,)* }
            }
        }
    };
}

frames! {
    Route 0x01 "ROUTE" max MAX_ROUTE, false, [Opening] "Where this stream wants to go.";
    Register 0x02 "REGISTER" max MAX_ROUTE, false, [Opening] "An agent attaches; its stream becomes the control stream.";
    Registered 0x03 "REGISTERED" max MAX_ROUTE, false, [ToAgent] "The relay's answer: attached, or parked.";
    Drain 0x04 "DRAIN" max MAX_SMALL, false, [ToAgent] "The relay goes away; when to leave and come back.";

    Open 0x10 "OPEN" max MAX_OPEN, false, [ToNode] "The wish for a session.";
    Opened 0x11 "OPENED" max MAX_CONTROL, false, [ToClient] "The session exists, under these terms.";
    Denied 0x12 "DENIED" max MAX_CONTROL, false, [ToClient] "No session, and which part is missing.";
    Closed 0x13 "CLOSED" max MAX_CONTROL, false, [ToNode ToClient FromHolder] "The session is over without (or after) EXIT; or the client leaves for good.";
    Notice 0x14 "NOTICE" max MAX_CONTROL, false, [ToClient FromHolder] "Something is going to end.";
    Resume 0x15 "RESUME" max MAX_OPEN, false, [ToNode] "The client comes back over a new path.";
    Resumed 0x16 "RESUMED" max MAX_CONTROL, false, [ToClient] "The node agrees; replay follows.";
    Standby 0x17 "STANDBY" max MAX_ROUTE, false, [ToNode] "The client has no wish yet; OPEN follows within minutes, or never.";
    StandingBy 0x18 "STANDING_BY" max MAX_SMALL, false, [ToClient] "The node waits for it, and for how long.";

    Data 0x20 "DATA" max MAX_DATA, true, [ToNode ToClient ToHolder FromHolder] "Stdin, or stdout and terminal output. Raw bytes, at least one.";
    DataErr 0x21 "DATA_ERR" max MAX_DATA, true, [ToClient FromHolder] "Stderr, when there is no terminal. Raw bytes, at least one.";
    End 0x22 "END" max 0, true, [ToNode ToClient ToHolder FromHolder] "End of input, or end of all output. Empty.";
    Resize 0x23 "RESIZE" max MAX_SMALL, true, [ToNode ToHolder] "The client's terminal has a new size.";
    Signal 0x24 "SIGNAL" max MAX_SMALL, true, [ToNode ToHolder] "A signal for the command.";
    Exit 0x25 "EXIT" max MAX_SMALL, true, [ToClient FromHolder] "How the command ended. The last sequenced frame.";

    Ack 0x30 "ACK" max MAX_VARINT, false, [ToNode ToClient ToHolder FromHolder] "Everything below this offset is consumed. One varint.";
    Ping 0x31 "PING" max MAX_VARINT, false, [FromAgent ToAgent ToNode ToClient ToHolder FromHolder] "Are you there? One varint, which PONG repeats.";
    Pong 0x32 "PONG" max MAX_VARINT, false, [FromAgent ToAgent ToNode ToClient ToHolder FromHolder] "The answer to PING, with its number.";

    Start 0x40 "START" max MAX_START, false, [ToHolder] "What to run, as whom, until when.";
    Started 0x41 "STARTED" max MAX_SMALL, false, [FromHolder] "The command runs.";
    StartFailed 0x42 "START_FAILED" max MAX_CONTROL, false, [FromHolder] "The command could not be started.";
    Terminate 0x43 "TERMINATE" max MAX_CONTROL, false, [ToHolder] "End the session now.";
    Terms 0x44 "TERMS" max MAX_SMALL, false, [ToHolder] "New deadline and idle limit.";
    Adopt 0x45 "ADOPT" max MAX_SMALL, false, [ToHolder] "A restarted agent takes the session up again.";
    Adopted 0x46 "ADOPTED" max MAX_SMALL, false, [FromHolder] "The holder's state for that agent.";

    Ask 0x50 "ASK" max MAX_ROUTE, false, [ToWarm] "What a client wants of the process that keeps its connections warm.";
    Answer 0x51 "ANSWER" max MAX_CONTROL, false, [FromWarm] "What it gets.";
    Report 0x52 "REPORT" max MAX_CONTROL, false, [FromWarm] "What is kept warm.";
    Carry 0x53 "CARRY" max MAX_DATA, false, [ToWarm FromWarm] "Bytes of what is carried. Raw bytes, at least one.";
    CarryEnd 0x54 "CARRY_END" max 0, false, [ToWarm FromWarm] "The end of this direction of it. Empty.";
    Broken 0x55 "BROKEN" max MAX_CONTROL, false, [FromWarm] "What is carried is broken, and how.";
}

impl Type {
    /// Whether it may travel in `direction`.
    #[must_use]
    pub fn travels(self, direction: Direction) -> bool {
        self.directions().contains(&direction)
    }
}

impl std::fmt::Display for Type {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Writes number and length; the payload of `length` bytes must follow.
pub fn put_header(out: &mut BytesMut, frame: Type, length: usize) {
    varint::put(out, frame.number());
    varint::put(out, length as u64);
}

/// The longest number and length together, so that a relay can bound its first read: two bytes for the number (all are
/// below 2^14), four for the length.
pub const MAX_HEADER: usize = 6;

/// Cuts the bytes of one direction into frames.
#[derive(Debug)]
pub struct Decoder {
    direction: Direction,
    buffer: BytesMut,
    failed: Option<ProtocolError>,
}

impl Decoder {
    /// A decoder for one direction.
    #[must_use]
    pub fn new(direction: Direction) -> Self {
        Self::with(direction, BytesMut::new())
    }

    /// A decoder that goes on with bytes that were already read.
    #[must_use]
    pub const fn with(direction: Direction, buffer: BytesMut) -> Self {
        Self {
            direction,
            buffer,
            failed: None,
        }
    }

    /// Adds bytes by copying. Reading straight into [`Decoder::buffer`] saves the copy.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The receive buffer: read into its free end, then call [`Decoder::next_frame`] until it gives `None`. A caller that
    /// does so holds at most one bounded frame and one read.
    pub const fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// The next whole frame, `None` when more bytes are needed.
    ///
    /// # Errors
    /// The first breach of the protocol; from then on always the same.
    pub fn next_frame(&mut self) -> Result<Option<(Type, Bytes)>, ProtocolError> {
        if let Some(error) = self.failed {
            // A caller that goes on reading must not pile up what nobody will look at.
            self.buffer.clear();
            return Err(error);
        }
        self.cut().map_err(|error| self.fail(error))
    }

    /// Says whether the stream may end here.
    ///
    /// # Errors
    /// [`ProtocolError::Truncated`] when it ended inside a frame; an earlier error again.
    pub fn finish(&self) -> Result<(), ProtocolError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        if self.buffer.is_empty() {
            return Ok(());
        }
        let missing = match self.header() {
            Ok(Some((_, header, length))) => (header + length).saturating_sub(self.buffer.len()) as u64,
            _ => 1,
        };
        Err(ProtocolError::Truncated { missing })
    }

    /// The bytes behind the last frame: what a relay passes on, or the start of another protocol.
    #[must_use]
    pub fn into_rest(self) -> BytesMut {
        self.buffer
    }

    /// Stops for good: what was received is dropped, and every later call gives `error`.
    pub(crate) fn fail(&mut self, error: ProtocolError) -> ProtocolError {
        self.failed = Some(error);
        self.buffer = BytesMut::new();
        error
    }

    fn cut(&mut self) -> Result<Option<(Type, Bytes)>, ProtocolError> {
        let Some((frame, header, length)) = self.header()? else {
            return Ok(None);
        };
        let whole = header + length;
        if self.buffer.len() < whole {
            self.buffer.reserve(whole - self.buffer.len());
            return Ok(None);
        }
        self.buffer.advance(header);
        Ok(Some((frame, self.buffer.split_to(length).freeze())))
    }

    /// Type, length of the header, length of the payload, judged as early as the bytes allow.
    fn header(&self) -> Result<Option<(Type, usize, usize)>, ProtocolError> {
        let Some((number, first)) = varint::get(&self.buffer)? else {
            return Ok(None);
        };
        let frame = Type::from_number(number).ok_or(ProtocolError::UnknownFrame(number))?;
        if !frame.travels(self.direction) {
            return Err(ProtocolError::WrongDirection(frame));
        }
        let rest = self.buffer.get(first..).unwrap_or_default();
        let Some((length, second)) = varint::get(rest)? else {
            return Ok(None);
        };
        match usize::try_from(length) {
            Ok(fits) if fits <= frame.max_len() => Ok(Some((frame, first + second, fits))),
            _ => Err(ProtocolError::TooLarge {
                frame,
                length,
                limit: frame.max_len(),
            }),
        }
    }
}

#[cfg(test)]
mod tests;
