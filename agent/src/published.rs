//! The publication in force on this node, and the policy parsed from it.
//!
//! ```text
//! directory looked at → verified (noderelay-bundle) → policy parsed, cut for this node → both swapped at once
//!                     │                                                                 └ open sessions asked again
//!                     └ any fault: the last good one stays in force, the reason is kept for log and status
//! ```
//!
//! A disk that takes nothing is no fault of the publication: it counts all the same, and the store says in the log that it is
//! not kept.
//!
//! Never serves a publication whose policy did not parse, never forgets the last good one, never asks a server.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use noderelay_bundle::store::Accepted;
use noderelay_bundle::{BundleError, Publication, Store};
use noderelay_pki::name::{ClusterName, NodeName};
use noderelay_pki::tls::Live;
use noderelay_pki::trust::TrustAnchors;
use noderelay_policy::{PolicyError, PolicySet};
use tokio::sync::watch;

/// Name of the node rules in a publication.
const NODE_RULES: &str = "nodes.yaml";

/// A verified publication with its policy.
pub struct InForce {
    /// The verified files.
    pub publication: Publication,
    /// The parsed policy: all of it, or what can matter on this node.
    pub policy: PolicySet,
}

/// Why a publication was not taken.
#[derive(Debug, thiserror::Error)]
pub enum PublishedError {
    /// It did not verify.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// It verified, but its policy can't be used: the policy signers' to mend.
    #[error("policy of the verified publication {version}: {source}")]
    Policy {
        /// Version of the policy.
        version: u64,
        /// What the parser said.
        source: PolicyError,
    },
}

/// What a look at the directory came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Looked {
    /// Nothing has changed.
    Same,
    /// What is there is in force now.
    Taken,
    /// What is there can't be used; the last good one stays.
    Refused,
}

/// The publication on disk, followed as it changes.
pub struct Published {
    directory: PathBuf,
    store: Store,
    current: watch::Sender<Arc<InForce>>,
    trust: Live<TrustAnchors>,
    fault: Option<String>,
    /// Whose policies are asked for, once that is known.
    node: Option<(ClusterName, NodeName)>,
}

impl Published {
    /// Opens the store below `state` and puts the newest usable publication in force: the one in `directory`, else the
    /// last good one. The first root seen is pinned.
    ///
    /// # Errors
    /// When neither can be used.
    pub async fn open(directory: &Path, state: &Path, now: Timestamp) -> Result<Self, PublishedError> {
        let store = Store::open(&state.join("bundle"))?;
        if store.pinned()?.is_none() {
            let fingerprint = store.pin_first_use(directory)?;
            tracing::info!(%fingerprint, "root of trust pinned on first use");
        }
        let begun = store.begin(directory, now, usable).await?;
        let (publication, (policy, trust)) = (begun.publication, begun.made);
        let fault = begun.refused.map(|refused| refused.to_string());
        if let Some(fault) = &fault {
            tracing::warn!(%fault, "the publication can't be used; the last good one is in force");
        }
        let trust = Live::new(trust);
        let current = watch::channel(Arc::new(InForce { publication, policy })).0;
        Ok(Self {
            directory: directory.into(),
            store,
            current,
            trust,
            fault,
            node: None,
        })
    }

    /// From here on the policy is kept for questions about this node alone, which makes their answers faster.
    pub fn only_for(&mut self, cluster: &ClusterName, node: &NodeName) {
        self.node = Some((cluster.clone(), node.clone()));
        let current = self.current.borrow().clone();
        let (publication, policy) = (current.publication.clone(), current.policy.for_node(cluster, node));
        self.current.send_replace(Arc::new(InForce { publication, policy }));
    }

    /// Receives what is in force, now and after each change.
    pub fn watch(&self) -> watch::Receiver<Arc<InForce>> {
        self.current.subscribe()
    }

    /// The CAs of the publication in force.
    pub fn trust(&self) -> Live<TrustAnchors> {
        self.trust.clone()
    }

    /// What is wrong with the publication in the directory, while the last good one is in force.
    pub fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// Looks at the directory again. What verifies and can't be used is refused whole: it is neither in force nor kept.
    pub async fn refresh(&mut self, now: Timestamp) -> Looked {
        match self.store.load_accepted(&self.directory, now, usable).await {
            Ok(Accepted::Same(_)) => {
                self.fault = None;
                Looked::Same
            }
            Ok(Accepted::New(publication, (policy, trust))) => {
                self.fault = None;
                tracing::info!(version = publication.policy_version(), "a new publication is in force");
                self.trust.set(trust);
                let policy = match &self.node {
                    Some((cluster, node)) => policy.for_node(cluster, node),
                    None => policy,
                };
                self.current.send_replace(Arc::new(InForce { publication, policy }));
                Looked::Taken
            }
            Err(error) => {
                let fault = Some(error.to_string());
                if self.fault != fault {
                    tracing::warn!(%error, "the publication can't be used; the last good one stays in force");
                }
                self.fault = fault;
                Looked::Refused
            }
        }
    }
}

/// What the agent makes of a publication; it must be able to before the publication counts.
fn usable(publication: &Publication) -> Result<(PolicySet, TrustAnchors), PublishedError> {
    let trust = publication.fleet().trust_anchors()?;
    let version = publication.policy_version();
    let rules = publication.file(NODE_RULES).unwrap_or_default();
    let policy = PolicySet::parse(version, publication.policies(), rules)
        .map_err(|source| PublishedError::Policy { version, source })?;
    Ok((policy, trust))
}

#[cfg(test)]
mod tests;
