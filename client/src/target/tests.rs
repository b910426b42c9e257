//! Which node is meant by what was typed.

use noderelay_bundle::FleetFile;
use noderelay_bundle::fleet::Cluster;
use noderelay_pki::name::{ClusterName, TrustDomain};
use noderelay_proto::code::Code;

use super::Target;

fn fleet(clusters: &[&str]) -> FleetFile {
    let cluster = |name: &&str| Cluster {
        name: ClusterName::parse(name).unwrap(),
        owner: None,
        certificate_authorities: Vec::new(),
        relays: Vec::new(),
    };
    FleetFile {
        trust_domain: TrustDomain::parse("example.org").unwrap(),
        clusters: clusters.iter().map(cluster).collect(),
        routes: Vec::new(),
        witnesses: Vec::new(),
        recipients: Vec::new(),
        webhooks: Vec::new(),
    }
}

#[test]
fn one_cluster_needs_no_name() {
    let target = Target::find("gpu-7", None, None, &fleet(&["demo"])).unwrap();
    assert_eq!(
        target.identity.to_string(),
        "spiffe://example.org/cluster/demo/node/gpu-7"
    );
}

#[test]
fn of_several_clusters_one_has_to_be_named() {
    let fleet = fleet(&["east", "west"]);
    let west = ClusterName::parse("west").unwrap();
    let east = ClusterName::parse("east").unwrap();
    let error = Target::find("gpu-7", None, None, &fleet).unwrap_err();
    assert_eq!(error.code, Code::ClientAmbiguous);
    assert!(error.seen.contains("east, west"));
    assert_eq!(Target::find("gpu-7", None, Some(&west), &fleet).unwrap().cluster, west);
    assert_eq!(
        Target::find("gpu-7", Some(&east), Some(&west), &fleet).unwrap().cluster,
        east
    );
    let north = ClusterName::parse("north").unwrap();
    assert_eq!(
        Target::find("gpu-7", Some(&north), None, &fleet).unwrap_err().code,
        Code::ClientNoSuchNode
    );
}

#[test]
fn b032_names_are_exact_and_the_near_one_is_suggested() {
    let error = Target::find("Node-A.Example.Com", None, None, &fleet(&["demo"])).unwrap_err();
    assert_eq!(error.code, Code::ClientNoSuchNode);
    assert!(error.seen.contains("node-a.example.com would be one"), "{}", error.seen);
    assert!(Target::find("a_b", None, None, &fleet(&["demo"])).is_err());
}
