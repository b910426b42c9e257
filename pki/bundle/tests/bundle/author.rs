//! From an empty directory to a publication, with separate signers.

use crate::common::{fleet_yaml, now};
use jiff::{SignedDuration, Timestamp};
use noderelay_bundle::author::{self, AuthorError, InitSpec, RolesFile, Signers, Validity};
use noderelay_bundle::signing::{Algorithm, SigningKey};
use noderelay_bundle::{Role, Store};
use noderelay_pki::name::TrustDomain;
use std::path::{Path, PathBuf};

struct Team {
    root: Vec<SigningKey>,
    policy: Vec<SigningKey>,
    pipeline: SigningKey,
    directory: tempfile::TempDir,
}

impl Team {
    fn new() -> Self {
        let key = |algorithm| SigningKey::generate(algorithm).unwrap();
        let three = || vec![key(Algorithm::Ed25519), key(Algorithm::P256), key(Algorithm::Ed25519)];
        Self {
            root: three(),
            policy: three(),
            pipeline: key(Algorithm::Ed25519),
            directory: tempfile::tempdir().unwrap(),
        }
    }

    fn repository(&self) -> PathBuf {
        self.directory.path().join("policy")
    }

    fn out(&self) -> PathBuf {
        self.directory.path().join("publication")
    }

    fn spec(&self) -> InitSpec {
        let signers = |keys: &[SigningKey]| Signers {
            threshold: 2,
            keys: keys.iter().map(|k| k.public().clone()).collect(),
        };
        InitSpec {
            trust_domain: TrustDomain::parse("example").unwrap(),
            root: signers(&self.root),
            targets: signers(&self.policy),
            pipeline: Signers::one(self.pipeline.public()),
            demo: false,
            valid: Validity::default(),
            files: vec![
                ("fleet.yaml".to_owned(), fleet_yaml().into_bytes()),
                ("nodes.yaml".to_owned(), b"rules: []\n".to_vec()),
                (
                    "policies/a.cedar".to_owned(),
                    b"permit (principal, action, resource);\n".to_vec(),
                ),
            ],
        }
    }

    /// A repository with a complete root and complete targets.
    fn signed() -> Self {
        let team = Self::new();
        author::init(&team.repository(), &team.spec()).unwrap();
        for key in &team.root[..2] {
            author::sign(&team.repository(), key, Role::Root, now()).unwrap();
        }
        team.sign_policy(now());
        team
    }

    fn sign_policy(&self, now: Timestamp) {
        for key in &self.policy[1..] {
            author::sign(&self.repository(), key, Role::Targets, now).unwrap();
        }
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.repository().join(name), text).unwrap();
    }

    /// The store of a node that takes the first root that it sees published.
    fn node(&self) -> Store {
        let store = Store::open(&self.directory.path().join("state")).unwrap();
        store.pin_first_use(&self.out()).unwrap();
        store
    }

    async fn publish(&self, now: Timestamp) -> Result<noderelay_bundle::Publication, AuthorError> {
        author::publish(&self.repository(), &self.out(), &self.pipeline, now).await
    }
}

fn hours(n: i64) -> Timestamp {
    now().checked_add(SignedDuration::from_hours(n)).unwrap()
}

fn root_of(out: &Path) -> Vec<u8> {
    std::fs::read(out.join("metadata/1.root.json")).unwrap()
}

