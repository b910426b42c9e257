//! The checks that messages share; each names frame and field in its error.

use std::str::FromStr;

use bytes::Bytes;
use noderelay_pki::name::NameError;

use crate::error::ProtocolError;
use crate::frame::Type;

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

    /// A name, parsed by the one type that knows its rules.
    pub(super) fn name<N: FromStr<Err = NameError>>(
        self,
        field: &'static str,
        value: &str,
    ) -> Result<N, ProtocolError> {
        value
            .parse()
            .map_err(|_| self.bad(field, "not a lower-case RFC 1123 name"))
    }

    /// Empty, or a name.
    pub(super) fn name_or_empty<N: FromStr<Err = NameError>>(
        self,
        field: &'static str,
        value: &str,
    ) -> Result<Option<N>, ProtocolError> {
        if value.is_empty() {
            Ok(None)
        } else {
            self.name(field, value).map(Some)
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
