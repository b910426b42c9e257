//! The authoring side: the policy repository, and how it becomes a publication.
//!
//! ```text
//! init ─> edit files ─> sign (each signer, own machine) ─> publish (pipeline) ─> refresh (pipeline, hourly)
//! ```
//!
//! | in the repository | what |
//! |---|---|
//! | `roles.yaml` | keys and thresholds; a change of it is a new root |
//! | `fleet.yaml`, `principals.yaml`, `nodes.yaml`, `policies/*.cedar` | the content |
//! | `drafts/N.root.json`, `drafts/N.targets.json` | the exact bytes that signers sign |
//! | `signatures/N.ROLE/KEYID.json` | one file for each signature, so that signers never edit the same file |
//!
//! No private key is ever written here. Nothing is signed that a node would refuse: the content is read as a node reads
//! it first. The pipeline's key adds freshness and cannot change content.

use crate::error::BundleError;
use crate::key::PublicKey;
use crate::metadata::{Role, RoleKeys, Root};
use crate::publication::Publication;
use crate::signing::KeyFileError;
use crate::source::{Directory, Files};
use crate::verify::{self as steps, Floors, TrustedRoot};
use crate::{fleet, principals, yaml};
use jiff::{SignedDuration, Timestamp};
use noderelay_pki::files::{FileError, read_bounded, write_atomic};
use noderelay_pki::name::TrustDomain;
use noderelay_pki::text::Period;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

mod draft;
mod publish;

pub use draft::{Draft, draft, renew, sign};
pub use publish::{publish, refresh};

/// The name of the file with keys and thresholds.
pub const ROLES: &str = "roles.yaml";

/// Content files with fixed names; `policies/*.cedar` comes beside them.
const CONTENT: [&str; 3] = [fleet::FILE, principals::FILE, "nodes.yaml"];
const POLICIES: &str = "policies";

/// Why a step of the authoring side failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuthorError {
    /// The result would be refused by every node.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// A signing key cannot be used.
    #[error(transparent)]
    Key(#[from] KeyFileError),
    /// There is a policy repository already.
    #[error("{directory} holds a policy repository already: choose an empty directory")]
    Exists {
        /// The directory.
        directory: String,
    },
    /// A file cannot be read or written.
    #[error("{file}: {cause}")]
    File {
        /// The file.
        file: String,
        /// What was seen.
        cause: String,
    },
    /// `roles.yaml` (or what is to become it) makes no valid root.
    #[error("{ROLES}: {seen}")]
    Roles {
        /// What was seen.
        seen: String,
    },
    /// People sign `root` and `targets`; the rest is the pipeline's.
    #[error("{role} is signed by `noderelay policy publish` with the pipeline's key: sign root or targets")]
    PipelineRole {
        /// The role that was asked for.
        role: Role,
    },
    /// The key may not sign this.
    #[error("the key {key} is not a signer of {role}: {ROLES} and the root in force list who is")]
    NotASigner {
        /// The role.
        role: Role,
        /// The public key.
        key: PublicKey,
    },
    /// Nothing was signed yet.
    #[error("there is no {role} document yet: run `noderelay policy sign --role {role}`")]
    NothingSigned {
        /// The role.
        role: Role,
    },
    /// Signatures are missing.
    #[error(
        "{role} version {version} has {have} of {need} signatures; these keys can still sign: {}",
        list(missing)
    )]
    Incomplete {
        /// The role.
        role: Role,
        /// The version.
        version: u64,
        /// Distinct keys that signed.
        have: u64,
        /// Distinct keys that must sign.
        need: u64,
        /// Keys of the role that have not signed.
        missing: Vec<PublicKey>,
    },
    /// A document says that it was made later than now: one of the clocks is wrong, and nodes would hold theirs for wrong.
    #[error(
        "{role} says that it was issued at {issued}, but it is {now} here: set the clock that is wrong, and sign again"
    )]
    Future {
        /// The role.
        role: Role,
        /// What the document says.
        issued: Timestamp,
        /// What the clock here says.
        now: Timestamp,
    },
    /// The files are no longer those that were signed.
    #[error("changed since targets version {version} was signed: {}; sign again", names.join(", "))]
    Changed {
        /// The version that was signed.
        version: u64,
        /// The files.
        names: Vec<String>,
    },
}

impl From<FileError> for AuthorError {
    fn from(error: FileError) -> Self {
        Self::File {
            file: error.path.display().to_string(),
            cause: error.problem.to_string(),
        }
    }
}

/// Keys and threshold of a role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signers {
    /// How many distinct keys must sign.
    pub threshold: u64,
    /// The keys.
    pub keys: Vec<PublicKey>,
}

impl Signers {
    /// One key alone.
    #[must_use]
    pub fn one(key: &PublicKey) -> Self {
        Self {
            threshold: 1,
            keys: vec![key.clone()],
        }
    }
}

