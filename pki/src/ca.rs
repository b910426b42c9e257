//! A cluster CA: makes certificates that carry exactly one identity.
//!
//! The profile of a certificate (leaf):
//!
//! | field | content |
//! |---|---|
//! | subject | empty: a long or odd name can neither be cut nor inject name parts |
//! | subject alternative name | critical, one URI: the identity |
//! | key | ECDSA P-256 |
//! | key usage | digitalSignature, critical |
//! | extended key usage | users and break-glass accounts: clientAuth; nodes, relays, issuers: clientAuth and serverAuth |
//! | basic constraints | not a CA |
//! | private extensions | groups, node uid, attested at, bundle version |
//! | serial | 126 random bits |
//!
//! A CA certificate names its cluster in a URI too (`spiffe://<trust-domain>/cluster/<cluster>`), and its subject is
//! made from its key, so that two CAs never look the same.
//!
//! What it never does: sign for another cluster or trust domain, exceed the lifetime of a role or outlive itself, or
//! overwrite a CA that is there.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyUsagePurpose, PublicKeyData as _, SanType, SerialNumber, SubjectPublicKeyInfo,
};
use rustls_pki_types::CertificateDer;

use crate::extension::Claims;
use crate::files::{self, FileError};
use crate::identity::{Identity, RoleKind};
use crate::key::{KeyError, PrivateKey};
use crate::name::{ClusterName, GroupName, TrustDomain};
use crate::pem::{self, PemError};
use crate::trust::{CaEntry, TrustError};
use crate::{time, trust};

/// How far the start of a certificate is set back, so that a clock that is some minutes slow accepts it at once.
pub const BACKDATE: Duration = Duration::from_secs(10 * 60);
/// Name of the CA certificate's file in a CA directory.
pub const CERTIFICATE_FILE: &str = "ca.pem";
/// Name of the CA key's file in a CA directory.
pub const KEY_FILE: &str = "ca.key";

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

/// Longest life of a CA certificate, ours or one brought along: 25 years.
pub const MAX_CA_LIFETIME: Duration = Duration::from_secs(25 * 366 * DAY);

/// The usual life of a certificate of this role.
pub const fn default_lifetime(kind: RoleKind) -> Duration {
    match kind {
        RoleKind::User => Duration::from_secs(12 * HOUR),
        RoleKind::Node | RoleKind::Relay | RoleKind::Issuer => Duration::from_secs(30 * DAY),
        RoleKind::BreakGlass => Duration::from_secs(365 * DAY),
    }
}

/// The longest life of a certificate of this role; issuing more is refused, and so is accepting more.
pub const fn max_lifetime(kind: RoleKind) -> Duration {
    match kind {
        RoleKind::User => Duration::from_secs(24 * HOUR),
        RoleKind::Node | RoleKind::Relay | RoleKind::Issuer => Duration::from_secs(90 * DAY),
        RoleKind::BreakGlass => Duration::from_secs(366 * DAY),
    }
}

/// What a new CA is for.
#[derive(Debug, Clone)]
pub struct CaSpec {
    /// The fleet.
    pub trust_domain: TrustDomain,
    /// The one cluster that it signs for.
    pub cluster: ClusterName,
    /// Valid from.
    pub not_before: Timestamp,
    /// Valid until.
    pub not_after: Timestamp,
}

impl CaSpec {
    /// Valid from now (set back by [`BACKDATE`]) for `lifetime`.
    pub fn new(trust_domain: TrustDomain, cluster: ClusterName, now: Timestamp, lifetime: Duration) -> CaSpec {
        let (not_before, not_after) = (time::before(now, BACKDATE), time::after(now, lifetime));
        CaSpec {
            trust_domain,
            cluster,
            not_before,
            not_after,
        }
    }
}

