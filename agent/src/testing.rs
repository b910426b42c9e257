//! What the tests of this crate share: a fleet of one cluster made on the spot, its parties, and publications of it.
//!
//! It never touches the network; publications lie in a directory that goes away with its [`Publisher`].

use std::collections::BTreeSet;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use noderelay_audit::Level;
use noderelay_audit_event::{Claimed, SessionId, SessionKind, SessionStarted};
use noderelay_bundle::author::{self, InitSpec, Signers, Validity};
use noderelay_bundle::fleet::{CertificateAuthority as CaText, Cluster};
use noderelay_bundle::signing::{Algorithm, SigningKey};
use noderelay_bundle::{FleetFile, Role as Document};
use noderelay_pki::ca::{CaSpec, CertificateAuthority, LeafSpec};
use noderelay_pki::key::PrivateKey;
use noderelay_pki::name::{AccountName, ClusterName, NodeName, RelayName, TrustDomain, UserName};
use noderelay_pki::tls::{Credentials, Live, Party};
use noderelay_pki::trust::TrustAnchors;
use noderelay_pki::verify::{Expect, Usage, VerifiedPeer};
use noderelay_pki::{Identity, Role, RoleKind};
use noderelay_proto::control::{ClaimedPath, Kind, Open, Purpose};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::accept::Own;
use crate::config::Config;
use crate::denials::Denials;
use crate::metrics::Metrics;
use crate::places::Places;
use crate::published::{InForce, Published};
use crate::session::Node;
use crate::sessions::Sessions;
use crate::standby::Standbys;
use crate::start::Launcher;

pub(crate) const DAY: Duration = Duration::from_secs(86_400);

/// One cluster's certificates.
pub(crate) struct Fleet {
    domain: TrustDomain,
    pub(crate) cluster: ClusterName,
    ca: CertificateAuthority,
}

impl Fleet {
    /// The cluster `alpha`.
    pub(crate) fn new() -> Self {
        Self::of("alpha")
    }

    pub(crate) fn of(cluster: &str) -> Self {
        let (domain, cluster) = (
            TrustDomain::parse("example.org").unwrap(),
            ClusterName::parse(cluster).unwrap(),
        );
        // Begun a while ago, so that a certificate of the past has a CA of its time.
        let begun = noderelay_pki::time::before(Timestamp::now(), DAY * 10);
        let spec = CaSpec::new(domain.clone(), cluster.clone(), begun, DAY * 400);
        Self {
            ca: CertificateAuthority::create(spec).unwrap(),
            domain,
            cluster,
        }
    }

    fn identity(&self, role: Role) -> Identity {
        Identity::new(self.domain.clone(), self.cluster.clone(), role)
    }

    pub(crate) fn node(&self, name: &str) -> Identity {
        self.identity(Role::Node(NodeName::parse(name).unwrap()))
    }

    pub(crate) fn relay(&self, name: &str) -> Identity {
        self.identity(Role::Relay(RelayName::parse(name).unwrap()))
    }

    pub(crate) fn user(&self, name: &str) -> Identity {
        self.identity(Role::User(UserName::parse(name).unwrap()))
    }

    pub(crate) fn break_glass(&self, name: &str) -> Identity {
        self.identity(Role::BreakGlass(AccountName::parse(name).unwrap()))
    }

    pub(crate) fn own(&self, node: &str) -> Own {
        Own {
            cluster: self.cluster.clone(),
            node: NodeName::parse(node).unwrap(),
        }
    }

    /// A new key and its certificate, as of `now`.
    pub(crate) fn credentials(&self, identity: Identity, now: Timestamp) -> Credentials {
        let key = PrivateKey::generate().unwrap();
        let leaf = self
            .ca
            .issue(&LeafSpec::new(identity, key.public_key_der(), now))
            .unwrap();
        Credentials::new(vec![leaf.into()], key, now).unwrap()
    }

    pub(crate) fn trust(&self) -> TrustAnchors {
        let roles: BTreeSet<_> = RoleKind::ALL.into_iter().collect();
        TrustAnchors::new(self.domain.clone(), vec![self.ca.entry(roles)]).unwrap()
    }

    /// A party that trusts this fleet, with a certificate of this fleet.
    pub(crate) fn party(&self, identity: Identity) -> Party {
        self.party_trusting(identity, self)
    }

    /// The same, trusting another fleet.
    pub(crate) fn party_trusting(&self, identity: Identity, trusted: &Self) -> Party {
        let credentials = self.credentials(identity, Timestamp::now());
        Party::new(Live::new(credentials), Live::new(trusted.trust()))
    }

    /// Somebody with a new key, as verified.
    pub(crate) fn peer(&self, identity: Identity) -> VerifiedPeer {
        let roles = Expect::Roles(const { &RoleKind::ALL });
        let party = self.party(identity);
        let chain = party.credentials.get().chain().to_vec();
        party
            .peer(Some(&chain), Usage::Client, &roles, Timestamp::now())
            .unwrap()
    }

    /// The wish for a shell on `node`.
    pub(crate) fn open(&self, node: &str) -> Open {
        Open {
            open_id: Bytes::from_static(&[1; 16]),
            kind: Kind::Shell.into(),
            cluster: self.cluster.to_string(),
            node: node.to_owned(),
            purpose: Purpose::Session.into(),
            claimed_path: ClaimedPath::Relay.into(),
            ..Open::default()
        }
    }

