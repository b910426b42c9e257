//! Whom we trust: the CAs of the fleet, each for one cluster and for some roles.
//!
//! The entries come from the signed fleet file. A CA that is stolen gives identities of its own cluster and roles, and
//! nothing more.
//!
//! What it never does: trust a CA for a cluster that its entry does not name, or read anything from disk.

use std::collections::BTreeSet;
use std::fmt;

use jiff::Timestamp;
use rustls_pki_types::{CertificateDer, TrustAnchor};
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::X509Certificate;

use crate::identity::RoleKind;
use crate::name::{ClusterName, TrustDomain};
use crate::{ca, key, time};

/// Most CA entries of a fleet (a CA change has two for a while).
pub const MAX_ENTRIES: usize = 4096;

/// One CA of the fleet file.
#[derive(Clone, PartialEq, Eq)]
pub struct CaEntry {
    /// The one cluster that it vouches for.
    pub cluster: ClusterName,
    /// The roles that it vouches for.
    pub roles: BTreeSet<RoleKind>,
    /// The CA certificate.
    pub certificate: CertificateDer<'static>,
}

impl fmt::Debug for CaEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CaEntry")
            .field("cluster", &self.cluster)
            .field("roles", &self.roles)
            .field("sha256", &key::fingerprint(&self.certificate))
            .finish()
    }
}

/// A CA entry is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrustError {
    /// Not an X.509 certificate.
    #[error("not a certificate: {0}")]
    Malformed(String),
    /// A certificate that may not sign others.
    #[error("it is not a CA certificate (basic constraints and key usage must allow signing certificates)")]
    NotACa,
    /// A life that has no sensible end.
    #[error(
        "it is valid from {} to {}, and a CA certificate lives at most {} days",
        time::format(*not_before), time::format(*not_after), ca::MAX_CA_LIFETIME.as_secs() / 86_400
    )]
    Lifetime {
        /// Its start.
        not_before: Timestamp,
        /// Its end.
        not_after: Timestamp,
    },
    /// The certificate says that it belongs to another cluster.
    #[error("it says that it is the CA of {seen}, not of {expected}")]
    WrongCluster {
        /// What the entry says.
        expected: String,
        /// What the certificate says.
        seen: String,
    },
    /// An entry without roles.
    #[error("the entry of a CA of cluster {0} lists no role, so that it would vouch for nobody")]
    NoRoles(ClusterName),
    /// Too many entries.
    #[error("{0} CA entries, and {MAX_ENTRIES} are allowed")]
    TooMany(usize),
}

/// The CAs of a fleet, ready for verifying. Made from the entries of the signed fleet file.
pub struct TrustAnchors {
    trust_domain: TrustDomain,
    entries: Vec<CaEntry>,
    pub(crate) anchors: Vec<Anchor>,
}

/// One entry, parsed.
pub(crate) struct Anchor {
    pub(crate) cluster: ClusterName,
    pub(crate) roles: BTreeSet<RoleKind>,
    pub(crate) anchor: TrustAnchor<'static>,
    pub(crate) not_before: Timestamp,
    pub(crate) not_after: Timestamp,
}

impl TrustAnchors {
    /// Checks the entries. An expired CA is kept (so that a refusal can name it), but verifies nothing.
    pub fn new(trust_domain: TrustDomain, entries: Vec<CaEntry>) -> Result<TrustAnchors, TrustError> {
        if entries.len() > MAX_ENTRIES {
            return Err(TrustError::TooMany(entries.len()));
        }
        let anchors = entries
            .iter()
            .map(|entry| Anchor::new(&trust_domain, entry))
            .collect::<Result<_, _>>()?;
        Ok(TrustAnchors {
            trust_domain,
            entries,
            anchors,
        })
    }

    /// The fleet.
    pub fn trust_domain(&self) -> &TrustDomain {
        &self.trust_domain
    }

    /// The entries.
    pub fn entries(&self) -> &[CaEntry] {
        &self.entries
    }
}

impl fmt::Debug for TrustAnchors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrustAnchors")
            .field("trust_domain", &self.trust_domain)
            .field("entries", &self.entries)
            .finish_non_exhaustive()
    }
}

