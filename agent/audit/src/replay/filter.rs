//! The filter between recorded output and a terminal: a small state machine that passes a list of sequences.
//!
//! ```text
//! ground ─ESC→ escape ─[→ csi ─final→ passed if listed, else dropped
//!                     ─]PX^_k→ string ─BEL, ST, CAN→ dropped (too long: marked, dropped to the end of the line)
//! ```
//!
//! Never: growing with the input, or passing what it does not know.

/// Longest parameters of a control sequence.
const MAX_CSI: usize = 64;
/// Longest control string that is dropped silently; a longer one is marked.
const MAX_STRING: usize = 4096;
/// Largest number in a control sequence: beyond every screen.
const MAX_NUMBER: u32 = 9999;
/// Private modes that only change what the screen shows.
const MODES: [u32; 9] = [1, 5, 6, 7, 12, 25, 47, 1047, 1049];

/// For whom the output is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// A terminal: harmless sequences pass.
    Terminal,
    /// A file or pipe: text, line feeds and tabs only.
    Plain,
}

/// Makes output safe to show. Feed it in any pieces.
#[derive(Debug)]
pub struct Filter {
    show: Show,
    state: State,
    sequence: String,
    length: usize,
    partial: Vec<u8>,
    carriage_return: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ground,
    Escape,
    EscapeMore,
    Csi,
    CsiDropped,
    String,
    StringEscape,
    StringTooLong,
}

impl Filter {
    /// A filter in its ground state.
    pub fn new(show: Show) -> Self {
        Self {
            show,
            state: State::Ground,
            sequence: String::new(),
            length: 0,
            partial: Vec::new(),
            carriage_return: false,
        }
    }

    /// Appends what may be shown of these bytes.
    pub fn push(&mut self, bytes: &[u8], out: &mut String) {
        let joined;
        let mut rest = if self.partial.is_empty() {
            bytes
        } else {
            joined = [std::mem::take(&mut self.partial).as_slice(), bytes].concat();
            joined.as_slice()
        };
        loop {
            let (valid, after) = match std::str::from_utf8(rest) {
                Ok(valid) => (valid, None),
                Err(error) => {
                    let (valid, after) = rest.split_at(error.valid_up_to());
                    (
                        std::str::from_utf8(valid).unwrap_or_default(),
                        Some((after, error.error_len())),
                    )
                }
            };
            valid.chars().for_each(|c| self.character(c, out));
            match after {
                None => return,
                Some((after, None)) => {
                    self.partial = after.to_vec();
                    return;
                }
                Some((after, Some(bad))) => {
                    self.character(char::REPLACEMENT_CHARACTER, out);
                    rest = after.split_at(bad).1;
                }
            }
        }
    }

