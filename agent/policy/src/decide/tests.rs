//! Default deny, errors deny, tiers and obligations, and refusals that say what is missing.

use std::time::Duration;

use noderelay_pki::identity::Role;
use noderelay_pki::name::{NodeName, RelayName};
use proptest::prelude::*;

use crate::testing::{Ask, break_glass, identity, set, user};
use crate::{Action, DenialKind, Missing, Path, PolicySet, RecordLevel, Tier, starter};

const ON_CALL: &str = r#"
@id("standing") @profile("diagnostic") @record("required") @max_duration("8h") @idle("30m")
permit (principal in Group::"alpha/oncall", action in [Action::"shell", Action::"exec"], resource in Cluster::"alpha");
"#;

fn kind(result: Result<crate::Permit, crate::Denial>) -> DenialKind {
    result.unwrap_err().kind
}

#[test]
fn nothing_is_permitted_without_a_rule() {
    let empty = set("").unwrap();
    for action in Action::ALL {
        let denial = Ask {
            action,
            ..Ask::alice(&["oncall"])
        }
        .of(&empty)
        .unwrap_err();
        assert_eq!((denial.kind, denial.missing), (DenialKind::NoRule, Missing::Rule));
    }
    assert_eq!(
        kind(
            PolicySet::parse(1, crate::testing::NONE, b"rules: []")
                .map(|s| Ask::alice(&[]).of(&s))
                .unwrap()
        ),
        DenialKind::Unassigned
    );
}

#[test]
fn a_rule_permits_exactly_what_it_says() {
    let set = set(ON_CALL).unwrap();
    let permit = Ask::alice(&["dev", "oncall"]).of(&set).unwrap();
    assert_eq!(permit.rules(), ["standing"]);
    assert_eq!(permit.version(), 7);
    assert_eq!((permit.action(), permit.node().as_str()), (Action::Shell, "gpu-1"));
    assert_eq!(permit.principal(), &user("alpha", "alice@example.org"));
    let obligations = permit.obligations();
    assert_eq!(obligations.record, RecordLevel::Required);
    assert_eq!(obligations.max_duration, Some(Duration::from_secs(8 * 3600)));
    assert_eq!(obligations.idle, Some(Duration::from_secs(1800)));
    assert_eq!(obligations.profile.as_str(), "diagnostic");
    assert_eq!(obligations.tier, Tier::Standing);

    assert_eq!(kind(Ask::alice(&["dev"]).of(&set)), DenialKind::NoRule);
    assert_eq!(kind(Ask::alice(&["Oncall"]).of(&set)), DenialKind::NoRule);
    assert_eq!(
        kind(
            Ask {
                action: Action::Forward,
                ..Ask::alice(&["oncall"])
            }
            .of(&set)
        ),
        DenialKind::NoRule
    );
}

