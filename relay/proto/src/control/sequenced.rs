//! Control messages that have their place among the bytes: EXIT, RESIZE, SIGNAL.
//!
//! Each advances the offset of its direction by one ([`crate::session`]). None of them can be lost, doubled or overtake a byte.
//! No size is an error: a session never ends because of a window.

use super::Control;
use super::check::Check;
use crate::error::ProtocolError;
use crate::frame::Type;

/// How the command ended: an exit code or a signal.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Exit {
    /// The exit code, 0 to 255.
    #[prost(uint32, optional, tag = "1")]
    pub code: Option<u32>,
    /// The number of the signal on the node, 1 to 64.
    #[prost(uint32, optional, tag = "2")]
    pub signal: Option<u32>,
    /// The kernel wrote a core file.
    #[prost(bool, tag = "3")]
    pub core_dumped: bool,
}

impl Control for Exit {
    const TYPE: Type = Type::Exit;
    const LAST_FIELD: u32 = 3;

    fn validate(&self) -> Result<(), ProtocolError> {
        match (self.code, self.signal) {
            (Some(0..=255), None) | (None, Some(1..=64)) => Ok(()),
            _ => Err(Check(Self::TYPE).bad("code or signal", "exactly one of them, in its range")),
        }
    }
}

/// The client's terminal has a new size. Any numbers are taken; [`Resize::size`] makes sense of them.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Resize {
    /// Columns.
    #[prost(uint32, tag = "1")]
    pub cols: u32,
    /// Rows.
    #[prost(uint32, tag = "2")]
    pub rows: u32,
    /// Width in pixels, 0 when unknown.
    #[prost(uint32, tag = "3")]
    pub xpixel: u32,
    /// Height in pixels, 0 when unknown.
    #[prost(uint32, tag = "4")]
    pub ypixel: u32,
}

impl Resize {
    /// The size that a pty can take, `None` when there is none to set.
    #[must_use]
    pub fn size(&self) -> Option<Size> {
        Size::clamp(self.cols, self.rows, self.xpixel, self.ypixel)
    }
}

impl Control for Resize {
    const TYPE: Type = Type::Resize;
    const LAST_FIELD: u32 = 4;

    fn validate(&self) -> Result<(), ProtocolError> {
        Ok(())
    }
}

/// A signal for the command.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Signal {
    /// Which.
    #[prost(enumeration = "SignalName", tag = "1")]
    pub signal: i32,
}

impl Control for Signal {
    const TYPE: Type = Type::Signal;
    const LAST_FIELD: u32 = 1;

    fn validate(&self) -> Result<(), ProtocolError> {
        Check(Self::TYPE).known::<SignalName>("signal", self.signal).map(|_| ())
    }
}

/// A terminal size that a pty can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Size {
    /// Columns, never 0.
    pub cols: u16,
    /// Rows, never 0.
    pub rows: u16,
    /// Width in pixels.
    pub xpixel: u16,
    /// Height in pixels.
    pub ypixel: u16,
}

impl Size {
    /// Absurd sizes are clamped, a zero in columns or rows gives `None`: no size ever ends a session.
    #[must_use]
    pub fn clamp(cols: u32, rows: u32, xpixel: u32, ypixel: u32) -> Option<Self> {
        let fit = |value: u32| u16::try_from(value).unwrap_or(u16::MAX);
        (cols > 0 && rows > 0).then(|| Self {
            cols: fit(cols),
            rows: fit(rows),
            xpixel: fit(xpixel),
            ypixel: fit(ypixel),
        })
    }
}

/// Signals that travel, by name: numbers differ between systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
#[allow(missing_docs, reason = "the names are the signals' own")]
pub enum SignalName {
    Unspecified = 0,
    Int = 1,
    Term = 2,
    Hup = 3,
    Quit = 4,
    Usr1 = 5,
    Usr2 = 6,
    Kill = 7,
    Tstp = 8,
    Cont = 9,
    Stop = 10,
    Alrm = 11,
    Pipe = 12,
    Winch = 13,
}
