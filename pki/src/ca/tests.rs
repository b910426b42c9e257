//! What a CA makes, and what it refuses to make.

use x509_parser::prelude::ParsedExtension;

use super::*;
use crate::identity::Role;
use crate::name::UserName;
use crate::testing::*;
use crate::verify::{Expect, Usage};

fn spec(path: &str) -> (LeafSpec, PrivateKey) {
    let key = PrivateKey::generate().unwrap();
    (LeafSpec::new(id(path), key.public_key_der(), noon()), key)
}

#[test]
fn a_certificate_follows_the_profile() {
    let ca = ca_at("east", noon());
    let (mut spec, key) = spec("cluster/east/user/alice");
    spec.groups = vec![
        "ops".parse().unwrap(),
        "gpu:admins".parse().unwrap(),
        "ops".parse().unwrap(),
    ];
    spec.attested_at = Some(noon());
    spec.bundle_version = Some(7);
    let der = leaf(&ca, &spec);
    let certificate = trust::parse(&der).unwrap();
    assert_eq!(certificate.subject().iter().count(), 0);
    assert_eq!(certificate.public_key().raw, key.public_key_der());
    assert_eq!(certificate.raw_serial().len(), 16);
    let mut names = 0;
    for extension in certificate.extensions() {
        match extension.parsed_extension() {
            ParsedExtension::SubjectAlternativeName(list) => {
                names += list.general_names.len();
                assert!(extension.critical);
            }
            ParsedExtension::KeyUsage(usage) => {
                assert!(extension.critical && usage.digital_signature() && usage.flags == 1)
            }
            ParsedExtension::ExtendedKeyUsage(usage) => assert!(usage.client_auth && !usage.server_auth && !usage.any),
            ParsedExtension::BasicConstraints(constraints) => assert!(!constraints.ca),
            _ => {}
        }
    }
    assert_eq!(names, 1);

    let trusted = anchors(vec![ca.entry(all_roles())]);
    let peer = trusted
        .verify(&[der], Usage::Client, &Expect::Roles(&[RoleKind::User]), noon())
        .unwrap();
    assert_eq!(peer.identity(), &id("cluster/east/user/alice"));
    assert_eq!(
        peer.groups().iter().map(|g| g.as_str()).collect::<Vec<_>>(),
        ["gpu:admins", "ops"]
    );
    assert_eq!(
        (peer.attested_at(), peer.bundle_version(), peer.node_uid()),
        (Some(noon()), Some(7), None)
    );
    assert_eq!(peer.key_fingerprint(), key.fingerprint());
    assert_eq!(peer.not_before(), time::before(noon(), BACKDATE));
    assert_eq!(peer.not_after(), time::after(noon(), Duration::from_secs(12 * 3600)));
}

#[test]
fn two_certificates_never_share_a_serial() {
    let ca = ca_at("east", noon());
    let (spec, _) = spec("cluster/east/user/alice");
    let serial = |der: CertificateDer<'_>| trust::parse(&der).unwrap().raw_serial().to_vec();
    assert_ne!(serial(leaf(&ca, &spec)), serial(leaf(&ca, &spec)));
}

#[test]
fn b045_long_and_odd_names_go_into_the_uri_whole() {
    let ca = ca_at("east", noon());
    let trusted = anchors(vec![ca.entry(all_roles())]);
    let base = format!("{}, O=x+CN=root/CN=admin\\#\"", "ä日".repeat(55));
    assert!(base.len() > 290);
    let users = [
        base.clone(),
        format!("{base} "),
        format!("{base}x"),
        "u".repeat(1024),
        "n/CN=z".to_owned(),
    ];
    let mut seen = BTreeSet::new();
    for user in &users {
        let role = Role::User(UserName::parse(user).unwrap());
        let identity = Identity::new("fleet.example".parse().unwrap(), "east".parse().unwrap(), role);
        let key = PrivateKey::generate().unwrap();
        let der = leaf(&ca, &LeafSpec::new(identity.clone(), key.public_key_der(), noon()));
        let peer = trusted
            .verify(&[der], Usage::Client, &Expect::Exactly(identity), noon())
            .unwrap();
        assert_eq!(peer.identity().role.name(), user);
        assert!(seen.insert(peer.identity().to_string()), "two users collide");
    }
    let node = "n".repeat(253);
    let (der, _) = issue(&ca, &format!("cluster/east/node/{node}"), noon());
    let peer = trusted
        .verify(&[der], Usage::Server, &Expect::Roles(&[RoleKind::Node]), noon())
        .unwrap();
    assert_eq!(peer.identity().role.name(), node);
    // A cluster with the longest name has a CA too.
    let cluster = "c".repeat(253);
    assert_eq!(ca_at(&cluster, noon()).cluster().as_str(), cluster);
}

#[test]
fn a_ca_signs_for_its_own_cluster_only() {
    let ca = ca_at("east", noon());
    let (west, _) = spec("cluster/west/user/alice");
    assert!(matches!(ca.issue(&west), Err(CaError::NotOurs { .. })));
    let (mut other, _) = spec("cluster/east/user/alice");
    other.identity.trust_domain = "other.example".parse().unwrap();
    let error = ca.issue(&other).unwrap_err();
    assert!(
        matches!(error, CaError::NotOurs { .. }) && error.to_string().contains("spiffe://fleet.example/cluster/east"),
        "{error}"
    );
}

