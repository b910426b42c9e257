//! Publications that no pipeline would make: the next version of a published policy, with any content and any signers.
//!
//! It takes apart what stands in a published directory and writes the next version beside it, with right hashes, and a
//! snapshot and a timestamp by the pipeline's key; only what the caller changes is wrong.

use std::fs;
use std::path::{Path, PathBuf};

use noderelay_bundle::signing::SigningKey;
use noderelay_bundle::strict::canonical;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// Writes publications into a directory.
pub struct Forge {
    published: PathBuf,
    pipeline: SigningKey,
}

impl Forge {
    /// For the publication in this directory, with the pipeline's key.
    pub fn new(published: &Path, pipeline: &Path) -> Self {
        Self {
            published: published.to_owned(),
            pipeline: SigningKey::load(pipeline).expect("the pipeline's key"),
        }
    }

    /// Publishes the next version: the targets document after `edit`, signed by these keys.
    pub fn next(&self, edit: impl FnOnce(&mut Value), signers: &[&SigningKey]) {
        let mut timestamp = self.document("timestamp.json");
        let mut snapshot = self.named(&timestamp, "snapshot.json");
        let mut targets = self.named(&snapshot, "targets.json");
        raise(&mut targets);
        edit(&mut targets);
        raise(&mut snapshot);
        let file = signed(&targets, signers);
        snapshot["meta"]["targets.json"] = describe(&targets, &file);
        self.write(&format!("{}.targets.json", targets["version"]), &file);
        raise(&mut timestamp);
        let file = signed(&snapshot, &[&self.pipeline]);
        timestamp["meta"]["snapshot.json"] = describe(&snapshot, &file);
        self.write(&format!("{}.snapshot.json", snapshot["version"]), &file);
        // Last, as a pipeline does: a reader sees the old publication or the new one.
        self.write("timestamp.json", &signed(&timestamp, &[&self.pipeline]));
    }

    /// Puts a file into the publication and names it in the targets document.
    pub fn put(&self, targets: &mut Value, name: &str, content: &[u8]) {
        let hash = hex::encode(Sha256::digest(content));
        let file = self.published.join(format!("targets/{hash}.{name}"));
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(file, content).expect("a file");
        assert!(!targets["targets"][name].is_null(), "{name} is in the publication");
        targets["targets"][name] = json!({"hashes": {"sha256": hash}, "length": content.len()});
    }

    fn document(&self, file: &str) -> Value {
        let text = fs::read(self.published.join("metadata").join(file)).expect("a document");
        let mut file: Value = serde_json::from_slice(&text).expect("JSON");
        file["signed"].take()
    }

    /// The document that another one names.
    fn named(&self, by: &Value, name: &str) -> Value {
        self.document(&format!("{}.{name}", by["meta"][name]["version"]))
    }

    fn write(&self, file: &str, bytes: &[u8]) {
        let file = self.published.join("metadata").join(file);
        let new = file.with_extension("new");
        fs::write(&new, bytes).expect("a document");
        fs::rename(&new, &file).expect("a document");
    }
}

fn raise(document: &mut Value) {
    document["version"] = (document["version"].as_u64().expect("a version") + 1).into();
}

fn describe(document: &Value, file: &[u8]) -> Value {
    let hash = hex::encode(Sha256::digest(file));
    json!({"version": document["version"], "length": file.len(), "hashes": {"sha256": hash}})
}

fn signed(document: &Value, keys: &[&SigningKey]) -> Vec<u8> {
    let bytes = canonical(document);
    let signature = |key: &&SigningKey| {
        let sig = hex::encode(key.sign(&bytes).expect("a signature"));
        json!({"keyid": key.id().as_str(), "sig": sig})
    };
    let signatures: Vec<Value> = keys.iter().map(signature).collect();
    canonical(&json!({"signatures": signatures, "signed": document}))
}
