//! The publication in force on this node, and the policy parsed from it.
//!
//! ```text
//! directory looked at → verified (noderelay-bundle) → policy parsed → both swapped at once → open sessions asked again
//!                     └ any fault: the last good one stays in force, the reason is kept for log and status
//! ```
//!
//! Never serves a publication whose policy did not parse, never forgets the last good one, never asks a server.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use noderelay_bundle::{BundleError, Publication, Store};
use noderelay_pki::tls::Live;
use noderelay_pki::trust::TrustAnchors;
use noderelay_policy::{PolicyError, PolicySet};
use tokio::sync::watch;

/// Name of the node rules in a publication.
const NODE_RULES: &str = "nodes.yaml";
/// Folder of the policies in a publication.
const POLICIES: &str = "policies/";

/// A verified publication with its policy.
pub struct InForce {
    /// The verified files.
    pub publication: Publication,
    /// The parsed policy.
    pub policy: PolicySet,
}

/// Why a publication was not taken.
#[derive(Debug, thiserror::Error)]
pub enum PublishedError {
    /// It did not verify.
    #[error("publication {directory}: {source}", directory = .directory.display())]
    Bundle {
        /// Where it lies.
        directory: PathBuf,
        /// Why not.
        source: BundleError,
    },
    /// It verified, but its policy can't be used: the policy signers' to mend.
    #[error("policy of the verified publication {version}: {source}")]
    Policy {
        /// Version of the policy.
        version: u64,
        /// What the parser said.
        source: PolicyError,
    },
}

/// The publication on disk, followed as it changes.
pub struct Published {
    directory: PathBuf,
    store: Store,
    current: watch::Sender<Option<Arc<InForce>>>,
    trust: Live<TrustAnchors>,
    fault: Option<String>,
}

impl Published {
    /// Opens the store below `state` and puts the newest usable publication in force: the one in `directory`, else the
    /// last good one. The first root seen is pinned.
    ///
    /// # Errors
    /// When neither can be used.
    pub async fn open(directory: &Path, state: &Path, now: Timestamp) -> Result<Self, PublishedError> {
        let bundle = |source| PublishedError::Bundle {
            directory: directory.into(),
            source,
        };
        let store = Store::open(&state.join("bundle")).map_err(bundle)?;
        if store.pinned().map_err(bundle)?.is_none() {
            let fingerprint = store.pin_first_use(directory).map_err(bundle)?;
            tracing::info!(%fingerprint, "root of trust pinned on first use");
        }
        let ((first, trust), fault) = match load(&store, directory, now).await {
            Ok(first) => (first, None),
            Err(error) => match last_good(&store, directory, now).await {
                Some(last) => (last, Some(error.to_string())),
                None => return Err(error),
            },
        };
        if let Some(fault) = &fault {
            tracing::warn!(%fault, "the publication can't be used; the last good one is in force");
        }
        let trust = Live::new(trust);
        let current = watch::channel(Some(Arc::new(first))).0;
        Ok(Self {
            directory: directory.into(),
            store,
            current,
            trust,
            fault,
        })
    }

    /// Receives what is in force, now and after each change.
    pub fn watch(&self) -> watch::Receiver<Option<Arc<InForce>>> {
        self.current.subscribe()
    }

    /// The CAs of the publication in force.
    pub fn trust(&self) -> Live<TrustAnchors> {
        self.trust.clone()
    }

    /// Looks at the directory again.
    pub async fn refresh(&mut self, now: Timestamp) {
        match load(&self.store, &self.directory, now).await {
            Ok((new, trust)) => {
                self.fault = None;
                let held = self.current.borrow().as_ref().map(|held| held.publication.versions());
                if held != Some(new.publication.versions()) {
                    tracing::info!(
                        version = new.publication.policy_version(),
                        "a new publication is in force"
                    );
                    self.trust.set(trust);
                    self.current.send_replace(Some(Arc::new(new)));
                }
            }
            Err(error) => {
                let fault = Some(error.to_string());
                if self.fault != fault {
                    tracing::warn!(%error, "the publication can't be used; the last good one stays in force");
                }
                self.fault = fault;
            }
        }
    }
}

async fn load(store: &Store, directory: &Path, now: Timestamp) -> Result<(InForce, TrustAnchors), PublishedError> {
    let loaded = store.load(directory, now).await;
    in_force(
        directory,
        loaded.map_err(|source| PublishedError::Bundle {
            directory: directory.into(),
            source,
        })?,
    )
}

async fn last_good(store: &Store, directory: &Path, now: Timestamp) -> Option<(InForce, TrustAnchors)> {
    match store.last_good(now).await {
        Ok(found) => in_force(directory, found?)
            .inspect_err(|error| tracing::error!(%error, "the last good publication"))
            .ok(),
        Err(error) => {
            tracing::error!(%error, "the last good publication can't be read");
            None
        }
    }
}

/// What was verified, parsed; with its CAs. A fault in either leaves everything as it is.
fn in_force(directory: &Path, publication: Publication) -> Result<(InForce, TrustAnchors), PublishedError> {
    let trust = publication.fleet().trust_anchors();
    let trust = trust.map_err(|source| PublishedError::Bundle {
        directory: directory.into(),
        source,
    })?;
    let version = publication.policy_version();
    let policies: Vec<(String, Vec<u8>)> = publication
        .files(POLICIES)
        .map(|(name, bytes)| (name.to_owned(), bytes.to_vec()))
        .collect();
    let rules = publication.file(NODE_RULES).unwrap_or_default();
    let policy =
        PolicySet::parse(version, &policies, rules).map_err(|source| PublishedError::Policy { version, source })?;
    Ok((InForce { publication, policy }, trust))
}
