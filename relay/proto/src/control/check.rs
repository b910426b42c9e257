//! The checks that messages share; each names frame and field in its error.

use bytes::Bytes;

use crate::error::ProtocolError;
use crate::frame::Type;
use crate::limits::MAX_NAME;

/// Checks fields of one message.
#[derive(Clone, Copy)]
pub(super) struct Check(pub(super) Type);

impl Check {
    pub(super) fn bad(self, field: &'static str, what: &'static str) -> ProtocolError {
        ProtocolError::BadField {
            frame: self.0,
            field,
            what,
        }
    }

    /// `seen` is at most `limit`.
    pub(super) fn most(self, field: &'static str, seen: usize, limit: usize) -> Result<(), ProtocolError> {
        if seen <= limit {
            Ok(())
        } else {
            Err(ProtocolError::OverLimit {
                frame: self.0,
                field,
                seen,
                limit,
            })
        }
    }

    /// Exactly `length` bytes.
    pub(super) fn exactly(self, field: &'static str, value: &[u8], length: usize) -> Result<(), ProtocolError> {
        if value.len() == length {
            Ok(())
        } else {
            Err(self.bad(field, "wrong number of bytes"))
        }
    }

    /// At most `limit` bytes, and no NUL among them.
    pub(super) fn no_nul(self, field: &'static str, value: &[u8], limit: usize) -> Result<(), ProtocolError> {
        self.most(field, value.len(), limit)?;
        if value.contains(&0) {
            Err(self.bad(field, "a NUL byte"))
        } else {
            Ok(())
        }
    }

    /// A DNS subdomain after RFC 1123 in lower case.
    pub(super) fn name(self, field: &'static str, value: &str) -> Result<(), ProtocolError> {
        self.most(field, value.len(), MAX_NAME)?;
        let label = |label: &str| {
            let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
            (1..=63).contains(&label.len())
                && label.bytes().all(inner)
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        if value.split('.').all(label) {
            Ok(())
        } else {
            Err(self.bad(field, "not a lower-case RFC 1123 name"))
        }
    }

    /// Empty, or a name.
    pub(super) fn name_or_empty(self, field: &'static str, value: &str) -> Result<(), ProtocolError> {
        if value.is_empty() {
            Ok(())
        } else {
            self.name(field, value)
        }
    }

    /// A value of an enumeration: known and not "unspecified".
    pub(super) fn known<E: TryFrom<i32>>(self, field: &'static str, value: i32) -> Result<E, ProtocolError> {
        match E::try_from(value) {
            Ok(known) if value != 0 => Ok(known),
            _ => Err(self.bad(field, "not a value that this version knows")),
        }
    }

    /// A list of byte strings: bounded count, bounded entries without NUL.
    pub(super) fn strings(
        self,
        field: &'static str,
        values: &[Bytes],
        count: usize,
        each: usize,
    ) -> Result<(), ProtocolError> {
        self.most(field, values.len(), count)?;
        values.iter().try_for_each(|value| self.no_nul(field, value, each))
    }
}
