//! Each finding is there when its fault is, names the place, and is not there without it.

use noderelay_pki::name::ClusterName;

use super::*;
use crate::starter;
use crate::survey::DeclaredPerson;
use crate::testing::{declared, set};

const GOOD: &str = r#"
    @id("good") @profile("diagnostic") permit (principal in Group::"alpha/oncall", action in [Action::"shell", Action::"exec"], resource in Cluster::"alpha");
    @id("beta") permit (principal in Group::"beta/oncall", action == Action::"shell", resource in Cluster::"beta");
"#;

fn everybody() -> Declared {
    let mut declared = declared(&["oncall", "dev", "approvers"]);
    let beta = ClusterName::parse("beta").unwrap();
    let oncall = declared.groups[0].1.clone();
    declared.groups.push((beta, oncall));
    declared
}

fn found(text: &str, declared: &Declared) -> Vec<Finding> {
    lint(&set(text).unwrap(), declared).unwrap().findings
}

fn codes(findings: &[Finding]) -> Vec<&'static str> {
    let mut codes: Vec<_> = findings.iter().map(|finding| finding.code).collect();
    codes.dedup();
    codes
}

/// The test's node rules end with a catch-all for beta.
const ALWAYS: &str = "catch-all-node-rule";

#[test]
fn what_is_meant_has_no_findings_but_the_catch_all() {
    let findings = found(GOOD, &everybody());
    assert_eq!(codes(&findings), [ALWAYS]);
    assert_eq!(
        (findings[0].level, findings[0].place.as_str()),
        (Level::Warning, "nodes.yaml, rule 4")
    );
}

#[test]
fn each_fault_of_a_policy_is_found() {
    let table: &[(&str, Level, &str, &str)] = &[
        (
            r#"@id("x") permit (principal, action, resource in Cluster::"alpha");"#,
            Level::Error,
            "anyone-everything",
            "@id(\"x\")",
        ),
        (
            r#"@id("x") permit (principal is User, action == Action::"shell", resource in Tenant::"acme");"#,
            Level::Error,
            "open-to-anyone",
            "@id(\"x\")",
        ),
        (
            r#"@id("x") permit (principal in Group::"alpha/dev", action, resource);"#,
            Level::Warning,
            "group-everything",
            "@id(\"x\")",
        ),
        (
            r#"@id("x") permit (principal in Group::"alpha/dev", action == Action::"exec", resource) when { context.grant };"#,
            Level::Warning,
            "nobody-approves",
            "@id(\"x\")",
        ),
        (
            r#"@id("x") permit (principal in Group::"alpha/dev", action in [Action::"exec", Action::"approve"], resource) when { context.grant || action == Action::"approve" };"#,
            Level::Warning,
            "approvers-are-requesters",
            "@id(\"x\")",
        ),
        (
            r#"@id("x") permit (principal in Group::"alpha/dev", action == Action::"exec", resource) when { context.grant };
               permit (principal in Group::"alpha/approvers", action == Action::"approve", resource);"#,
            Level::Warning,
            "no-approval-key",
            "principals.yaml",
        ),
        (
            r#"@id("x") permit (principal == User::"alpha/kim", action == Action::"list", resource);"#,
            Level::Warning,
            "names-one-user",
            "@id(\"x\")",
        ),
        (
            r#"@id("x") permit (principal is User, action == Action::"list", resource) when { [User::"alpha/kim"].contains(principal) };"#,
            Level::Warning,
            "names-one-user",
            "@id(\"x\")",
        ),
        (
            r#"@id("x") permit (principal in Group::"alpha/dev", action == Action::"list", resource) when { context.path == "api" };"#,
            Level::Error,
            "needs-path",
            "@id(\"x\")",
        ),
        (
            r#"@id("x") forbid (principal in Group::"alpha/dev", action == Action::"list", resource) unless { context.path == "api" };"#,
            Level::Error,
            "needs-path",
            "@id(\"x\")",
        ),
        (
            r#"@id("x") permit (principal in Group::"alpha/dev", action == Action::"list", resource) when { 9223372036854775807 + 1 > 0 };"#,
            Level::Error,
            "evaluation-fails",
            "@id(\"x\")",
        ),
        (
            r#"@id("x") permit (principal in Group::"alpha/dev", action == Action::"list", resource) when { resource.tenant == "nobodys" };"#,
            Level::Warning,
            "unreachable",
            "@id(\"x\")",
        ),
        (
            r#"@id("x") permit (principal is BreakGlass, action, resource);"#,
            Level::Warning,
            "unreachable",
            "@id(\"x\")",
        ),
        (
            r#"@id("x") permit (principal in Group::"alpha/Dev", action == Action::"list", resource);"#,
            Level::Warning,
            "undeclared-group",
            "@id(\"x\")",
        ),
        (
            r#"@id("x") permit (principal in Group::"dev", action == Action::"list", resource);"#,
            Level::Warning,
            "name-without-cluster",
            "@id(\"x\")",
        ),
        (
            r#"@id("x") permit (principal in Group::"alpha/dev", action == Action::"list", resource in Cluster::"alfa");"#,
            Level::Warning,
            "unknown-cluster",
            "@id(\"x\")",
        ),
        (
            r#"@id("x") permit (principal in Group::"alpha/dev", action == Action::"list", resource in Tenant::"acne");"#,
            Level::Warning,
            "unknown-tenant",
            "@id(\"x\")",
        ),
        (
            r#"@id("x") permit (principal in Group::"alpha/dev", action == Action::"list", resource == Node::"alpha/none");"#,
            Level::Warning,
            "unassigned",
            "@id(\"x\")",
        ),
        (
            r#"@id("x") forbid (principal, action, resource in Tenant::"acme");"#,
            Level::Warning,
            "tenant-locked-out",
            "cluster alpha, tenant acme",
        ),
        (
            r#"@id("x") forbid (principal, action, resource in Cluster::"alpha") when { context.bundle.fresh || !context.bundle.fresh };"#,
            Level::Error,
            "locked-out",
            "cluster alpha",
        ),
    ];
    let without = codes(&found(GOOD, &everybody()));
    for (text, level, code, place) in table {
        let findings = found(&format!("{GOOD}{text}"), &everybody());
        let finding = findings.iter().find(|finding| finding.code == *code);
        let finding = finding.unwrap_or_else(|| panic!("{code} in {findings:#?} of {text}"));
        assert_eq!(finding.level, *level, "{finding:?}");
        assert!(finding.place.contains(place), "{finding:?}");
        assert!(!without.contains(code));
    }
}

