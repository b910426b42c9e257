//! Our own certificate chain and key.
//!
//! What it never does: hold a certificate of another's profile, a key that does not fit, or show the key.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use rustls::sign::CertifiedKey;
use rustls_pki_types::CertificateDer;

use crate::extension::Claims;
use crate::files::{self, FileError, Watched};
use crate::identity::Identity;
use crate::key::{self, KeyError, PrivateKey};
use crate::leaf::Leaf;
use crate::name::GroupName;
use crate::pem::{self, PemError};
use crate::time;
use crate::verify::PeerRefused;

/// Credentials or a TLS configuration could not be made.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file.
    #[error(transparent)]
    File(#[from] FileError),
    /// The private key.
    #[error("private key: {0}")]
    Key(#[from] KeyError),
    /// The certificate file's text.
    #[error("certificate: {0}")]
    Pem(#[from] PemError),
    /// The certificate's content.
    #[error("certificate: {0}")]
    Certificate(PeerRefused),
    /// Key and certificate are not a pair.
    #[error(
        "the private key does not belong to the certificate (key {key}, certificate {certificate}); is only one of the two files new?"
    )]
    KeyMismatch {
        /// SHA-256 of the key's public part.
        key: String,
        /// SHA-256 of the certificate's key.
        certificate: String,
    },
    /// Our own certificate is past its end.
    #[error("our own certificate ({identity}) expired at {} and the clock here says {}; renew it, or set the clock", time::format(*not_after), time::format(*now))]
    Expired {
        /// Who it is for.
        identity: String,
        /// Its end.
        not_after: Timestamp,
        /// Our clock.
        now: Timestamp,
    },
    /// rustls refused the configuration.
    #[error("TLS set-up: {0}")]
    Rustls(#[from] rustls::Error),
}

/// Our own certificate chain and private key, checked to belong together.
pub struct Credentials {
    chain: Vec<CertificateDer<'static>>,
    leaf: Leaf,
    key: PrivateKey,
    pub(super) certified: Arc<CertifiedKey>,
}

impl Credentials {
    /// Reads certificate chain and key (PEM; the key mode 0600) and checks them: of our profile, a pair, not expired.
    pub fn load(certificate: &Path, key: &Path, now: Timestamp) -> Result<Credentials, TlsError> {
        let key = PrivateKey::load(key)?;
        let chain = pem::certificates(&files::read_bounded(certificate, files::MAX_PEM_FILE)?)?;
        Credentials::new(chain, key, now)
    }

    /// From parts, with the same checks.
    pub fn new(chain: Vec<CertificateDer<'static>>, key: PrivateKey, now: Timestamp) -> Result<Credentials, TlsError> {
        let end = chain.first().ok_or(PemError::NoCertificate)?;
        let leaf = Leaf::parse(end).map_err(TlsError::Certificate)?;
        if leaf.key_fingerprint != key.fingerprint() {
            return Err(TlsError::KeyMismatch {
                key: key.fingerprint(),
                certificate: leaf.key_fingerprint,
            });
        }
        let certified = Arc::new(CertifiedKey::new(chain.clone(), key.tls_signer()?));
        let credentials = Credentials {
            chain,
            leaf,
            key,
            certified,
        };
        credentials.check(now)?;
        Ok(credentials)
    }

    /// Loads and follows the two files: the value stays the last good one while they are broken or expired.
    pub fn watch(certificate: &Path, key: &Path, now: Timestamp) -> Result<Watched<Credentials>, TlsError> {
        let (certificate, key) = (certificate.to_owned(), key.to_owned());
        let paths = [certificate.clone(), key.clone()];
        let paths = paths.each_ref().map(|path| path.as_path());
        Watched::open(&paths, now, move |now| Credentials::load(&certificate, &key, now))
    }

    /// Not past its end? (A certificate that begins later than our clock says is still shown: the other side's clock
    /// may be the right one.)
    pub fn check(&self, now: Timestamp) -> Result<(), TlsError> {
        let not_after = self.leaf.not_after;
        if now <= not_after {
            return Ok(());
        }
        Err(TlsError::Expired {
            identity: self.leaf.identity.to_string(),
            not_after,
            now,
        })
    }

    /// Who we are.
    pub fn identity(&self) -> &Identity {
        &self.leaf.identity
    }

    /// Our groups, as the certificate says.
    pub fn groups(&self) -> &[GroupName] {
        &self.claims().groups
    }

    /// When the API server attested us.
    pub fn attested_at(&self) -> Option<Timestamp> {
        self.claims().attested_at
    }

    /// Start of the certificate.
    pub fn not_before(&self) -> Timestamp {
        self.leaf.not_before
    }

    /// End of the certificate.
    pub fn not_after(&self) -> Timestamp {
        self.leaf.not_after
    }

    /// When renewal should begin: after a third of the life.
    pub fn renew_from(&self) -> Timestamp {
        time::after(
            self.leaf.not_before,
            time::between(self.leaf.not_before, self.leaf.not_after) / 3,
        )
    }

    /// SHA-256 of the public key (SubjectPublicKeyInfo), lower-case hex.
    pub fn key_fingerprint(&self) -> &str {
        &self.leaf.key_fingerprint
    }

    /// SHA-256 of the certificate, lower-case hex.
    pub fn certificate_fingerprint(&self) -> String {
        self.chain.first().map(|end| key::fingerprint(end)).unwrap_or_default()
    }

    /// The chain, leaf first.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }

    /// The key.
    pub fn key(&self) -> &PrivateKey {
        &self.key
    }

    fn claims(&self) -> &Claims {
        &self.leaf.claims
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("identity", &self.leaf.identity)
            .field("not_after", &self.leaf.not_after)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}
