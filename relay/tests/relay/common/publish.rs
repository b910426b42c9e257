//! Signs and publishes a fleet file with one throw-away key.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use noderelay_bundle::author::{self, InitSpec, Signers, Validity};
use noderelay_bundle::signing::{Algorithm, SigningKey};
use noderelay_bundle::{FleetFile, Role};

/// Policy repository, publication and key of one test.
pub struct Publisher {
    repository: PathBuf,
    publication: PathBuf,
    key: SigningKey,
}

impl Publisher {
    pub fn new(folder: &Path) -> Self {
        Self {
            repository: folder.join("policy"),
            publication: folder.join("bundle"),
            key: SigningKey::generate(Algorithm::default()).unwrap(),
        }
    }

    pub async fn publish(&self, fleet: &FleetFile) {
        let now = Timestamp::now();
        let text = fleet.to_yaml().unwrap();
        if self.repository.exists() {
            std::fs::write(self.repository.join("fleet.yaml"), text).unwrap();
        } else {
            let signers = || Signers::one(self.key.public());
            let spec = InitSpec {
                trust_domain: fleet.trust_domain.clone(),
                root: signers(),
                targets: signers(),
                pipeline: signers(),
                demo: true,
                valid: Validity::default(),
                files: vec![
                    ("fleet.yaml".into(), text.into_bytes()),
                    ("nodes.yaml".into(), b"rules: []\n".to_vec()),
                ],
            };
            author::init(&self.repository, &spec).unwrap();
            author::sign(&self.repository, &self.key, Role::Root, now).unwrap();
        }
        author::sign(&self.repository, &self.key, Role::Targets, now).unwrap();
        author::publish(&self.repository, &self.publication, &self.key, now)
            .await
            .unwrap();
    }
}