/// What a certificate shall say.
#[derive(Debug, Clone)]
pub struct LeafSpec {
    /// Who.
    pub identity: Identity,
    /// Groups of a user, as attested.
    pub groups: Vec<GroupName>,
    /// Uid of the Node object, for nodes.
    pub node_uid: Option<String>,
    /// When the API server attested the identity.
    pub attested_at: Option<Timestamp>,
    /// Version of the policy bundle that the issuer had.
    pub bundle_version: Option<u64>,
    /// The key: DER SubjectPublicKeyInfo, ECDSA P-256.
    pub public_key: Vec<u8>,
    /// Valid from.
    pub not_before: Timestamp,
    /// Valid until.
    pub not_after: Timestamp,
}

impl LeafSpec {
    /// Valid from now (set back by [`BACKDATE`]) for the usual life of the role; no groups and no attestation.
    pub fn new(identity: Identity, public_key: &[u8], now: Timestamp) -> LeafSpec {
        let lifetime = default_lifetime(identity.kind());
        LeafSpec {
            identity,
            groups: Vec::new(),
            node_uid: None,
            attested_at: None,
            bundle_version: None,
            public_key: public_key.to_vec(),
            not_before: time::before(now, BACKDATE),
            not_after: time::after(now, lifetime),
        }
    }
}

