//! Every way in which the policy says no, as code and missing part; and how old a publication may be.

use noderelay_pki::time::{after, before};

use super::*;
use crate::testing::{DAY, Fleet, Publisher};

const FOR_ALL: &str = r#"@id("all") permit (principal, action, resource);"#;

fn wish(profile: &str) -> Wish {
    Wish {
        action: Action::Shell,
        profile: ProfileName::parse(profile).unwrap(),
        path: Path::Relay,
        reason: None,
    }
}

struct Case {
    fleet: Fleet,
    in_force: std::sync::Arc<InForce>,
    signed: Timestamp,
}

impl Case {
    async fn new(policy: &str) -> Self {
        let (fleet, signed) = (Fleet::new(), Timestamp::now());
        let in_force = Publisher::new(&fleet, policy, signed).await.in_force(signed).await;
        Self {
            fleet,
            in_force,
            signed,
        }
    }

    fn ask(&self, peer: &VerifiedPeer, node: &str, now: Timestamp) -> Result<Permit, Refusal> {
        authorize(&self.in_force, &self.fleet.own(node), peer, &wish("diagnostic"), now)
    }

    fn kim(&self, now: Timestamp) -> Result<Permit, Refusal> {
        self.ask(&self.fleet.peer(self.fleet.user("kim")), "gpu-7", now)
    }

    fn refused(&self, peer: &VerifiedPeer, node: &str) -> (Code, Missing) {
        told(&self.ask(peer, node, self.signed).unwrap_err())
    }
}

/// What the client is told; every refusal under a publication names its version.
fn told(refusal: &Refusal) -> (Code, Missing) {
    assert_eq!(refusal.policy_version, 1, "{refusal:?}");
    assert!(!refusal.seen.is_empty());
    (refusal.code, refusal.missing)
}

#[tokio::test]
async fn what_the_policy_permits() {
    let case = Case::new(FOR_ALL).await;
    let permit = case.kim(case.signed).unwrap();
    assert_eq!((permit.version(), permit.rules()), (1, &["all".to_owned()][..]));
    assert_eq!(permit.node().as_str(), "gpu-7");
}

#[tokio::test]
async fn who_never_gets_a_session() {
    let case = Case::new(FOR_ALL).await;
    let (fleet, other) = (&case.fleet, Fleet::of("beta"));
    for (peer, expected) in [
        (fleet.node("gpu-8"), (Code::IdentityWrongRole, Missing::Identity)),
        (fleet.relay("r1"), (Code::IdentityWrongRole, Missing::Identity)),
        (fleet.break_glass("fire"), (Code::ActivationRequired, Missing::Grant)),
    ] {
        assert_eq!(case.refused(&fleet.peer(peer), "gpu-7"), expected);
    }
    assert_eq!(
        case.refused(&other.peer(other.user("kim")), "gpu-7"),
        (Code::PolicyDenied, Missing::Identity)
    );
}

#[tokio::test]
async fn a_node_that_no_rule_names() {
    let case = Case::new(FOR_ALL).await;
    let peer = case.fleet.peer(case.fleet.user("kim"));
    assert_eq!(case.refused(&peer, "cpu-1"), (Code::PolicyNode, Missing::Rule));
}

#[tokio::test]
async fn what_is_missing_has_its_code() {
    let overflow = r#"permit (principal, action, resource) when { context.time.offset(duration("9223372036854775807ms")) > context.time };"#;
    for (policy, expected) in [
        (
            "permit (principal, action, resource) when { context.grant };",
            (Code::GrantRequired, Missing::Grant),
        ),
        (
            "permit (principal, action, resource) when { context has reason };",
            (Code::PolicyReason, Missing::Rule),
        ),
        (
            r#"@profile("root") permit (principal, action, resource);"#,
            (Code::PolicyProfile, Missing::Rule),
        ),
        (overflow, (Code::PolicyError, Missing::Rule)),
        (
            "permit (principal, action, resource); forbid (principal, action, resource);",
            (Code::PolicyDenied, Missing::Rule),
        ),
        (
            r#"permit (principal == User::"alpha/lee", action, resource);"#,
            (Code::PolicyDenied, Missing::Rule),
        ),
    ] {
        let case = Case::new(policy).await;
        assert_eq!(told(&case.kim(case.signed).unwrap_err()), expected, "{policy}");
    }
}