#[test]
fn b046_lifetimes_are_limited_by_rule() {
    let ca = ca_at("east", noon());
    for (path, hours) in [
        ("user/a", 24),
        ("node/n", 90 * 24),
        ("relay/r", 90 * 24),
        ("issuer/i", 90 * 24),
    ] {
        let (mut spec, _) = spec(&format!("cluster/east/{path}"));
        spec.not_after = time::after(noon(), Duration::from_secs(hours * 3600));
        ca.issue(&spec).unwrap();
        for end in [
            time::after(spec.not_after, Duration::from_secs(1)),
            time::parse("2050-01-01T00:00:00Z").unwrap(),
            Timestamp::MAX,
        ] {
            spec.not_after = end;
            assert!(matches!(ca.issue(&spec), Err(CaError::TooLong { .. })), "{path} {end}");
        }
        spec.not_after = spec.not_before;
        assert!(matches!(ca.issue(&spec), Err(CaError::Span { .. })));
        spec.not_after = Timestamp::MIN;
        assert!(matches!(ca.issue(&spec), Err(CaError::Span { .. })));
        (spec.not_before, spec.not_after) = (time::from_seconds(-86_400), time::from_seconds(0));
        assert!(matches!(ca.issue(&spec), Err(CaError::Span { .. })));
    }
    let spec = |not_before, not_after| CaSpec {
        trust_domain: "f".parse().unwrap(),
        cluster: "c".parse().unwrap(),
        not_before,
        not_after,
    };
    assert!(matches!(
        CertificateAuthority::create(spec(noon(), Timestamp::MAX)),
        Err(CaError::TooLong { .. })
    ));
    assert!(matches!(
        CertificateAuthority::create(spec(Timestamp::MIN, noon())),
        Err(CaError::Span { .. })
    ));
    // Across the change of the date format in 2050 all is well.
    let (from, until) = ("2049-12-31T00:00:00Z", "2060-01-01T00:00:00Z");
    CertificateAuthority::create(spec(time::parse(from).unwrap(), time::parse(until).unwrap())).unwrap();
}

#[test]
fn a_certificate_does_not_outlive_its_ca() {
    let ca = ca_at("east", noon());
    let (mut spec, _) = spec("cluster/east/user/alice");
    (spec.not_before, spec.not_after) = (ca.not_after(), time::after(ca.not_after(), Duration::from_secs(1)));
    assert!(matches!(ca.issue(&spec), Err(CaError::OutlivesCa { .. })));
}

#[test]
fn only_our_kind_of_key_is_certified() {
    let ca = ca_at("east", noon());
    let (mut spec, _) = spec("cluster/east/user/alice");
    let good = spec.public_key.clone();
    let p384 = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
    for bad in [
        vec![],
        vec![0x30, 0],
        good[..good.len() - 1].to_vec(),
        [good.clone(), vec![0]].concat(),
        p384.subject_public_key_info(),
    ] {
        spec.public_key = bad;
        assert!(matches!(ca.issue(&spec), Err(CaError::PublicKey)));
    }
    spec.public_key = good;
    spec.groups = (0..200).map(|n| GroupName::parse(&format!("g{n}")).unwrap()).collect();
    assert!(matches!(ca.issue(&spec), Err(CaError::Claims(_))));
}

#[test]
fn a_ca_survives_the_disk_and_is_never_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().join("ca");
    let ca = ca_at("east", noon());
    ca.save(&at).unwrap();
    assert!(matches!(ca.save(&at), Err(CaError::AlreadyThere { .. })));
    let again = CertificateAuthority::load(&at.join(CERTIFICATE_FILE), &at.join(KEY_FILE)).unwrap();
    assert_eq!(
        (again.cluster(), again.trust_domain(), again.certificate()),
        (ca.cluster(), ca.trust_domain(), ca.certificate())
    );
    // A certificate by the loaded CA verifies against the first.
    let (der, _) = issue(&again, "cluster/east/node/n", noon());
    anchors(vec![ca.entry(all_roles())])
        .verify(&[der], Usage::Client, &Expect::Roles(&[RoleKind::Node]), noon())
        .unwrap();
    assert!(!format!("{ca:?}").contains("PRIVATE"));

    // The key of another CA.
    let other = ca_at("east", noon());
    let elsewhere = directory.path().join("other");
    other.save(&elsewhere).unwrap();
    let error = CertificateAuthority::load(&at.join(CERTIFICATE_FILE), &elsewhere.join(KEY_FILE)).unwrap_err();
    assert!(matches!(error, CaError::KeyMismatch { .. }), "{error}");
    // The name of another cluster.
    let error = CertificateAuthority::load_for(
        "fleet.example".parse().unwrap(),
        "west".parse().unwrap(),
        &at.join(CERTIFICATE_FILE),
        &at.join(KEY_FILE),
    );
    assert!(matches!(
        error,
        Err(CaError::Certificate(TrustError::WrongCluster { .. }))
    ));
}
