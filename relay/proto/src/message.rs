//! Messages by direction: what may be said to whom is in the type.
//!
//! ```text
//! bytes ──> [`Frames<ToNode>`] ──> ToNode::Open(..), ToNode::Data(..), …   (and the other way: `encode`)
//! ```
//!
//! | type | stream |
//! |---|---|
//! | [`Opening`] | first frame of a stream to a relay, or from a relay to an agent |
//! | [`FromAgent`], [`ToAgent`] | control stream between agent and relay |
//! | [`ToNode`], [`ToClient`] | inner leg |
//! | [`ToHolder`], [`FromHolder`] | agent and holder |
//! | [`ToWarm`], [`FromWarm`] | client and the process that keeps its connections warm |
//!
//! Data payloads are never copied on the way in; on the way out [`Message::split`] gives them back for a vectored write.
//! Order of messages is not judged here: that is [`crate::session`] and the state machines of the parties.

use std::marker::PhantomData;

use bytes::{Bytes, BytesMut};

use crate::control::{
    self, Adopt, Adopted, Answer, Ask, Broken, Closed, Denied, Drain, Exit, Notice, Open, Opened, Register, Registered,
    Report, Resize, Resume, Resumed, RouteHeader as Route, Signal, Standby, StandingBy, Start, StartFailed, Started,
    Terminate, Terms,
};
use crate::error::ProtocolError;
use crate::frame::{Decoder, Direction, Type, put_header};
use crate::varint;

/// A message of one direction.
pub trait Message: Sized {
    /// The direction.
    const DIRECTION: Direction;

    /// Decodes the payload of a frame.
    ///
    /// # Errors
    /// When the frame may not travel in this direction, or its payload breaks a rule.
    fn decode(frame: Type, payload: Bytes) -> Result<Self, ProtocolError>;

    /// Appends everything but a data payload, which is returned uncopied: it must be written right behind.
    fn split(&self, out: &mut BytesMut) -> Option<Bytes>;

    /// Appends the whole frame.
    fn encode(&self, out: &mut BytesMut) {
        if let Some(payload) = self.split(out) {
            out.extend_from_slice(&payload);
        }
    }
}

