//! Writing metadata: the exact inverse of reading it. The bytes that are signed are the canonical form, and so is the
//! whole file.

use super::{Document, Named, Role, Root, SPEC_VERSION, Targets};
use crate::key::KeyId;
use crate::strict;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// The bytes to sign for a document.
pub(crate) fn signed_bytes<T: Document>(document: &T, version: u64, issued: Timestamp, expires: Timestamp) -> Vec<u8> {
    let mut fields = document.write();
    fields.insert("_type".to_owned(), T::ROLE.as_str().into());
    fields.insert("spec_version".to_owned(), SPEC_VERSION.into());
    fields.insert("version".to_owned(), version.into());
    fields.insert("issued".to_owned(), noderelay_pki::time::format(issued).into());
    fields.insert("expires".to_owned(), noderelay_pki::time::format(expires).into());
    strict::canonical(&Value::Object(fields))
}

/// The file: signatures and the signed bytes, which are copied as they are.
pub(crate) fn assemble(signed: &[u8], signatures: &[(KeyId, Vec<u8>)]) -> Vec<u8> {
    let listed: Vec<Value> = signatures
        .iter()
        .map(|(id, sig)| json!({"keyid": id.as_str(), "sig": hex::encode(sig)}))
        .collect();
    let mut file = br#"{"signatures":"#.to_vec();
    file.extend(strict::canonical(&Value::Array(listed)));
    file.extend(br#","signed":"#);
    file.extend(signed);
    file.push(b'}');
    file
}

pub(super) fn root(root: &Root) -> Map<String, Value> {
    let keys: Map<_, _> = root.keys.iter().map(|(id, key)| (id.to_string(), key.tuf())).collect();
    let roles: Map<_, _> = root
        .roles
        .iter()
        .map(|(role, of)| {
            let ids: Vec<&str> = of.keys.iter().map(KeyId::as_str).collect();
            (role.to_string(), json!({"keyids": ids, "threshold": of.threshold}))
        })
        .collect();
    let mut fields = Map::new();
    fields.insert("consistent_snapshot".to_owned(), true.into());
    fields.insert("keys".to_owned(), keys.into());
    fields.insert("roles".to_owned(), roles.into());
    if root.demo {
        fields.insert("demo".to_owned(), true.into());
    }
    if !root.floors.is_empty() {
        let floors: Map<_, _> = root
            .floors
            .iter()
            .map(|(role, v): (&Role, &u64)| (role.to_string(), (*v).into()))
            .collect();
        fields.insert("floors".to_owned(), floors.into());
    }
    fields
}

pub(super) fn meta(name: &str, named: &Named) -> Map<String, Value> {
    let entry = json!({
        "hashes": {"sha256": hex::encode(named.sha256)},
        "length": named.length,
        "version": named.version,
    });
    Map::from_iter([("meta".to_owned(), json!({name: entry}))])
}

pub(super) fn targets(targets: &Targets) -> Map<String, Value> {
    let files: Map<_, _> = targets
        .files
        .iter()
        .map(|(name, named)| {
            (
                name.clone(),
                json!({"hashes": {"sha256": hex::encode(named.sha256)}, "length": named.length}),
            )
        })
        .collect();
    Map::from_iter([("targets".to_owned(), files.into())])
}
