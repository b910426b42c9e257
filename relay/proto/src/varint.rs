//! QUIC variable-length integers (RFC 9000, section 16), shortest form required.
//!
//! Two top bits give the length (1, 2, 4 or 8 bytes), the rest is the value in network order, up to 2^62 − 1. RFC 9000
//! lets a sender use a longer form; here it is an error, so that every frame has exactly one encoding.
//!
//! Never reads past the slice it gets; never allocates when decoding.

use bytes::{BufMut, BytesMut};

/// The largest value that a varint can hold.
pub const MAX: u64 = (1 << 62) - 1;

/// A value in more bytes than it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a varint in more bytes than its value needs")]
pub struct NotShortest;

/// Appends `value`. Values above [`MAX`] can't be written and are written as [`MAX`]; offsets never get there
/// ([`crate::session::Outbox`] refuses long before).
pub fn put(out: &mut BytesMut, value: u64) {
    let value = value.min(MAX);
    match len(value) {
        1 => out.put_uint(value, 1),
        2 => out.put_uint(value | (0b01 << 14), 2),
        4 => out.put_uint(value | (0b10 << 30), 4),
        _ => out.put_u64(value | (0b11 << 62)),
    }
}

/// Bytes that [`put`] uses for `value`.
#[must_use]
pub fn len(value: u64) -> usize {
    match value {
        0..=0x3f => 1,
        0x40..=0x3fff => 2,
        0x4000..=0x3fff_ffff => 4,
        _ => 8,
    }
}

/// Reads one varint from the front: `None` when the slice ends before it does, else the value and its length.
///
/// # Errors
/// [`NotShortest`] when fewer bytes would have held the value.
pub fn get(bytes: &[u8]) -> Result<Option<(u64, usize)>, NotShortest> {
    let Some(&first) = bytes.first() else { return Ok(None) };
    let length = 1_usize << (first >> 6);
    let Some(raw) = bytes.get(..length) else {
        return Ok(None);
    };
    let mut value = u64::from(first & 0x3f);
    for &byte in raw.iter().skip(1) {
        value = (value << 8) | u64::from(byte);
    }
    if len(value) == length {
        Ok(Some((value, length)))
    } else {
        Err(NotShortest)
    }
}

#[cfg(test)]
mod tests;
