//! One event as one line of a recording, and the table of event codes.
//!
//! A line is `[seconds, "code", "data"]`; data is always a string, as players expect it.
//!
//! | code | data | known to players |
//! |---|---|---|
//! | `o` | terminal output or standard output, as text | yes |
//! | `r` | new size, `COLSxROWS` | yes |
//! | `m` | a notice, for example that the path was lost and came back | yes |
//! | `e` | standard error of work without a terminal, as text | no |
//! | `b` | `o:` or `e:` and base64: bytes that are not UTF-8, or that text would blow up | no |
//! | `h` | `o:` or `e:` and base64: the beginning of a character whose end has not come yet; the stream's next bytes repeat it | no |
//! | `s` | a signal from the client, `INT` | no |
//! | `g` | a gap as JSON ([`crate::Gap`]) | no |
//! | `d` | output left out as JSON ([`crate::Omitted`]); the last one of a stream counts | no |
//! | `x` | the end as JSON ([`crate::End`]) | no |
//!
//! Never: input or output; everything here works on buffers.

use std::io::Write as _;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use noderelay_pki::text::escape_json;

use crate::Stream;

/// Text that grows beyond this factor when escaped (plus a little) is written as base64 instead.
const BLOW_UP: usize = 2;

/// Longest line that is read. Output is cut into pieces of [`MAX_PIECE`] before it is written.
pub const MAX_LINE: usize = 1024 * 1024;

/// Most bytes of output in one event.
pub const MAX_PIECE: usize = 64 * 1024;

/// The code of a stream's text events, which is also its mark inside `b` and `h`.
pub(crate) fn letter(stream: Stream) -> char {
    match stream {
        Stream::Stdout => 'o',
        Stream::Stderr => 'e',
    }
}

/// Appends an event whose data is plain text. Texts come from elsewhere: what a terminal would not show is escaped, in
/// JSON's own way, so that a reader gets it as it was.
pub(crate) fn text(out: &mut Vec<u8>, at: Duration, code: char, data: &str) {
    begin(out, at, code);
    let mut quoted = Vec::with_capacity(data.len());
    escape(&mut quoted, data, usize::MAX);
    out.extend_from_slice(escape_json(&String::from_utf8_lossy(&quoted)).as_bytes());
    out.extend_from_slice(b"\"]\n");
}

/// Appends output that is UTF-8: as text, or as base64 where text would be much longer than the bytes.
pub(crate) fn output(out: &mut Vec<u8>, at: Duration, stream: Stream, data: &str) {
    let start = out.len();
    begin(out, at, letter(stream));
    if escape(out, data, data.len().saturating_mul(BLOW_UP).saturating_add(256)) {
        out.extend_from_slice(b"\"]\n");
    } else {
        out.truncate(start);
        bytes(out, at, 'b', stream, data.as_bytes());
    }
}

/// Appends an event whose data is a stream's mark and base64.
pub(crate) fn bytes(out: &mut Vec<u8>, at: Duration, code: char, stream: Stream, data: &[u8]) {
    begin(out, at, code);
    let mut encoded = String::with_capacity(data.len().div_ceil(3).saturating_mul(4));
    STANDARD.encode_string(data, &mut encoded);
    // Writing to a Vec cannot fail.
    let _ = writeln!(out, "{}:{encoded}\"]", letter(stream));
}

/// Appends an event whose data is JSON in a string.
pub(crate) fn json(out: &mut Vec<u8>, at: Duration, code: char, data: &impl serde::Serialize) {
    // These are structs of numbers and strings: they always have a JSON form.
    let data = serde_json::to_string(data).unwrap_or_default();
    text(out, at, code, &data);
}

fn begin(out: &mut Vec<u8>, at: Duration, code: char) {
    // Writing to a Vec cannot fail.
    let _ = write!(out, "[{}.{:06}, \"{code}\", \"", at.as_secs(), at.subsec_micros());
}

/// Appends `data` with JSON's escapes; stops and says false when it would append more than `limit` bytes.
fn escape(out: &mut Vec<u8>, data: &str, limit: usize) -> bool {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let start = out.len();
    let mut rest = data.as_bytes();
    loop {
        let run = rest
            .iter()
            .position(|&byte| byte < 0x20 || byte == b'"' || byte == b'\\')
            .unwrap_or(rest.len());
        let (plain, special) = rest.split_at(run);
        out.extend_from_slice(plain);
        let Some((&byte, after)) = special.split_first() else {
            return true;
        };
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => {
                let high = HEX.get(usize::from(byte >> 4)).copied().unwrap_or(b'0');
                let low = HEX.get(usize::from(byte & 15)).copied().unwrap_or(b'0');
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
            }
        }
        if out.len() - start > limit {
            return false;
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests;
