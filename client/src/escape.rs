//! Local keys: what the user types for the client and not for the node.
//!
//! As in OpenSSH a key counts only at the start of a line (at the start of the session, or after return): `~.` leaves,
//! `~s` shows the status, `~?` lists the keys, `~~` sends one `~`. Everything else is sent exactly as typed, the held
//! `~` first. The machine is pure: bytes in, events out in order, and it may be cut at any byte.
//!
//! States: line start → (`~`) held → back to line start after a local key, or into the line with what was typed.
//!
//! It never looks at what the node sends, and it is not used when standard input is not a terminal.

use bytes::Bytes;

#[cfg(test)]
mod tests;

/// The key that starts a local key unless the configuration names another.
pub const DEFAULT: u8 = b'~';

/// What one piece of typed input means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Bytes for the node.
    Send(Bytes),
    /// `~.`: leave the session.
    Leave,
    /// `~s`: show the status.
    Status,
    /// `~?`: list the keys.
    Help,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    LineStart,
    InLine,
    Held,
}

/// The state machine of the local keys.
#[derive(Debug)]
pub struct Keys {
    escape: Option<u8>,
    state: State,
}

impl Keys {
    /// A machine that listens for `escape`; with `None` everything is sent as it is.
    pub fn new(escape: Option<u8>) -> Self {
        Self {
            escape,
            state: State::LineStart,
        }
    }

    /// Takes what was typed and returns what it means, in order.
    pub fn feed(&mut self, typed: Bytes) -> Vec<Event> {
        let Some(escape) = self.escape else {
            return if typed.is_empty() {
                Vec::new()
            } else {
                vec![Event::Send(typed)]
            };
        };
        let mut events = Vec::with_capacity(1);
        // Start of the stretch that was looked at and not yet given out.
        let mut start = 0;
        for (at, &byte) in typed.iter().enumerate() {
            match self.state {
                State::LineStart if byte == escape => {
                    send(&mut events, typed.slice(start..at));
                    start = at + 1;
                    self.state = State::Held;
                }
                State::Held => {
                    let local = match byte {
                        b'.' => Some(Event::Leave),
                        b's' => Some(Event::Status),
                        b'?' => Some(Event::Help),
                        _ => None,
                    };
                    if let Some(event) = local {
                        events.push(event);
                        start = at + 1;
                        self.state = State::LineStart;
                    } else if byte == escape {
                        // Typed twice: once for the node.
                        start = at;
                        self.state = State::InLine;
                    } else {
                        send(&mut events, Bytes::copy_from_slice(&[escape]));
                        start = at;
                        self.state = after(byte);
                    }
                }
                State::LineStart | State::InLine => self.state = after(byte),
            }
        }
        send(&mut events, typed.slice(start..));
        events
    }

    /// Input has ended: a held key goes to the node after all.
    pub fn end(&mut self) -> Option<Bytes> {
        let held = self.state == State::Held;
        self.state = State::InLine;
        held.then(|| Bytes::copy_from_slice(self.escape.as_slice()))
    }

    /// The text that `~?` shows.
    pub fn help(&self) -> String {
        let key = char::from(self.escape.unwrap_or(DEFAULT));
        format!(
            "Keys at the start of a line:\r\n  {key}.  leave the session\r\n  {key}s  show the status\r\n  {key}?  this list\r\n  \
             {key}{key}  send {key}\r\n"
        )
    }
}

fn after(byte: u8) -> State {
    if matches!(byte, b'\r' | b'\n') {
        State::LineStart
    } else {
        State::InLine
    }
}

fn send(events: &mut Vec<Event>, bytes: Bytes) {
    if !bytes.is_empty() {
        events.push(Event::Send(bytes));
    }
}
