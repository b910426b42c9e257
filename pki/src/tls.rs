//! TLS set-up of every leg: who we are (credentials), whom we trust, and rustls configurations made from both.
//!
//! ```text
//! Credentials (files) ─> Live ┐
//!                             ├─> Party ─> server(expect, leg, alpn) / client(expect, leg, alpn) ─> rustls
//! TrustAnchors (bundle) ─> Live ┘
//! ```
//!
//! A configuration holds the *live* handles: a renewed certificate or a changed fleet file counts from the next
//! handshake on, without making configurations anew. On every leg: TLS 1.3 only, both sides show a certificate, no
//! tickets, no resumption, no 0-RTT, no server name on the wire.
//!
//! What it never does: present an expired certificate, skip [`TrustAnchors::verify`], or log key material (there is no
//! key log, not even by environment variable).

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use rustls::client::ResolvesClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs as provider};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, OtherError, ServerConfig, SignatureScheme,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::extension::Claims;
use crate::files::{self, FileError, Watched};
use crate::identity::Identity;
use crate::key::{self, KeyError, PrivateKey};
use crate::name::GroupName;
use crate::pem::{self, PemError};
use crate::time;
use crate::trust::TrustAnchors;
use crate::verify::{Expect, Leaf, PeerRefused, Usage, VerifiedPeer};

/// A value that can be replaced while others use it. Cloning shares the place, not the value.
pub struct Live<T>(Arc<ArcSwap<T>>);

impl<T> Live<T> {
    /// A place with its first value.
    pub fn new(value: T) -> Live<T> {
        Live(Arc::new(ArcSwap::from_pointee(value)))
    }

    /// The value of this moment.
    pub fn get(&self) -> Arc<T> {
        self.0.load_full()
    }

    /// Replaces the value.
    pub fn set(&self, value: T) {
        self.0.store(Arc::new(value));
    }
}

impl<T> Clone for Live<T> {
    fn clone(&self) -> Live<T> {
        Live(Arc::clone(&self.0))
    }
}

impl<T: fmt::Debug> fmt::Debug for Live<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.get(), f)
    }
}

/// Which leg of a session a TLS connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leg {
    /// Between neighbours (client, relay, agent): carries the inner leg as cipher text, so speed comes first.
    Outer,
    /// End to end between client and node: prefers the hybrid post-quantum key exchange.
    Inner,
}

/// The name that TLS wants and that nobody looks at: identities are in the certificates.
pub const SERVER_NAME: &str = "noderelay.invalid";

/// [`SERVER_NAME`] as rustls wants it.
pub fn server_name() -> ServerName<'static> {
    match ServerName::try_from(SERVER_NAME) {
        Ok(name) => name,
        // Can't happen: the constant is a DNS name. An address is refused by nobody either.
        Err(_) => ServerName::IpAddress(std::net::IpAddr::from([0u8; 4]).into()),
    }
}

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
    certified: Arc<CertifiedKey>,
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

/// One party of the mesh: its own credentials and whom it trusts, both live.
#[derive(Debug, Clone)]
pub struct Party {
    /// Who we are.
    pub credentials: Live<Credentials>,
    /// Whom we trust.
    pub trust: Live<TrustAnchors>,
}

impl Party {
    /// Puts both together.
    pub fn new(credentials: Live<Credentials>, trust: Live<TrustAnchors>) -> Party {
        Party { credentials, trust }
    }

    /// A TLS server that accepts whom `expect` says.
    pub fn server(&self, expect: Expect, leg: Leg, alpn: &[&[u8]]) -> Result<Arc<ServerConfig>, TlsError> {
        let mut config = ServerConfig::builder_with_provider(crypto(leg))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(self.verifier(expect))
            .with_cert_resolver(Arc::new(Shown(self.credentials.clone())));
        config.alpn_protocols = protocols(alpn);
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        config.max_early_data_size = 0;
        Ok(Arc::new(config))
    }