/// A CA could not be made or read, or refuses to sign.
#[derive(Debug, thiserror::Error)]
pub enum CaError {
    /// The CA key.
    #[error("CA key: {0}")]
    Key(#[from] KeyError),
    /// A file.
    #[error(transparent)]
    File(#[from] FileError),
    /// The CA certificate's PEM text.
    #[error("CA certificate: {0}")]
    Pem(#[from] PemError),
    /// The CA certificate.
    #[error("CA certificate: {0}")]
    Certificate(#[from] TrustError),
    /// The CA certificate does not say which cluster it is for.
    #[error("the CA certificate does not name its cluster; say which trust domain and cluster it signs for")]
    NoCluster,
    /// Key and certificate are not a pair.
    #[error("the CA key does not belong to the CA certificate (key {key}, certificate {certificate})")]
    KeyMismatch {
        /// SHA-256 of the key's public part.
        key: String,
        /// SHA-256 of the certificate's key.
        certificate: String,
    },
    /// There is a CA already.
    #[error("{path} is there already; a CA is never overwritten: choose another directory")]
    AlreadyThere {
        /// The file.
        path: String,
    },
    /// Another cluster or trust domain than the CA's.
    #[error("this CA signs for {own} only, not for {asked}")]
    NotOurs {
        /// What it signs for.
        own: String,
        /// What was asked.
        asked: String,
    },
    /// Ends before it begins, or begins before 1970.
    #[error("a certificate from {} to {} makes no sense", time::format(*not_before), time::format(*not_after))]
    Span {
        /// Asked start.
        not_before: Timestamp,
        /// Asked end.
        not_after: Timestamp,
    },
    /// Longer than the rule for the role allows.
    #[error("a certificate for a {role} lives at most {} hours; {} hours were asked", max.as_secs() / 3600, asked.as_secs() / 3600)]
    TooLong {
        /// For whom.
        role: &'static str,
        /// What the rule allows.
        max: Duration,
        /// What was asked.
        asked: Duration,
    },
    /// Longer than the CA itself.
    #[error("the CA itself ends at {}, before the certificate that was asked ({})", time::format(*ca), time::format(*asked))]
    OutlivesCa {
        /// The CA's end.
        ca: Timestamp,
        /// The asked end.
        asked: Timestamp,
    },
    /// The public key in the request.
    #[error("the public key to be certified must be ECDSA P-256")]
    PublicKey,
    /// Groups, uid and the like.
    #[error("the request is refused: {0}")]
    Claims(String),
    /// The certificate library failed.
    #[error("the certificate could not be made: {0}")]
    Encoding(String),
}

/// The CA of one cluster, with its key.
pub struct CertificateAuthority {
    trust_domain: TrustDomain,
    cluster: ClusterName,
    certificate: CertificateDer<'static>,
    not_after: Timestamp,
    key: PrivateKey,
}

impl CertificateAuthority {
    /// Makes a new CA with a new key.
    pub fn create(spec: CaSpec) -> Result<CertificateAuthority, CaError> {
        span(spec.not_before, spec.not_after, "CA", MAX_CA_LIFETIME)?;
        let key = PrivateKey::generate()?;
        let mut params = params(spec.not_before, spec.not_after)?;
        let short: String = key.fingerprint().chars().take(16).collect();
        params.distinguished_name.push(DnType::OrganizationName, "NodeRelay");
        params
            .distinguished_name
            .push(DnType::CommonName, format!("cluster CA {short}"));
        params
            .subject_alt_names
            .push(uri(&trust::ca_uri(&spec.trust_domain, &spec.cluster))?);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(1));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params
            .self_signed(&key)
            .map_err(|error| CaError::Encoding(error.to_string()))?;
        Self::assemble(spec.trust_domain, spec.cluster, certificate.into(), key)
    }

    /// Reads a CA from its certificate (PEM) and key (PEM, mode 0600); the certificate names the cluster.
    pub fn load(certificate: &Path, key: &Path) -> Result<CertificateAuthority, CaError> {
        let (certificate, key) = Self::read(certificate, key)?;
        let (trust_domain, cluster) = trust::named_cluster(&certificate)?.ok_or(CaError::NoCluster)?;
        Self::assemble(trust_domain, cluster, certificate, key)
    }

    /// Reads a CA that was made elsewhere and names no cluster.
    pub fn load_for(
        trust_domain: TrustDomain,
        cluster: ClusterName,
        certificate: &Path,
        key: &Path,
    ) -> Result<CertificateAuthority, CaError> {
        let (certificate, key) = Self::read(certificate, key)?;
        Self::assemble(trust_domain, cluster, certificate, key)
    }

    /// Writes [`CERTIFICATE_FILE`] and [`KEY_FILE`] into a directory, which is made with mode 0700 if it is not there.
    pub fn save(&self, directory: &Path) -> Result<(), CaError> {
        files::private_directory(directory)?;
        let (certificate, key) = (directory.join(CERTIFICATE_FILE), directory.join(KEY_FILE));
        for path in [&certificate, &key] {
            if path.symlink_metadata().is_ok() {
                return Err(CaError::AlreadyThere {
                    path: path.display().to_string(),
                });
            }
        }
        self.key.save(&key)?;
        Ok(files::write_atomic(
            &certificate,
            self.certificate_pem().as_bytes(),
            0o644,
        )?)
    }

    /// Signs one certificate; gives its DER.
    pub fn issue(&self, spec: &LeafSpec) -> Result<Vec<u8>, CaError> {
        let identity = &spec.identity;
        if identity.trust_domain != self.trust_domain || identity.cluster != self.cluster {
            let own = trust::ca_uri(&self.trust_domain, &self.cluster);
            return Err(CaError::NotOurs {
                own,
                asked: identity.to_string(),
            });
        }
        let kind = identity.kind();
        span(spec.not_before, spec.not_after, kind.as_str(), max_lifetime(kind))?;
        if spec.not_after > self.not_after {
            return Err(CaError::OutlivesCa {
                ca: self.not_after,
                asked: spec.not_after,
            });
        }
        let key = SubjectPublicKeyInfo::from_der(&spec.public_key).map_err(|_| CaError::PublicKey)?;
        if key.algorithm() != &rcgen::PKCS_ECDSA_P256_SHA256 || key.subject_public_key_info() != spec.public_key {
            return Err(CaError::PublicKey);
        }
        let claims = Claims {
            groups: spec.groups.clone(),
            node_uid: spec.node_uid.clone(),
            attested_at: spec.attested_at,
            bundle_version: spec.bundle_version,
        };
        let claims = claims.checked().map_err(CaError::Claims)?;

        let mut params = params(spec.not_before, spec.not_after)?;
        params.subject_alt_names.push(uri(&identity.to_string())?);
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = usages(kind);
        params.use_authority_key_identifier_extension = true;
        for (oid, content) in claims.encode() {
            params
                .custom_extensions
                .push(CustomExtension::from_oid_content(&oid, content));
        }
        let issuer = Issuer::from_ca_cert_der(&self.certificate, &self.key)
            .map_err(|error| CaError::Encoding(error.to_string()))?;
        let certificate = params
            .signed_by(&key, &issuer)
            .map_err(|error| CaError::Encoding(error.to_string()))?;
        Ok(certificate.der().to_vec())
    }

    /// The fleet.
    pub fn trust_domain(&self) -> &TrustDomain {
        &self.trust_domain
    }

    /// The cluster that it signs for.
    pub fn cluster(&self) -> &ClusterName {
        &self.cluster
    }

    /// Its certificate.
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// Its certificate as PEM.
    pub fn certificate_pem(&self) -> String {
        pem::certificate_to_pem(&self.certificate)
    }

    /// When it ends.
    pub fn not_after(&self) -> Timestamp {
        self.not_after
    }

    /// The entry for the fleet file: this CA may vouch for these roles of its cluster.
    pub fn entry(&self, roles: BTreeSet<RoleKind>) -> CaEntry {
        CaEntry {
            cluster: self.cluster.clone(),
            roles,
            certificate: self.certificate.clone(),
        }
    }

    fn read(certificate: &Path, key: &Path) -> Result<(CertificateDer<'static>, PrivateKey), CaError> {
        let key = PrivateKey::load(key)?;
        let pem = files::read_bounded(certificate, files::MAX_PEM_FILE)?;
        let certificate = pem::certificates(&pem)?
            .into_iter()
            .next()
            .ok_or(PemError::NoCertificate)?;
        Ok((certificate, key))
    }

    fn assemble(
        trust_domain: TrustDomain,
        cluster: ClusterName,
        certificate: CertificateDer<'static>,
        key: PrivateKey,
    ) -> Result<CertificateAuthority, CaError> {
        let facts = trust::ca_facts(&certificate, &trust_domain, &cluster)?;
        if facts.key_fingerprint != key.fingerprint() {
            return Err(CaError::KeyMismatch {
                key: key.fingerprint(),
                certificate: facts.key_fingerprint,
            });
        }
        Ok(CertificateAuthority {
            trust_domain,
            cluster,
            certificate,
            not_after: facts.not_after,
            key,
        })
    }
}

impl fmt::Debug for CertificateAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateAuthority")
            .field("trust_domain", &self.trust_domain)
            .field("cluster", &self.cluster)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

fn usages(kind: RoleKind) -> Vec<ExtendedKeyUsagePurpose> {
    match kind {
        // A node or an issuer is the server of an inner TLS and a client of its relays; a relay is a client of its
        // peers.
        RoleKind::Node | RoleKind::Relay | RoleKind::Issuer => {
            vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth]
        }
        RoleKind::User | RoleKind::BreakGlass => vec![ExtendedKeyUsagePurpose::ClientAuth],
    }
}

fn span(not_before: Timestamp, not_after: Timestamp, role: &'static str, max: Duration) -> Result<(), CaError> {
    if not_before >= not_after || not_before.as_second() < 0 {
        return Err(CaError::Span { not_before, not_after });
    }
    let asked = time::between(not_before, not_after);
    if asked > max.saturating_add(BACKDATE) {
        return Err(CaError::TooLong { role, max, asked });
    }
    Ok(())
}

fn params(not_before: Timestamp, not_after: Timestamp) -> Result<CertificateParams, CaError> {
    let date = |time: Timestamp| {
        ::time::OffsetDateTime::from_unix_timestamp(time.as_second()).map_err(|e| CaError::Encoding(e.to_string()))
    };
    let mut serial = [0u8; 16];
    aws_lc_rs::rand::fill(&mut serial).map_err(|_| CaError::Encoding("no randomness".to_owned()))?;
    // Positive, not zero, and always 16 bytes long.
    let [first, ..] = &mut serial;
    *first = (*first & 0x7f) | 0x40;
    let mut params = CertificateParams::default();
    params.not_before = date(not_before)?;
    params.not_after = date(not_after)?;
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    params.distinguished_name = DistinguishedName::new();
    Ok(params)
}

fn uri(text: &str) -> Result<SanType, CaError> {
    Ok(SanType::URI(text.try_into().map_err(|_| {
        CaError::Encoding("the identity is not ASCII".to_owned())
    })?))
}

#[cfg(test)]
mod tests;
