//! Which node is meant: from what was typed to a name in a cluster of the fleet.
//!
//! The name has to be exact (lower case, as the node's certificate has it). The cluster comes from the command line, else
//! from the configuration, else from the fleet when it has one cluster only. Pure.

use noderelay_bundle::FleetFile;
use noderelay_pki::Identity;
use noderelay_pki::identity::Role;
use noderelay_pki::name::{ClusterName, NodeName};
use noderelay_proto::code::{Code, Origin};

use crate::faults::Fault;

#[cfg(test)]
mod tests;

/// Most names of clusters that a message lists.
const MAX_LISTED: usize = 10;

/// A node of a cluster of this fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The node.
    pub node: NodeName,
    /// Its cluster.
    pub cluster: ClusterName,
    /// What its certificate has to say.
    pub identity: Identity,
}

impl Target {
    /// Finds the node `typed`.
    ///
    /// # Errors
    /// The name is none, or the cluster is not known or not decided.
    pub fn find(
        typed: &str,
        cluster: Option<&ClusterName>,
        configured: Option<&ClusterName>,
        fleet: &FleetFile,
    ) -> Result<Self, Fault> {
        let node = NodeName::parse(typed).map_err(|error| {
            let lower = typed.to_lowercase();
            let near = if NodeName::parse(&lower).is_ok() {
                format!("; {lower} would be one")
            } else {
                String::new()
            };
            Fault::new(Code::ClientNoSuchNode, Origin::Client, format!("{error}{near}"))
        })?;
        let cluster = match (cluster.or(configured), fleet.clusters.as_slice()) {
            (Some(named), _) if fleet.cluster(named).is_some() => named.clone(),
            (Some(named), _) => {
                let seen = format!("the fleet has no cluster {named}; it has {}", list(fleet));
                return Err(Fault::new(Code::ClientNoSuchNode, Origin::Client, seen));
            }
            (None, [only]) => only.name.clone(),
            (None, _) => {
                let seen = format!("{node} could be in any of the clusters {}", list(fleet));
                return Err(Fault::new(Code::ClientAmbiguous, Origin::Client, seen));
            }
        };
        let identity = Identity::new(fleet.trust_domain.clone(), cluster.clone(), Role::Node(node.clone()));
        Ok(Self {
            node,
            cluster,
            identity,
        })
    }
}

fn list(fleet: &FleetFile) -> String {
    let mut names: Vec<&str> = fleet
        .clusters
        .iter()
        .map(|cluster| cluster.name.as_str())
        .take(MAX_LISTED + 1)
        .collect();
    if names.len() > MAX_LISTED {
        names.truncate(MAX_LISTED);
        names.push("…");
    }
    names.join(", ")
}
