//! Reading fleet files.

use super::CertificateAuthority as CertificateAuthorityEntry;
use super::*;
use noderelay_pki::ca::{CaSpec, CertificateAuthority};
use std::time::Duration;

fn fleet() -> FleetFile {
    let (domain, cluster) = (
        TrustDomain::parse("example").unwrap(),
        ClusterName::parse("east").unwrap(),
    );
    let now = Timestamp::from_second(1_790_000_000).unwrap();
    let spec = CaSpec::new(domain.clone(), cluster.clone(), now, Duration::from_secs(86_400 * 30));
    let ca = CertificateAuthority::create(spec).unwrap();
    FleetFile {
        trust_domain: domain,
        clusters: vec![Cluster {
            name: cluster,
            owner: Some("platform team: on call".to_owned()),
            certificate_authorities: vec![CertificateAuthorityEntry {
                roles: BTreeSet::from([RoleKind::Node, RoleKind::BreakGlass]),
                certificate: ca.certificate_pem(),
            }],
            relays: vec![RelayEntry {
                name: RelayName::parse("r1").unwrap(),
                addresses: vec![
                    "192.0.2.1:4433".to_owned(),
                    "[2001:db8::1]:4433".to_owned(),
                    "relay.example:4433".to_owned(),
                ],
                owner: None,
                key_fingerprint: Some("ab".repeat(32)),
            }],
        }],
        routes: vec![],
        witnesses: vec![],
        recipients: vec![],
        webhooks: vec![],
    }
}

fn changed(from: &str, to: &str) -> Result<FleetFile, BundleError> {
    let text = fleet().to_yaml().unwrap();
    assert!(text.contains(from), "{from} is not in\n{text}");
    FleetFile::parse(text.replacen(from, to, 1).as_bytes())
}

#[test]
fn what_is_written_reads_back_the_same() {
    let fleet = fleet();
    let text = fleet.to_yaml().unwrap();
    assert_eq!(FleetFile::parse(text.as_bytes()).unwrap(), fleet, "{text}");
    let cluster = ClusterName::parse("east").unwrap();
    assert_eq!(fleet.relays(&cluster).len(), 1);
    assert_eq!(fleet.all_relays().count(), 1);
    assert_eq!(fleet.trust_anchors().unwrap().entries().len(), 1);
    assert!(fleet.relays(&ClusterName::parse("west").unwrap()).is_empty());
}

#[test]
fn bad_addresses_are_refused() {
    for bad in [
        "192.0.2.1",
        ":4433",
        "192.0.2.1:0",
        "192.0.2.1:65536",
        "'[::1:4433'",
        "'::1:4433'",
        "a b:1",
        "user@host:1",
        "host:+1",
    ] {
        let seen = changed("192.0.2.1:4433", bad).unwrap_err().to_string();
        assert!(seen.contains("HOST:PORT"), "{bad}: {seen}");
    }
}

#[test]
fn a_name_twice_an_unknown_field_and_a_duplicate_key_are_refused() {
    for (from, to) in [
        ("name: r1", "name: r1\n    nmae: r2"),
        ("name: r1", "name: r1\n    name: r2"),
        ("trust_domain: example", "trust_domain: example\ntrust_domain: other"),
        ("trust_domain: example", "trust_domain: Example"),
        ("BEGIN CERTIFICATE", "BEGIN CERTIFICATES"),
    ] {
        assert_eq!(changed(from, to).unwrap_err().code(), "bundle.content", "{to}");
    }
    let mut twice = fleet();
    twice.clusters.push(twice.clusters[0].clone());
    assert!(twice.to_yaml().unwrap_err().to_string().contains("twice"));
    let mut none = fleet();
    none.clusters.clear();
    assert!(none.to_yaml().is_err());
}

#[test]
fn a_route_needs_two_clusters_of_the_file_and_ends() {
    let mut fleet = fleet();
    let mut west = fleet.clusters[0].clone();
    west.name = ClusterName::parse("west").unwrap();
    let now = Timestamp::from_second(1_790_000_000).unwrap();
    let spec = CaSpec::new(
        fleet.trust_domain.clone(),
        west.name.clone(),
        now,
        Duration::from_secs(86_400 * 30),
    );
    west.certificate_authorities[0].certificate = CertificateAuthority::create(spec).unwrap().certificate_pem();
    let (from, to) = (fleet.clusters[0].name.clone(), west.name.clone());
    let expires = Timestamp::from_second(1_800_000_000).unwrap();
    fleet.routes.push(Route {
        from: from.clone(),
        to: to.clone(),
        purposes: BTreeSet::from([Purpose::Session]),
        expires,
    });
    assert!(fleet.to_yaml().is_err(), "the cluster is not in the file");
    fleet.clusters.push(west);
    let fleet = FleetFile::parse(fleet.to_yaml().unwrap().as_bytes()).unwrap();
    assert!(fleet.route_approved(&from, &to, Purpose::Session, now));
    assert!(!fleet.route_approved(&to, &from, Purpose::Session, now));
    assert!(!fleet.route_approved(&from, &to, Purpose::Store, now));
    assert!(!fleet.route_approved(&from, &to, Purpose::Session, expires));
}

#[test]
fn a_certificate_authority_of_another_cluster_is_refused() {
    assert!(
        changed("name: east", "name: west")
            .unwrap_err()
            .to_string()
            .contains("east")
    );
}