    /// A TLS client that talks to whom `expect` says.
    pub fn client(&self, expect: Expect, leg: Leg, alpn: &[&[u8]]) -> Result<Arc<ClientConfig>, TlsError> {
        let mut config = ClientConfig::builder_with_provider(crypto(leg))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(self.verifier(expect))
            .with_client_cert_resolver(Arc::new(Shown(self.credentials.clone())));
        config.alpn_protocols = protocols(alpn);
        config.resumption = rustls::client::Resumption::disabled();
        config.enable_early_data = false;
        config.enable_sni = false;
        Ok(Arc::new(config))
    }

    /// The peer of an accepted connection, verified again by the caller's clock.
    pub fn peer(
        &self,
        certificates: Option<&[CertificateDer<'_>]>,
        usage: Usage,
        expect: &Expect,
        now: Timestamp,
    ) -> Result<VerifiedPeer, PeerRefused> {
        self.trust
            .get()
            .verify(certificates.unwrap_or_default(), usage, expect, now)
    }

    fn verifier(&self, expect: Expect) -> Arc<Verifier> {
        Arc::new(Verifier {
            trust: self.trust.clone(),
            expect,
        })
    }
}

/// The refusal inside a rustls error, if our verifier made it.
pub fn refusal(error: &rustls::Error) -> Option<&PeerRefused> {
    match error {
        rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(inner)))
        | rustls::Error::Other(OtherError(inner)) => inner.downcast_ref(),
        _ => None,
    }
}

/// The refusal inside an I/O error, as tokio-rustls gives it.
pub fn refusal_in(error: &std::io::Error) -> Option<&PeerRefused> {
    error.get_ref()?.downcast_ref::<rustls::Error>().and_then(refusal)
}

fn protocols(alpn: &[&[u8]]) -> Vec<Vec<u8>> {
    alpn.iter().map(|protocol| protocol.to_vec()).collect()
}

/// The algorithms of a leg. The outer leg carries cipher text only, and its first flight should be small.
fn crypto(leg: Leg) -> Arc<CryptoProvider> {
    use provider::{cipher_suite as suite, kx_group as group};
    let mut crypto = provider::default_provider();
    crypto.cipher_suites = vec![
        suite::TLS13_AES_128_GCM_SHA256,
        suite::TLS13_AES_256_GCM_SHA384,
        suite::TLS13_CHACHA20_POLY1305_SHA256,
    ];
    crypto.kx_groups = match leg {
        Leg::Outer => vec![group::X25519, group::SECP256R1],
        Leg::Inner => vec![group::X25519MLKEM768, group::X25519, group::SECP256R1],
    };
    Arc::new(crypto)
}

/// Shows our live credentials, unless they are expired.
struct Shown(Live<Credentials>);

impl Shown {
    fn now(&self) -> Option<Arc<CertifiedKey>> {
        let credentials = self.0.get();
        match credentials.check(Timestamp::now()) {
            Ok(()) => Some(Arc::clone(&credentials.certified)),
            Err(error) => {
                tracing::warn!(%error, "no certificate is shown");
                None
            }
        }
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.now()
    }
}

impl ResolvesClientCert for Shown {
    fn resolve(&self, _issuers: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.now()
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// Asks [`TrustAnchors::verify`], with the system's clock, at every handshake.
#[derive(Debug)]
struct Verifier {
    trust: Live<TrustAnchors>,
    expect: Expect,
}

impl Verifier {
    fn check(
        &self,
        end: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        usage: Usage,
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        let chain: Vec<CertificateDer<'_>> = std::iter::once(end).chain(intermediates).cloned().collect();
        match self
            .trust
            .get()
            .verify(&chain, usage, &self.expect, time::from_unix(now))
        {
            Ok(_) => Ok(()),
            Err(refused) => Err(rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(
                Arc::new(refused),
            )))),
        }
    }

    fn signature(
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(
            message,
            certificate,
            signed,
            &provider::default_provider().signature_verification_algorithms,
        )
    }

    /// Keys of our certificates are P-256.
    fn schemes() -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}

const NO_TLS12: rustls::Error = rustls::Error::PeerIncompatible(rustls::PeerIncompatible::Tls13RequiredForQuic);

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.check(end, intermediates, Usage::Client, now)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(NO_TLS12)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Verifier::signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        Verifier::schemes()
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.check(end, intermediates, Usage::Server, now)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(NO_TLS12)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Verifier::signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        Verifier::schemes()
    }
}

#[cfg(test)]
mod tests;
