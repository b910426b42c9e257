//! The architecture's directions as tests, and tests of the checker itself: a checker that finds nothing proves
//! nothing until it has been seen to find something.

use super::manifest::{named, unsafe_finding, value};
use super::tree::{Tree, parse_features};
use super::*;

#[track_caller]
fn none(findings: Vec<String>) {
    assert!(findings.is_empty(), "\n  {}", findings.join("\n  "));
}

#[test]
fn crates_name_only_crates_below_them() {
    none(directions().unwrap());
}

#[test]
fn proto_policy_relay_client_and_holder_never_reach_what_they_must_not() {
    none(reach().unwrap());
}

#[test]
fn there_is_one_tls_provider() {
    none(one_provider().unwrap());
}

#[test]
fn only_the_child_crate_may_hold_unsafe_code() {
    none(unsafe_code().unwrap());
}

#[test]
fn nothing_is_compiled_twice_for_the_two_commands_of_the_readme() {
    none(features_agree().unwrap());
}

#[test]
fn the_rules_that_the_architecture_names_are_in_the_table() {
    let rule = |package: &str, banned: &str| {
        NEVER
            .iter()
            .any(|(known, never, _)| *known == package && never.contains(&banned))
    };
    assert!(rule("noderelay-proto", "tokio"));
    assert!(rule("noderelay-policy", "tokio") && rule("noderelay-policy", "kube") && rule("noderelay-policy", "quinn"));
    assert!(rule("noderelay-relay", "noderelay-policy") && rule("noderelay-relay", "age"));
    assert!(FOREIGN_CRYPTO.contains(&"ring") && FOREIGN_CRYPTO.contains(&"openssl-sys"));
}

const PRINTED: &str = "\
0noderelay-proto v0.1.0 (/somewhere/relay/proto)
1bytes v1.12.0
1tough v0.24.0
2reqwest v0.12.0
3tokio v1.54.1
2serde v1.0.0 (*)
1thiserror v2.0.0
";

#[test]
fn a_forbidden_crate_far_down_is_found_with_the_way_to_it() {
    let tree = Tree::parse(PRINTED);
    assert_eq!(
        tree.way_to("tokio").unwrap(),
        ["noderelay-proto", "tough", "reqwest", "tokio"]
    );
    assert_eq!(tree.way_to("thiserror").unwrap(), ["noderelay-proto", "thiserror"]);
    assert!(tree.way_to("ring").is_none());
    assert!(
        tree.way_to("noderelay-proto").is_none(),
        "the package itself is no dependency of its own"
    );
}

#[test]
fn a_real_tree_is_read() {
    let tree = Tree::of("xtask").unwrap();
    assert!(tree.way_to("anyhow").is_some());
    assert!(tree.way_to("no-such-crate").is_none());
}

#[test]
fn differing_features_are_found() {
    let alone = parse_features("nix v0.32.0|fs,user\nserde v1.0.0|std\nours v0.1.0 (/somewhere)|demo\n");
    let whole = parse_features("nix v0.32.0|fs,poll,user (*)\nserde v1.0.0|std\nours v0.1.0 (/somewhere)|demo\n");
    let findings = differences("noderelay", &alone, &whole);
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].contains("nix v0.32.0 would be compiled twice"));
    assert!(findings[0].contains("[fs,poll,user]"));
}

#[test]
fn a_manifest_that_lets_unsafe_in_is_found() {
    let inherits = "[package]\nname = \"a\"\n[lints]\nworkspace = true\n";
    let loose = "[package]\nname = \"a\"\n[lints.rust]\nunsafe_code = \"allow\"\n";
    let silent = "[package]\nname = \"a\"\n";
    let careful =
        "[lints.rust]\nunsafe_code = \"allow\"\n[lints.clippy]\nundocumented_unsafe_blocks = \"deny\" # why\n";
    assert_eq!(unsafe_finding("a", inherits, false), None);
    assert!(
        unsafe_finding("a", loose, false)
            .unwrap()
            .contains("only noderelay-child")
    );
    assert!(unsafe_finding("a", silent, false).is_some());
    assert!(
        unsafe_finding("a", loose, true)
            .unwrap()
            .contains("undocumented_unsafe_blocks")
    );
    assert_eq!(unsafe_finding("a", careful, true), None);
    assert_eq!(
        value(careful, "lints.clippy", "undocumented_unsafe_blocks"),
        Some("\"deny\"")
    );
}

#[test]
fn every_form_of_naming_a_crate_is_read() {
    let manifest = "[package]\nname = \"a\"\n[dependencies]\none.workspace = true\ntwo = { path = \"x\" }\n\
        alias = { package = \"three\", version = \"1\" }\n[dev-dependencies]\nfour = \"1\"\n[dependencies.five]\nversion = \"1\"\n\
        [target.'cfg(unix)'.dependencies]\nsix = \"1\"\n[features]\nseven = []\n";
    let names = named(manifest);
    assert!(
        ["one", "two", "three", "four", "five", "six"]
            .iter()
            .all(|name| names.contains(*name)),
        "{names:?}"
    );
    assert!(!names.contains("seven") && !names.contains("alias"));
}