/// How long documents are valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Validity {
    /// The root: rotated by a ceremony.
    pub root: Period,
    /// Targets, and the snapshot with it.
    pub targets: Period,
    /// The timestamp: how long newer decisions can be held back unnoticed.
    pub timestamp: Period,
}

impl Default for Validity {
    fn default() -> Self {
        const DAY: u64 = 86_400;
        Self {
            root: Period::from_secs(365 * DAY),
            targets: Period::from_secs(90 * DAY),
            timestamp: Period::from_secs(DAY),
        }
    }
}

/// What a new policy repository begins with.
#[derive(Debug, Clone)]
pub struct InitSpec {
    /// The trust domain, for the fleet file that is written when `files` has none.
    pub trust_domain: TrustDomain,
    /// Who signs roots.
    pub root: Signers,
    /// Who signs policies.
    pub targets: Signers,
    /// The pipeline's key or keys.
    pub pipeline: Signers,
    /// A demonstration: every banner says so.
    pub demo: bool,
    /// How long documents are valid.
    pub valid: Validity,
    /// Content by name: `nodes.yaml`, `policies/NAME.cedar`, and `fleet.yaml`, `principals.yaml` where they are known.
    pub files: Vec<(String, Vec<u8>)>,
}

/// `roles.yaml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RolesFile {
    /// A demonstration.
    #[serde(default)]
    pub demo: bool,
    /// Who signs roots.
    pub root: Signers,
    /// Who signs policies.
    pub targets: Signers,
    /// Who signs snapshots and timestamps.
    pub pipeline: Signers,
    /// How long documents are valid.
    #[serde(default)]
    pub valid: Validity,
    /// Versions to which nodes set their floors when they take this root: the way back after a stolen key published a
    /// version so high that nothing newer could follow.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub floors: BTreeMap<String, u64>,
}

/// Writes a new policy repository to `directory`. Nothing is signed yet.
///
/// # Errors
/// There is one already, roles that make no root, or files that cannot be written.
pub fn init(directory: &Path, spec: &InitSpec) -> Result<(), AuthorError> {
    if directory.join(ROLES).symlink_metadata().is_ok() {
        return Err(AuthorError::Exists {
            directory: directory.display().to_string(),
        });
    }
    let roles = RolesFile {
        demo: spec.demo,
        root: spec.root.clone(),
        targets: spec.targets.clone(),
        pipeline: spec.pipeline.clone(),
        valid: spec.valid,
        floors: BTreeMap::new(),
    };
    roles.root()?;
    for (name, _) in &spec.files {
        if !is_content(name) {
            return Err(AuthorError::File {
                file: crate::error::shown(name),
                cause: "no file of a publication".to_owned(),
            });
        }
    }
    let given = |name: &str| spec.files.iter().any(|(given, _)| given == name);
    if !given(fleet::FILE) {
        let text = format!(
            "# Clusters, their certificate authorities and relays. docs/bundle.md lists every field.\ntrust_domain: {}\nclusters: []\n",
            spec.trust_domain
        );
        write(directory, fleet::FILE, text.as_bytes())?;
    }
    if !given(principals::FILE) {
        let text = "# Persons, the groups that policies use, approvers. docs/bundle.md lists every field.\npersons: []\ngroups: []\n";
        write(directory, principals::FILE, text.as_bytes())?;
    }
    for (name, bytes) in &spec.files {
        write(directory, name, bytes)?;
    }
    let text = serde_saphyr::to_string(&roles).map_err(|e| AuthorError::Roles { seen: e.to_string() })?;
    write(directory, ROLES, text.as_bytes())
}

/// Verifies the publication in a directory from a root that the caller trusts, without a store: no floors.
///
/// # Errors
/// Why a node would refuse it.
pub async fn verify(publication: &Path, root: &[u8]) -> Result<Publication, BundleError> {
    verify_source(&Directory::open(publication), root).await
}

async fn verify_source(source: &dyn crate::source::Source, root: &[u8]) -> Result<Publication, BundleError> {
    let trusted = TrustedRoot::parse("the given root", root)?;
    let mut floors = Floors::new();
    steps::set_floors(&mut floors, &trusted.signed.document);
    let (last, followed) = steps::advance(source, &trusted, &mut floors)?;
    steps::verify(source, &trusted, &last, followed, &floors, &std::env::temp_dir()).await
}

impl RolesFile {
    /// Reads the roles of a policy repository.
    ///
    /// # Errors
    /// The file cannot be read or makes no valid root.
    pub fn load(directory: &Path) -> Result<Self, AuthorError> {
        let bytes = read(&directory.join(ROLES), crate::limits::MAX_ROOT)?;
        let roles: Self = yaml::parse(ROLES, &bytes).map_err(|e| AuthorError::Roles { seen: e.to_string() })?;
        roles.root()?;
        Ok(roles)
    }

