//! One spelling for each identity.

use proptest::prelude::*;

use super::*;

#[test]
fn every_role_has_its_uri() {
    for uri in [
        "spiffe://fleet.example/cluster/east/node/gpu-1",
        "spiffe://fleet.example/cluster/east/relay/r1",
        "spiffe://fleet.example/cluster/east/issuer/i1",
        "spiffe://fleet.example/cluster/east/user/alice",
        "spiffe://fleet.example/cluster/east/user/oidc%3Aalice%40example.com",
        "spiffe://fleet.example/cluster/east/user/%2F",
        "spiffe://fleet.example/cluster/east/user/%C3%A9~.-_",
        "spiffe://fleet.example/cluster/east/break-glass/emergency",
    ] {
        assert_eq!(Identity::parse(uri).unwrap().to_string(), uri);
    }
}

#[test]
fn a_second_spelling_is_refused() {
    for uri in [
        // lower-case hex, needless encoding, missing encoding
        "spiffe://fleet.example/cluster/east/user/oidc%3aalice",
        "spiffe://fleet.example/cluster/east/user/%61lice",
        "spiffe://fleet.example/cluster/east/user/oidc:alice",
        "spiffe://fleet.example/cluster/east/user/a b",
        "spiffe://fleet.example/cluster/east/user/é",
        "spiffe://fleet.example/cluster/east/user/a+b",
        // broken encoding
        "spiffe://fleet.example/cluster/east/user/%",
        "spiffe://fleet.example/cluster/east/user/%4",
        "spiffe://fleet.example/cluster/east/user/%FF",
        "spiffe://fleet.example/cluster/east/user/%C3",
    ] {
        assert!(
            matches!(Identity::parse(uri), Err(IdentityError::Spelling { .. })),
            "{uri}"
        );
    }
}

#[test]
fn anything_else_is_refused() {
    for uri in [
        "",
        "spiffe://",
        "SPIFFE://fleet.example/cluster/east/node/n",
        "https://fleet.example/cluster/east/node/n",
        "spiffe://fleet.example/cluster/east/node",
        "spiffe://fleet.example/cluster/east/node/",
        "spiffe://fleet.example/cluster/east/node/n/",
        "spiffe://fleet.example/cluster/east/node/n/x",
        "spiffe://fleet.example//cluster/east/node/n",
        "spiffe://fleet.example/cluster/east/Node/n",
        "spiffe://fleet.example/cluster/east/admin/n",
        "spiffe://fleet.example/ns/east/node/n",
        "spiffe://Fleet.example/cluster/east/node/n",
        "spiffe://fleet.example:8443/cluster/east/node/n",
        "spiffe://u@fleet.example/cluster/east/node/n",
        "spiffe://fleet.example/cluster/east/node/n?x",
        "spiffe://fleet.example/cluster/east/node/n#x",
        "spiffe://fleet.example/cluster/east/node/%6E",
        "spiffe://fleet.example/cluster/east/user/a/b",
        "spiffe://fleet.example/cluster/east/user/%00",
        "spiffe://fleet.example/cluster/east/user/%E2%80%AEa",
    ] {
        assert!(Identity::parse(uri).is_err(), "{uri}");
    }
    assert!(Identity::parse(&format!("spiffe://f/cluster/c/user/{}", "a".repeat(5000))).is_err());
}

#[test]
fn role_words_in_files() {
    for kind in RoleKind::ALL {
        assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{kind}\""));
    }
    assert!(serde_json::from_str::<RoleKind>("\"root\"").is_err());
}

proptest! {
    #[test]
    fn every_user_survives_the_round_trip(user in "\\PC{1,60}") {
        if let Ok(user) = UserName::parse(&user) {
            let identity = Identity::new("f".parse().unwrap(), "c".parse().unwrap(), Role::User(user));
            let uri = identity.to_string();
            prop_assert!(uri.is_ascii());
            prop_assert_eq!(Identity::parse(&uri).unwrap(), identity);
        }
    }

    #[test]
    fn what_parses_has_one_spelling(path in "[a-z%0-9A-F/.~:+-]{0,30}") {
        let uri = format!("spiffe://f/cluster/c/user/{path}");
        if let Ok(identity) = Identity::parse(&uri) {
            prop_assert_eq!(identity.to_string(), uri);
        }
    }
}
