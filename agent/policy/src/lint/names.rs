//! Names that fit nothing: in policies, in node rules and in the principals file.
//!
//! Never: a question to the policy. What is compared here is written down.

use std::collections::BTreeSet;

use noderelay_pki::name::{ClusterName, NodeName};

use super::Finding;
use crate::entity::home_of;
use crate::nodes::UNASSIGNED;
use crate::survey::{Declared, Side};

pub(super) fn findings(side: &Side<'_>, declared: &Declared, findings: &mut Vec<Finding>) {
    in_policies(side, declared, findings);
    node_rules(side, declared, findings);
    persons(declared, findings);
}

fn in_policies(side: &Side<'_>, declared: &Declared, findings: &mut Vec<Finding>) {
    let clusters: BTreeSet<_> = declared.clusters.iter().map(ClusterName::as_str).collect();
    let tenants: BTreeSet<_> = side.set.nodes.tenants().collect();
    for known in &side.known {
        let place = known.rule.place.to_string();
        for uid in known.policy.entity_literals() {
            let name = uid.id().unescaped();
            let kind = uid.type_name().basename();
            match (kind, home_of(&uid)) {
                ("Group" | "User" | "BreakGlass" | "Node", None) => findings.push(Finding::warning(
                    "name-without-cluster",
                    &place,
                    format!("{uid} names no cluster, so it is nobody"),
                    format!("write {kind}::\"CLUSTER/{name}\""),
                )),
                ("Cluster", _) if !clusters.contains(name) => findings.push(unknown_cluster(&place, &uid.to_string())),
                (_, Some((cluster, _))) if !clusters.contains(cluster) => {
                    findings.push(unknown_cluster(&place, &uid.to_string()));
                }
                ("Group", Some((cluster, group))) => {
                    let is_it = |(home, name): &(ClusterName, noderelay_pki::name::GroupName)| {
                        home.as_str() == cluster && name.as_str() == group
                    };
                    if !declared.groups.iter().any(is_it) {
                        findings.push(Finding::warning(
                            "undeclared-group",
                            &place,
                            format!("{uid} is not in principals.yaml, so no certificate will carry it"),
                            "add it to the groups of principals.yaml, or mend its name",
                        ));
                    }
                }
                ("Node", Some((cluster, node))) => {
                    let names = ClusterName::parse(cluster).and_then(|c| Ok((c, NodeName::parse(node)?)));
                    if !names.is_ok_and(|(cluster, node)| side.set.node_facts(&cluster, &node).is_assigned()) {
                        findings.push(Finding::warning(
                            "unassigned",
                            &place,
                            format!(
                                "no rule of nodes.yaml matches {uid}: its tenant is {UNASSIGNED}, and nobody gets in"
                            ),
                            "add a node rule, or mend the name",
                        ));
                    }
                }
                ("Tenant", _) if !tenants.contains(name) => findings.push(Finding::warning(
                    "unknown-tenant",
                    &place,
                    format!("no rule of nodes.yaml gives a node {uid}"),
                    "add a node rule, or mend the name",
                )),
                _ => {}
            }
        }
    }
}

fn unknown_cluster(place: &str, uid: &str) -> Finding {
    Finding::warning(
        "unknown-cluster",
        place,
        format!("{uid}: fleet.yaml has no such cluster"),
        "mend the name, or add the cluster",
    )
}

fn node_rules(side: &Side<'_>, declared: &Declared, findings: &mut Vec<Finding>) {
    let rules = &side.set.nodes;
    for number in (0..rules.len()).filter(|number| rules.is_catch_all(*number)) {
        let pattern = rules.pattern(number).unwrap_or_default();
        findings.push(Finding::warning(
            "catch-all-node-rule",
            format!("nodes.yaml, rule {}", number + 1),
            format!("{pattern} takes every node that no earlier rule took, also one that somebody adds tomorrow"),
            "keep it when that is meant; else name the nodes or pools",
        ));
    }
    for cluster in declared.clusters.iter().filter(|cluster| !rules.has_any_for(cluster)) {
        findings.push(Finding::warning(
            "unassigned",
            "nodes.yaml",
            format!("no rule is for cluster {cluster}: all of its nodes have the tenant {UNASSIGNED}"),
            "add a rule for its nodes",
        ));
    }
}

/// A person is compared by username. One whose end its bearer chooses is anybody's.
fn persons(declared: &Declared, findings: &mut Vec<Finding>) {
    for person in &declared.persons {
        for (cluster, name) in person.usernames.iter().filter(|(_, name)| is_chosen(name)) {
            findings.push(Finding::error(
                "caller-chosen-name",
                format!("principals.yaml, person {}", person.name),
                format!("{name} of cluster {cluster} ends in a session name, which whoever assumes the role chooses"),
                "give the person a role or an IAM user of their own, and map it to a fixed username without {{SessionName}}",
            ));
        }
    }
}

/// Whether it is how EKS writes an assumed role (`arn:aws:sts::ACCOUNT:assumed-role/ROLE/SESSION`), or a template of one.
fn is_chosen(name: &str) -> bool {
    let assumed = name
        .split_once(":assumed-role/")
        .is_some_and(|(front, role)| front.starts_with("arn:aws") && front.contains(":sts::") && role.contains('/'));
    assumed || name.contains("{{SessionName")
}
