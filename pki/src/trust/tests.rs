//! Which CA entries are accepted.

use super::*;
use crate::testing::*;

fn make(certificate: CertificateDer<'static>) -> Result<TrustAnchors, TrustError> {
    let entry = CaEntry {
        cluster: "east".parse().unwrap(),
        roles: all_roles(),
        certificate,
    };
    TrustAnchors::new("fleet.example".parse().unwrap(), vec![entry])
}

#[test]
fn only_a_ca_of_this_cluster_can_be_an_entry() {
    let ca = ca_at("east", noon());
    make(ca.certificate().clone()).unwrap();
    // Made elsewhere, naming no cluster: fine.
    make(forge_ca(|_| {})).unwrap();
    assert!(matches!(
        make(ca_at("west", noon()).certificate().clone()),
        Err(TrustError::WrongCluster { .. })
    ));
    let (leaf, _) = issue(&ca, "cluster/east/node/n", noon());
    assert_eq!(make(leaf).unwrap_err(), TrustError::NotACa);
    let no_sign = forge_ca(|params| params.key_usages = vec![rcgen::KeyUsagePurpose::CrlSign]);
    assert_eq!(make(no_sign).unwrap_err(), TrustError::NotACa);
    assert!(matches!(
        make(CertificateDer::from(vec![])),
        Err(TrustError::Malformed(_))
    ));
    let longer = [ca.certificate().as_ref(), &[0]].concat();
    assert!(matches!(
        make(CertificateDer::from(longer)),
        Err(TrustError::Malformed(_))
    ));
    let mut entry = ca.entry(all_roles());
    entry.roles.clear();
    assert!(matches!(
        TrustAnchors::new("fleet.example".parse().unwrap(), vec![entry]),
        Err(TrustError::NoRoles(_))
    ));
}

#[test]
fn b046_a_ca_without_a_sensible_end_is_refused_by_rule() {
    for (from, until) in [
        (0, 253_402_300_799),
        (-86_400, 253_402_300_799),
        (1_700_000_000, 2_524_608_000 + 30 * 31_536_000),
    ] {
        let certificate = forge_ca(|params| {
            params.not_before = ::time::OffsetDateTime::from_unix_timestamp(from).unwrap();
            params.not_after = ::time::OffsetDateTime::from_unix_timestamp(until).unwrap();
        });
        let error = make(certificate).unwrap_err();
        assert!(matches!(error, TrustError::Lifetime { .. }), "{error}");
        assert!(error.to_string().contains("lives at most"), "{error}");
    }
    for (from, until) in [
        ("2030-01-01T00:00:00Z", "2049-12-31T23:59:59Z"),
        ("2030-01-01T00:00:00Z", "2050-01-01T00:00:00Z"),
    ] {
        let certificate = forge_ca(|params| {
            params.not_before = date(time::parse(from).unwrap());
            params.not_after = date(time::parse(until).unwrap());
        });
        let trusted = make(certificate).unwrap();
        assert_eq!(time::format(trusted.anchors[0].not_after), until);
    }
    // Ended before it mattered: kept, verifies nothing.
    make(forge_ca(|params| {
        params.not_before = ::time::OffsetDateTime::from_unix_timestamp(-86_400).unwrap();
        params.not_after = ::time::OffsetDateTime::from_unix_timestamp(86_400).unwrap();
    }))
    .unwrap();
}
