//! What the relay runs on and follows as it changes: its own identity, and the signed bundle.
//!
//! ```text
//! start:  identity files ─> Credentials (must be a relay's)   bundle ─> store ─> Publication (or the last good one)
//! then, every `reread`:
//!   files changed and good ─> in force from the next handshake on
//!   bundle changed, verified and ours ─> kept; trust and map replaced, every connection looks at its peer again
//!   anything broken ─> the last good one stays in force, the part is not ready, the reason is logged once
//! ```
//!
//! An expired bundle stays in force here: relays decide nothing about sessions, and expiry must not take the last way
//! in. How fresh it is stands in the metrics and in `/readyz`'s text.
//!
//! Never: goes back to an older bundle, takes another relay's identity, or runs without trust.

use std::path::PathBuf;

use jiff::Timestamp;
use noderelay_bundle::{Accepted, BundleError, Publication, Role as Document, Store};
use noderelay_pki::files::{self, Checked, FileError, Watched};
use noderelay_pki::identity::Role;
use noderelay_pki::name::RelayName;
use noderelay_pki::tls::{Credentials, Live, Party, TlsError};
use noderelay_pki::trust::TrustAnchors;
use noderelay_pki::{Identity, text};
use tracing::{info, warn};

use crate::config::Config;
use crate::route::Map;
use crate::state::Relay;
use noderelay_service::metrics::Material as Kind;

/// Longest root document.
const MAX_ROOT: usize = 1 << 20;

/// Names of the parts of readiness that are set here.
pub(crate) const IDENTITY: &str = "identity";
/// See [`IDENTITY`].
pub(crate) const BUNDLE: &str = "bundle";

