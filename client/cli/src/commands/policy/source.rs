//! Where the commands that look at a policy take it from: a policy repository as it lies there, or a publication.
//!
//! ```text
//! directory ── metadata/ there? ──> verified as by a node of its own first root ──> Source
//!           └─ else: the repository's files, unsigned ────────────────────────────> Source
//! ```
//!
//! Never: a word about whose signatures those are (`policy verify --root` says that).

use std::path::Path;

use anyhow::{Context as _, Result};
use noderelay_bundle::principals::{KeyUse, Person, PrincipalsFile};
use noderelay_bundle::{FleetFile, Publication, author, fleet, principals};
use noderelay_pki::files;
use noderelay_policy::PolicySet;
use noderelay_policy::survey::{Declared, DeclaredPerson};

/// Largest root, and largest file of a repository.
const MAX_FILE: usize = 4 * 1024 * 1024;
/// The node rules.
pub(super) const NODE_RULES: &str = "nodes.yaml";
/// The folder of the policies.
const POLICIES: &str = "policies";

/// A policy with what belongs to it.
pub(super) struct Source {
    /// Files with their names from the top, in the order of these.
    pub(super) policies: Vec<(String, Vec<u8>)>,
    pub(super) node_rules: Vec<u8>,
    fleet: Vec<u8>,
    principals: Vec<u8>,
    /// The publication that it was taken from.
    pub(super) publication: Option<Publication>,
}

impl Source {
    /// Of a repository or a publication.
    pub(super) async fn load(dir: &Path) -> Result<Self> {
        if dir.join("metadata").is_dir() {
            return Ok(Self::published(publication(dir, None).await?));
        }
        Self::repository(dir)
    }

    /// Of a repository.
    pub(super) fn repository(dir: &Path) -> Result<Self> {
        let folder = dir.join(POLICIES);
        let mut policies = Vec::new();
        let entries = std::fs::read_dir(&folder)
            .with_context(|| format!("{} is no policy repository: folder {POLICIES} in it", dir.display()))?;
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.ends_with(".cedar") {
                policies.push((format!("{POLICIES}/{name}"), files::read_bounded(&path, MAX_FILE)?));
            }
        }
        policies.sort();
        let read = |name: &str| files::read_bounded(&dir.join(name), MAX_FILE);
        Ok(Self {
            policies,
            node_rules: read(NODE_RULES)?,
            fleet: read(fleet::FILE)?,
            principals: read(principals::FILE)?,
            publication: None,
        })
    }

    fn published(publication: Publication) -> Self {
        let file = |name: &str| publication.file(name).unwrap_or_default().to_vec();
        let policies = publication.policies();
        Self {
            policies: policies
                .map(|(name, bytes)| (format!("{POLICIES}/{name}"), bytes.to_vec()))
                .collect(),
            node_rules: file(NODE_RULES),
            fleet: file(fleet::FILE),
            principals: file(principals::FILE),
            publication: Some(publication),
        }
    }

    /// The version; 0 is a repository's.
    pub(super) fn version(&self) -> u64 {
        self.publication.as_ref().map_or(0, Publication::policy_version)
    }

    /// The policy, as a node would read it.
    pub(super) fn policy(&self) -> Result<PolicySet> {
        let files = self.policies.iter().map(|(name, bytes)| (name, bytes));
        Ok(PolicySet::parse(self.version(), files, &self.node_rules)?)
    }

    /// The fleet file.
    pub(super) fn fleet(&self) -> Result<FleetFile> {
        Ok(FleetFile::parse(&self.fleet)?)
    }

    /// What is declared beside the policies.
    pub(super) fn declared(&self) -> Result<Declared> {
        let (fleet, principals) = (self.fleet()?, self.principals()?);
        let approves = |person: &Person| person.keys.iter().any(|key| key.uses.contains(&KeyUse::Approve));
        let person = |person: &Person| DeclaredPerson {
            name: person.name.clone(),
            usernames: person
                .usernames
                .iter()
                .map(|name| (name.cluster.clone(), name.user.to_string()))
                .collect(),
            approves: approves(person),
        };
        Ok(Declared {
            trust_domain: fleet.trust_domain,
            clusters: fleet.clusters.into_iter().map(|cluster| cluster.name).collect(),
            groups: principals
                .groups
                .iter()
                .map(|group| (group.cluster.clone(), group.group.clone()))
                .collect(),
            persons: principals.persons.iter().map(person).collect(),
        })
    }

    /// The principals file.
    pub(super) fn principals(&self) -> Result<PrincipalsFile> {
        Ok(PrincipalsFile::parse(&self.principals)?)
    }
}

/// A publication that a node would take; without a root that is trusted beforehand, by its own first one.
pub(super) async fn publication(dir: &Path, root: Option<&Path>) -> Result<Publication> {
    let own = dir.join("metadata/1.root.json");
    let root = files::read_bounded(root.unwrap_or(&own), MAX_FILE)?;
    Ok(author::verify(dir, &root).await?)
}
