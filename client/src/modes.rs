//! Which modes the remote program left on in the local terminal, so that exactly those are switched off at the end.
//!
//! The tracker reads the output that goes to the terminal, cut at any byte, and remembers the private modes that a
//! program may leave behind (alternate screen, mouse, bracketed paste, focus reports, hidden cursor, keyboard
//! protocols). Switching off what is not on is not harmless: leaving an alternate screen that was never entered moves
//! the cursor. So an orderly session writes nothing at all.
//!
//! States: ground → escape → control sequence (or string) → ground.
//!
//! It never changes the output, never holds a byte back and keeps no text: a flag per mode is all it stores. Flags sit
//! in an atomic word that the panic hook can read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(test)]
mod tests;

/// Longest parameter text of a control sequence that is looked at; longer ones are skipped.
const MAX_PARAMETERS: usize = 64;

/// Every mode: the private mode number and whether "on" is the high or the low form.
const MODES: &[(u16, bool)] = &[
    (1049, true),
    (1047, true),
    (47, true),
    (1, true),
    (5, true),
    (6, true),
    (7, false),
    (9, true),
    (25, false),
    (66, true),
    (1000, true),
    (1001, true),
    (1002, true),
    (1003, true),
    (1004, true),
    (1005, true),
    (1006, true),
    (1015, true),
    (1016, true),
    (2004, true),
    (2026, true),
    (2031, true),
];
const KEYPAD: u64 = 1 << 40;
const MODIFY_KEYS: u64 = 1 << 41;
const KITTY_KEYS: u64 = 1 << 42;
const COLOURS: u64 = 1 << 43;
const REGION: u64 = 1 << 44;
const CHARSET: u64 = 1 << 45;
const CURSOR_SHAPE: u64 = 1 << 46;
/// The output stopped inside a sequence: it has to be cancelled before anything else is written.
const INSIDE: u64 = 1 << 63;

/// The flags of a terminal, shared with whoever restores it.
#[derive(Debug, Clone, Default)]
pub struct Modes(Arc<AtomicU64>);

impl Modes {
    /// The bytes that switch off what is on; empty when nothing is.
    pub fn reset(&self) -> Vec<u8> {
        let on = self.0.load(Ordering::SeqCst);
        let mut out = Vec::new();
        if on & INSIDE != 0 {
            // CAN ends a control sequence, ST a string; either is ignored where it does not apply.
            out.extend_from_slice(b"\x18\x1b\\");
        }
        // Keyboard and mouse first: they are what types into the local shell.
        if on & KITTY_KEYS != 0 {
            out.extend_from_slice(b"\x1b[<99u\x1b[=0;1u");
        }
        if on & MODIFY_KEYS != 0 {
            out.extend_from_slice(b"\x1b[>4;0m");
        }
        if on & KEYPAD != 0 {
            out.extend_from_slice(b"\x1b>");
        }
        for (index, (number, high)) in MODES.iter().enumerate().rev() {
            if on & (1 << index) != 0 {
                out.extend_from_slice(format!("\x1b[?{number}{}", if *high { 'l' } else { 'h' }).as_bytes());
            }
        }
        if on & REGION != 0 {
            // Setting the region moves the cursor, so it is kept around it.
            out.extend_from_slice(b"\x1b7\x1b[r\x1b8");
        }
        if on & CHARSET != 0 {
            out.extend_from_slice(b"\x1b(B\x0f");
        }
        if on & CURSOR_SHAPE != 0 {
            out.extend_from_slice(b"\x1b[0 q");
        }
        if on & COLOURS != 0 {
            out.extend_from_slice(b"\x1b[0m");
        }
        out
    }