#[tokio::test]
async fn two_of_three_sign_and_the_pipeline_publishes() {
    let team = Team::new();
    author::init(&team.repository(), &team.spec()).unwrap();
    assert!(matches!(
        author::init(&team.repository(), &team.spec()),
        Err(AuthorError::Exists { .. })
    ));
    assert!(matches!(
        team.publish(now()).await,
        Err(AuthorError::NothingSigned { role: Role::Root })
    ));
    let first = author::sign(&team.repository(), &team.root[0], Role::Root, now()).unwrap();
    assert_eq!((first.version, first.signed_by.len(), first.complete), (1, 1, false));
    assert!(matches!(
        team.publish(now()).await,
        Err(AuthorError::Incomplete {
            role: Role::Root,
            have: 1,
            need: 2,
            ..
        })
    ));
    // The second signer comes a day later and signs the same bytes.
    let second = author::sign(&team.repository(), &team.root[1], Role::Root, hours(24)).unwrap();
    assert_eq!(
        (second.version, second.issued, second.complete),
        (1, first.issued, true)
    );
    assert!(matches!(
        team.publish(now()).await,
        Err(AuthorError::NothingSigned { role: Role::Targets })
    ));
    author::sign(&team.repository(), &team.policy[0], Role::Targets, now()).unwrap();
    author::sign(&team.repository(), &team.policy[0], Role::Targets, now()).unwrap();
    match team.publish(hours(25)).await {
        Err(AuthorError::Incomplete {
            role: Role::Targets,
            have: 1,
            need: 2,
            missing,
            ..
        }) => assert_eq!(missing.len(), 2),
        other => panic!("{other:?}"),
    }
    let draft = author::sign(&team.repository(), &team.policy[2], Role::Targets, now()).unwrap();
    assert!(draft.complete && draft.files.contains_key("policies/a.cedar"));
    let published = team.publish(hours(25)).await.unwrap();
    assert_eq!(published.policy_version(), 1);

    let store = Store::open(&team.directory.path().join("state")).unwrap();
    store.pin(&root_of(&team.out())).unwrap();
    let loaded = store.load(&team.out(), hours(25)).await.unwrap();
    assert!(loaded.freshness(hours(25)).fresh() && !loaded.demo());
    assert_eq!(
        loaded.file("policies/a.cedar").unwrap(),
        b"permit (principal, action, resource);\n"
    );
    author::verify(&team.out(), &root_of(&team.out())).await.unwrap();
}

#[tokio::test]
async fn only_signers_sign_and_only_the_pipeline_publishes() {
    let team = Team::signed();
    for (key, role) in [
        (&team.policy[0], Role::Root),
        (&team.root[0], Role::Targets),
        (&team.pipeline, Role::Targets),
    ] {
        assert!(matches!(
            author::sign(&team.repository(), key, role, now()),
            Err(AuthorError::NotASigner { .. })
        ));
    }
    let refused = author::sign(&team.repository(), &team.pipeline, Role::Timestamp, now());
    assert!(matches!(refused, Err(AuthorError::PipelineRole { .. })));
    let refused = author::publish(&team.repository(), &team.out(), &team.policy[0], now()).await;
    assert!(matches!(refused, Err(AuthorError::NotASigner { .. })));
    assert!(!team.out().exists());
}

#[tokio::test]
async fn a_change_needs_new_signatures_and_is_the_next_version() {
    let team = Team::signed();
    team.publish(now()).await.unwrap();
    let store = team.node();
    store.load(&team.out(), now()).await.unwrap();

    team.write("policies/b.cedar", "forbid (principal, action, resource);\n");
    match team.publish(hours(1)).await {
        Err(AuthorError::Changed { version: 1, names }) => assert_eq!(names, ["policies/b.cedar"]),
        other => panic!("{other:?}"),
    }
    // A draft that is not complete is replaced under its version; the signature on it is dropped.
    let draft = author::sign(&team.repository(), &team.policy[0], Role::Targets, hours(1)).unwrap();
    assert_eq!((draft.version, draft.signed_by.len()), (2, 1));
    team.write("policies/b.cedar", "// Nothing.\n");
    let draft = author::sign(&team.repository(), &team.policy[1], Role::Targets, hours(2)).unwrap();
    assert_eq!((draft.version, draft.signed_by.len()), (2, 1));
    author::sign(&team.repository(), &team.policy[2], Role::Targets, hours(2)).unwrap();
    team.publish(hours(2)).await.unwrap();
    assert_eq!(store.load(&team.out(), hours(2)).await.unwrap().policy_version(), 2);
    // Removing a file is a change as well.
    std::fs::remove_file(team.repository().join("policies/a.cedar")).unwrap();
    assert!(matches!(team.publish(hours(3)).await, Err(AuthorError::Changed { .. })));
    team.sign_policy(hours(3));
    let loaded = team.publish(hours(3)).await.unwrap();
    assert_eq!((loaded.policy_version(), loaded.file("policies/a.cedar")), (3, None));
}

