//! What a certificate says, for people: nobody vouches for it.
//!
//! Only `verify` makes a `VerifiedPeer`; nothing here opens anything.

use jiff::Timestamp;
use rustls_pki_types::CertificateDer;
use serde::Serialize;

use crate::leaf::Leaf;
use crate::text::escape;
use crate::verify::PeerRefused;
use crate::{key, time, trust};

/// What a certificate says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// The SPIFFE URI: of a party, or of a cluster whose CA this is.
    pub identity: String,
    /// Whether it is a CA's.
    pub ca: bool,
    /// Groups of a user.
    pub groups: Vec<String>,
    /// Uid of the Node object.
    pub node_uid: Option<String>,
    /// When the API server attested the identity.
    pub attested_at: Option<String>,
    /// Version of the policy bundle that the issuer had.
    pub bundle_version: Option<u64>,
    /// Start.
    pub not_before: String,
    /// End.
    pub not_after: String,
    /// SHA-256 of the public key.
    pub key_fingerprint: String,
}

/// Reads a certificate of ours: a party's, or a cluster CA's.
///
/// # Errors
/// It does not follow the profile.
pub fn facts(der: &CertificateDer<'_>) -> Result<Facts, PeerRefused> {
    let malformed = |error: trust::TrustError| PeerRefused::Malformed(error.to_string());
    if let Some((domain, cluster)) = trust::named_cluster(der).map_err(malformed)? {
        let certificate = trust::parse(der).map_err(malformed)?;
        let (not_before, not_after) = trust::validity(&certificate);
        let identity = trust::ca_uri(&domain, &cluster);
        let fingerprint = key::fingerprint(certificate.public_key().raw);
        return Ok(Facts {
            ca: true,
            ..bare(identity, not_before, not_after, fingerprint)
        });
    }
    let leaf = Leaf::parse(der)?;
    Ok(Facts {
        groups: leaf.claims.groups.iter().map(ToString::to_string).collect(),
        node_uid: leaf.claims.node_uid.clone(),
        attested_at: leaf.claims.attested_at.map(time::format),
        bundle_version: leaf.claims.bundle_version,
        ..bare(
            leaf.identity.to_string(),
            leaf.not_before,
            leaf.not_after,
            leaf.key_fingerprint,
        )
    })
}

fn bare(identity: String, not_before: Timestamp, not_after: Timestamp, key_fingerprint: String) -> Facts {
    Facts {
        identity,
        ca: false,
        groups: Vec::new(),
        node_uid: None,
        attested_at: None,
        bundle_version: None,
        not_before: time::format(not_before),
        not_after: time::format(not_after),
        key_fingerprint,
    }
}

impl std::fmt::Display for Facts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ca = if self.ca { " (CA)" } else { "" };
        writeln!(f, "{:<12}{}{ca}", "identity", escape(&self.identity, 4096))?;
        writeln!(f, "{:<12}{} to {}", "valid", self.not_before, self.not_after)?;
        writeln!(f, "{:<12}{}", "key", self.key_fingerprint)?;
        if !self.groups.is_empty() {
            writeln!(f, "{:<12}{}", "groups", escape(&self.groups.join(", "), 4096))?;
        }
        for (name, value) in [("node uid", &self.node_uid), ("attested", &self.attested_at)] {
            if let Some(value) = value {
                writeln!(f, "{name:<12}{}", escape(value, 256))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