#[tokio::test]
async fn a_reason_counts_when_it_was_given() {
    let case = Case::new("permit (principal, action, resource) when { context has reason };").await;
    let peer = case.fleet.peer(case.fleet.user("kim"));
    let wish = Wish {
        reason: Some("INC-7".into()),
        ..wish("diagnostic")
    };
    let own = case.fleet.own("gpu-7");
    assert!(authorize(&case.in_force, &own, &peer, &wish, case.signed).is_ok());
}

// The timestamp is promised for a day: after that the policy is asked and told that newer decisions may be held back.
#[tokio::test]
async fn a_stale_publication_is_asked_as_one_that_is_not_fresh() {
    let fresh_only = Case::new("permit (principal, action, resource) when { context.bundle.fresh };").await;
    assert!(fresh_only.kim(fresh_only.signed).is_ok());
    let later = after(fresh_only.signed, DAY * 2);
    let refusal = fresh_only.kim(later).unwrap_err();
    assert_eq!(told(&refusal), (Code::PolicyDenied, Missing::Rule));
    assert!(
        refusal.seen.contains("a fresh bundle would permit it"),
        "{}",
        refusal.seen
    );

    let always = Case::new(FOR_ALL).await;
    assert!(always.kim(after(always.signed, DAY * 2)).is_ok());
}

#[tokio::test]
async fn an_expired_publication_permits_nothing() {
    let case = Case::new(FOR_ALL).await;
    let refusal = case.kim(after(case.signed, DAY * 100)).unwrap_err();
    assert_eq!(told(&refusal), (Code::BundleExpired, Missing::Node));
    assert!(refusal.seen.contains("expired"), "{}", refusal.seen);
}

#[tokio::test]
async fn a_clock_that_cannot_be_right_permits_nothing() {
    let case = Case::new(FOR_ALL).await;
    let refusal = case.kim(before(case.signed, DAY * 30)).unwrap_err();
    assert_eq!(told(&refusal), (Code::BundleExpired, Missing::Node));
    assert!(refusal.seen.contains("clock"), "{}", refusal.seen);
}

#[test]
fn a_wish_is_what_the_message_says() {
    let (fleet, default) = (Fleet::new(), ProfileName::parse("diagnostic").unwrap());
    let open = fleet.open("gpu-7");
    let plain = Wish::of(&open, &default).unwrap();
    assert_eq!((plain.action, plain.path), (Action::Shell, Path::Relay));
    assert_eq!((plain.profile, plain.reason), (default.clone(), None));

    let full = Open {
        kind: Kind::Exec.into(),
        profile: "root".into(),
        reason: " INC-7 ".into(),
        claimed_path: ClaimedPath::Api.into(),
        ..open.clone()
    };
    let full = Wish::of(&full, &default).unwrap();
    assert_eq!((full.action, full.path), (Action::Exec, Path::Api));
    assert_eq!(
        (full.profile.as_str(), full.reason.as_deref()),
        ("root", Some(" INC-7 "))
    );

    // Blanks are no reason.
    let blank = Open {
        reason: " \t".into(),
        ..open.clone()
    };
    assert_eq!(Wish::of(&blank, &default).unwrap().reason, None);

    let bad = Open {
        profile: "no/name".into(),
        ..open
    };
    let refusal = Wish::of(&bad, &default).unwrap_err();
    assert_eq!((refusal.code, refusal.missing), (Code::PolicyProfile, Missing::Rule));
}
