//! Node rules: the first match decides, no match is `unassigned`, and bad files are refused as a whole.

use noderelay_pki::name::{ClusterName, NodeName};
use proptest::prelude::*;

use super::*;

fn facts(rules: &str, cluster: &str, node: &str) -> NodeFacts {
    let rules = NodeRules::parse(rules.as_bytes()).unwrap();
    rules.facts(&ClusterName::parse(cluster).unwrap(), &NodeName::parse(node).unwrap())
}

#[test]
fn the_first_rule_that_matches_decides_alone() {
    let rules = "
rules:
  - {nodes: 'alpha/gpu-*', tenant: acme, labels: {pool: gpu}}
  - {nodes: 'alpha/*', tenant: platform, labels: {site: west}}
";
    let gpu = facts(rules, "alpha", "gpu-17");
    assert_eq!((gpu.tenant.as_str(), gpu.labels.len()), ("acme", 1));
    assert_eq!(gpu.labels["pool"], "gpu");
    assert_eq!(facts(rules, "alpha", "cpu-1").labels["site"], "west");
}

#[test]
fn no_match_is_unassigned() {
    for rules in ["rules: []", "rules: [{nodes: 'alpha/gpu-*', tenant: acme}]"] {
        let facts = facts(rules, "beta", "gpu-1");
        assert_eq!((facts.tenant.as_str(), facts.is_assigned()), (UNASSIGNED, false));
        assert!(facts.labels.is_empty());
    }
}

#[test]
fn b032_names_match_exactly_and_dots_are_ordinary() {
    let rules = "rules: [{nodes: 'alpha/node-a.example.com', tenant: acme}]";
    assert!(facts(rules, "alpha", "node-a.example.com").is_assigned());
    assert!(!facts(rules, "alpha", "node-axexample.com").is_assigned());
    assert!(!facts(rules, "alpha", "node-a").is_assigned());
    assert!(NodeRules::parse(b"rules: [{nodes: 'alpha/Node-A', tenant: acme}]").is_err());
}

#[test]
fn patterns() {
    let table = [
        ("*", "", true),
        ("*", "a", true),
        ("?", "a", true),
        ("?", "", false),
        ("a*b*c", "aXbYbZc", true),
        ("a*b*c", "aXbYbZ", false),
        ("*-gpu", "x-gpu-gpu", true),
        ("a**b", "ab", true),
        ("abc", "abcd", false),
        ("", "", true),
        ("", "a", false),
    ];
    for (pattern, text, expected) in table {
        assert_eq!(glob(pattern, text), expected, "{pattern} {text}");
    }
    // Would take longer than the age of the universe if it were exponential.
    assert!(!glob(
        &"*a".repeat(120),
        &"a".repeat(250).replace("aaaaaaaaaa", "aaaaaaaaab")[..119]
    ));
}

#[test]
fn bad_files_are_refused() {
    let table: &[(&str, &str)] = &[
        ("", "not a file of node rules"),
        ("rules", "not a file of node rules"),
        ("rules: {}", "not a file of node rules"),
        ("rules: []\nextra: 1", "extra"),
        ("rules: []\nrules: []", "duplicate"),
        ("rules: [{nodes: 'a/*', tenant: t, labls: {}}]", "labls"),
        ("rules: [{nodes: 'a/*'}]", "tenant"),
        ("rules: [{nodes: 'a', tenant: t}]", "CLUSTER/NAME"),
        ("rules: [{nodes: '/a', tenant: t}]", "CLUSTER/NAME"),
        ("rules: [{nodes: 'a/', tenant: t}]", "CLUSTER/NAME"),
        ("rules: [{nodes: 'a/b/c', tenant: t}]", "CLUSTER/NAME"),
        ("rules: [{nodes: 'a/[b]', tenant: t}]", "CLUSTER/NAME"),
        ("rules: [{nodes: 'a/b', tenant: unassigned}]", "leave the rule out"),
        ("rules: [{nodes: 'a/b', tenant: Acme}]", "lower-case"),
        ("rules: [{nodes: 'a/b', tenant: ''}]", "lower-case"),
        ("rules: [{nodes: 'a/b', tenant: t, labels: {'': x}}]", "label's name"),
        ("rules: [{nodes: 'a/b', tenant: t, labels: {'a b': x}}]", "label's name"),
        (
            "rules: [{nodes: 'a/b', tenant: t, labels: {a: 'x y'}}]",
            "label's value",
        ),
        ("rules: [{nodes: 'a/b', tenant: t, labels: {a: x, a: y}}]", "duplicate"),
    ];
    for (text, expected) in table {
        let error = NodeRules::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    assert!(NodeRules::parse(b"rules: [\xff]").is_err());
    let many = format!("rules:\n{}", "  - {nodes: 'a/b', tenant: t}\n".repeat(MAX_RULES + 1));
    assert!(matches!(
        NodeRules::parse(many.as_bytes()),
        Err(NodeRulesError::TooMany(_))
    ));
}

/// The obvious definition.
fn slow_glob(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern, text) {
        ([], []) => true,
        ([b'*', p @ ..], t) => (0..=t.len()).any(|n| slow_glob(p, &t[n..])),
        ([b'?', p @ ..], [_, t @ ..]) => slow_glob(p, t),
        ([a, p @ ..], [b, t @ ..]) if a == b => slow_glob(p, t),
        _ => false,
    }
}

proptest! {
    #[test]
    fn the_pattern_means_what_it_obviously_means(pattern in "[ab*?]{0,8}", text in "[ab]{0,10}") {
        prop_assert_eq!(glob(&pattern, &text), slow_glob(pattern.as_bytes(), text.as_bytes()));
    }

    #[test]
    fn any_bytes_are_rules_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = NodeRules::parse(&bytes);
    }
}