impl Anchor {
    fn new(trust_domain: &TrustDomain, entry: &CaEntry) -> Result<Anchor, TrustError> {
        if entry.roles.is_empty() {
            return Err(TrustError::NoRoles(entry.cluster.clone()));
        }
        let facts = ca_facts(&entry.certificate, trust_domain, &entry.cluster)?;
        let anchor = webpki::anchor_from_trusted_cert(&entry.certificate)
            .map_err(|error| TrustError::Malformed(error.to_string()))?
            .to_owned();
        Ok(Anchor {
            cluster: entry.cluster.clone(),
            roles: entry.roles.clone(),
            anchor,
            not_before: facts.not_before,
            not_after: facts.not_after,
        })
    }
}

/// What matters about a CA certificate.
pub(crate) struct CaFacts {
    pub(crate) not_before: Timestamp,
    pub(crate) not_after: Timestamp,
    pub(crate) key_fingerprint: String,
}

/// The name of a cluster's CA.
pub(crate) fn ca_uri(trust_domain: &TrustDomain, cluster: &ClusterName) -> String {
    format!("spiffe://{trust_domain}/cluster/{cluster}")
}

/// Checks that a certificate can be the CA of this cluster.
pub(crate) fn ca_facts(
    der: &CertificateDer<'_>,
    trust_domain: &TrustDomain,
    cluster: &ClusterName,
) -> Result<CaFacts, TrustError> {
    let certificate = parse(der)?;
    let is_ca = certificate
        .basic_constraints()
        .ok()
        .flatten()
        .is_some_and(|constraints| constraints.value.ca);
    let may_sign = match certificate.key_usage() {
        Ok(Some(usage)) => usage.value.key_cert_sign(),
        // Without the extension every usage is allowed (RFC 5280 § 4.2.1.3).
        Ok(None) => true,
        Err(_) => false,
    };
    if !is_ca || !may_sign {
        return Err(TrustError::NotACa);
    }
    let (not_before, not_after) = validity(&certificate);
    if not_before >= not_after || time::between(not_before, not_after) > ca::MAX_CA_LIFETIME + ca::BACKDATE {
        return Err(TrustError::Lifetime { not_before, not_after });
    }
    if let Some((domain, named)) = named_cluster(der)?
        && (domain != *trust_domain || named != *cluster)
    {
        return Err(TrustError::WrongCluster {
            expected: ca_uri(trust_domain, cluster),
            seen: ca_uri(&domain, &named),
        });
    }
    Ok(CaFacts {
        not_before,
        not_after,
        key_fingerprint: key::fingerprint(certificate.public_key().raw),
    })
}

/// The cluster that a CA certificate names, if it names one in our way.
pub(crate) fn named_cluster(der: &CertificateDer<'_>) -> Result<Option<(TrustDomain, ClusterName)>, TrustError> {
    let certificate = parse(der)?;
    for extension in certificate.extensions() {
        let ParsedExtension::SubjectAlternativeName(names) = extension.parsed_extension() else {
            continue;
        };
        for name in &names.general_names {
            let GeneralName::URI(uri) = name else { continue };
            let Some(path) = uri.strip_prefix("spiffe://") else {
                continue;
            };
            let mut parts = path.split('/');
            if let (Some(domain), Some("cluster"), Some(cluster), None) =
                (parts.next(), parts.next(), parts.next(), parts.next())
                && let (Ok(domain), Ok(cluster)) = (TrustDomain::parse(domain), ClusterName::parse(cluster))
            {
                return Ok(Some((domain, cluster)));
            }
        }
    }
    Ok(None)
}

/// One certificate, with nothing after it.
pub(crate) fn parse<'a>(der: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, TrustError> {
    match x509_parser::parse_x509_certificate(der) {
        Ok(([], certificate)) => Ok(certificate),
        Ok(_) => Err(TrustError::Malformed("bytes after the certificate".to_owned())),
        Err(error) => Err(TrustError::Malformed(crate::text::escape(&error.to_string(), 80))),
    }
}

/// Start and end, moved into the calendar when they lie outside it.
pub(crate) fn validity(certificate: &X509Certificate<'_>) -> (Timestamp, Timestamp) {
    let validity = certificate.validity();
    (
        time::from_seconds(validity.not_before.timestamp()),
        time::from_seconds(validity.not_after.timestamp()),
    )
}

#[cfg(test)]
mod tests;
