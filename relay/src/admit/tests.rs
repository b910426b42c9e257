//! Places by role and cluster, and the codes of refusals.

use noderelay_pki::name::{AccountName, IssuerName, NodeName, RelayName, UserName};

use super::*;

#[test]
fn places_by_role_and_cluster() {
    let [home, far] = ["home", "far"].map(|name| ClusterName::parse(name).unwrap());
    let node = Role::Node(NodeName::parse("n").unwrap());
    let user = Role::User(UserName::parse("ann").unwrap());
    let fire = Role::BreakGlass(AccountName::parse("fire").unwrap());
    for cluster in [&home, &far] {
        assert_eq!(place(&user, cluster, &home).unwrap(), Place::Client);
        assert_eq!(place(&fire, cluster, &home).unwrap(), Place::Client);
    }
    let Place::Agent(key) = place(&node, &home, &home).unwrap() else {
        panic!()
    };
    assert_eq!(key.to_string(), "home/n");
    assert_eq!(place(&node, &far, &home).unwrap_err().code(), Code::RelayNotAdmitted);
    for role in [
        Role::Relay(RelayName::parse("r").unwrap()),
        Role::Issuer(IssuerName::parse("i").unwrap()),
    ] {
        assert_eq!(place(&role, &home, &home).unwrap_err().code(), Code::RelayNotAdmitted);
    }
}

#[test]
fn a_refused_certificate_keeps_its_own_code() {
    assert_eq!(Refused::Peer(PeerRefused::NoCertificate).code(), Code::IdentityMissing);
    assert_eq!(Refused::Version.code(), Code::RelayVersion);
}
