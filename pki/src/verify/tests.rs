//! Every way in which a peer is refused, and that nothing else is.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::ca::LeafSpec;
use crate::key::PrivateKey;
use crate::testing::*;

const ANY: Expect = Expect::Roles(&RoleKind::ALL);
const NODE: &str = "spiffe://fleet.example/cluster/east/node/n1";

fn roles(kinds: &[RoleKind]) -> BTreeSet<RoleKind> {
    kinds.iter().copied().collect()
}

#[test]
fn every_role_is_accepted_where_it_belongs() {
    let ca = ca_at("east", noon());
    let trusted = anchors(vec![ca.entry(all_roles())]);
    for path in ["node/n1", "relay/r1", "issuer/i1", "user/alice", "break-glass/bg"] {
        let (der, key) = issue(&ca, &format!("cluster/east/{path}"), noon());
        let chain = [der];
        let identity = id(&format!("cluster/east/{path}"));
        let peer = trusted
            .verify(&chain, Usage::Client, &Expect::Exactly(identity.clone()), noon())
            .unwrap();
        assert_eq!(peer.identity(), &identity);
        assert_eq!(peer.key_fingerprint(), key.fingerprint());
        assert_eq!(peer.certificate_fingerprint(), key::fingerprint(&chain[0]));
        assert!(peer.groups().is_empty());
        let server = trusted.verify(&chain, Usage::Server, &ANY, noon());
        match identity.kind() {
            RoleKind::User | RoleKind::BreakGlass => {
                assert!(matches!(server, Err(PeerRefused::WrongUsage { side: "server", .. })));
            }
            _ => assert!(server.is_ok()),
        }
    }
}