#[test]
fn a_cluster_without_node_rules_is_locked_and_its_nodes_are_unassigned() {
    let mut declared = everybody();
    declared.clusters.push(ClusterName::parse("gamma").unwrap());
    let findings = found(GOOD, &declared);
    assert_eq!(codes(&findings), ["locked-out", ALWAYS, "unassigned"]);
    assert_eq!(findings[0].place, "cluster gamma");
    // Nobody is permitted anything: all of them.
    let findings = found("", &everybody());
    let locked = findings.iter().filter(|finding| finding.code == "locked-out");
    assert_eq!(
        locked.map(|f| f.place.as_str()).collect::<Vec<_>>(),
        ["cluster alpha", "cluster beta"]
    );
    assert!(findings[0].seen.contains("no rule permits it"), "{:?}", findings[0]);
}

#[test]
fn what_holds_only_sometimes_is_neither_locked_nor_open() {
    let text = r#"
        permit (principal, action == Action::"shell", resource) when { context.time < datetime("2031-01-01") };
    "#;
    assert_eq!(codes(&found(text, &everybody())), [ALWAYS]);
    // And a rule that forbids at times leaves others reachable.
    let text =
        format!("{GOOD} forbid (principal, action, resource) when {{ context.time < datetime(\"2031-01-01\") }};");
    assert_eq!(codes(&found(&text, &everybody())), [ALWAYS]);
}

