//! Places by role and cluster, and the codes of refusals.

use noderelay_pki::name::{AccountName, IssuerName, NodeName, RelayName, TrustDomain, UserName};
use noderelay_proto::Class;

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
fn no_code_of_a_relay_is_final_on_an_outer_leg() {
    let now = Timestamp::UNIX_EPOCH;
    let domain = TrustDomain::parse("a.example").unwrap().to_string();
    for refused in [
        PeerRefused::NoCertificate,
        PeerRefused::Expired {
            not_before: now,
            not_after: now,
            now,
        },
        PeerRefused::UnknownCa { seen: String::new() },
        PeerRefused::WrongTrustDomain {
            expected: domain.clone(),
            seen: domain,
        },
        PeerRefused::Malformed(String::new()),
    ] {
        let code = Refused::Peer(refused).code();
        assert!(code.name().starts_with("identity."));
        assert_eq!(code.on_outer_leg(), Class::Refused);
    }
}
