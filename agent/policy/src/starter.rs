//! Texts that a new policy repository starts with, and those of the demo.
//!
//! Starter: on-call has standing diagnostic access, root by grant only, tenants stay apart, nothing else. They are
//! ordinary policies: read them, then change them. Never: a rule that names one person.

use noderelay_pki::name::ClusterName;

/// The group of the demo's operator.
pub const DEMO_GROUP: &str = "demo-operators";
/// The profile of the demo: a login as the account that runs it.
pub const DEMO_PROFILE: &str = "login";
/// The group that the starter policies give diagnostic access to.
pub const ON_CALL_GROUP: &str = "oncall";
/// The tenant that the starter node rules give to every node of the cluster.
pub const PLATFORM_TENANT: &str = "platform";

/// The starter policies for a cluster: file name (without folder) and text.
pub fn policies(cluster: &ClusterName) -> Vec<(String, String)> {
    [
        ("on-call.cedar", include_str!("starter/on-call.cedar")),
        ("root.cedar", include_str!("starter/root.cedar")),
        ("tenants.cedar", include_str!("starter/tenants.cedar")),
    ]
    .map(|(name, text)| (name.to_owned(), of(text, cluster)))
    .into()
}

/// The starter node rules for a cluster: one catch-all.
pub fn node_rules(cluster: &ClusterName) -> String {
    of(include_str!("starter/nodes.yaml"), cluster)
}

/// The starter test table for a cluster: what its starter policies mean.
pub fn test_table(cluster: &ClusterName) -> String {
    of(include_str!("starter/tests.yaml"), cluster)
}

/// The demo's policies: its operators may open shells and run commands, with a login.
pub fn demo_policies(cluster: &ClusterName) -> Vec<(String, String)> {
    vec![("demo.cedar".to_owned(), of(include_str!("starter/demo.cedar"), cluster))]
}

/// The demo's node rules.
pub fn demo_node_rules(cluster: &ClusterName) -> String {
    of(include_str!("starter/demo-nodes.yaml"), cluster)
}

/// Puts the cluster in its place. Cluster names hold nothing that Cedar or YAML could read as anything else.
fn of(text: &str, cluster: &ClusterName) -> String {
    text.replace("@CLUSTER@", cluster.as_str())
}

#[cfg(test)]
mod tests;
