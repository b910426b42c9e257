//! Makes publications, good and bad, without the authoring side: every document can be changed before it is signed, and
//! signed by anybody.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::missing_docs_in_private_items,
    missing_docs
)]

use jiff::Timestamp;
use noderelay_bundle::signing::{Algorithm, SigningKey};
use noderelay_bundle::source::Files;
use noderelay_bundle::{Store, strict};
use noderelay_pki::ca::{CaSpec, CertificateAuthority};
use noderelay_pki::name::{ClusterName, TrustDomain};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::time::Duration;

pub(crate) const NOW: &str = "2026-11-30T12:00:00Z";

pub(crate) fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

pub(crate) fn now() -> Timestamp {
    at(NOW)
}

pub(crate) struct Forge {
    pub(crate) root_keys: Vec<SigningKey>,
    pub(crate) target_keys: Vec<SigningKey>,
    pub(crate) pipeline: SigningKey,
    pub(crate) root: Value,
    pub(crate) targets: Value,
    pub(crate) snapshot: Value,
    pub(crate) timestamp: Value,
    /// Content by name.
    pub(crate) content: Files,
}

fn common(role: &str, version: u64, expires: &str) -> Value {
    json!({"_type": role, "spec_version": "1.0.31", "version": version, "issued": "2026-11-30T11:00:00Z", "expires": expires})
}