#[test]
fn a_rule_for_members_of_some_groups_and_not_of_others_is_reachable() {
    let some = r#"permit (principal in Group::"alpha/oncall", action == Action::"list", resource)
        when { principal in Group::"alpha/dev" && !(principal in Group::"alpha/approvers") };"#;
    assert_eq!(codes(&found(&format!("{GOOD}{some}"), &everybody())), [ALWAYS]);
    let apart = r#"permit (principal in Group::"alpha/dev", action == Action::"list", resource in Cluster::"alpha");
        forbid (principal in Group::"alpha/dev", action, resource) unless { principal in Group::"alpha/cleared" };
        forbid (principal in Group::"alpha/oncall", action == Action::"list", resource);"#;
    let findings = found(&format!("{GOOD}{apart}"), &everybody());
    assert!(!codes(&findings).contains(&"unreachable"), "{findings:#?}");
}

#[test]
fn names_whose_end_the_caller_chooses_are_no_persons() {
    let alpha = || ClusterName::parse("alpha").unwrap();
    let named = |name: &str| Declared {
        persons: vec![DeclaredPerson {
            name: "kim".to_owned(),
            usernames: vec![(alpha(), name.to_owned())],
            approves: false,
        }],
        ..everybody()
    };
    for chosen in [
        "arn:aws:sts::111122223333:assumed-role/Ops/kim",
        "arn:aws-cn:sts::111122223333:assumed-role/Ops/kim@example.org",
        "ops:{{SessionName}}",
        "ops-{{SessionNameRaw}}",
    ] {
        let findings = found(GOOD, &named(chosen));
        let finding = findings.iter().find(|f| f.code == "caller-chosen-name");
        let finding = finding.unwrap_or_else(|| panic!("{chosen}"));
        assert_eq!(
            (finding.level, finding.place.as_str()),
            (Level::Error, "principals.yaml, person kim")
        );
    }
    for fixed in [
        "kim",
        "arn:aws:iam::111122223333:user/kim",
        "kim@example.org",
        "arn:aws:iam::1:role/Ops",
    ] {
        assert_eq!(codes(&found(GOOD, &named(fixed))), [ALWAYS], "{fixed}");
    }
}

#[test]
fn every_file_that_is_no_policy_is_named() {
    let file = |name: &str, text: &str| (format!("policies/{name}"), text.as_bytes().to_vec());
    let permit = "permit (principal, action, resource);";
    let files = [
        file("good.cedar", permit),
        file(
            "a.cedar",
            "@record_level(\"strict\") permit (principal, action, resource);",
        ),
        file("b.cedar", "permit (principal"),
        file(
            "c.cedar",
            "permit (principal, action, resource) when { context.admin };",
        ),
        file("d.cedar", "@idle(\"1h\") forbid (principal, action, resource);"),
    ];
    let findings = faults(&files, b"rules: [{nodes: x, tenant: t}]");
    assert_eq!(
        findings.iter().map(|f| (f.code, f.place.as_str())).collect::<Vec<_>>(),
        [
            ("annotation-on-forbid", "policies/d.cedar"),
            ("does-not-fit-the-schema", "policies/c.cedar"),
            ("does-not-parse", "policies/b.cedar"),
            ("node-rules", "nodes.yaml"),
            ("unknown-annotation", "policies/a.cedar"),
        ]
    );
    assert!(findings.iter().all(|finding| finding.level == Level::Error));
    let twice = [
        file("a.cedar", "@id(\"x\") permit (principal, action, resource);"),
        file("b.cedar", "@id(\"x\") permit (principal, action, resource);"),
    ];
    assert_eq!(codes(&faults(&twice, b"rules: []")), ["duplicate-id"]);
    assert_eq!(faults(&files[..1], b"rules: []"), []);
}

#[test]
fn the_starter_policies_have_two_warnings() {
    let lab = ClusterName::parse("lab").unwrap();
    let policies = starter::policies(&lab);
    let set = PolicySet::parse(
        1,
        policies.iter().map(|(n, t)| (n, t)),
        starter::node_rules(&lab).as_bytes(),
    )
    .unwrap();
    let declared = Declared {
        clusters: vec![lab.clone()],
        groups: vec![(lab, everybody().groups[0].1.clone())],
        ..everybody()
    };
    let findings = lint(&set, &declared).unwrap().findings;
    assert_eq!(codes(&findings), [ALWAYS, "nobody-approves"]);
    assert!(findings.iter().all(|finding| finding.level == Level::Warning));
}
