//! Reading the fields of metadata: each is taken out by name and must be what it should be; what is left over is unknown
//! and refused.

use super::{Named, RoleKeys};
use crate::error::{BundleError, shown};
use crate::key::{self, KeyId, PublicKey};
use crate::limits::{MAX_KEYS, MAX_VERSION};
use jiff::Timestamp;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The fields of one object, taken out one by one; what is left over is unknown.
pub struct Fields<'f> {
    pub(super) file: &'f str,
    pub(super) map: Map<String, Value>,
}

impl<'f> Fields<'f> {
    pub(super) fn take(&mut self, name: &str) -> Result<Value, BundleError> {
        self.map
            .remove(name)
            .ok_or_else(|| BundleError::malformed(self.file, format!("no field `{name}`")))
    }

    pub(super) fn text(&mut self, name: &str) -> Result<String, BundleError> {
        match self.take(name)? {
            Value::String(text) => Ok(text),
            other => Err(BundleError::malformed(
                self.file,
                format!("`{name}` is {other}, not a text"),
            )),
        }
    }

    pub(super) fn number(&mut self, name: &str) -> Result<u64, BundleError> {
        let value = self.take(name)?;
        value
            .as_u64()
            .ok_or_else(|| BundleError::malformed(self.file, format!("`{name}` is {value}, not a whole number")))
    }

    pub(super) fn version(&mut self, name: &str) -> Result<u64, BundleError> {
        let value = self.take(name)?;
        let refused = || BundleError::BadVersion {
            file: self.file.to_owned(),
            seen: shown(value.to_string()),
        };
        value
            .as_u64()
            .filter(|v| (1..=MAX_VERSION).contains(v))
            .ok_or_else(refused)
    }

    pub(super) fn time(&mut self, name: &str) -> Result<Timestamp, BundleError> {
        let text = self.text(name)?;
        noderelay_pki::time::parse(&text).map_err(|_| BundleError::BadTime {
            file: self.file.to_owned(),
            seen: shown(&text),
        })
    }

    pub(super) fn flag(&mut self, name: &str) -> Result<bool, BundleError> {
        match self.take(name)? {
            Value::Bool(flag) => Ok(flag),
            other => Err(BundleError::malformed(
                self.file,
                format!("`{name}` is {other}, not true or false"),
            )),
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.map.contains_key(name)
    }

    pub(super) fn object(&mut self, name: &str) -> Result<Fields<'f>, BundleError> {
        match self.take(name)? {
            Value::Object(map) => Ok(Fields { file: self.file, map }),
            _ => Err(BundleError::malformed(self.file, format!("`{name}` is not an object"))),
        }
    }

    pub(super) fn list(&mut self, name: &str) -> Result<Vec<Value>, BundleError> {
        match self.take(name)? {
            Value::Array(list) => Ok(list),
            _ => Err(BundleError::malformed(self.file, format!("`{name}` is not a list"))),
        }
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.map.keys().cloned().collect()
    }

    pub(super) fn sha256(&mut self) -> Result<[u8; 32], BundleError> {
        let mut hashes = self.object("hashes")?;
        let text = hashes.text("sha256")?;
        hashes.done()?;
        key::bytes(&text).ok_or_else(|| BundleError::malformed(self.file, "`sha256` is not 64 lower-case hex digits"))
    }

    pub(super) fn done(self) -> Result<(), BundleError> {
        match self.map.keys().next() {
            None => Ok(()),
            Some(field) => Err(BundleError::UnknownField {
                file: self.file.to_owned(),
                field: shown(field),
            }),
        }
    }
}

pub(super) fn read_keys(file: &str, mut listed: Fields<'_>) -> Result<BTreeMap<KeyId, PublicKey>, BundleError> {
    let names = listed.names();
    if names.len() > MAX_KEYS {
        return Err(BundleError::malformed(file, format!("more than {MAX_KEYS} keys")));
    }
    let mut keys = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for name in names {
        let mut entry = listed.object(&name)?;
        let (keytype, scheme) = (entry.text("keytype")?, entry.text("scheme")?);
        let mut keyval = entry.object("keyval")?;
        let public = keyval.text("public")?;
        keyval.done()?;
        entry.done()?;
        let key = PublicKey::from_tuf(&keytype, &scheme, &public).ok_or_else(|| {
            BundleError::malformed(
                file,
                format!("key {name} is not Ed25519 or P-256 in the one accepted form"),
            )
        })?;
        let id = key.id();
        if id.as_str() != name {
            return Err(BundleError::malformed(file, format!("key {name} has the id {id}")));
        }
        if !seen.insert(key.clone()) {
            return Err(BundleError::KeyTwice {
                file: file.to_owned(),
                key: id.to_string(),
            });
        }
        keys.insert(id, key);
    }
    Ok(keys)
}

pub(super) fn read_role(entry: &mut Fields<'_>, known: &BTreeMap<KeyId, PublicKey>) -> Result<RoleKeys, BundleError> {
    let file = entry.file;
    let mut keys = BTreeSet::new();
    for id in entry.list("keyids")? {
        let id = id.as_str().and_then(KeyId::parse).filter(|id| known.contains_key(id));
        let id = id.ok_or_else(|| BundleError::malformed(file, "a role names a key that the root does not have"))?;
        if let Some(twice) = keys.replace(id) {
            return Err(BundleError::KeyTwice {
                file: file.to_owned(),
                key: twice.to_string(),
            });
        }
    }
    let threshold = entry.number("threshold")?;
    if threshold == 0 || threshold > u64::try_from(keys.len()).unwrap_or(0) {
        return Err(BundleError::malformed(
            file,
            format!("a threshold of {threshold} with {} keys", keys.len()),
        ));
    }
    Ok(RoleKeys { keys, threshold })
}

pub(super) fn read_meta(fields: &mut Fields<'_>, name: &str) -> Result<Named, BundleError> {
    let mut meta = fields.object("meta")?;
    let mut entry = meta.object(name)?;
    let named = Named {
        version: entry.version("version")?,
        length: entry.number("length")?,
        sha256: entry.sha256()?,
    };
    entry.done()?;
    meta.done()?;
    Ok(named)
}
