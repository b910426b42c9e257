//! A set of policies is taken as a whole or refused with the file, the rule and the fault.

use proptest::prelude::*;

use super::*;
use crate::testing::{NODES, set};

const PERMIT: &str = "permit (principal, action == Action::\"shell\", resource)";

#[test]
fn rules_are_named_by_their_id_or_by_file_and_place() {
    let text = format!("{PERMIT};\n@id(\"mine\") {PERMIT};\n{PERMIT};");
    let set = set(&text).unwrap();
    assert_eq!(set.rules().collect::<Vec<_>>(), ["mine", "test.1", "test.3"]);
    assert_eq!(set.version(), 7);
    let place = |rule: &str| set.place(rule).unwrap().to_string();
    assert_eq!(place("mine"), "policies/test.cedar, policy 2, @id(\"mine\")");
    assert_eq!(place("test.3"), "policies/test.cedar, policy 3");
    assert_eq!(set.place("test.2"), None);
}

#[test]
fn more_than_ten_rules_of_a_file_keep_their_places() {
    let text: String = (1..=12).map(|n| format!("@profile(\"p{n}\") {PERMIT};\n")).collect();
    let set = set(&text).unwrap();
    let profile = |rule: &str| {
        set.rules[&PolicyId::new(rule)]
            .demands
            .profile
            .clone()
            .unwrap()
            .to_string()
    };
    assert_eq!(
        (profile("test.2"), profile("test.11")),
        ("p2".to_owned(), "p11".to_owned())
    );
}

#[test]
fn bad_policies_are_refused_with_the_reason() {
    let deep = format!("{PERMIT} when {{ {} }};", "(".repeat(100_000));
    let table: &[(&str, &str)] = &[
        ("permit", "does not parse"),
        ("permit (principal, action, resource)", "does not parse"),
        ("permit (principal, action, resource); garbage", "does not parse"),
        (&deep, "nested deeper"),
        ("permit (principal == ?principal, action, resource);", "template"),
        (
            r#"permit (principal, action == Action::"Shell", resource);"#,
            "does not fit the schema",
        ),
        (
            r#"permit (principal in Grp::"alpha/x", action, resource);"#,
            "does not fit the schema",
        ),
        (
            "permit (principal, action, resource) when { resource.pool == \"gpu\" };",
            "does not fit the schema",
        ),
        (
            "permit (principal, action, resource) when { resource.getTag(\"pool\") == \"gpu\" };",
            "does not fit the schema",
        ),
        (
            "permit (principal, action, resource) when { context.reason like \"INC-*\" };",
            "does not fit the schema",
        ),
        (
            "permit (principal, action, resource) when { context.grant == \"yes\" };",
            "does not fit the schema",
        ),
        (
            "permit (principal, action, resource) when { context.admin };",
            "does not fit the schema",
        ),
        (
            "permit (principal, action, resource) when { datetime(context.path) < context.time };",
            "does not fit the schema",
        ),
        (
            &format!("@max_durations(\"1h\") {PERMIT};"),
            "unknown annotation @max_durations",
        ),
        (&format!("@Record(\"strict\") {PERMIT};"), "unknown annotation @Record"),
        (&format!("@grant {PERMIT};"), "unknown annotation @grant"),
        (
            &format!("@record(\"Strict\") {PERMIT};"),
            "expected \"required\" or \"strict\"",
        ),
        (&format!("@record {PERMIT};"), "expected \"required\" or \"strict\""),
        (&format!("@max_duration(\"1\") {PERMIT};"), "expected a duration"),
        (&format!("@max_duration(\"0s\") {PERMIT};"), "expected a duration"),
        (&format!("@idle(\"365d\") {PERMIT};"), "expected a duration"),
        (
            &format!("@idle(\"99999999999999999999h\") {PERMIT};"),
            "expected a duration",
        ),
        (&format!("@profile(\"Root\") {PERMIT};"), "expected a profile's name"),
        (&format!("@id(\"Über\") {PERMIT};"), "expected 1 to 64"),
        (&format!("@id(\"x\") @id(\"y\") {PERMIT};"), "does not parse"),
        (
            &format!("@id(\"x\") {PERMIT}; @id(\"x\") {PERMIT};"),
            "another policy has this id",
        ),
        (
            &format!("@id(\"test.2\") {PERMIT}; {PERMIT};"),
            "another policy has this id",
        ),
        (
            "@record(\"strict\") forbid (principal, action, resource);",
            "no effect on a forbid",
        ),
    ];
    for (text, expected) in table {
        let error = set(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text:.120}: {error}");
        assert!(error.len() < 1000, "{error}");
    }
}

#[test]
fn the_faulty_rule_is_named() {
    let text = format!("@id(\"good\") {PERMIT};\n@id(\"bad\") {PERMIT} when {{ context.admin }};");
    assert!(matches!(set(&text), Err(PolicyError::Invalid { rule, .. }) if rule == "bad"));
}

#[test]
fn files_and_node_rules() {
    let file = |name: &str, bytes: &[u8]| PolicySet::parse(1, [(name.to_owned(), bytes.to_vec())], NODES.as_bytes());
    assert!(file("a.cedar", b"").is_ok());
    assert!(file("policies/on-call.cedar", b"").is_ok());
    for name in ["", "a", "a.json", ".cedar", "A.cedar", "a b.cedar", "x/\u{202e}.cedar"] {
        assert!(matches!(file(name, b""), Err(PolicyError::FileName { .. })), "{name}");
    }
    assert!(matches!(file("a.cedar", b"\xff"), Err(PolicyError::Unreadable { .. })));
    let long = vec![b' '; guard::MAX_TEXT + 1];
    assert!(matches!(file("a.cedar", &long), Err(PolicyError::Unreadable { .. })));
    assert!(matches!(
        PolicySet::parse(1, crate::testing::NONE, b"rules"),
        Err(PolicyError::NodeRules(_))
    ));
}

#[test]
fn complaints_show_what_they_quote_without_controls() {
    let error = set("permit (principal, action, resource) when { \"\u{202e}\u{7}\" == context.path } \u{1b}[2J;");
    let text = error.unwrap_err().to_string();
    assert!(!text.chars().any(|c| c.is_control() || c == '\u{202e}'), "{text:?}");
}

proptest! {
    #[test]
    fn any_text_is_a_set_or_an_error(text in "(permit|forbid|\\(|\\)|principal|action|resource|when|\\{|\\}|;|@id|\"|==|in|[a-z ]|\\PC){0,40}") {
        let _ = set(&text);
    }

    #[test]
    fn mutated_policies_are_a_set_or_an_error(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut text = include_bytes!("../starter/root.cedar").to_vec();
        let at = at.index(text.len());
        text[at] = byte;
        let _ = PolicySet::parse(1, [("a.cedar".to_owned(), text)], NODES.as_bytes());
    }
}