pub(crate) fn sha(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

pub(crate) fn fleet_yaml() -> String {
    let (domain, cluster) = (
        TrustDomain::parse("example").unwrap(),
        ClusterName::parse("east").unwrap(),
    );
    let spec = CaSpec::new(domain, cluster, now(), Duration::from_secs(86_400 * 30));
    let pem = CertificateAuthority::create(spec).unwrap().certificate_pem();
    let pem: String = pem.lines().map(|line| format!("          {line}\n")).collect();
    format!(
        "trust_domain: example\nclusters:\n  - name: east\n    certificate_authorities:\n      - roles: [node, relay, user]\n        certificate: |\n{pem}    relays:\n      - {{name: r1, addresses: ['192.0.2.1:4433']}}\n"
    )
}

impl Forge {
    /// A good publication: root and targets by 2 of 3, pipeline by 1.
    pub(crate) fn new() -> Self {
        let key = || SigningKey::generate(Algorithm::Ed25519).unwrap();
        let mut forge = Self {
            root_keys: vec![key(), SigningKey::generate(Algorithm::P256).unwrap(), key()],
            target_keys: vec![key(), key(), SigningKey::generate(Algorithm::P256).unwrap()],
            pipeline: key(),
            root: common("root", 1, "2027-11-30T00:00:00Z"),
            targets: common("targets", 1, "2027-02-01T00:00:00Z"),
            snapshot: common("snapshot", 1, "2027-02-01T00:00:00Z"),
            timestamp: common("timestamp", 1, "2026-12-01T11:00:00Z"),
            content: Files::new(),
        };
        forge.content.insert("fleet.yaml".into(), fleet_yaml().into_bytes());
        forge.content.insert(
            "principals.yaml".into(),
            b"groups:\n  - {cluster: east, group: oncall}\n".to_vec(),
        );
        forge.content.insert("nodes.yaml".into(), b"rules: []\n".to_vec());
        forge.content.insert(
            "policies/a.cedar".into(),
            b"permit (principal, action, resource);\n".to_vec(),
        );
        forge.name_keys();
        forge
    }

    /// Writes the keys into the root.
    pub(crate) fn name_keys(&mut self) {
        let mut keys = serde_json::Map::new();
        for key in self.root_keys.iter().chain(&self.target_keys).chain([&self.pipeline]) {
            keys.insert(key.id().to_string(), key.public().tuf());
        }
        let ids = |keys: &[SigningKey]| keys.iter().map(|k| k.id().to_string()).collect::<Vec<_>>();
        let pipeline = json!({"keyids": [self.pipeline.id().as_str()], "threshold": 1});
        self.root["consistent_snapshot"] = true.into();
        self.root["keys"] = keys.into();
        self.root["roles"] = json!({
            "root": {"keyids": ids(&self.root_keys), "threshold": 2},
            "targets": {"keyids": ids(&self.target_keys), "threshold": 2},
            "snapshot": pipeline, "timestamp": pipeline,
        });
    }

    /// Makes all versions (but the root's) `version`.
    pub(crate) fn version(&mut self, version: u64) -> &mut Self {
        for document in [&mut self.targets, &mut self.snapshot, &mut self.timestamp] {
            document["version"] = version.into();
        }
        self
    }

    /// Everything signed by those who should.
    pub(crate) fn files(&self) -> Files {
        self.files_under(self.root_file())
    }

    /// Under a root file of which P-256 signatures differ each time: the very file that was pinned.
    pub(crate) fn files_under(&self, root: Vec<u8>) -> Files {
        self.files_with(root, &[&self.target_keys[0], &self.target_keys[2]], &self.pipeline)
    }

    /// As [`Self::files`], with other signers of targets and pipeline.
    pub(crate) fn files_with(&self, root: Vec<u8>, signers: &[&SigningKey], pipeline: &SigningKey) -> Files {
        let mut files = Files::new();
        let mut targets = self.targets.clone();
        if targets.get("targets").is_none() {
            let named: serde_json::Map<_, _> = self
                .content
                .iter()
                .map(|(name, bytes)| {
                    (
                        name.clone(),
                        json!({"length": bytes.len(), "hashes": {"sha256": sha(bytes)}}),
                    )
                })
                .collect();
            targets["targets"] = named.into();
        }
        for (name, bytes) in &self.content {
            files.insert(format!("targets/{}.{name}", sha(bytes)), bytes.clone());
        }
        let version = |v: &Value| v["version"].to_string();
        let named = |file: &[u8], v: &Value| json!({"version": v["version"], "length": file.len(), "hashes": {"sha256": sha(file)}});
        let targets_file = sign(&targets, signers);
        let mut snapshot = self.snapshot.clone();
        if snapshot.get("meta").is_none() {
            snapshot["meta"] = json!({"targets.json": named(&targets_file, &targets)});
        }
        let snapshot_file = sign(&snapshot, &[pipeline]);
        let mut timestamp = self.timestamp.clone();
        if timestamp.get("meta").is_none() {
            timestamp["meta"] = json!({"snapshot.json": named(&snapshot_file, &snapshot)});
        }
        files.insert("metadata/timestamp.json".into(), sign(&timestamp, &[pipeline]));
        files.insert(format!("metadata/{}.snapshot.json", version(&snapshot)), snapshot_file);
        files.insert(format!("metadata/{}.targets.json", version(&targets)), targets_file);
        files.insert("metadata/1.root.json".into(), root);
        files
    }

    pub(crate) fn root_file(&self) -> Vec<u8> {
        sign(&self.root, &[&self.root_keys[0], &self.root_keys[1]])
    }
}

/// A signed file, canonical.
pub(crate) fn sign(signed: &Value, keys: &[&SigningKey]) -> Vec<u8> {
    let bytes = strict::canonical(signed);
    let list: Vec<Value> = keys
        .iter()
        .map(|key| json!({"keyid": key.id().as_str(), "sig": hex::encode(key.sign(&bytes).unwrap())}))
        .collect();
    strict::canonical(&json!({"signatures": list, "signed": signed}))
}

/// A store in a new directory, with the root of `forge` pinned.
pub(crate) fn store(forge: &Forge) -> (tempfile::TempDir, Store) {
    pinned(&forge.root_file())
}

/// The same, with this very root file: P-256 signatures differ each time one is made.
pub(crate) fn pinned(root: &[u8]) -> (tempfile::TempDir, Store) {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(&directory.path().join("state")).unwrap();
    store.pin(root).unwrap();
    (directory, store)
}

/// The code of a refusal.
pub(crate) async fn refusal(store: &Store, files: &Files, now: Timestamp) -> &'static str {
    match store.load_from(files, now).await {
        Ok(publication) => panic!("accepted: {publication:?}"),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            error.code()
        }
    }
}

pub(crate) fn write(files: &Files, directory: &std::path::Path) {
    for (path, bytes) in files {
        let path = directory.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}
