//! Whoever gains or loses is told, once, with what changes; and nothing when nothing does.

use noderelay_pki::name::ClusterName;
use proptest::prelude::*;

use super::*;
use crate::Action;
use crate::testing::random::any_policy;
use crate::testing::{Ask, declared, set};

fn between(old: &str, new: &str) -> Vec<String> {
    let (old, new) = (set(old).unwrap(), set(new).unwrap());
    let declared = declared(&["oncall", "dev"]);
    lines(&diff((&old, &declared), (&new, &declared)).unwrap())
}

fn lines(diffed: &Diffed) -> Vec<String> {
    let line = |change: &Change| {
        format!(
            "{:?} | {} | {} | {} | {} | {:?} | {} -> {}",
            change.change,
            change.who,
            change.actions.join(" "),
            change.nodes,
            change.profiles.join(" "),
            change.grant,
            change.from,
            change.to
        )
    };
    diffed.changes.iter().map(line).collect()
}

const LOOK: &str = r#"
    @id("look") @profile("diagnostic") @max_duration("8h")
    permit (principal in Group::"alpha/oncall", action in [Action::"shell", Action::"exec"], resource in Tenant::"acme");
"#;

#[test]
fn nothing_is_told_when_nothing_changes() {
    assert_eq!(between(LOOK, LOOK), [""; 0]);
    // Another name, another file's order, other words for the same.
    let same = r#"
        // A comment.
        @id("other") @description("x") @profile("diagnostic") @max_duration("480m") @record("required")
        permit (principal in Group::"alpha/oncall", action == Action::"exec", resource in Tenant::"acme");
        @id("more") @profile("diagnostic") @max_duration("8h")
        permit (principal in Group::"alpha/oncall", action == Action::"shell", resource is Node in Tenant::"acme");
    "#;
    assert_eq!(between(LOOK, same), [""; 0]);
    // What depends on the time, by the same rule.
    let until = LOOK.replace(
        "\"acme\");",
        "\"acme\") when { context.time < datetime(\"2031-01-01\") };",
    );
    assert_eq!(between(&until, &until.replace("look", "see")), [""; 0]);
}

#[test]
fn who_gains_and_who_loses_is_told_once() {
    let old = "standing: record required, max_duration 8h";
    assert_eq!(
        between("", LOOK),
        [format!(
            "Gains | group alpha/oncall | shell exec | alpha/gpu-* (tenant acme) | diagnostic | Either | denied -> permitted, {old}"
        )]
    );
    assert_eq!(
        between(LOOK, ""),
        [format!(
            "Loses | group alpha/oncall | shell exec | alpha/gpu-* (tenant acme) | diagnostic | Either | permitted, {old} -> denied"
        )]
    );
    // Everybody, and no group beside them.
    assert_eq!(
        between(
            "",
            "permit (principal, action == Action::\"list\", resource in Tenant::\"orphan\");"
        ),
        [
            "Gains | anyone of alpha, in no group too | list | alpha/lost-* (tenant orphan) | any other | Either | denied -> permitted, standing: record required"
        ]
    );
    // Only together.
    let both = r#"permit (principal in Group::"alpha/oncall", action == Action::"list", resource in Tenant::"acme") when { principal in Group::"alpha/dev" };"#;
    assert_eq!(
        between("", both),
        [
            "Gains | members of alpha/dev and alpha/oncall at once | list | alpha/gpu-* (tenant acme) | any other | Either | denied -> permitted, standing: record required"
        ]
    );
    let one = r#"permit (principal == User::"alpha/kim", action == Action::"list", resource == Node::"alpha/gpu-7");"#;
    assert_eq!(
        between("", one),
        [
            "Gains | user alpha/kim | list | alpha/gpu-7 (tenant acme) | any other | Either | denied -> permitted, standing: record required"
        ]
    );
}

#[test]
fn a_grant_a_reason_and_freshness_are_told_apart() {
    let root = r#"@profile("root") @record("strict") permit (principal in Group::"alpha/oncall", action == Action::"shell", resource in Tenant::"acme")
        when { context.grant && context has reason && context.bundle.fresh };"#;
    assert_eq!(
        between("", root),
        [
            "Gains | group alpha/oncall | shell | alpha/gpu-* (tenant acme) | root | With | denied -> permitted, with a reason, while the bundle is fresh, grant: record strict"
        ]
    );
    let standing = root.replace("context.grant && ", "");
    assert_eq!(
        between(root, &standing),
        [
            "Gains | group alpha/oncall | shell | alpha/gpu-* (tenant acme) | root | Without | denied -> permitted, with a reason, while the bundle is fresh, standing: record strict",
            "Changes | group alpha/oncall | shell | alpha/gpu-* (tenant acme) | root | With | permitted, with a reason, while the bundle is fresh, grant: record strict -> permitted, with a reason, while the bundle is fresh, standing: record strict",
        ]
    );
}

