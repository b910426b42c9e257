//! The strict pass over a metadata file, before anything else reads it.
//!
//! `tough` checks signatures over a form that it writes anew, lets duplicate keys pass, and counts key ids. So a file is
//! only handed to it when its *exact bytes* leave no room for two readings:
//!
//! 1. size limit, before parsing;
//! 2. printable ASCII without a backslash: no escapes, no Unicode twins, no white space outside strings;
//! 3. JSON without a duplicate key at any depth, of bounded depth, numbers whole and not negative;
//! 4. the whole file equals its canonical form (sorted keys, no white space), so that the signed part of the file *is*
//!    the canonical form that was signed;
//! 5. the envelope is `signatures` and `signed`, nothing else; each key id once.
//!
//! What the fields mean is read in [`crate::metadata`], which refuses fields that it does not know.

use crate::error::{BundleError, shown};
use crate::key::{KeyId, lower_hex};
use crate::limits::{MAX_DEPTH, MAX_KEYS};
use olpc_cjson::CanonicalFormatter;
use serde::Serialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;

/// The canonical form of a value that has no floating-point numbers.
#[must_use]
pub fn canonical(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, CanonicalFormatter::new());
    match value.serialize(&mut serializer) {
        Ok(()) => bytes,
        // Only a floating-point number has no canonical form. An empty text equals no file and verifies under no key.
        Err(_) => Vec::new(),
    }
}

/// A metadata file that passed: its signed part, as value and as the exact bytes that were signed, and its signatures.
#[derive(Debug, Clone)]
pub struct Envelope {
    /// The signed object.
    pub signed: Map<String, Value>,
    /// The exact bytes of the signed object in the file.
    pub bytes: Vec<u8>,
    /// Key id and signature, each id once.
    pub signatures: Vec<(KeyId, Vec<u8>)>,
}

/// Runs the strict pass over the bytes of `file`.
///
/// # Errors
/// The first rule that the bytes break.
pub fn envelope(file: &str, bytes: &[u8], max: usize) -> Result<Envelope, BundleError> {
    let Value::Object(mut outer) = value(file, bytes, max)? else {
        return Err(BundleError::malformed(file, "not a JSON object"));
    };
    let signed = match outer.remove("signed") {
        Some(Value::Object(signed)) => signed,
        _ => return Err(BundleError::malformed(file, "no object `signed`")),
    };
    let listed = match outer.remove("signatures") {
        Some(Value::Array(listed)) if listed.len() <= MAX_KEYS => listed,
        Some(Value::Array(_)) => return Err(BundleError::malformed(file, "more signatures than keys can be")),
        _ => return Err(BundleError::malformed(file, "no list `signatures`")),
    };
    if let Some(field) = outer.keys().next() {
        return Err(BundleError::UnknownField {
            file: file.to_owned(),
            field: shown(field),
        });
    }
    let mut seen = BTreeSet::new();
    let mut signatures = Vec::with_capacity(listed.len());
    for entry in listed {
        let (key, signature) = signature(file, entry)?;
        if !seen.insert(key.clone()) {
            return Err(BundleError::KeyTwice {
                file: file.to_owned(),
                key: key.to_string(),
            });
        }
        signatures.push((key, signature));
    }
    let bytes = canonical(&Value::Object(signed.clone()));
    Ok(Envelope {
        signed,
        bytes,
        signatures,
    })
}

/// Rules 1 to 4: a value whose canonical form is exactly `bytes`.
///
/// # Errors
/// The first rule that the bytes break.
pub fn value(file: &str, bytes: &[u8], max: usize) -> Result<Value, BundleError> {
    if bytes.len() > max {
        return Err(BundleError::TooLarge {
            file: file.to_owned(),
            max: u64::try_from(max).unwrap_or(u64::MAX),
        });
    }
    let duplicate = RefCell::new(None);
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let parsed = Strict {
        depth: 0,
        duplicate: &duplicate,
    }
    .deserialize(&mut reader)
    .and_then(|value| reader.end().map(|()| value));
    let value = match (parsed, duplicate.into_inner()) {
        (_, Some(key)) => {
            return Err(BundleError::DuplicateKey {
                file: file.to_owned(),
                key,
            });
        }
        (Err(error), None) => return Err(BundleError::malformed(file, error.to_string())),
        (Ok(value), None) => value,
    };
    if let Some(at) = bytes.iter().position(|b| !(0x20..0x7f).contains(b) || *b == b'\\') {
        return Err(BundleError::NotCanonical {
            file: file.to_owned(),
            at,
        });
    }
    let expected = canonical(&value);
    if expected != bytes {
        let at = expected
            .iter()
            .zip(bytes)
            .position(|(a, b)| a != b)
            .unwrap_or(expected.len().min(bytes.len()));
        return Err(BundleError::NotCanonical {
            file: file.to_owned(),
            at,
        });
    }
    Ok(value)
}

pub(crate) fn signature(file: &str, entry: Value) -> Result<(KeyId, Vec<u8>), BundleError> {
    let Value::Object(mut entry) = entry else {
        return Err(BundleError::malformed(file, "a signature is not an object"));
    };
    let (key, signature) = (entry.remove("keyid"), entry.remove("sig"));
    if let Some(field) = entry.keys().next() {
        return Err(BundleError::UnknownField {
            file: file.to_owned(),
            field: shown(field),
        });
    }
    let (Some(Value::String(key)), Some(Value::String(signature))) = (key, signature) else {
        return Err(BundleError::malformed(file, "a signature without `keyid` and `sig`"));
    };
    let key = KeyId::parse(&key)
        .ok_or_else(|| BundleError::malformed(file, "a key id that is not 64 lower-case hex digits"))?;
    let signature = hex::decode(&signature)
        .ok()
        .filter(|_| lower_hex(&signature))
        .ok_or_else(|| BundleError::malformed(file, "a signature that is not lower-case hex"))?;
    Ok((key, signature))
}

/// Builds a [`Value`] and refuses what two readers could read differently.
#[derive(Clone, Copy)]
struct Strict<'s> {
    depth: usize,
    duplicate: &'s RefCell<Option<String>>,
}

impl Strict<'_> {
    fn deeper<E: serde::de::Error>(self) -> Result<Self, E> {
        if self.depth >= MAX_DEPTH {
            return Err(E::custom("nested too deeply"));
        }
        Ok(Self {
            depth: self.depth + 1,
            ..self
        })
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object, a list, a text, a whole number that is not negative, or true or false")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut values = Vec::new();
        while let Some(value) = list.next_element_seed(inner)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut values = Map::new();
        while let Some(key) = object.next_key::<String>()? {
            if values.contains_key(&key) {
                self.duplicate.borrow_mut().get_or_insert_with(|| shown(&key));
                return Err(A::Error::custom("duplicate key"));
            }
            values.insert(key, object.next_value_seed(inner)?);
        }
        Ok(Value::Object(values))
    }
}

#[cfg(test)]
mod tests;
