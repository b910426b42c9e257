//! A party's and a CA's certificate say who they are for.

use std::time::Duration;

use super::*;
use crate::ca::{CaSpec, CertificateAuthority, LeafSpec};
use crate::identity::{Identity, Role};
use crate::key::PrivateKey;
use crate::name::{ClusterName, GroupName, TrustDomain, UserName};

#[test]
fn a_certificate_says_who_and_until_when() {
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    let (domain, cluster) = (
        TrustDomain::parse("example.org").unwrap(),
        ClusterName::parse("lab").unwrap(),
    );
    let ca = CertificateAuthority::create(CaSpec::new(
        domain.clone(),
        cluster.clone(),
        now,
        Duration::from_secs(864_000),
    ));
    let ca = ca.unwrap();
    let of_ca = facts(ca.certificate()).unwrap();
    assert!(of_ca.ca && of_ca.identity.contains("lab"), "{of_ca}");
    let key = PrivateKey::generate().unwrap();
    let role = Role::User(UserName::parse("alice").unwrap());
    let mut spec = LeafSpec::new(Identity::new(domain, cluster, role), key.public_key_der(), now);
    spec.groups = vec![GroupName::parse("oncall").unwrap()];
    let leaf = facts(&ca.issue(&spec).unwrap().into()).unwrap();
    assert_eq!(leaf.groups, ["oncall"]);
    assert!(!leaf.ca && leaf.identity.ends_with("/user/alice"));
    assert_eq!(leaf.key_fingerprint, key.fingerprint());
    assert!(facts(&vec![0x30, 0].into()).is_err());
}

#[test]
fn what_a_stranger_wrote_is_shown_escaped() {
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    let facts = Facts {
        groups: vec!["on\u{202e}call".into()],
        node_uid: Some("\u{1b}[2J\nkey".into()),
        ..bare("spiffe://\u{200b}".into(), now, now, String::new())
    };
    let shown = facts.to_string();
    assert_eq!(shown.lines().count(), 5, "{shown}");
    assert!(
        !shown.chars().any(|c| c != '\n' && crate::text::is_invisible(c)),
        "{shown:?}"
    );
}