    fn set(&self, bit: u64, on: bool) {
        if on {
            self.0.fetch_or(bit, Ordering::SeqCst);
        } else {
            self.0.fetch_and(!bit, Ordering::SeqCst);
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Ground,
    Escape,
    /// After `ESC (` and its like: one more byte.
    Charset,
    Control,
    /// Operating-system command, device control and other strings.
    Text,
    TextEscape,
}

/// Reads terminal output and keeps [`Modes`] current.
#[derive(Debug)]
pub struct Tracker {
    modes: Modes,
    state: State,
    parameters: Vec<u8>,
}

impl Tracker {
    /// A tracker that writes into `modes`.
    pub fn new(modes: Modes) -> Self {
        Self {
            modes,
            state: State::Ground,
            parameters: Vec::new(),
        }
    }

    /// Looks at output that was written to the terminal.
    pub fn feed(&mut self, mut output: &[u8]) {
        while let Some((&byte, rest)) = output.split_first() {
            if self.state == State::Ground {
                // Plain text is skipped in one go: bulk output costs one search for ESC.
                match output.iter().position(|b| matches!(b, 0x1b | 0x0e | 0x0f)) {
                    None => return,
                    Some(at) => {
                        let byte = output.get(at).copied().unwrap_or_default();
                        output = output.get(at + 1..).unwrap_or_default();
                        match byte {
                            0x1b => {
                                self.state = State::Escape;
                                self.modes.set(INSIDE, true);
                            }
                            shift => self.modes.set(CHARSET, shift == 0x0e),
                        }
                        continue;
                    }
                }
            }
            output = rest;
            self.step(byte);
            if self.state == State::Ground {
                self.modes.set(INSIDE, false);
            }
        }
    }

    fn step(&mut self, byte: u8) {
        self.state = match (self.state, byte) {
            // Cancelled.
            (_, 0x18 | 0x1a) => State::Ground,
            (State::Text, 0x07) => State::Ground,
            (State::Text, 0x1b) => State::TextEscape,
            (State::Text, _) => State::Text,
            (State::TextEscape, b'\\') => State::Ground,
            (State::Charset, set) => {
                self.modes.set(CHARSET, set != b'B');
                State::Ground
            }
            (_, 0x1b) => State::Escape,
            (State::Escape | State::TextEscape, b'[') => {
                self.parameters.clear();
                State::Control
            }
            (State::Escape | State::TextEscape, b']' | b'P' | b'X' | b'^' | b'_') => State::Text,
            (State::Escape | State::TextEscape, b'(') => State::Charset,
            (State::Escape | State::TextEscape, 0x20..=0x2f) => State::Escape,
            (State::Escape | State::TextEscape, last) => {
                match last {
                    b'=' => self.modes.set(KEYPAD, true),
                    b'>' => self.modes.set(KEYPAD, false),
                    // Full reset.
                    b'c' => self.modes.0.store(0, Ordering::SeqCst),
                    _ => {}
                }
                State::Ground
            }
            (State::Control, 0x20..=0x3f) => {
                if self.parameters.len() <= MAX_PARAMETERS {
                    self.parameters.push(byte);
                }
                State::Control
            }
            (State::Control, 0x40..=0x7e) => {
                if self.parameters.len() <= MAX_PARAMETERS {
                    self.control(byte);
                }
                State::Ground
            }
            // Control characters inside a sequence are carried out and do not end it.
            (State::Control, _) => State::Control,
            (State::Ground, _) => State::Ground,
        };
    }

    fn control(&self, last: u8) {
        let parameters = self.parameters.as_slice();
        match (last, parameters.split_first()) {
            (b'h' | b'l', Some((b'?', numbers))) => {
                for number in numbers.split(|b| *b == b';') {
                    let number = std::str::from_utf8(number).ok().and_then(|n| n.parse::<u16>().ok());
                    for (index, (mode, high)) in MODES.iter().enumerate() {
                        if Some(*mode) == number {
                            self.modes.set(1 << index, (last == b'h') == *high);
                        }
                    }
                }
            }
            // Kitty keyboard protocol: push or set switches on, pop switches off.
            (b'u', Some((b'>' | b'=', rest))) => self.modes.set(KITTY_KEYS, !rest.starts_with(b"0")),
            (b'u', Some((b'<', _))) => self.modes.set(KITTY_KEYS, false),
            (b'm', Some((b'>', rest))) => {
                let level = rest.split(|b| *b == b';').nth(1).unwrap_or_default();
                self.modes.set(MODIFY_KEYS, !matches!(level, b"" | b"0"));
            }
            (b'm', Some((b'?', _))) => {}
            (b'm', None) => self.modes.set(COLOURS, false),
            (b'm', Some(_)) => {
                let colours = parameters
                    .split(|b| *b == b';')
                    .next_back()
                    .is_some_and(|last| !matches!(last, b"" | b"0"));
                self.modes.set(COLOURS, colours);
            }
            (b'r', None) => self.modes.set(REGION, false),
            (b'r', Some((b'0'..=b'9' | b';', _))) => self.modes.set(REGION, true),
            (b'q', Some(_)) if parameters.ends_with(b" ") => {
                self.modes.set(CURSOR_SHAPE, !matches!(parameters, b" " | b"0 "));
            }
            // Soft reset.
            (b'p', Some((b'!', _))) => self.modes.set(REGION | COLOURS | CHARSET | KEYPAD, false),
            _ => {}
        }
    }
}
