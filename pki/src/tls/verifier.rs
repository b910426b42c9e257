//! What rustls asks during a handshake: which certificate to show, and whether the peer's is good.
//!
//! Here, and nowhere else in this crate, the system's clock is read.
//!
//! What it never does: speak TLS 1.2, or accept a chain that [`TrustAnchors::verify`] refuses.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use rustls::client::ResolvesClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs as provider;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{DigitallySignedStruct, DistinguishedName, OtherError, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::{Credentials, Live};
use crate::time;
use crate::trust::TrustAnchors;
use crate::verify::{Expect, PeerRefused, Usage};

/// A place where a verifier leaves why it refused the peer. Cloning shares the place.
#[derive(Debug, Clone, Default)]
pub struct Note(Arc<Mutex<Option<PeerRefused>>>);

impl Note {
    /// Takes the refusal out.
    pub fn take(&self) -> Option<PeerRefused> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn leave(&self, refused: PeerRefused) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(refused);
    }
}

/// Shows our live credentials, unless they are expired.
pub(super) struct Shown(pub(super) Live<Credentials>);

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
pub(super) struct Verifier {
    pub(super) trust: Live<TrustAnchors>,
    pub(super) expect: Expect,
    pub(super) note: Note,
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
            Err(refused) => {
                self.note.leave(refused.clone());
                // In this form the text is kept by transports that keep only texts.
                Err(rustls::Error::Other(OtherError(Arc::new(refused))))
            }
        }
    }
}

const NO_TLS12: rustls::Error = rustls::Error::PeerIncompatible(rustls::PeerIncompatible::Tls13RequiredForQuic);

/// What both sides of a handshake ask in the same words: TLS 1.3 only, and only our own kind of key.
macro_rules! signatures {
    () => {
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
            rustls::crypto::verify_tls13_signature(
                message,
                certificate,
                signed,
                &provider::default_provider().signature_verification_algorithms,
            )
        }

        /// Keys of our certificates are P-256.
        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ECDSA_NISTP256_SHA256]
        }
    };
}

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

    signatures!();
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

    signatures!();
}