#[test]
fn names_that_look_like_other_names_are_not_them() {
    let set = set(r#"permit (principal == User::"alpha/alice", action, resource); permit (principal in Group::"beta/oncall", action, resource);"#).unwrap();
    let ask = |name: &str, groups: &[&str]| {
        Ask {
            principal: user("alpha", name),
            ..Ask::alice(groups)
        }
        .of(&set)
    };
    assert!(ask("alice", &[]).is_ok());
    for name in ["Alice", "alice ", "alice@example.org", "alpha/alice", "alicе"] {
        assert_eq!(kind(ask(name, &[])), DenialKind::NoRule, "{name}");
    }
    // A group of this cluster cannot spell itself into another cluster.
    for group in [
        "oncall",
        "beta/oncall",
        "/beta/oncall",
        "../beta/oncall",
        "\"beta/oncall",
    ] {
        assert_eq!(kind(ask("mallory", &[group])), DenialKind::NoRule, "{group}");
    }
}

#[test]
fn principals_of_other_clusters_are_refused_even_by_a_rule_for_everybody() {
    let set = set("permit (principal, action, resource);").unwrap();
    let denial = Ask {
        principal: user("beta", "alice"),
        ..Ask::alice(&["oncall"])
    }
    .of(&set)
    .unwrap_err();
    assert_eq!(
        (denial.kind, denial.missing),
        (DenialKind::ForeignPrincipal, Missing::Identity)
    );
    assert!(denial.seen.contains("cluster beta"), "{denial}");
}

#[test]
fn only_persons_ask() {
    let set = set("permit (principal, action, resource);").unwrap();
    for role in [
        Role::Node(NodeName::parse("n").unwrap()),
        Role::Relay(RelayName::parse("r").unwrap()),
    ] {
        let ask = Ask {
            principal: identity("alpha", role),
            ..Ask::alice(&[])
        };
        assert_eq!(kind(ask.of(&set)), DenialKind::WrongRole);
    }
    let ask = Ask {
        principal: break_glass("alpha", "fire"),
        ..Ask::alice(&[]).granted()
    };
    let denial = ask.of(&set).unwrap_err();
    assert_eq!(
        (denial.kind, denial.missing),
        (DenialKind::NeedsActivation, Missing::Grant)
    );
}

#[test]
fn nodes_that_no_rule_names_are_closed() {
    let set = set("permit (principal, action, resource);").unwrap();
    let denial = Ask::alice(&["oncall"]).on("other-1").of(&set).unwrap_err();
    assert_eq!(
        (denial.kind, denial.missing),
        (DenialKind::Unassigned, Missing::NodeRule)
    );
}

#[test]
fn tenant_and_labels_come_from_the_node_rules() {
    let set = set(r#"
        permit (principal, action, resource in Tenant::"platform");
        permit (principal, action, resource) when { resource.hasTag("k8s.io/arch") && resource.getTag("k8s.io/arch") == "amd64" && resource.tenant == "acme" };
    "#).unwrap();
    assert!(Ask::alice(&[]).of(&set).is_ok());
    assert!(Ask::alice(&[]).on("cpu-1").of(&set).is_ok());
    assert_eq!(kind(Ask::alice(&[]).on("lost-1").of(&set)), DenialKind::NoRule);
}

#[test]
fn an_error_in_any_rule_denies_and_names_the_rule() {
    let broken = r#"@id("overflows") permit (principal, action, resource) when { context.time.offset(duration("9223372036854775807ms")) > context.time };"#;
    let forbid = r#"@id("overflows") forbid (principal, action, resource) when { context.time.offset(duration("9223372036854775807ms")) > context.time };"#;
    for broken in [broken, forbid] {
        let set = set(&format!("{ON_CALL}{broken}")).unwrap();
        let denial = Ask::alice(&["oncall"]).of(&set).unwrap_err();
        assert_eq!((denial.kind, denial.missing), (DenialKind::PolicyError, Missing::Rule));
        assert!(denial.seen.contains("rule overflows"), "{denial}");
        // The same with a grant: the second evaluation is no way around it.
        assert_eq!(
            kind(Ask::alice(&["oncall"]).granted().of(&set)),
            DenialKind::PolicyError
        );
    }
    // A rule that fails only without a grant denies as well: the tier cannot be told.
    let without = r#"@id("half") permit (principal, action, resource) when { context.grant || context.time.offset(duration("9223372036854775807ms")) > context.time };"#;
    let set = set(&format!("{ON_CALL}{without}")).unwrap();
    assert_eq!(
        kind(Ask::alice(&["oncall"]).granted().of(&set)),
        DenialKind::PolicyError
    );
}

#[test]
fn a_time_that_the_policy_cannot_read_denies() {
    let set = set(ON_CALL).unwrap();
    let ask = Ask {
        now: "-000044-03-15T12:00:00Z".parse().unwrap(),
        ..Ask::alice(&["oncall"])
    };
    assert_eq!(kind(ask.of(&set)), DenialKind::PolicyError);
}

#[test]
fn a_forbid_wins_and_is_named() {
    let set = set(&format!(
        "{ON_CALL} @id(\"freeze\") forbid (principal, action, resource) when {{ resource.tenant == \"acme\" }};"
    ))
    .unwrap();
    let denial = Ask::alice(&["oncall"]).of(&set).unwrap_err();
    assert_eq!(denial.kind, DenialKind::Forbidden);
    assert!(denial.seen.contains("freeze"), "{denial}");
    assert!(Ask::alice(&["oncall"]).on("cpu-1").of(&set).is_ok());
}

#[test]
fn the_strictest_obligation_of_the_deciding_tier_wins() {
    let set = set(&format!(
        r#"{ON_CALL}
        @id("short") @max_duration("1h") permit (principal in Group::"alpha/dev", action, resource);
        @id("strict") @record("strict") @idle("2h") permit (principal in Group::"alpha/audit", action, resource);
        @id("granted") @max_duration("4h") permit (principal, action, resource) when {{ context.grant }};
    "#
    ))
    .unwrap();
    let permit = Ask::alice(&["oncall", "dev", "audit"]).of(&set).unwrap();
    assert_eq!(permit.rules(), ["short", "standing", "strict"]);
    let o = permit.obligations();
    assert_eq!((o.record, o.tier), (RecordLevel::Strict, Tier::Standing));
    assert_eq!(
        (o.max_duration, o.idle),
        (Some(Duration::from_secs(3600)), Some(Duration::from_secs(1800)))
    );

    // With a grant the rule that needs it decides alone.
    let permit = Ask::alice(&["oncall", "dev", "audit"]).granted().of(&set).unwrap();
    assert_eq!(permit.rules(), ["granted"]);
    let o = permit.obligations();
    assert_eq!((o.record, o.tier), (RecordLevel::Required, Tier::Grant));
    assert_eq!((o.max_duration, o.idle), (Some(Duration::from_secs(4 * 3600)), None));
}

#[test]
fn a_grant_that_no_rule_asks_for_changes_nothing() {
    let set = set(ON_CALL).unwrap();
    let permit = Ask::alice(&["oncall"]).granted().of(&set).unwrap();
    assert_eq!(
        (permit.rules(), permit.obligations().tier),
        (&["standing".to_owned()][..], Tier::Standing)
    );
}

#[test]
fn a_grant_that_lifts_a_forbid_is_the_tier_of_a_grant() {
    let set = set(&format!(
        "{ON_CALL} forbid (principal, action, resource) unless {{ context.grant }};"
    ))
    .unwrap();
    assert_eq!(kind(Ask::alice(&["oncall"]).of(&set)), DenialKind::NeedsGrant);
    assert_eq!(
        Ask::alice(&["oncall"]).granted().of(&set).unwrap().obligations().tier,
        Tier::Grant
    );
}

#[test]
fn a_refusal_names_what_is_missing() {
    let set = set(&format!(r#"{ON_CALL}
        @profile("root") permit (principal in Group::"alpha/oncall", action, resource) when {{ context.grant && context has reason }};
        @profile("toolbox") permit (principal in Group::"alpha/oncall", action, resource) when {{ context has reason }};
        @profile("fresh") permit (principal, action, resource) when {{ context.bundle.fresh }};
        permit (principal, action, resource) when {{ context.profile == "plain" && context.grant }};
    "#)).unwrap();
    let oncall = || Ask::alice(&["oncall"]);
    let table = [
        (
            oncall().profile("root"),
            DenialKind::NeedsGrant,
            Missing::Grant,
            "a grant and a reason",
        ),
        (
            oncall().profile("root").reason("INC-7"),
            DenialKind::NeedsGrant,
            Missing::Grant,
            "a grant would",
        ),
        (
            oncall().profile("root").granted(),
            DenialKind::NeedsReason,
            Missing::Rule,
            "a reason would",
        ),
        (
            oncall().profile("toolbox"),
            DenialKind::NeedsReason,
            Missing::Rule,
            "a reason would",
        ),
        (
            oncall().profile("toolbox").reason(""),
            DenialKind::NeedsReason,
            Missing::Rule,
            "a reason would",
        ),
        (
            oncall().profile("other"),
            DenialKind::WrongProfile,
            Missing::Rule,
            "diagnostic or fresh",
        ),
        (
            oncall().profile("plain"),
            DenialKind::NeedsGrant,
            Missing::Grant,
            "a grant would",
        ),
        (
            Ask {
                fresh: false,
                ..oncall().profile("fresh")
            },
            DenialKind::NotFresh,
            Missing::Bundle,
            "a fresh bundle",
        ),
        (Ask::alice(&["dev"]), DenialKind::WrongProfile, Missing::Rule, "fresh"),
    ];
    for (ask, kind, missing, text) in table {
        let denial = ask.of(&set).unwrap_err();
        assert_eq!((denial.kind, denial.missing), (kind, missing), "{denial}");
        assert!(denial.seen.contains(text), "{denial}");
        assert!(denial.seen.contains("alice@example.org of cluster alpha"), "{denial}");
        assert!(
            denial.seen.contains("asked for shell on alpha/gpu-1 (tenant acme)"),
            "{denial}"
        );
    }
    assert!(oncall().profile("root").reason("INC-7").granted().of(&set).is_ok());
}

#[test]
fn a_refusal_is_short_and_without_controls_whatever_is_asked() {
    let set = set("").unwrap();
    let mut ask = Ask::alice(&["a\"b", "b", "c", "d", "e", "f", "g"]);
    ask.principal = user("alpha", &"ä".repeat(512));
    ask.reason = Some("\u{1b}[2J\u{202e}".repeat(100));
    ask.node = NodeName::parse("gpu-1").unwrap();
    let seen = ask.of(&set).unwrap_err().seen;
    assert!(
        seen.chars().count() <= 601 && seen.len() < 1024,
        "{} {seen}",
        seen.len()
    );
    assert!(!seen.chars().any(char::is_control));
    assert!(seen.contains("and 2 more"), "{seen}");
}

#[test]
fn time_is_that_of_the_question() {
    let set = set(r#"permit (principal, action, resource) when {
        datetime("2030-05-06T07:08:09.123Z") <= context.time && context.time.toTime() < duration("8h") };"#)
    .unwrap();
    assert!(Ask::alice(&[]).of(&set).is_ok());
    for now in ["2030-05-06T07:08:09.122Z", "2030-05-06T08:00:00Z"] {
        assert!(
            Ask {
                now: now.parse().unwrap(),
                ..Ask::alice(&[])
            }
            .of(&set)
            .is_err()
        );
    }
}

fn any_ask() -> impl Strategy<Value = Ask> {
    let groups = prop::sample::subsequence(vec!["oncall", "demo-operators", "dev", "alpha/oncall"], 0..=4);
    let node = prop::sample::select(vec!["gpu-1", "cpu-1", "lost-1", "none"]);
    let profile = prop::sample::select(vec!["diagnostic", "root", "login", "toolbox"]);
    let action = prop::sample::select(Action::ALL.to_vec());
    let cluster = prop::sample::select(vec!["alpha", "beta"]);
    let path = prop::sample::select(vec![Path::Api, Path::Relay, Path::Direct]);
    let reason = prop::option::of("[a-zA-Z0-9\" ]{0,8}");
    (
        groups,
        node,
        profile,
        action,
        cluster,
        path,
        (any::<bool>(), any::<bool>(), reason),
    )
        .prop_map(
            |(groups, node, profile, action, cluster, path, (grant, fresh, reason))| Ask {
                principal: user(cluster, "alice"),
                action,
                path,
                grant,
                fresh,
                reason,
                ..Ask::alice(&groups).on(node).profile(profile)
            },
        )
}

proptest! {
    #[test]
    fn root_is_never_standing_in_the_starter_policies(ask in any_ask()) {
        let alpha = ask.cluster.clone();
        let texts: Vec<_> = starter::policies(&alpha).into_iter().map(|(n, t)| (n, t.into_bytes())).collect();
        let set = PolicySet::parse(1, texts, b"rules: [{nodes: 'alpha/cpu-*', tenant: platform}, {nodes: 'alpha/gpu-*', tenant: acme}]").unwrap();
        if let Ok(permit) = ask.of(&set) {
            prop_assert!(ask.groups.iter().any(|group| group.as_str() == "oncall"));
            prop_assert_eq!(ask.node.as_str(), "cpu-1");
            prop_assert_eq!(ask.principal.cluster.as_str(), "alpha");
            prop_assert!(matches!(ask.action, Action::Shell | Action::Exec | Action::List));
            match ask.profile.as_str() {
                "root" => prop_assert!(ask.grant && ask.reason.is_some() && permit.obligations().tier == Tier::Grant),
                profile => prop_assert_eq!(profile, "diagnostic"),
            }
        }
    }

    #[test]
    fn the_path_decides_nothing_in_the_starter_policies(ask in any_ask()) {
        let texts: Vec<_> = starter::policies(&ask.cluster).into_iter().map(|(n, t)| (n, t.into_bytes())).collect();
        let set = PolicySet::parse(1, texts, crate::testing::NODES.as_bytes()).unwrap();
        let outcome = |path| Ask { path, ..ask.clone() }.of(&set).map(|permit| permit.rules().to_vec()).map_err(|d| d.kind);
        prop_assert_eq!(outcome(Path::Api), outcome(Path::Relay));
        prop_assert_eq!(outcome(Path::Api), outcome(Path::Direct));
    }
}