    /// The root document that these roles make.
    ///
    /// # Errors
    /// [`AuthorError::Roles`].
    pub fn root(&self) -> Result<Root, AuthorError> {
        let wrong = |seen: String| Err(AuthorError::Roles { seen });
        let mut root = Root {
            keys: BTreeMap::new(),
            roles: BTreeMap::new(),
            floors: BTreeMap::new(),
            demo: self.demo,
        };
        let signers = [
            (Role::Root, &self.root),
            (Role::Targets, &self.targets),
            (Role::Snapshot, &self.pipeline),
            (Role::Timestamp, &self.pipeline),
        ];
        for (role, signers) in signers {
            let distinct: BTreeSet<_> = signers.keys.iter().collect();
            if distinct.len() != signers.keys.len() {
                return wrong(format!("a key of {role} is listed twice: a key counts once"));
            }
            if signers.threshold == 0 || signers.threshold > u64::try_from(distinct.len()).unwrap_or(0) {
                return wrong(format!(
                    "{role} has {} keys and a threshold of {}",
                    distinct.len(),
                    signers.threshold
                ));
            }
            let ids = signers.keys.iter().map(|key| {
                root.keys.insert(key.id(), key.clone());
                key.id()
            });
            let keys = ids.collect();
            root.roles.insert(
                role,
                RoleKeys {
                    keys,
                    threshold: signers.threshold,
                },
            );
        }
        let signs = |key: &&PublicKey| self.root.keys.contains(key) || self.targets.keys.contains(key);
        if let (false, Some(key)) = (self.demo, self.pipeline.keys.iter().find(signs)) {
            return wrong(format!(
                "the pipeline's key {key} is a signer, too: whoever runs the pipeline could sign policy"
            ));
        }
        if root.keys.len() > crate::limits::MAX_KEYS {
            return wrong(format!("more than {} keys", crate::limits::MAX_KEYS));
        }
        for (name, version) in &self.floors {
            let role = Role::parse(name).filter(|role| *role != Role::Root);
            match role {
                Some(role) if (1..=crate::limits::MAX_VERSION).contains(version) => root.floors.insert(role, *version),
                _ => return wrong(format!("floor {version} of {}", crate::error::shown(name))),
            };
        }
        Ok(root)
    }
}

/// The content of a repository by name, read as a node reads it: nothing is signed that a node would refuse.
pub(crate) fn content(directory: &Path) -> Result<Files, AuthorError> {
    let mut files = Files::new();
    let mut names: Vec<String> = CONTENT
        .iter()
        .filter(|name| directory.join(name).exists())
        .map(|n| (*n).to_owned())
        .collect();
    let policies = directory.join(POLICIES);
    let failed = |e: std::io::Error| AuthorError::File {
        file: policies.display().to_string(),
        cause: e.to_string(),
    };
    match std::fs::read_dir(&policies) {
        Ok(entries) => {
            for entry in entries {
                let name = entry.map_err(failed)?.file_name();
                let name = format!("{POLICIES}/{}", name.to_string_lossy());
                if is_content(&name) {
                    names.push(name);
                }
            }
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
        Err(e) => return Err(failed(e)),
    }
    for name in names {
        let bytes = read(&directory.join(&name), crate::limits::MAX_FILE)?;
        files.insert(name, bytes);
    }
    let text = |name: &str| files.get(name).map(Vec::as_slice).unwrap_or_default();
    let fleet = fleet::FleetFile::parse(text(fleet::FILE))?;
    principals::PrincipalsFile::parse(text(principals::FILE))?.check_against(&fleet)?;
    Ok(files)
}

/// That a document was not made in the future, give or take what clocks differ by.
fn not_future(role: Role, issued: Timestamp, now: Timestamp) -> Result<(), AuthorError> {
    const CLOCKS_DIFFER: SignedDuration = SignedDuration::from_mins(5);
    if issued.duration_since(now) > CLOCKS_DIFFER {
        return Err(AuthorError::Future { role, issued, now });
    }
    Ok(())
}

fn is_content(name: &str) -> bool {
    let policy = name
        .strip_prefix("policies/")
        .is_some_and(|file| file.ends_with(".cedar"));
    crate::metadata::is_file_name(name) && (policy || CONTENT.contains(&name))
}

fn read(path: &Path, max: usize) -> Result<Vec<u8>, AuthorError> {
    Ok(read_bounded(path, max)?)
}

/// Writes a file of a repository or publication, with its directories.
fn write(directory: &Path, name: &str, bytes: &[u8]) -> Result<(), AuthorError> {
    let path: PathBuf = directory.join(name);
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(|e| AuthorError::File {
            file: parent.display().to_string(),
            cause: e.to_string(),
        })?;
    }
    Ok(write_atomic(&path, bytes, 0o644)?)
}

fn list(keys: &[PublicKey]) -> String {
    keys.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