#[test]
fn a_certificate_of_one_role_is_refused_in_every_other_place() {
    let ca = ca_at("east", noon());
    let trusted = anchors(vec![ca.entry(all_roles())]);
    let places: [(RoleKind, &'static [RoleKind]); 5] = [
        (RoleKind::Node, &[RoleKind::Node]),
        (RoleKind::Relay, &[RoleKind::Relay]),
        (RoleKind::Issuer, &[RoleKind::Issuer]),
        (RoleKind::User, &[RoleKind::User]),
        (RoleKind::BreakGlass, &[RoleKind::BreakGlass]),
    ];
    for kind in RoleKind::ALL {
        let (der, _) = issue(&ca, &format!("cluster/east/{kind}/same-name"), noon());
        for (place, expected) in places {
            let result = trusted.verify(
                std::slice::from_ref(&der),
                Usage::Client,
                &Expect::Roles(expected),
                noon(),
            );
            match result {
                Ok(_) => assert_eq!(kind, place),
                Err(PeerRefused::WrongRole { seen, .. }) => assert!(kind != place && seen == kind),
                Err(other) => panic!("{other}"),
            }
            let exact = Expect::Exactly(id(&format!("cluster/east/{place}/same-name")));
            assert_eq!(
                trusted
                    .verify(std::slice::from_ref(&der), Usage::Client, &exact, noon())
                    .is_ok(),
                kind == place
            );
        }
        let relay = Expect::Relay { cluster: None };
        assert_eq!(
            trusted.verify(&[der], Usage::Client, &relay, noon()).is_ok(),
            kind == RoleKind::Relay
        );
    }
}

#[test]
fn the_name_must_be_exactly_the_one_asked_for() {
    let (east, west) = (ca_at("east", noon()), ca_at("west", noon()));
    let trusted = anchors(vec![east.entry(all_roles()), west.entry(all_roles())]);
    let (der, _) = issue(&east, "cluster/east/node/n1", noon());
    for other in ["cluster/east/node/n2", "cluster/west/node/n1", "cluster/east/node/n1.x"] {
        let refused = trusted
            .verify(
                std::slice::from_ref(&der),
                Usage::Server,
                &Expect::Exactly(id(other)),
                noon(),
            )
            .unwrap_err();
        assert_eq!(
            refused,
            PeerRefused::WrongName {
                expected: id(other).to_string(),
                seen: NODE.to_owned()
            }
        );
    }
    let (relay, _) = issue(&east, "cluster/east/relay/r1", noon());
    let of = |cluster: &str| Expect::Relay {
        cluster: Some(cluster.parse().unwrap()),
    };
    trusted
        .verify(std::slice::from_ref(&relay), Usage::Server, &of("east"), noon())
        .unwrap();
    assert!(matches!(
        trusted.verify(&[relay], Usage::Server, &of("west"), noon()),
        Err(PeerRefused::WrongName { .. })
    ));
}

#[test]
fn another_ca_and_no_certificate() {
    let (ours, theirs) = (ca_at("east", noon()), ca_at("east", noon()));
    let trusted = anchors(vec![ours.entry(all_roles())]);
    let (der, _) = issue(&theirs, "cluster/east/node/n1", noon());
    let refused = trusted
        .verify(std::slice::from_ref(&der), Usage::Client, &ANY, noon())
        .unwrap_err();
    assert_eq!(refused, PeerRefused::UnknownCa { seen: NODE.to_owned() });
    // Sending the CA along does not help.
    let chain = [der.clone(), theirs.certificate().clone()];
    assert!(matches!(
        trusted.verify(&chain, Usage::Client, &ANY, noon()),
        Err(PeerRefused::UnknownCa { .. })
    ));
    assert_eq!(
        trusted.verify(&[], Usage::Client, &ANY, noon()),
        Err(PeerRefused::NoCertificate)
    );
    assert!(anchors(vec![]).verify(&[der], Usage::Client, &ANY, noon()).is_err());
}

#[test]
fn another_trust_domain() {
    let ca = ca_at("east", noon());
    let trusted = anchors(vec![ca.entry(all_roles())]);
    let (der, _) = forge(&ca, &["spiffe://other.example/cluster/east/node/n1"], |_| {});
    let refused = trusted.verify(&[der], Usage::Client, &ANY, noon()).unwrap_err();
    let expected = PeerRefused::WrongTrustDomain {
        expected: "fleet.example".into(),
        seen: "other.example".into(),
    };
    assert_eq!(refused, expected);
}

#[test]
fn a_ca_vouches_for_its_own_cluster_and_roles_only() {
    let (east, west) = (ca_at("east", noon()), ca_at("west", noon()));
    let trusted = anchors(vec![east.entry(roles(&[RoleKind::Node])), west.entry(all_roles())]);
    // A stolen key of east makes a user of west: refused, though west's own CA may make users.
    let (der, _) = forge(&east, &["spiffe://fleet.example/cluster/west/user/alice"], |_| {});
    let refused = trusted.verify(&[der], Usage::Client, &ANY, noon()).unwrap_err();
    assert_eq!(
        refused,
        PeerRefused::WrongCluster {
            seen: "west".parse().unwrap(),
            ca: "east".parse().unwrap()
        }
    );
    // A user of its own cluster, though the entry lists nodes only.
    let (der, _) = issue(&east, "cluster/east/user/alice", noon());
    let refused = trusted.verify(&[der], Usage::Client, &ANY, noon()).unwrap_err();
    assert_eq!(
        refused,
        PeerRefused::RoleNotOfCa {
            cluster: "east".parse().unwrap(),
            seen: RoleKind::User
        }
    );
    let (der, _) = issue(&east, "cluster/east/node/n1", noon());
    trusted.verify(&[der], Usage::Client, &ANY, noon()).unwrap();
}

#[test]
fn old_and_new_ca_side_by_side() {
    let (old, new) = (ca_at("east", noon()), ca_at("east", noon()));
    let (by_old, by_new) = (
        issue(&old, "cluster/east/node/n1", noon()).0,
        issue(&new, "cluster/east/node/n1", noon()).0,
    );
    let both = anchors(vec![old.entry(all_roles()), new.entry(all_roles())]);
    both.verify(std::slice::from_ref(&by_old), Usage::Client, &ANY, noon())
        .unwrap();
    both.verify(std::slice::from_ref(&by_new), Usage::Client, &ANY, noon())
        .unwrap();
    let after = anchors(vec![new.entry(all_roles())]);
    assert!(after.verify(&[by_old], Usage::Client, &ANY, noon()).is_err());
    after.verify(&[by_new], Usage::Client, &ANY, noon()).unwrap();
}

#[test]
fn b052_an_expired_certificate_is_refused_on_every_leg() {
    let ca = ca_at("east", noon());
    let trusted = anchors(vec![ca.entry(all_roles())]);
    let (der, _) = issue(&ca, "cluster/east/node/n1", noon());
    let peer = trusted
        .verify(std::slice::from_ref(&der), Usage::Client, &ANY, noon())
        .unwrap();
    let last = peer.not_after();
    trusted
        .verify(std::slice::from_ref(&der), Usage::Server, &ANY, last)
        .unwrap();
    for usage in [Usage::Client, Usage::Server] {
        for late in [
            time::after(last, Duration::from_secs(1)),
            time::after(last, DAY * 100),
            Timestamp::MAX,
        ] {
            let refused = trusted
                .verify(std::slice::from_ref(&der), usage, &ANY, late)
                .unwrap_err();
            assert!(
                matches!(refused, PeerRefused::Expired { now, .. } if now == late),
                "{refused}"
            );
        }
    }
}

#[test]
fn b047_small_skew_works_and_large_skew_shows_both_clocks() {
    let ca = ca_at("east", noon());
    let trusted = anchors(vec![ca.entry(all_roles())]);
    let (der, _) = issue(&ca, "cluster/east/user/alice", noon());
    let at = |now: Timestamp| trusted.verify(std::slice::from_ref(&der), Usage::Client, &ANY, now);
    let minutes = |n: u64| Duration::from_secs(n * 60);
    at(time::before(noon(), minutes(5))).unwrap();
    at(time::after(noon(), minutes(5))).unwrap();
    let slow = at(time::before(noon(), DAY)).unwrap_err();
    assert!(matches!(slow, PeerRefused::NotYetValid { .. }));
    let text = slow.to_string();
    for part in [
        "2026-11-30T11:50:00Z",
        "2026-12-01T00:00:00Z",
        "2026-11-29T12:00:00Z",
        "clock",
    ] {
        assert!(text.contains(part), "{text}");
    }
    let fast = at(time::after(noon(), DAY)).unwrap_err();
    assert!(matches!(fast, PeerRefused::Expired { .. }));
    for part in [
        "2026-11-30T11:50:00Z",
        "2026-12-01T00:00:00Z",
        "2026-12-01T12:00:00Z",
        "clock",
    ] {
        assert!(fast.to_string().contains(part), "{fast}");
    }
}

#[test]
fn b046_far_dates_are_refused_by_rule() {
    let ca = ca_at("east", noon());
    let trusted = anchors(vec![ca.entry(all_roles())]);
    let stamp = |seconds: i64| ::time::OffsetDateTime::from_unix_timestamp(seconds).unwrap();
    // 9999-12-31, 2050-01-01, 2049-12-31.
    for end in [253_402_300_799, 2_524_608_000, 2_524_607_999] {
        let (der, key) = forge(&ca, &[NODE], |params| params.not_after = stamp(end));
        let refused = trusted
            .verify(std::slice::from_ref(&der), Usage::Client, &ANY, noon())
            .unwrap_err();
        assert!(matches!(refused, PeerRefused::LifetimeTooLong { .. }), "{refused}");
        assert!(refused.to_string().contains("2160 hours"), "{refused}");
        // Renewal and warning code runs over it.
        let own = crate::tls::Credentials::new(vec![der], key, noon()).unwrap();
        let _ = (
            own.renew_from(),
            own.check(Timestamp::MAX),
            time::after(own.not_after(), Duration::MAX),
        );
    }
    for (start, end) in [(-86_400, 253_402_300_799), (-86_400, -3_600), (-86_400, 3_600)] {
        let (der, _) = forge(&ca, &[NODE], |params| {
            (params.not_before, params.not_after) = (stamp(start), stamp(end))
        });
        for now in [
            Timestamp::MIN,
            time::from_seconds(-4_000),
            time::from_seconds(0),
            noon(),
            Timestamp::MAX,
        ] {
            assert!(
                trusted
                    .verify(std::slice::from_ref(&der), Usage::Client, &ANY, now)
                    .is_err()
            );
        }
    }
}

#[test]
fn an_expired_ca_verifies_nothing() {
    let ca = ca_at("east", noon());
    let trusted = anchors(vec![ca.entry(all_roles())]);
    let late = time::after(ca.not_after(), DAY);
    // Beyond the CA's end, as only a stolen key would sign.
    let (der, _) = forge(&ca, &[NODE], |params| {
        params.not_before = date(time::before(late, DAY));
        params.not_after = date(time::after(late, DAY));
    });
    let refused = trusted.verify(&[der], Usage::Client, &ANY, late).unwrap_err();
    assert!(matches!(refused, PeerRefused::CaNotValid { .. }), "{refused}");
}

#[test]
fn malformed_certificates() {
    let ca = ca_at("east", noon());
    let trusted = anchors(vec![ca.entry(all_roles())]);
    let check = |chain: &[CertificateDer<'static>]| trusted.verify(chain, Usage::Client, &ANY, noon()).unwrap_err();
    let malformed = |chain: &[CertificateDer<'static>]| {
        let refused = check(chain);
        assert!(matches!(refused, PeerRefused::Malformed(_)), "{refused}");
        refused.to_string()
    };
    malformed(&[forge(&ca, &[], |_| {}).0]);
    malformed(&[forge(&ca, &[NODE, "spiffe://fleet.example/cluster/east/node/n2"], |_| {}).0]);
    malformed(&[forge(&ca, &["https://example.com"], |_| {}).0]);
    malformed(&[forge(&ca, &["spiffe://fleet.example/cluster/east/user/%61"], |_| {}).0]);
    let dns = |params: &mut rcgen::CertificateParams| {
        params
            .subject_alt_names
            .push(rcgen::SanType::DnsName("n1.example".try_into().unwrap()));
    };
    malformed(&[forge(&ca, &[NODE], dns).0]);
    // A name in the subject alone is no name.
    let subject =
        |params: &mut rcgen::CertificateParams| params.distinguished_name.push(rcgen::DnType::CommonName, NODE);
    malformed(&[forge(&ca, &[], subject).0]);
    malformed(&[ca.certificate().clone()]);
    let as_ca = |params: &mut rcgen::CertificateParams| {
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    };
    malformed(&[forge(&ca, &[NODE], as_ca).0]);
    let critical = |params: &mut rcgen::CertificateParams| {
        let mut extension = rcgen::CustomExtension::from_oid_content(&[1, 2, 3, 4], vec![5, 0]);
        extension.set_criticality(true);
        params.custom_extensions.push(extension);
    };
    malformed(&[forge(&ca, &[NODE], critical).0]);
    let unknown = |params: &mut rcgen::CertificateParams| {
        let oid = [crate::extension::ARC.as_slice(), &[99]].concat();
        params
            .custom_extensions
            .push(rcgen::CustomExtension::from_oid_content(&oid, vec![5, 0]));
    };
    malformed(&[forge(&ca, &[NODE], unknown).0]);
    // No usage at all is not every usage.
    let unused = |params: &mut rcgen::CertificateParams| params.extended_key_usages.clear();
    assert!(
        trusted
            .verify(&[forge(&ca, &[NODE], unused).0], Usage::Client, &ANY, noon())
            .is_err()
    );

    let (good, _) = issue(&ca, "cluster/east/node/n1", noon());
    malformed(&[CertificateDer::from([good.as_ref(), &[0]].concat())]);
    malformed(&[CertificateDer::from(vec![])]);
    malformed(&[CertificateDer::from(vec![0x30; MAX_CERTIFICATE + 1])]);
    malformed(&vec![good; MAX_CHAIN + 1]);
}

#[test]
fn a_certificate_that_was_changed_anywhere_is_refused() {
    let ca = ca_at("east", noon());
    let trusted = anchors(vec![ca.entry(all_roles())]);
    let key = PrivateKey::generate().unwrap();
    let mut spec = LeafSpec::new(id("cluster/east/user/alice"), key.public_key_der(), noon());
    spec.groups = vec!["ops".parse().unwrap()];
    let good = leaf(&ca, &spec);
    for at in 0..good.len() {
        for bit in [1u8, 0x80] {
            let mut changed = good.to_vec();
            changed[at] ^= bit;
            let result = trusted.verify(&[CertificateDer::from(changed)], Usage::Client, &ANY, noon());
            assert!(result.is_err(), "byte {at} bit {bit:#x}");
        }
        let cut = CertificateDer::from(good[..at].to_vec());
        assert!(
            trusted.verify(&[cut], Usage::Client, &ANY, noon()).is_err(),
            "cut at {at}"
        );
    }
}

proptest! {
    #[test]
    fn any_bytes_never_panic(bytes in any::<Vec<u8>>(), more in any::<Vec<u8>>()) {
        let trusted = anchors(vec![]);
        let chain = [CertificateDer::from(bytes), CertificateDer::from(more)];
        prop_assert!(trusted.verify(&chain, Usage::Client, &ANY, noon()).is_err());
    }
}

#[test]
fn an_intermediate_works_within_the_entry_of_its_root() {
    let ca = ca_at("east", noon());
    let trusted = anchors(vec![ca.entry(roles(&[RoleKind::BreakGlass]))]);
    let (intermediate, key) = forge(&ca, &[], |params| {
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, "intermediate");
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Constrained(0));
        params.extended_key_usages.clear();
        params.not_after = date(time::after(noon(), DAY * 300));
    });
    let under = |uri: &str| {
        let issuer = rcgen::Issuer::from_ca_cert_der(&intermediate, &key).unwrap();
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        (params.not_before, params.not_after) = (date(noon()), date(time::after(noon(), DAY)));
        params.subject_alt_names = vec![rcgen::SanType::URI(uri.try_into().unwrap())];
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        let der = params.signed_by(&PrivateKey::generate().unwrap(), &issuer).unwrap();
        vec![CertificateDer::from(der), intermediate.clone()]
    };
    let chain = under("spiffe://fleet.example/cluster/east/break-glass/bg");
    trusted.verify(&chain, Usage::Client, &ANY, noon()).unwrap();
    assert!(matches!(
        trusted.verify(&chain[..1], Usage::Client, &ANY, noon()),
        Err(PeerRefused::UnknownCa { .. })
    ));
    let chain = under("spiffe://fleet.example/cluster/east/user/alice");
    assert!(matches!(
        trusted.verify(&chain, Usage::Client, &ANY, noon()),
        Err(PeerRefused::RoleNotOfCa { .. })
    ));
}