#[tokio::test]
async fn the_hourly_refresh_needs_only_the_pipelines_key() {
    let team = Team::signed();
    team.publish(now()).await.unwrap();
    let store = team.node();
    let first = store.load(&team.out(), now()).await.unwrap();
    assert_eq!(first.freshness(hours(25)).code(), "stale");
    assert!(matches!(
        author::refresh(&team.out(), &team.policy[0], hours(20)).await,
        Err(AuthorError::NotASigner { .. })
    ));
    std::fs::remove_dir_all(team.repository()).unwrap();
    author::refresh(&team.out(), &team.pipeline, hours(20)).await.unwrap();
    let second = store.load(&team.out(), hours(25)).await.unwrap();
    assert_eq!(second.freshness(hours(25)).code(), "fresh");
    assert_eq!(second.policy_version(), first.policy_version());
    assert!(second.versions().timestamp > first.versions().timestamp);
    // It never makes what has expired look young.
    assert!(
        author::refresh(&team.out(), &team.pipeline, hours(24 * 91))
            .await
            .is_err()
    );
}

#[tokio::test]
async fn a_pipeline_that_lost_its_directory_does_not_go_back() {
    let team = Team::signed();
    team.publish(now()).await.unwrap();
    let store = team.node();
    store.load(&team.out(), now()).await.unwrap();
    // Twice in one second, and from nothing an hour later.
    team.publish(now()).await.unwrap();
    store.load(&team.out(), now()).await.unwrap();
    std::fs::remove_dir_all(team.out()).unwrap();
    team.publish(hours(1)).await.unwrap();
    assert!(
        store
            .load(&team.out(), hours(1))
            .await
            .unwrap()
            .freshness(hours(1))
            .fresh()
    );
}

#[tokio::test]
async fn the_root_ceremony_rotates_keys() {
    let mut team = Team::signed();
    team.publish(now()).await.unwrap();
    let store = team.node();
    store.load(&team.out(), now()).await.unwrap();

    // One root key and one policy key are replaced.
    let newcomer = SigningKey::generate(Algorithm::Ed25519).unwrap();
    let mut roles = RolesFile::load(&team.repository()).unwrap();
    roles.root.keys[0] = newcomer.public().clone();
    team.policy[0] = SigningKey::generate(Algorithm::Ed25519).unwrap();
    roles.targets.keys[0] = team.policy[0].public().clone();
    std::fs::write(
        team.repository().join("roles.yaml"),
        serde_saphyr::to_string(&roles).unwrap(),
    )
    .unwrap();

    // The newcomer and the leaving key alone: one of the new three, one of the old three.
    let draft = author::sign(&team.repository(), &newcomer, Role::Root, hours(1)).unwrap();
    assert_eq!((draft.version, draft.complete), (2, false));
    let draft = author::sign(&team.repository(), &team.root[0], Role::Root, hours(1)).unwrap();
    assert!(!draft.complete, "neither threshold is reached");
    // Until the ceremony is over, the old root publishes on.
    assert_eq!(team.publish(hours(1)).await.unwrap().versions().root, 1);
    let draft = author::sign(&team.repository(), &team.root[1], Role::Root, hours(1)).unwrap();
    assert!(draft.complete);
    // Targets signed by two keys that stay are still good under the new root.
    assert_eq!(team.publish(hours(2)).await.unwrap().versions().root, 2);
    let loaded = store.load(&team.out(), hours(2)).await.unwrap();
    assert_eq!(loaded.versions().root, 2);
    // The new policy key counts now.
    team.write("nodes.yaml", "rules: [] # x\n");
    author::sign(&team.repository(), &team.policy[0], Role::Targets, hours(3)).unwrap();
    author::sign(&team.repository(), &team.policy[1], Role::Targets, hours(3)).unwrap();
    team.publish(hours(3)).await.unwrap();
    assert_eq!(store.load(&team.out(), hours(3)).await.unwrap().policy_version(), 2);
}

/// New signers do not sign another document under a version that the old ones published.
#[tokio::test]
async fn with_new_signers_a_change_is_still_the_next_version() {
    let team = Team::signed();
    let first = team.publish(now()).await.unwrap();
    let [one, two] = [(); 2].map(|()| SigningKey::generate(Algorithm::Ed25519).unwrap());
    let mut roles = RolesFile::load(&team.repository()).unwrap();
    roles.targets = Signers {
        threshold: 2,
        keys: vec![one.public().clone(), two.public().clone()],
    };
    team.write("roles.yaml", &serde_saphyr::to_string(&roles).unwrap());
    for key in &team.root[..2] {
        author::sign(&team.repository(), key, Role::Root, hours(1)).unwrap();
    }
    team.write("nodes.yaml", "rules: []\n# by the new signers\n");
    for key in [&one, &two] {
        author::sign(&team.repository(), key, Role::Targets, hours(1)).unwrap();
    }
    let second = team.publish(hours(1)).await.unwrap();
    assert_eq!(second.policy_version(), first.policy_version() + 1);
}

