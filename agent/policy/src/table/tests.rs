//! A table is read strictly, and a failure tells what was expected, what was seen and which rules decided.

use noderelay_pki::name::{ClusterName, TrustDomain};

use super::*;
use crate::{starter, testing};

fn now() -> Timestamp {
    "2030-05-06T07:08:09Z".parse().unwrap()
}

fn run(set: &PolicySet, text: &str) -> Vec<Tried> {
    let domain = TrustDomain::parse("example.org").unwrap();
    Table::parse(text.as_bytes()).unwrap().run(set, &domain, now())
}

const RULES: &str = r#"
@id("look") @profile("diagnostic") @max_duration("8h") @record("strict")
permit (principal in Group::"alpha/oncall", action == Action::"shell", resource) when { context.time < datetime("2031-01-01") };
@id("apart") forbid (principal, action, resource in Tenant::"platform");
"#;

#[test]
fn what_is_as_expected_passes() {
    let set = testing::set(RULES).unwrap();
    let tried = run(
        &set,
        r#"
tests:
  - name: on call
    who: {user: kim, groups: [oncall]}
    node: alpha/gpu-1
    action: shell
    expect: permit
    tier: standing
    record: strict
    max_duration: 480m
    rules: [look]
  - name: only diagnostic
    who: {user: kim, groups: [oncall]}
    node: alpha/gpu-1
    action: shell
    context: {profile: root}
    expect: deny
    missing: rule
    kind: wrong_profile
  - name: next year
    who: {user: kim, groups: [oncall]}
    node: alpha/gpu-1
    action: shell
    context: {at: "2031-01-01T00:00:00Z", grant: true, reason: INC-7, fresh: false, path: api}
    expect: deny
  - name: from elsewhere
    who: {user: kim, groups: [oncall], home: beta}
    node: alpha/gpu-1
    action: shell
    expect: deny
    missing: identity
  - name: apart
    who: {user: kim, groups: [oncall]}
    node: alpha/cpu-1
    action: shell
    expect: deny
    kind: forbidden
    rules: [apart]
"#,
    );
    assert_eq!(tried.len(), 5);
    for tried in tried {
        assert_eq!(tried.failures, [], "{}: {}", tried.name, tried.answer);
    }
}

#[test]
fn a_failure_says_what_was_expected_what_was_seen_and_which_rules_decided() {
    let set = testing::set(RULES).unwrap();
    let ask = |rest: &str| {
        let test = format!(
            "tests: [{{name: t, who: {{user: kim, groups: [oncall]}}, node: alpha/gpu-1, action: shell, {rest}}}]"
        );
        run(&set, &test).remove(0)
    };
    let failures = |tried: &Tried| {
        let failures = tried.failures.iter();
        failures
            .map(|failure| format!("{} {} {}", failure.what, failure.expected, failure.seen))
            .collect::<Vec<_>>()
    };
    let denied = ask("expect: deny");
    assert_eq!(failures(&denied), ["expect deny permit"]);
    assert!(
        denied
            .answer
            .contains("look (policies/test.cedar, policy 1, @id(\"look\"))"),
        "{}",
        denied.answer
    );
    for (rest, expected) in [
        ("expect: permit, tier: grant", "tier grant standing"),
        ("expect: permit, record: required", "record required strict"),
        ("expect: permit, max_duration: 1h", "max_duration 1h 8h"),
        ("expect: permit, idle: 1h", "idle 1h none"),
        ("expect: permit, rules: []", "rules  look"),
        ("context: {profile: x}, expect: permit", "expect permit deny"),
        (
            "context: {profile: x}, expect: deny, missing: grant",
            "missing grant rule",
        ),
        (
            "context: {profile: x}, expect: deny, kind: no_rule",
            "kind no_rule wrong_profile",
        ),
    ] {
        assert_eq!(failures(&ask(rest)), [expected], "{rest}");
    }
}

#[test]
fn a_table_that_cannot_be_asked_is_refused() {
    let good = "name: t, who: {user: kim}, node: alpha/gpu-1, action: shell, expect: permit";
    assert!(Table::parse(format!("tests: [{{{good}}}]").as_bytes()).is_ok());
    let table: &[(&str, &str)] = &[
        ("", "not a test table"),
        ("tests: {}", "not a test table"),
        ("tests: []\nmore: 1", "more"),
        ("tests: [{name: t}]", "not a test table"),
    ];
    for (text, expected) in table {
        let error = Table::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    for (from, to, expected) in [
        ("expect: permit", "expect: perhaps", "perhaps"),
        ("expect: permit", "expect: permit, expekt: deny", "expekt"),
        ("user: kim", "user: kim, group: x", "group"),
        ("user: kim", "user: \"\\u202e\"", "U+202E"),
        ("alpha/gpu-1", "gpu-1", "CLUSTER/NAME"),
        ("alpha/gpu-1", "alpha/GPU", "lower-case"),
        ("action: shell", "action: Shell", "action is one of"),
        ("action: shell", "action: shell, context: {time: now}", "time"),
        ("action: shell", "action: shell, context: {at: now}", "not a time"),
        ("action: shell", "action: shell, context: {path: tunnel}", "path is"),
        ("expect: permit", "expect: permit, missing: rule", "expects deny"),
        ("expect: permit", "expect: deny, tier: grant", "expects permit"),
        ("expect: permit", "expect: deny, idle: 1h", "expects permit"),
        ("expect: permit", "expect: deny, missing: luck", "missing is one of"),
        ("expect: permit", "expect: deny, kind: luck", "kind is one of"),
        ("expect: permit", "expect: permit, tier: high", "tier is one of"),
        ("expect: permit", "expect: permit, record: maybe", "record is one of"),
        ("expect: permit", "expect: permit, idle: soon", "duration"),
    ] {
        let text = format!("tests: [{{{}}}]", good.replace(from, to));
        let error = Table::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    let many = format!("tests:\n{}", format!("  - {{{good}}}\n").repeat(MAX_TESTS + 1));
    assert!(matches!(Table::parse(many.as_bytes()), Err(TableError::TooMany(_))));
}

#[test]
fn the_starter_table_passes_for_the_starter_policies_and_fails_for_others() {
    for name in ["lab", "a", "west-1.example.org"] {
        let cluster = ClusterName::parse(name).unwrap();
        let policies = starter::policies(&cluster);
        let set = |policies: &[(String, String)]| {
            PolicySet::parse(
                1,
                policies.iter().map(|(n, t)| (n, t)),
                starter::node_rules(&cluster).as_bytes(),
            )
            .unwrap()
        };
        let failed = |set: &PolicySet| {
            let tried = run(set, &starter::test_table(&cluster));
            tried
                .into_iter()
                .filter(|tried| !tried.failures.is_empty())
                .collect::<Vec<_>>()
        };
        assert_eq!(failed(&set(&policies)), []);
        // Each of the files matters to it.
        for left_out in 0..policies.len() {
            let mut fewer = policies.clone();
            fewer.remove(left_out);
            assert_ne!(failed(&set(&fewer)), [], "{left_out}");
        }
    }
}
