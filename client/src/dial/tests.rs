//! Which relays are left after each answer, and what is told when none is.

use noderelay_bundle::FleetFile;
use noderelay_bundle::fleet::{Cluster, RelayEntry};
use noderelay_pki::name::{ClusterName, RelayName, TrustDomain};
use noderelay_proto::code::Code;

use super::{Ways, summary};
use crate::faults::Fault;

fn fleet() -> (FleetFile, ClusterName) {
    let relay = |name: &str, addresses: &[&str]| RelayEntry {
        name: RelayName::parse(name).unwrap(),
        addresses: addresses.iter().map(|&address| address.to_owned()).collect(),
        owner: None,
        key_fingerprint: None,
    };
    let cluster = ClusterName::parse("demo").unwrap();
    let fleet = FleetFile {
        trust_domain: TrustDomain::parse("example.org").unwrap(),
        clusters: vec![Cluster {
            name: cluster.clone(),
            owner: None,
            certificate_authorities: Vec::new(),
            relays: vec![
                relay("r1", &["192.0.2.1:443", "r1.example.org:443"]),
                relay("r2", &["192.0.2.2:443"]),
            ],
        }],
        routes: Vec::new(),
        witnesses: Vec::new(),
        recipients: Vec::new(),
        webhooks: Vec::new(),
    };
    (fleet, cluster)
}

fn addresses(ways: &Ways) -> Vec<String> {
    ways.doors().into_iter().map(|(address, _)| address).collect()
}

#[test]
fn a_relay_that_refused_is_left_out_with_all_its_addresses() {
    let (fleet, cluster) = fleet();
    let mut ways = Ways::new(&fleet, &cluster, &[]);
    assert_eq!(
        addresses(&ways),
        ["192.0.2.1:443", "r1.example.org:443", "192.0.2.2:443"]
    );
    ways.leave_out(Some(("r1", "198.51.100.9:443")));
    assert_eq!(addresses(&ways), ["192.0.2.2:443"]);
    ways.leave_out(Some(("r2", "192.0.2.2:443")));
    assert!(ways.is_empty());
}

#[test]
fn given_addresses_replace_the_fleet_and_names_among_them_end_too() {
    let (fleet, cluster) = fleet();
    let given = ["a.example:1".to_owned(), "192.0.2.7:2".to_owned()];
    let mut ways = Ways::new(&fleet, &cluster, &given);
    assert_eq!(addresses(&ways), given);
    ways.leave_out(Some(("r9", "192.0.2.7:2")));
    assert_eq!(addresses(&ways), ["a.example:1"]);
    ways.leave_out(Some(("r9", "203.0.113.5:1")));
    assert!(ways.is_empty());

    let given = ["a.example:1".to_owned(), "b.example:1".to_owned()];
    let mut ways = Ways::new(&fleet, &cluster, &given);
    let mut rounds = 0;
    while !ways.is_empty() {
        ways.leave_out(Some(("r9", "203.0.113.5:1")));
        rounds += 1;
        assert!(rounds < 5);
    }
}

#[test]
fn nothing_that_could_be_dialled_ends_the_search() {
    let (fleet, cluster) = fleet();
    let mut ways = Ways::new(&fleet, &cluster, &[]);
    ways.leave_out(None);
    assert!(ways.is_empty());
}

#[test]
fn what_a_relay_said_of_the_node_is_the_code_and_all_is_listed() {
    let silent = (
        String::new(),
        Fault::on_the_way(Code::TransportTimeout, "none of 1 address could be reached"),
    );
    let refused = ("r1".to_owned(), Fault::on_the_way(Code::RelayNoSuchNode, ""));
    let fault = summary(vec![silent, refused]);
    assert_eq!(fault.code, Code::RelayNoSuchNode);
    assert!(fault.is_transport());
    assert!(
        fault.seen.contains("could be reached; relay r1: No agent"),
        "{}",
        fault.seen
    );
}