/// The relay can't start on what it was given.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MaterialError {
    /// Certificate or key.
    #[error("identity: {0}")]
    Identity(#[from] TlsError),
    /// A certificate of another role.
    #[error("identity: {identity} is no relay; issue one with `noderelay pki issue` for a relay of this cluster")]
    NotARelay {
        /// Whose certificate it is.
        identity: Box<Identity>,
    },
    /// The root document can't be read.
    #[error("root: {0}")]
    Root(#[from] FileError),
    /// Neither a good bundle nor a last good one.
    #[error("bundle: {0}")]
    Bundle(#[from] BundleError),
    /// The bundle belongs to other people.
    #[error("bundle: it is for trust domain {bundle}, and this relay's certificate is of {own}")]
    OtherTrustDomain {
        /// The bundle's.
        bundle: String,
        /// The relay's.
        own: String,
    },
}

impl MaterialError {
    /// The name of the reason in logs.
    fn code(&self) -> &'static str {
        match self {
            Self::Bundle(error) => error.code(),
            Self::OtherTrustDomain { .. } => "bundle.other_trust_domain",
            Self::Identity(_) | Self::NotARelay { .. } | Self::Root(_) => "identity",
        }
    }
}

/// What is followed.
#[derive(Debug)]
pub(crate) struct Material {
    identity: Watched<Credentials>,
    own: Identity,
    store: Store,
    publication: PathBuf,
    in_force: Publication,
    reported: Option<String>,
}

/// What a relay starts with.
pub(crate) struct Start {
    pub(crate) name: RelayName,
    pub(crate) party: Party,
    pub(crate) map: Live<Map>,
}

impl Material {
    /// Reads everything for the first time.
    pub(crate) async fn open(config: &Config, now: Timestamp) -> Result<(Self, Start), MaterialError> {
        let identity = Credentials::watch(&config.identity.certificate, &config.identity.key, now)?;
        let own = identity.live().get().identity().clone();
        let Role::Relay(name) = &own.role else {
            return Err(MaterialError::NotARelay {
                identity: Box::new(own),
            });
        };
        let name = name.clone();
        files::private_directory(&config.state)?;
        let store = Store::open(&config.state.join("bundle"))?;
        match &config.root {
            Some(root) => store.pin(&files::read_bounded(root, MAX_ROOT)?)?,
            None => store.pin_first_use(&config.bundle)?,
        };
        let accept = |publication: &Publication| usable(&own, publication);
        let begun = store.begin(&config.bundle, now, accept).await?;
        let (in_force, anchors) = (begun.publication, begun.made);
        if let Some(error) = begun.refused {
            let version = in_force.policy_version();
            warn!(code = error.code(), %error, version, "bundle refused; going on with the last good one");
        }
        let party = Party::new(identity.live(), Live::new(anchors));
        let map = Live::new(Map::new(own.cluster.clone(), in_force.fleet()));
        let material = Self {
            identity,
            own,
            store,
            publication: config.bundle.clone(),
            in_force,
            reported: None,
        };
        Ok((material, Start { name, party, map }))
    }

    /// Says in metrics and readiness what is in force.
    pub(crate) fn tell(&self, relay: &Relay, now: Timestamp) {
        let metrics = &relay.metrics.common;
        metrics
            .bundle_version
            .set(i64::try_from(self.in_force.policy_version()).unwrap_or(i64::MAX));
        metrics
            .bundle_fresh_until
            .set(self.in_force.expires(Document::Timestamp).as_second());
        let freshness = self.in_force.freshness(now);
        let stale = (!freshness.usable()).then(|| freshness.to_string());
        relay.health.set(BUNDLE, self.reported.clone().or(stale));
        let expired = relay
            .party
            .credentials
            .get()
            .check(now)
            .err()
            .map(|error| error.to_string());
        relay
            .health
            .set(IDENTITY, self.identity.failing().map(str::to_owned).or(expired));
    }

    /// Looks at everything again.
    pub(crate) async fn check(&mut self, relay: &Relay, now: Timestamp) {
        self.check_identity(relay, now);
        self.check_bundle(relay, now).await;
        self.tell(relay, now);
    }

    fn check_identity(&mut self, relay: &Relay, now: Timestamp) {
        match self.identity.check(now) {
            Checked::Same => {}
            Checked::Changed => {
                relay.metrics.common.reloaded(Kind::Identity, true);
                let credentials = relay.party.credentials.get();
                info!(not_after = %credentials.not_after(), key = credentials.key_fingerprint(), "identity changed");
            }
            Checked::Kept { error, known } => {
                relay.metrics.common.reloaded(Kind::Identity, false);
                if !known {
                    warn!(%error, "identity not taken over; the last good one stays");
                }
            }
        }
    }

    async fn check_bundle(&mut self, relay: &Relay, now: Timestamp) {
        let accept = |publication: &Publication| usable(&self.own, publication);
        match self.store.load_accepted(&self.publication, now, accept).await {
            Ok(Accepted::Same(_)) => self.reported = None,
            Ok(Accepted::New(publication, anchors)) => {
                self.reported = None;
                self.take(relay, publication, anchors);
            }
            Err(error) => {
                relay.metrics.common.reloaded(Kind::Bundle, false);
                let seen = text::escape(&error.to_string(), 400);
                if self.reported.as_ref() != Some(&seen) {
                    warn!(code = error.code(), %error, "bundle not taken over; the last good one stays");
                }
                self.reported = Some(seen);
            }
        }
    }

    fn take(&mut self, relay: &Relay, publication: Publication, anchors: TrustAnchors) {
        let fleet = publication.fleet();
        relay.metrics.common.reloaded(Kind::Bundle, true);
        let changed = fleet != self.in_force.fleet();
        info!(
            version = publication.policy_version(),
            fleet_changed = changed,
            "bundle changed"
        );
        if changed {
            relay.party.trust.set(anchors);
            relay.map.set(Map::new(self.own.cluster.clone(), fleet));
            relay.trust_changes.send_modify(|changes| *changes += 1);
        }
        self.in_force = publication;
    }
}

/// What the relay needs of a publication: that it is for its own people, and the authorities that it trusts.
fn usable(own: &Identity, publication: &Publication) -> Result<TrustAnchors, MaterialError> {
    let fleet = publication.fleet();
    if fleet.trust_domain != own.trust_domain {
        return Err(MaterialError::OtherTrustDomain {
            bundle: fleet.trust_domain.to_string(),
            own: own.trust_domain.to_string(),
        });
    }
    Ok(fleet.trust_anchors()?)
}