#[test]
fn obligations_and_conditions_that_change_are_told() {
    assert_eq!(
        between(LOOK, &LOOK.replace("8h", "1h")),
        [
            "Changes | group alpha/oncall | shell exec | alpha/gpu-* (tenant acme) | diagnostic | Either | permitted, standing: record required, max_duration 8h -> permitted, standing: record required, max_duration 1h"
        ]
    );
    let until = |year: u16| {
        LOOK.replace(
            "\"acme\");",
            &format!("\"acme\") when {{ context.time < datetime(\"{year}-01-01\") }};"),
        )
    };
    assert_eq!(
        between(&until(2031), &until(2032)),
        [
            "Changes | group alpha/oncall | shell exec | alpha/gpu-* (tenant acme) | diagnostic | Either | sometimes, by the time (as look has it) -> sometimes, by the time (as look has it)"
        ]
    );
    assert_eq!(between(LOOK, &until(2031)).len(), 1);
    assert!(between(LOOK, &until(2031))[0].starts_with("Loses"));
}

#[test]
fn nodes_that_change_their_tenant_and_clusters_that_go_are_told() {
    let parse = |rules: &str| PolicySet::parse(1, [("a.cedar", LOOK)], rules.as_bytes()).unwrap();
    let old = parse("rules: [{nodes: 'alpha/gpu-*', tenant: acme}]");
    let new = parse("rules: [{nodes: 'alpha/gpu-1*', tenant: other}, {nodes: 'alpha/gpu-*', tenant: acme}]");
    let all = declared(&["oncall"]);
    let told = lines(&diff((&old, &all), (&new, &all)).unwrap());
    assert_eq!(told.len(), 1, "{told:#?}");
    assert!(
        told[0].starts_with("Loses | group alpha/oncall | shell exec | alpha/gpu-1* (tenant acme, then other)"),
        "{told:?}"
    );
    let mut fewer = all.clone();
    fewer
        .clusters
        .retain(|cluster| *cluster != ClusterName::parse("alpha").unwrap());
    let told = lines(&diff((&old, &all), (&old, &fewer)).unwrap());
    assert!(told.len() == 1 && told[0].starts_with("Loses"), "{told:?}");
}

proptest! {
    // Each case asks every question that there is, twice.
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Where a group is decided about differently, that is told.
    #[test]
    fn no_change_goes_untold(
        old in prop::collection::vec(any_policy(), 0..5),
        new in prop::collection::vec(any_policy(), 0..5),
        grant in any::<bool>(), reason in any::<bool>(), fresh in any::<bool>(), late in any::<bool>(),
    ) {
        let (one, other) = (set(&old.concat()).unwrap(), set(&new.concat()).unwrap());
        let groups = declared(&["oncall", "dev"]);
        let diffed = diff((&one, &groups), (&other, &groups)).unwrap();
        for (member, node, profile, action) in [
            ("oncall", "gpu-5", "diagnostic", Action::Shell),
            ("oncall", "cpu-5", "root", Action::Exec),
            ("dev", "gpu-5", "elsewhere", Action::Forward),
            ("dev", "lost-5", "diagnostic", Action::List),
        ] {
            let ask = Ask {
                principal: crate::testing::user("alpha", "zoe"),
                action,
                grant,
                fresh,
                reason: reason.then(|| "INC-7".to_owned()),
                now: if late { "2030-12-31T23:00:00Z" } else { "2030-01-01T01:00:00Z" }.parse().unwrap(),
                ..Ask::alice(&[member]).on(node).profile(profile)
            };
            let answer = |set| ask.of(set).map(|permit| permit.obligations().clone()).ok();
            if answer(&one) == answer(&other) {
                continue;
            }
            let told = diffed.changes.iter().any(|change| {
                let about = change.who == format!("group alpha/{member}") || change.who.starts_with("anyone of alpha");
                about && change.actions.contains(&action.as_str()) && change.nodes.contains(&node[..4])
            });
            prop_assert!(told, "{:?} of {:?}: {:#?}\n{}\n->\n{}", answer(&one), ask, diffed.changes, old.concat(), new.concat());
        }
        prop_assert!(old != new || diffed.changes.is_empty());
    }
}
