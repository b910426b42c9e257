//! Routing by table and by property.

use noderelay_proto::Class;
use proptest::prelude::*;

use super::*;

fn map() -> Map {
    Map {
        home: cluster("home"),
        clusters: ["home", "far", "other"].map(cluster).into_iter().collect(),
    }
}

fn cluster(name: &str) -> ClusterName {
    ClusterName::parse(name).unwrap()
}

fn header(cluster: &str, node: &str) -> RouteHeader {
    RouteHeader::new(Version::V1, cluster, node, Purpose::Session)
}

/// `up` is attached, `gone` was.
fn lookup(node: &NodeKey) -> Lookup<u8> {
    match node.node.as_str() {
        "up" => Lookup::Attached(7),
        "gone" => Lookup::Offline,
        _ => Lookup::Unknown,
    }
}

#[test]
fn the_table() {
    use RoleKind::{BreakGlass, Issuer, Node, Relay, User};
    let with = |change: fn(&mut RouteHeader)| {
        let mut header = header("home", "up");
        change(&mut header);
        header
    };
    let purpose = |role, purpose| Err(Refused::Purpose { role, purpose });
    let rows: &[(RoleKind, RouteHeader, Result<u8, Refused>)] = &[
        (User, header("home", "up"), Ok(7)),
        (BreakGlass, header("home", "up"), Ok(7)),
        (User, with(|h| h.hop_limit = 1), Ok(7)),
        (User, with(|h| h.hop_limit = 0), Err(Refused::HopLimit)),
        (User, header("home", "gone"), Err(Refused::Offline)),
        (User, header("home", "nobody"), Err(Refused::NoSuchNode)),
        (User, header("far", "up"), Err(Refused::NoRoute)),
        (User, header("nowhere", "up"), Err(Refused::NoSuchCluster)),
        (User, header("Home", "up"), Err(Refused::Names)),
        (User, header("home", "up_"), Err(Refused::Names)),
        (User, header("", ""), Err(Refused::Names)),
        (User, with(|h| h.version = 2), Err(Refused::Version(2))),
        (User, with(|h| h.purpose = 0), purpose(User, Purpose::Unspecified)),
        (User, with(|h| h.purpose = 99), purpose(User, Purpose::Unspecified)),
        (
            User,
            with(|h| h.purpose = Purpose::Store.into()),
            purpose(User, Purpose::Store),
        ),
        (Node, header("home", "up"), purpose(Node, Purpose::Session)),
        (Relay, header("home", "up"), purpose(Relay, Purpose::Session)),
        (Issuer, header("home", "up"), purpose(Issuer, Purpose::Session)),
    ];
    for (role, header, expected) in rows {
        let decided = decide(&map(), *role, header, lookup);
        match (decided, expected) {
            (Ok(route), Ok(handle)) => {
                assert_eq!(route.hop, Hop::Agent(*handle));
                assert_eq!(route.node.to_string(), "home/up");
            }
            (Err(refused), Err(wanted)) => assert_eq!(refused, *wanted, "{header:?}"),
            (decided, expected) => panic!("{header:?}: {decided:?} instead of {expected:?}"),
        }
    }
}

proptest! {
    #[test]
    fn a_route_lowers_the_hop_limit_and_changes_nothing_else(
        name in "[a-z]{1,4}", node in prop_oneof![Just("up".to_owned()), Just("gone".to_owned()), "[a-z]{1,4}"],
        home in any::<bool>(), version in 0u32..4, purpose in -1i32..9, hop_limit in any::<u32>(), role in 0usize..5,
    ) {
        let cluster = if home { "home".to_owned() } else { name };
        let asked = RouteHeader { version, cluster, node, purpose, hop_limit };
        match decide(&map(), RoleKind::ALL[role], &asked, lookup) {
            Ok(route) => {
                prop_assert_eq!(&asked.cluster, "home");
                prop_assert_eq!(route.header.hop_limit, asked.hop_limit - 1);
                prop_assert_eq!(RouteHeader { hop_limit: asked.hop_limit, ..route.header }, asked);
                prop_assert_eq!(route.node.cluster, cluster_of("home"));
            }
            // Never final: a hostile or ignorant relay can only send the client to the next one.
            Err(refused) => prop_assert_eq!(refused.code().class(), Class::Refused),
        }
    }

    #[test]
    fn strange_names_never_reach_the_registry(name in any::<String>(), node in any::<String>()) {
        let asked = RouteHeader::new(Version::V1, name, node, Purpose::Session);
        let decided = decide(&map(), RoleKind::User, &asked, |key: &NodeKey| {
            assert_eq!(key.node.as_str(), asked.node);
            Lookup::<u8>::Unknown
        });
        prop_assert!(decided.is_err());
    }
}

fn cluster_of(name: &str) -> ClusterName {
    cluster(name)
}
