//! Policies of any scope and questions of any kind, for what must hold for all of them.

use noderelay_pki::name::ClusterName;
use proptest::prelude::*;

use super::{Ask, break_glass, user};
use crate::{Action, Path};

/// A policy of any scope that the schema takes, with one of some conditions.
pub(crate) fn any_policy() -> impl Strategy<Value = String> {
    let principal = prop::sample::select(vec![
        "principal",
        "principal is User",
        "principal is BreakGlass",
        r#"principal == User::"alpha/alice@example.org""#,
        r#"principal in User::"beta/alice@example.org""#,
        r#"principal in Group::"alpha/oncall""#,
        r#"principal in Group::"beta/oncall""#,
        r#"principal is User in Group::"alpha/dev""#,
        r#"principal in Group::"alpha/alpha/oncall""#,
    ]);
    let action = prop::sample::select(vec![
        "action",
        r#"action == Action::"shell""#,
        r#"action in [Action::"exec", Action::"shell"]"#,
        r#"action in [Action::"forward"]"#,
        r#"action in Action::"list""#,
    ]);
    let resource = prop::sample::select(vec![
        "resource",
        "resource is Node",
        r#"resource == Node::"alpha/gpu-1""#,
        r#"resource in Node::"alpha/cpu-1""#,
        r#"resource in Cluster::"alpha""#,
        r#"resource in Cluster::"beta""#,
        r#"resource in Tenant::"acme""#,
        r#"resource is Node in Tenant::"platform""#,
    ]);
    let condition = prop::sample::select(vec![
        "",
        "when { context.grant }",
        "unless { context has reason }",
        "when { context.bundle.fresh && resource.tenant == \"acme\" }",
        "when { principal in Group::\"alpha/dev\" }",
        "when { context.profile == \"elsewhere\" }",
        "when { context.time.offset(duration(\"9223372036854775807ms\")) > context.time }",
        "when { context.time < datetime(\"2030-05-06T07:08:09Z\") }",
        "unless { context.grant || context.path == \"api\" }",
        "when { context has reason && context.reason like \"INC-*\" }",
        "when { principal is User && principal.name like \"a*\" }",
        "unless { resource.name == \"gpu-1\" }",
        "when { context.grant && context.time.toTime() > duration(\"8h\") }",
        "unless { resource.hasTag(\"pool\") && resource.getTag(\"pool\") == \"gpu\" }",
    ]);
    let profile = prop::sample::select(vec!["", "diagnostic", "root", "elsewhere"]);
    (any::<bool>(), principal, action, resource, condition, profile).prop_map(
        |(permit, principal, action, resource, condition, profile)| {
            let profile = match profile {
                "" => String::new(),
                profile => format!("@profile(\"{profile}\") "),
            };
            let (profile, effect) = match permit {
                true => (profile.as_str(), "permit"),
                false => ("", "forbid"),
            };
            format!("{profile}{effect} ({principal}, {action}, {resource}) {condition};\n")
        },
    )
}

pub(crate) fn any_question() -> impl Strategy<Value = Ask> {
    let groups = prop::sample::subsequence(vec!["oncall", "dev", "beta/oncall", "alpha/oncall"], 0..=4);
    let node = prop::sample::select(vec!["gpu-1", "cpu-1", "lost-1", "none"]);
    let profile = prop::sample::select(vec!["diagnostic", "root", "elsewhere", "other"]);
    let action = prop::sample::select(Action::ALL.to_vec());
    let home = prop::sample::select(vec!["alpha", "beta"]);
    let cluster = prop::sample::select(vec!["alpha", "beta"]);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (groups, node, profile, action, home, cluster, flags).prop_map(
        |(groups, node, profile, action, home, cluster, (grant, fresh, reason, emergency))| Ask {
            principal: match emergency && grant {
                true => break_glass(home, "fire"),
                false => user(home, "alice@example.org"),
            },
            cluster: ClusterName::parse(cluster).unwrap(),
            action,
            path: Path::Relay,
            grant,
            fresh,
            reason: reason.then(|| "INC-7".to_owned()),
            ..Ask::alice(&groups).on(node).profile(profile)
        },
    )
}
