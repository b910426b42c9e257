//! The pass before protobuf: counts fields without allocating.
//!
//! Protobuf lets a field come twice (the last one wins, or both are merged) and lets a list of empty entries grow to many
//! times its size on the wire. This walk over the top level refuses both before `prost` allocates anything: a field that is
//! not a list comes once, a list has at most its bound of entries, unknown fields are few, groups don't exist.
//!
//! Never looks inside nested messages; those are bounded by the frame and hold no lists.

use crate::error::ProtocolError;
use crate::frame::Type;
use crate::limits::MAX_UNKNOWN_FIELDS;

/// Fields that the walk can tell apart; no message comes near.
const FIELDS: u32 = 64;

/// Checks the top level of a message with known fields `1..=last`.
pub(super) fn check(frame: Type, payload: &[u8], last: u32, repeated: &[(u32, usize)]) -> Result<(), ProtocolError> {
    debug_assert!(last < FIELDS);
    let broken = ProtocolError::Malformed {
        frame,
        what: "cut off or impossible protobuf",
    };
    let mut rest = payload;
    let mut seen: u64 = 0;
    let mut counts = [0_usize; 4];
    let mut unknown = 0_usize;
    while !rest.is_empty() {
        let key = varint(&mut rest).ok_or(broken)?;
        let field = u32::try_from(key >> 3).map_err(|_| broken)?;
        if field == 0 {
            return Err(broken);
        }
        skip(&mut rest, key & 7).ok_or(broken)?;
        if let Some((slot, &(_, limit))) = repeated.iter().enumerate().find(|(_, (number, _))| *number == field) {
            let count = counts.get_mut(slot).ok_or(broken)?;
            *count += 1;
            if *count > limit {
                return Err(ProtocolError::OverLimit {
                    frame,
                    field: "a list",
                    seen: *count,
                    limit,
                });
            }
        } else if field <= last {
            let bit = 1_u64 << field;
            if seen & bit != 0 {
                return Err(ProtocolError::Malformed {
                    frame,
                    what: "the same field twice",
                });
            }
            seen |= bit;
        } else {
            unknown += 1;
            if unknown > MAX_UNKNOWN_FIELDS {
                return Err(ProtocolError::OverLimit {
                    frame,
                    field: "unknown fields",
                    seen: unknown,
                    limit: MAX_UNKNOWN_FIELDS,
                });
            }
        }
    }
    Ok(())
}

/// A protobuf (little-endian base 128) varint from the front.
fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, tail) = rest.split_first()?;
        *rest = tail;
        if shift == 63 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Skips a value of a wire type; groups (3, 4) and unknown types are refused.
fn skip(rest: &mut &[u8], wire_type: u64) -> Option<()> {
    let length = match wire_type {
        0 => return varint(rest).map(|_| ()),
        1 => 8,
        2 => usize::try_from(varint(rest)?).ok()?,
        5 => 4,
        _ => return None,
    };
    *rest = rest.get(length..)?;
    Some(())
}