    fn character(&mut self, c: char, out: &mut String) {
        match (self.state, c) {
            // Cancel and substitute end every sequence, an escape begins a new one.
            (_, '\x18' | '\x1a') => self.state = State::Ground,
            (State::String | State::StringTooLong, '\x1b') => self.state = State::StringEscape,
            (_, '\x1b') => self.enter(State::Escape),
            (State::Ground, _) => self.ground(c, out),
            (State::Escape, '[') => self.enter(State::Csi),
            (State::Escape | State::StringEscape, ']' | 'P' | 'X' | '^' | '_' | 'k') => self.enter(State::String),
            (State::Escape, ' '..='/') => {
                self.state = State::EscapeMore;
                self.sequence.push(c);
            }
            (State::Escape, _) => {
                self.state = State::Ground;
                if matches!(c, '7' | '8' | 'D' | 'E' | 'H' | 'M' | 'c' | '=' | '>') {
                    self.pass(&['\x1b', c], out);
                }
            }
            (State::EscapeMore, _) => {
                self.state = State::Ground;
                let (set, listed) = match self.sequence.as_str() {
                    "(" => ('(', "0AB12"),
                    ")" => (')', "0AB12"),
                    "#" => ('#', "34568"),
                    _ => return,
                };
                if listed.contains(c) {
                    self.pass(&['\x1b', set, c], out);
                }
            }
            (State::Csi | State::CsiDropped, ..='\x1f') => self.ground(c, out),
            (State::Csi | State::CsiDropped, '@'..='~') => {
                let whole = self.state == State::Csi;
                self.state = State::Ground;
                if whole && self.show == Show::Terminal {
                    control_sequence(&self.sequence, c, out);
                }
            }
            (State::Csi | State::CsiDropped, ' '..='?') => {
                self.length += 1;
                if self.length > MAX_CSI {
                    self.state = if self.length > MAX_STRING {
                        State::Ground
                    } else {
                        State::CsiDropped
                    };
                } else {
                    self.sequence.push(c);
                }
            }
            (State::Csi | State::CsiDropped, _) => {
                self.state = State::Ground;
                self.ground(c, out);
            }
            (State::String | State::StringTooLong, '\x07' | '\u{9c}') => self.state = State::Ground,
            (State::String, _) => {
                self.length += 1;
                if self.length > MAX_STRING {
                    self.state = State::StringTooLong;
                    out.push_str("[a long control string is left out]");
                }
            }
            (State::StringTooLong, '\n') => {
                self.state = State::Ground;
                self.ground(c, out);
            }
            (State::StringTooLong, _) => {}
            (State::StringEscape, '[') => self.enter(State::Csi),
            // The string terminator, or an escape that aborted the string.
            (State::StringEscape, _) => self.state = State::Ground,
        }
    }

    fn enter(&mut self, state: State) {
        self.state = state;
        self.sequence.clear();
        self.length = 0;
    }

    fn ground(&mut self, c: char, out: &mut String) {
        if self.show == Show::Plain {
            // A lone carriage return begins a line anew: in plain text that is a new line.
            if std::mem::take(&mut self.carriage_return) && c != '\n' {
                out.push('\n');
            }
            match c {
                '\r' => self.carriage_return = true,
                '\n' | '\t' => out.push(c),
                _ if c.is_control() => {}
                _ => out.push(c),
            }
            return;
        }
        match c {
            '\x08'..='\r' | '\x0e' | '\x0f' => out.push(c),
            _ if c.is_control() => {}
            _ => out.push(c),
        }
    }

    fn pass(&self, sequence: &[char], out: &mut String) {
        if self.show == Show::Terminal {
            out.extend(sequence);
        }
    }
}

/// Passes a control sequence if it is on the list.
fn control_sequence(body: &str, end: char, out: &mut String) {
    let numbers_end = body
        .find(|c: char| !matches!(c, '0'..='9' | ';' | ':'))
        .unwrap_or(body.len());
    let (prefix, numbers, suffix) = match body.strip_prefix('?') {
        Some(rest) if rest.chars().all(|c| matches!(c, '0'..='9' | ';')) => ("?", rest, ""),
        Some(_) => return,
        None => {
            let (numbers, suffix) = body.split_at(numbers_end);
            ("", numbers, suffix)
        }
    };
    let sane = |number: &str| number.is_empty() || number.parse::<u32>().is_ok_and(|n| n <= MAX_NUMBER);
    if !numbers.split([';', ':']).all(sane) {
        return;
    }
    let kept: String;
    let numbers = match (prefix, suffix, end) {
        (
            "",
            "",
            'A'..='M' | 'P' | 'S' | 'T' | 'X' | 'Z' | '@' | '`' | 'a' | 'b' | 'd'..='g' | 'm' | 'r' | 's' | 'u',
        )
        | ("", " ", 'q')
        | ("", "!", 'p')
        | ("?", "", 'J' | 'K') => numbers,
        ("", "", 'h' | 'l') if numbers == "4" => numbers,
        ("?", "", 'h' | 'l') => {
            let known = |number: &&str| number.parse().is_ok_and(|n: u32| MODES.contains(&n));
            kept = numbers.split(';').filter(known).collect::<Vec<_>>().join(";");
            if kept.is_empty() {
                return;
            }
            &kept
        }
        _ => return,
    };
    out.extend(["\x1b[", prefix, numbers, suffix]);
    out.push(end);
}

#[cfg(test)]
mod tests;