macro_rules! messages {
    ($(#[$doc:meta])* $name:ident {
        control { $($control:ident)* } data { $($data:ident)* } empty { $($empty:ident)* } number { $($number:ident)* }
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum $name {
            $(#[doc = concat!("The frame [`Type::", stringify!($control), "`].")] $control($control),)*
            $(#[doc = concat!("The frame [`Type::", stringify!($data), "`].")] $data(Bytes),)*
            $(#[doc = concat!("The frame [`Type::", stringify!($empty), "`].")] $empty,)*
            $(#[doc = concat!("The frame [`Type::", stringify!($number), "`].")] $number(u64),)*
        }

        impl $name {
            /// The frame that carries it.
            #[must_use]
            pub const fn frame(&self) -> Type {
                match self {
                    $(Self::$control(_) => Type::$control,)*
                    $(Self::$data(_) => Type::$data,)*
                    $(Self::$empty => Type::$empty,)*
                    $(Self::$number(_) => Type::$number,)*
                }
            }

            /// Decodes the payload of a frame ([`Message::decode`]).
            ///
            /// # Errors
            /// When the frame may not travel in this direction, or its payload breaks a rule.
            pub fn decode(frame: Type, payload: Bytes) -> Result<Self, ProtocolError> {
                match frame {
                    $(Type::$control => control::decode(payload).map(Self::$control),)*
                    $(Type::$data => data(frame, payload).map(Self::$data),)*
                    $(Type::$empty => empty(frame, &payload).map(|()| Self::$empty),)*
                    $(Type::$number => number(frame, &payload).map(Self::$number),)*
                    #[allow(unreachable_patterns, reason = "a direction may carry every frame of the table")]
                    other => Err(ProtocolError::WrongDirection(other)),
                }
            }

            /// Appends the whole frame ([`Message::encode`]).
            pub fn encode(&self, out: &mut BytesMut) {
                Message::encode(self, out);
            }
        }

        impl Message for $name {
            const DIRECTION: Direction = Direction::$name;

            fn decode(frame: Type, payload: Bytes) -> Result<Self, ProtocolError> {
                Self::decode(frame, payload)
            }

            #[allow(unused_variables, reason = "not every direction has every kind of frame")]
            fn split(&self, out: &mut BytesMut) -> Option<Bytes> {
                match self {
                    $(Self::$control(message) => control::encode(message, out),)*
                    $(Self::$data(payload) => {
                        put_header(out, Type::$data, payload.len());
                        return Some(payload.clone());
                    })*
                    $(Self::$empty => put_header(out, Type::$empty, 0),)*
                    $(Self::$number(value) => put_number(out, Type::$number, *value),)*
                }
                None
            }
        }

        $(impl From<$control> for $name {
            fn from(message: $control) -> Self {
                Self::$control(message)
            }
        })*
    };
}

messages! {
    /// The first frame of a stream.
    Opening { control { Route Register } data {} empty {} number {} }
}

messages! {
    /// Control stream, from an agent or issuer, after REGISTER.
    FromAgent { control {} data {} empty {} number { Ping Pong } }
}

messages! {
    /// Control stream, from a relay.
    ToAgent { control { Registered Drain } data {} empty {} number { Ping Pong } }
}

messages! {
    /// From client to node.
    ToNode {
        control { Open Resume Standby Closed Resize Signal }
        data { Data }
        empty { End }
        number { Ack Ping Pong }
    }
}

messages! {
    /// From node to client.
    ToClient {
        control { Opened Denied Closed Notice Resumed StandingBy Exit }
        data { Data DataErr }
        empty { End }
        number { Ack Ping Pong }
    }
}

messages! {
    /// From a client to the process that keeps its connections warm.
    ToWarm { control { Ask } data { Carry } empty { CarryEnd } number {} }
}

messages! {
    /// From that process to the client.
    FromWarm { control { Answer Report Broken } data { Carry } empty { CarryEnd } number {} }
}

/// From agent to holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToHolder {
    /// The frame [`Type::Start`].
    Start(Start),
    /// The frame [`Type::Terminate`].
    Terminate(Terminate),
    /// The frame [`Type::Terms`].
    Terms(Terms),
    /// The frame [`Type::Adopt`].
    Adopt(Adopt),
    /// A frame of the client that the agent passes on: sequenced frames, ACK, PING, PONG; a holder refuses all others.
    Session(ToNode),
}

/// From holder to agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromHolder {
    /// The frame [`Type::Started`].
    Started(Started),
    /// The frame [`Type::StartFailed`].
    StartFailed(StartFailed),
    /// The frame [`Type::Adopted`].
    Adopted(Adopted),
    /// A frame for the client that the agent passes on: sequenced frames, CLOSED, NOTICE, ACK, PING, PONG.
    Session(ToClient),
}

macro_rules! holder_messages {
    ($name:ident wraps $session:ident { $($control:ident)* }) => {
        impl $name {
            /// The frame that carries it.
            #[must_use]
            pub const fn frame(&self) -> Type {
                match self {
                    $(Self::$control(_) => Type::$control,)*
                    Self::Session(message) => message.frame(),
                }
            }

            /// Decodes the payload of a frame ([`Message::decode`]).
            ///
            /// # Errors
            /// When the frame may not travel in this direction, or its payload breaks a rule.
            pub fn decode(frame: Type, payload: Bytes) -> Result<Self, ProtocolError> {
                match frame {
                    $(Type::$control => control::decode(payload).map(Self::$control),)*
                    other if other.travels(Direction::$name) => $session::decode(other, payload).map(Self::Session),
                    other => Err(ProtocolError::WrongDirection(other)),
                }
            }

            /// Appends the whole frame ([`Message::encode`]).
            pub fn encode(&self, out: &mut BytesMut) {
                Message::encode(self, out);
            }
        }

        impl Message for $name {
            const DIRECTION: Direction = Direction::$name;

            fn decode(frame: Type, payload: Bytes) -> Result<Self, ProtocolError> {
                Self::decode(frame, payload)
            }

            fn split(&self, out: &mut BytesMut) -> Option<Bytes> {
                match self {
                    $(Self::$control(message) => {
                        control::encode(message, out);
                        None
                    })*
                    Self::Session(message) => message.split(out),
                }
            }
        }

        $(impl From<$control> for $name {
            fn from(message: $control) -> Self {
                Self::$control(message)
            }
        })*

        impl From<$session> for $name {
            fn from(message: $session) -> Self {
                Self::Session(message)
            }
        }
    };
}

holder_messages! { ToHolder wraps ToNode { Start Terminate Terms Adopt } }
holder_messages! { FromHolder wraps ToClient { Started StartFailed Adopted } }

/// The messages of one byte stream: a [`Decoder`] that gives typed messages.
#[derive(Debug)]
pub struct Frames<T> {
    decoder: Decoder,
    message: PhantomData<fn() -> T>,
}

impl<T: Message> Default for Frames<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Message> Frames<T> {
    /// From the start of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self {
            decoder: Decoder::new(T::DIRECTION),
            message: PhantomData,
        }
    }

    /// Adds bytes by copying; reading straight into [`Frames::buffer`] saves the copy.
    pub fn push(&mut self, bytes: &[u8]) {
        self.decoder.push(bytes);
    }

    /// The receive buffer ([`Decoder::buffer`]).
    pub const fn buffer(&mut self) -> &mut BytesMut {
        self.decoder.buffer()
    }

    /// The next message, `None` when more bytes are needed. (Not an iterator: `None` is not the end.)
    ///
    /// # Errors
    /// The first breach of the protocol; from then on always the same.
    #[allow(clippy::should_implement_trait, reason = "None means: more bytes are needed")]
    pub fn next(&mut self) -> Result<Option<T>, ProtocolError> {
        let Some((frame, payload)) = self.decoder.next_frame()? else {
            return Ok(None);
        };
        T::decode(frame, payload)
            .map(Some)
            .map_err(|error| self.decoder.fail(error))
    }

    /// Says whether the stream may end here ([`Decoder::finish`]).
    ///
    /// # Errors
    /// When it ended inside a frame; an earlier error again.
    pub fn finish(&self) -> Result<(), ProtocolError> {
        self.decoder.finish()
    }

    /// The bytes behind the last message, unread.
    #[must_use]
    pub fn into_rest(self) -> BytesMut {
        self.decoder.into_rest()
    }

    /// Goes on with messages of another type, from the byte behind the last message: control streams after REGISTER.
    #[must_use]
    pub fn switch<U: Message>(self) -> Frames<U> {
        Frames {
            decoder: Decoder::with(U::DIRECTION, self.into_rest()),
            message: PhantomData,
        }
    }
}

fn data(frame: Type, payload: Bytes) -> Result<Bytes, ProtocolError> {
    bounded(frame, payload.len())?;
    if payload.is_empty() {
        return Err(ProtocolError::Malformed {
            frame,
            what: "data of no bytes",
        });
    }
    Ok(payload)
}

fn empty(frame: Type, payload: &[u8]) -> Result<(), ProtocolError> {
    if payload.is_empty() {
        Ok(())
    } else {
        Err(ProtocolError::Trailing {
            frame,
            extra: payload.len(),
        })
    }
}

fn number(frame: Type, payload: &[u8]) -> Result<u64, ProtocolError> {
    match varint::get(payload)? {
        Some((value, used)) if used == payload.len() => Ok(value),
        Some((_, used)) => Err(ProtocolError::Trailing {
            frame,
            extra: payload.len() - used,
        }),
        None => Err(ProtocolError::Malformed {
            frame,
            what: "a cut-off number",
        }),
    }
}

fn put_number(out: &mut BytesMut, frame: Type, value: u64) {
    put_header(out, frame, varint::len(value));
    varint::put(out, value);
}

fn bounded(frame: Type, length: usize) -> Result<(), ProtocolError> {
    if length <= frame.max_len() {
        return Ok(());
    }
    Err(ProtocolError::TooLarge {
        frame,
        length: length as u64,
        limit: frame.max_len(),
    })
}

#[cfg(test)]
mod tests;
