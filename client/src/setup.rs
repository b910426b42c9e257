//! A whole fleet of one node in one folder: certificate authority, keys, signed publication, certificates, configuration.
//!
//! ```text
//! CA ─> fleet file ─> signed (one signer: marked `demo`) ─> published ─> certificates ─> relay.yaml, agent.yaml, config.yaml
//! ```
//!
//! One key signs everything, so every banner says so. It writes files and starts nothing.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use noderelay_bundle::author::{self, AuthorError, InitSpec, Signers, Validity};
use noderelay_bundle::fleet::{Cluster, FleetFile, RelayEntry};
use noderelay_bundle::principals::{Group, PrincipalsFile};
use noderelay_bundle::signing::{Algorithm, KeyFileError, SigningKey};
use noderelay_bundle::{BundleError, Role as Document};
use noderelay_pki::ca::{CaError, CaSpec, CertificateAuthority, LeafSpec};
use noderelay_pki::files::{self, FileError};
use noderelay_pki::identity::{Identity, Role, RoleKind};
use noderelay_pki::key::{KeyError, PrivateKey};
use noderelay_pki::name::{ClusterName, GroupName, NodeName, RelayName, TrustDomain, UserName};
use noderelay_pki::{pem, time};
use noderelay_policy::starter;
use thiserror::Error;

/// What the fleet is called, and where its relay listens.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The trust domain.
    pub trust_domain: TrustDomain,
    /// The cluster.
    pub cluster: ClusterName,
    /// The node.
    pub node: NodeName,
    /// The relay.
    pub relay: RelayName,
    /// `HOST:PORT` of the relay, as the fleet file names it.
    pub address: String,
    /// The person.
    pub user: UserName,
    /// Further settings of the agent, YAML lines at top level.
    pub agent_extra: String,
}

impl Spec {
    /// The demo's names, with the relay at `address`.
    ///
    /// # Errors
    /// A user name that no certificate can carry.
    pub fn demo(address: impl Into<String>, user: &str) -> Result<Self, SetupError> {
        let name = |e: noderelay_pki::name::NameError| SetupError::Name(e.to_string());
        Ok(Self {
            trust_domain: TrustDomain::parse("demo.noderelay").map_err(name)?,
            cluster: ClusterName::parse("demo").map_err(name)?,
            node: NodeName::parse("local").map_err(name)?,
            relay: RelayName::parse("relay-1").map_err(name)?,
            address: address.into(),
            user: UserName::parse(user).map_err(name)?,
            agent_extra: String::new(),
        })
    }
}

/// Where everything lies below one folder.
#[derive(Debug, Clone)]
pub struct Layout {
    /// The folder.
    pub root: PathBuf,
}

impl Layout {
    /// The folder of the CA.
    pub fn ca(&self) -> PathBuf {
        self.root.join("ca")
    }
    /// The one signing key.
    pub fn signing_key(&self) -> PathBuf {
        self.root.join("keys/signer")
    }
    /// The policy repository.
    pub fn policy(&self) -> PathBuf {
        self.root.join("policy")
    }
    /// The publication.
    pub fn published(&self) -> PathBuf {
        self.root.join("published")
    }
    /// The relay's configuration.
    pub fn relay(&self) -> PathBuf {
        self.root.join("relay/relay.yaml")
    }
    /// The agent's configuration.
    pub fn agent(&self) -> PathBuf {
        self.root.join("agent/agent.yaml")
    }
    /// Where the agent writes recordings.
    pub fn recordings(&self) -> PathBuf {
        self.root.join("agent/state/recordings")
    }
    /// The client's configuration.
    pub fn client(&self) -> PathBuf {
        self.root.join("client/config.yaml")
    }
    /// A log file.
    pub fn log(&self, of: &str) -> PathBuf {
        self.root.join("logs").join(format!("{of}.log"))
    }
}