    fn file(&self) -> FleetFile {
        FleetFile {
            trust_domain: self.domain.clone(),
            clusters: vec![Cluster {
                name: self.cluster.clone(),
                owner: None,
                certificate_authorities: vec![CaText {
                    roles: RoleKind::ALL.into_iter().collect(),
                    certificate: self.ca.certificate_pem(),
                }],
                relays: Vec::new(),
            }],
            routes: Vec::new(),
            witnesses: Vec::new(),
            recipients: Vec::new(),
            webhooks: Vec::new(),
        }
    }
}

/// Policy repository, publication and the node's state, with one throw-away key.
pub(crate) struct Publisher {
    folder: tempfile::TempDir,
    key: SigningKey,
}

/// Every node of `alpha` but those that no rule names.
const NODES: &[u8] = b"rules:\n  - {nodes: 'alpha/gpu-*', tenant: platform}\n";
const POLICY: &str = "policies/test.cedar";

impl Publisher {
    /// Publishes `policy` for `fleet`, signed at `now`.
    pub(crate) async fn new(fleet: &Fleet, policy: &str, now: Timestamp) -> Self {
        let publisher = Self {
            folder: tempfile::tempdir().unwrap(),
            key: SigningKey::generate(Algorithm::default()).unwrap(),
        };
        let signers = || Signers::one(publisher.key.public());
        let spec = InitSpec {
            trust_domain: fleet.domain.clone(),
            root: signers(),
            targets: signers(),
            pipeline: signers(),
            demo: true,
            valid: Validity::default(),
            files: vec![
                ("fleet.yaml".into(), fleet.file().to_yaml().unwrap().into_bytes()),
                ("nodes.yaml".into(), NODES.to_vec()),
                (POLICY.into(), policy.into()),
            ],
        };
        author::init(&publisher.repository(), &spec).unwrap();
        author::sign(&publisher.repository(), &publisher.key, Document::Root, now).unwrap();
        publisher.again(now).await;
        publisher
    }

    /// Publishes another policy.
    pub(crate) async fn publish(&self, policy: &str, now: Timestamp) {
        std::fs::write(self.repository().join(POLICY), policy).unwrap();
        self.again(now).await;
    }

    async fn again(&self, now: Timestamp) {
        let repository = self.repository();
        author::sign(&repository, &self.key, Document::Targets, now).unwrap();
        author::publish(&repository, &self.publication(), &self.key, now)
            .await
            .unwrap();
    }

    fn repository(&self) -> PathBuf {
        self.folder.path().join("policy")
    }

    pub(crate) fn publication(&self) -> PathBuf {
        self.folder.path().join("published")
    }

    pub(crate) async fn open(&self, now: Timestamp) -> Published {
        let state = self.folder.path().join("state");
        Published::open(&self.publication(), &state, now).await.unwrap()
    }

    /// What a node has in force that looks at it at `now`.
    pub(crate) async fn in_force(&self, now: Timestamp) -> Arc<InForce> {
        let published = self.open(now).await.watch();
        published.borrow().clone()
    }
}

/// The folders of an agent, made below `root`.
pub(crate) fn places(root: &Path) -> Places {
    std::fs::set_permissions(root, std::fs::Permissions::from_mode(0o700)).unwrap();
    for folder in ["sessions", "recordings"] {
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(root.join(folder))
            .unwrap();
    }
    Places::of(root, &root.join("sessions"), &root.join("recordings")).unwrap()
}

/// The record of a session of kim's on `gpu-7`, whose name is made of `number`.
pub(crate) fn started(number: u8) -> SessionStarted {
    SessionStarted {
        session: SessionId([number; 16]),
        cluster: "alpha".parse().unwrap(),
        node: "gpu-7".parse().unwrap(),
        principal: Identity::parse("spiffe://example.org/cluster/alpha/user/kim").unwrap(),
        key_fingerprint: "ab".repeat(32),
        groups: Vec::new(),
        kind: SessionKind::Shell,
        argv: Vec::new(),
        profile: "diagnostic".parse().unwrap(),
        account: "nobody".into(),
        policy_version: 1,
        rules: Vec::new(),
        reason: None,
        level: Level::Strict,
        started: Timestamp::now(),
        claimed: Claimed::default(),
    }
}

/// A node of `fleet` with its folders below `root` and these limits, under what is in force now. It is started again as holder
/// and child by the agent's program, which lies beside the tests.
pub(crate) fn node(fleet: &Fleet, root: &Path, limits: &str, in_force: watch::Receiver<Arc<InForce>>) -> Node {
    let text = format!(
        "identity: {{certificate: c, key: k}}\nbundle: b\nstate: .\ndefault_profile: login\n\
         profiles: {{login: {{run_as: agent}}}}\nlimits: {limits}\n"
    );
    std::fs::write(root.join("agent.yaml"), text).unwrap();
    let config = Config::load(&root.join("agent.yaml")).unwrap();
    let (own, places, metrics) = (fleet.own("gpu-7"), places(root), Arc::<Metrics>::default());
    let tests = std::env::current_exe().unwrap();
    let built = tests
        .ancestors()
        .map(|folder| folder.join("noderelay-agent"))
        .find(|path| path.is_file());
    Node {
        launcher: Launcher {
            program: built.expect("noderelay-agent is not built; `cargo xtask test` builds every program first"),
            words: vec!["holder".into()],
            places: places.clone(),
            limits: config.limits.clone(),
        },
        party: fleet.party(fleet.node("gpu-7")),
        published: in_force,
        places,
        denials: Denials::new(own.clone(), Arc::clone(&metrics)),
        metrics,
        sessions: Sessions::new(config.limits.sessions),
        standbys: Standbys::new(config.limits.standbys, config.limits.standbys_per_person),
        stop: CancellationToken::new(),
        streams: TaskTracker::new(),
        config,
        own,
    }
}