#[tokio::test]
async fn before_it_expires_the_same_content_is_signed_anew() {
    let team = Team::signed();
    team.publish(now()).await.unwrap();
    assert_eq!(
        author::draft(&team.repository(), Role::Targets, hours(1))
            .unwrap()
            .version,
        1
    );
    assert_eq!(
        author::renew(&team.repository(), Role::Targets, hours(24 * 80))
            .unwrap()
            .version,
        2
    );
    team.sign_policy(hours(24 * 80));
    let later = hours(24 * 100);
    assert!(team.publish(later).await.unwrap().freshness(later).fresh());
}

#[tokio::test]
async fn nothing_is_signed_that_a_node_would_refuse() {
    let team = Team::signed();
    for (name, text) in [
        ("principals.yaml", "persons: [{name: Ada}, {name: Ada}]\n"),
        ("principals.yaml", "persons: []\npersons: []\n"),
        ("fleet.yaml", "trust_domain: example\nclusters: []\n"),
    ] {
        let before = std::fs::read(team.repository().join(name)).unwrap();
        team.write(name, text);
        let refused = author::sign(&team.repository(), &team.policy[0], Role::Targets, now());
        assert!(matches!(refused, Err(AuthorError::Bundle(_))), "{text}");
        std::fs::write(team.repository().join(name), before).unwrap();
    }
}

#[tokio::test]
async fn expired_is_not_published() {
    let team = Team::signed();
    let refused = team.publish(hours(24 * 91)).await;
    assert!(
        matches!(&refused, Err(AuthorError::Bundle(e)) if e.code() == "bundle.expired"),
        "{refused:?}"
    );
    assert!(!team.out().exists());
}

#[tokio::test]
async fn a_signers_wrong_clock_does_not_reach_the_nodes() {
    let team = Team::signed();
    assert!(matches!(
        team.publish(hours(-3)).await,
        Err(AuthorError::Future { role: Role::Root, .. })
    ));
    let refused = author::sign(&team.repository(), &team.policy[0], Role::Targets, hours(-3));
    assert!(matches!(
        refused,
        Err(AuthorError::Future {
            role: Role::Targets,
            ..
        })
    ));
}

#[tokio::test]
async fn roles_that_make_no_root_are_refused() {
    let team = Team::new();
    let refused = |change: &dyn Fn(&mut InitSpec)| {
        let mut spec = team.spec();
        change(&mut spec);
        let directory = tempfile::tempdir().unwrap();
        assert!(matches!(
            author::init(directory.path(), &spec),
            Err(AuthorError::Roles { .. })
        ));
        assert!(!directory.path().join("roles.yaml").exists());
    };
    refused(&|spec| spec.root.threshold = 0);
    refused(&|spec| spec.targets.threshold = 4);
    refused(&|spec| spec.targets.keys[1] = spec.targets.keys[0].clone());
    refused(&|spec| spec.pipeline = Signers::one(&spec.targets.keys[0]));
}

#[tokio::test]
async fn a_demonstration_has_one_signer_and_says_so() {
    let mut team = Team::new();
    let mut spec = team.spec();
    spec.root = Signers::one(team.root[0].public());
    spec.targets = Signers::one(team.root[0].public());
    spec.pipeline = Signers::one(team.root[0].public());
    spec.demo = true;
    author::init(&team.repository(), &spec).unwrap();
    author::sign(&team.repository(), &team.root[0], Role::Root, now()).unwrap();
    author::sign(&team.repository(), &team.root[0], Role::Targets, now()).unwrap();
    team.pipeline = team.root.remove(0);
    assert!(team.publish(now()).await.unwrap().demo());
}

#[tokio::test]
async fn the_output_directory_keeps_one_generation_for_readers_in_the_middle() {
    let team = Team::signed();
    for hour in 0..4 {
        team.publish(hours(hour)).await.unwrap();
    }
    team.write("nodes.yaml", "rules: [] # x\n");
    team.sign_policy(hours(5));
    team.publish(hours(5)).await.unwrap();
    team.publish(hours(6)).await.unwrap();
    team.publish(hours(7)).await.unwrap();
    let count = |folder: &str| std::fs::read_dir(team.out().join(folder)).unwrap().count();
    assert_eq!(count("metadata"), 5, "root, timestamp, two snapshots, targets");
    assert_eq!(count("targets"), 4);
}