/// Why the fleet could not be set up.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "each is the error of the part that it names")]
pub enum SetupError {
    #[error("{0}")]
    Name(String),
    #[error(transparent)]
    Ca(#[from] CaError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    SigningKey(#[from] KeyFileError),
    #[error(transparent)]
    Author(#[from] AuthorError),
    #[error(transparent)]
    Bundle(#[from] BundleError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{path}: {source}", path = .path.display())]
    Folder { path: PathBuf, source: io::Error },
}

/// Writes the whole fleet below `root`, which is made with mode 0700.
///
/// # Errors
/// The first step that failed; what was written until then stays for a look.
pub async fn fleet_of_one(root: &Path, spec: &Spec, now: Timestamp) -> Result<Layout, SetupError> {
    files::private_directory(root)?;
    let layout = Layout { root: root.to_owned() };
    for folder in ["keys", "relay", "agent", "client", "logs"] {
        let path = root.join(folder);
        std::fs::create_dir_all(&path).map_err(|source| SetupError::Folder { path, source })?;
    }
    let life = noderelay_pki::ca::default_lifetime(RoleKind::Node) * 3;
    let ca = CertificateAuthority::create(CaSpec::new(spec.trust_domain.clone(), spec.cluster.clone(), now, life))?;
    ca.save(&layout.ca())?;
    publish(&layout, spec, &ca, now).await?;
    let group = GroupName::parse(starter::DEMO_GROUP).map_err(|e| SetupError::Name(e.to_string()))?;
    issue(
        &ca,
        Role::Relay(spec.relay.clone()),
        Vec::new(),
        &root.join("relay/relay"),
        now,
    )?;
    issue(
        &ca,
        Role::Node(spec.node.clone()),
        Vec::new(),
        &root.join("agent/node"),
        now,
    )?;
    issue(
        &ca,
        Role::User(spec.user.clone()),
        vec![group],
        &root.join("client/user"),
        now,
    )?;
    write(&layout.relay(), &relay_yaml(&spec.address))?;
    write(&layout.agent(), &agent_yaml(&spec.agent_extra))?;
    write(&layout.client(), CLIENT_YAML)?;
    Ok(layout)
}

async fn publish(layout: &Layout, spec: &Spec, ca: &CertificateAuthority, now: Timestamp) -> Result<(), SetupError> {
    let key = SigningKey::create(&layout.signing_key(), Algorithm::Ed25519)?;
    let one = Signers::one(key.public());
    let mut content = vec![
        ("fleet.yaml".to_owned(), fleet(spec, ca).to_yaml()?.into_bytes()),
        ("principals.yaml".to_owned(), principals(spec)?.to_yaml()?.into_bytes()),
        (
            "nodes.yaml".to_owned(),
            starter::demo_node_rules(&spec.cluster).into_bytes(),
        ),
    ];
    content.extend(
        starter::demo_policies(&spec.cluster)
            .into_iter()
            .map(|(name, text)| (format!("policies/{name}"), text.into_bytes())),
    );
    let init = InitSpec {
        trust_domain: spec.trust_domain.clone(),
        root: one.clone(),
        targets: one.clone(),
        pipeline: one,
        demo: true,
        valid: Validity::default(),
        files: content,
    };
    let policy = layout.policy();
    author::init(&policy, &init)?;
    for document in [Document::Root, Document::Targets] {
        author::sign(&policy, &key, document, now)?;
    }
    author::publish(&policy, &layout.published(), &key, now).await?;
    Ok(())
}

fn fleet(spec: &Spec, ca: &CertificateAuthority) -> FleetFile {
    FleetFile {
        trust_domain: spec.trust_domain.clone(),
        clusters: vec![Cluster {
            name: spec.cluster.clone(),
            owner: Some("demo".to_owned()),
            certificate_authorities: vec![noderelay_bundle::fleet::CertificateAuthority {
                roles: BTreeSet::from([RoleKind::Node, RoleKind::Relay, RoleKind::User]),
                certificate: ca.certificate_pem(),
            }],
            relays: vec![RelayEntry {
                name: spec.relay.clone(),
                addresses: vec![spec.address.clone()],
                owner: Some("demo".to_owned()),
                key_fingerprint: None,
            }],
        }],
        routes: Vec::new(),
        witnesses: Vec::new(),
        recipients: Vec::new(),
        webhooks: Vec::new(),
    }
}

fn principals(spec: &Spec) -> Result<PrincipalsFile, SetupError> {
    let group = GroupName::parse(starter::DEMO_GROUP).map_err(|e| SetupError::Name(e.to_string()))?;
    let groups = vec![Group {
        cluster: spec.cluster.clone(),
        group,
    }];
    Ok(PrincipalsFile {
        persons: Vec::new(),
        groups,
        mappings: Vec::new(),
    })
}

/// Makes a key and its certificate: `PATH.key` and `PATH.crt`; the role's usual life.
///
/// # Errors
/// When the CA refuses or a file can't be written; an existing key is never overwritten.
pub fn issue(
    ca: &CertificateAuthority,
    role: Role,
    groups: Vec<GroupName>,
    path: &Path,
    now: Timestamp,
) -> Result<LeafSpec, SetupError> {
    let identity = Identity::new(ca.trust_domain().clone(), ca.cluster().clone(), role);
    let key = PrivateKey::generate()?;
    let mut spec = LeafSpec::new(identity, key.public_key_der(), now);
    spec.groups = groups;
    issue_spec(ca, &key, &spec, path)?;
    Ok(spec)
}

/// Signs `spec` and writes `PATH.key` and `PATH.crt`.
///
/// # Errors
/// When the CA refuses or a file can't be written.
pub fn issue_spec(ca: &CertificateAuthority, key: &PrivateKey, spec: &LeafSpec, path: &Path) -> Result<(), SetupError> {
    let certificate = ca.issue(spec)?;
    key.save(&with_ending(path, "key"))?;
    files::write_atomic(
        &with_ending(path, "crt"),
        pem::certificate_to_pem(&certificate).as_bytes(),
        0o644,
    )?;
    Ok(())
}

/// `PATH.ENDING`; an ending that is there already (`node.example.com`) stays.
pub fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut whole = path.as_os_str().to_owned();
    whole.push(".");
    whole.push(ending);
    whole.into()
}

fn write(path: &Path, text: &str) -> Result<(), SetupError> {
    Ok(files::write_atomic(path, text.as_bytes(), 0o644)?)
}

fn relay_yaml(listen: &str) -> String {
    format!(
        "identity: {{certificate: relay.crt, key: relay.key}}\nlisten: {listen}\nbundle: ../published\nstate: state\n"
    )
}

fn agent_yaml(extra: &str) -> String {
    let profile = starter::DEMO_PROFILE;
    format!(
        "identity: {{certificate: node.crt, key: node.key}}\nbundle: ../published\nstate: state\n\
         default_profile: {profile}\nprofiles:\n  {profile}: {{run_as: agent}}\n{extra}"
    )
}

const CLIENT_YAML: &str = "\
identity: {certificate: user.crt, key: user.key}\nbundle: ../published\n\
root: ../published/metadata/1.root.json\nstate: state\n";

/// The end of a certificate's life, for messages.
pub fn until(spec: &LeafSpec) -> String {
    time::format(spec.not_after)
}
