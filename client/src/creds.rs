//! The first step of every command: who am I, and what does the signed bundle say.
//!
//! ```text
//! certificate + key ─┐
//! root of trust ─> store ─> publication (verified, newest; else the last good one) ─> Creds
//! ```
//!
//! A client never takes the root of trust from a cluster or from the publication itself: it is a file (or a fingerprint)
//! that came out of band, pinned at first use and replaced later only by a rotation that the old root signed.
//!
//! An expired bundle is no error here: nodes judge, and break-glass has to work.

use std::path::PathBuf;

use jiff::Timestamp;
use noderelay_bundle::{Begun, BundleError, Publication, Store};
use noderelay_link::identity_code;
use noderelay_pki::files::{self, FileError};
use noderelay_pki::tls::{Credentials, Live, Party, TlsError};
use noderelay_pki::trust::TrustAnchors;
use noderelay_pki::{PeerRefused, Usage};
use noderelay_proto::code::{Code, Origin};
use thiserror::Error;

use crate::config::Config;
use crate::faults::Fault;
use crate::inner::Refusal;
use crate::whoami::PERSONS;

/// Largest root file that is read.
const MAX_ROOT: usize = 512 * 1024;

/// What a client needs before it can speak to anybody.
#[derive(Debug)]
pub struct Creds {
    /// Own credentials, and whom to trust.
    pub party: Party,
    /// The verified publication.
    pub publication: Publication,
    /// Why the publication in the directory was not taken, when an older one is in force.
    pub stale_because: Option<BundleError>,
    /// Why the fleet file in force here refuses our own certificate. Others judge by theirs, so it stops nothing.
    refused: Option<PeerRefused>,
}

/// Why a client can't even begin.
#[derive(Debug, Error)]
pub enum CredsError {
    /// Certificate or key.
    #[error(transparent)]
    Identity(#[from] TlsError),
    /// The bundle.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// The root file.
    #[error("root of trust: {0}")]
    Root(FileError),
    /// Nothing to pin.
    #[error(
        "no root of trust is pinned in {state}, and the configuration names none (root: FILE or root_fingerprint: SHA-256)"
    )]
    NoRoot {
        /// Where it would be.
        state: PathBuf,
    },
}

impl CredsError {
    /// The same as a fault.
    pub fn fault(&self) -> Fault {
        let code = match self {
            Self::Identity(TlsError::Expired { .. }) => Code::IdentityExpired,
            Self::Identity(_) => Code::ClientIdentity,
            Self::Bundle(_) | Self::Root(_) | Self::NoRoot { .. } => Code::ClientBundle,
        };
        Fault::new(code, Origin::Client, self.to_string())
    }
}

impl Creds {
    /// Loads both.
    ///
    /// # Errors
    /// What is missing or not usable.
    pub async fn load(config: &Config, now: Timestamp) -> Result<Self, CredsError> {
        let credentials = Credentials::load(&config.identity.certificate, &config.identity.key, now)?;
        let begun = publication(config, now).await?;
        let refused = begun
            .made
            .verify(credentials.chain(), Usage::Client, &PERSONS, now)
            .err();
        Ok(Self {
            party: Party::new(Live::new(credentials), Live::new(begun.made)),
            publication: begun.publication,
            stale_because: begun.refused,
            refused,
        })
    }

    /// The fault of a session that nobody let us open: a relay says little to a certificate that it refuses, so what we
    /// see in our own is told in its place.
    pub fn explain(&self, refusal: Refusal) -> Refusal {
        let Some(refused) = self.refused.as_ref().filter(|_| refusal.fault.is_transport()) else {
            return refusal;
        };
        let seen = format!("our own certificate: {refused} ({})", refusal.fault.seen);
        Fault::new(identity_code(refused), Origin::Client, seen).into()
    }
}

/// The newest publication that verifies, and whom it trusts.
///
/// # Errors
/// There is none at all.
pub async fn publication(config: &Config, now: Timestamp) -> Result<Begun<TrustAnchors, BundleError>, CredsError> {
    let state = config.state.join("bundle");
    let store = Store::open(&state)?;
    if store.pinned()?.is_none() {
        match (&config.root, &config.root_fingerprint) {
            (Some(path), _) => {
                let root = files::read_bounded(path, MAX_ROOT).map_err(CredsError::Root)?;
                store.pin(&root)?;
            }
            (None, Some(fingerprint)) => {
                store.pin_fingerprint(&config.bundle, fingerprint)?;
            }
            (None, None) => return Err(CredsError::NoRoot { state }),
        }
    }
    let usable = |publication: &Publication| publication.fleet().trust_anchors();
    Ok(store.begin(&config.bundle, now, usable).await?)
}
