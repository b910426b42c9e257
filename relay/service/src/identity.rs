//! The files that say who a service is, as its configuration names them.
//!
//! Never read here: see `noderelay_pki::tls::Credentials`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Certificate chain and private key, PEM.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdentityFiles {
    /// Chain, own certificate first.
    pub certificate: PathBuf,
    /// Private key, mode 0600.
    pub key: PathBuf,
}
