//! The policy of a verified publication, read with the very crate that decides on nodes.
//!
//! It decides nothing for a node: what the client finds here is what the node would say of the same publication.

use noderelay_bundle::Publication;
use noderelay_policy::{PolicyError, PolicySet};

/// The node rules in a publication.
const NODE_RULES: &str = "nodes.yaml";

/// The policies and node rules of `publication`.
///
/// # Errors
/// A policy or rule that a node would refuse, too.
pub fn policy(publication: &Publication) -> Result<PolicySet, PolicyError> {
    let rules = publication.file(NODE_RULES).unwrap_or_default();
    PolicySet::parse(publication.policy_version(), publication.policies(), rules)
}
