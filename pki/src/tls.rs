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
use std::sync::Arc;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use rustls::crypto::{CryptoProvider, aws_lc_rs as provider};
use rustls::server::NoServerSessionStorage;
use rustls::{ClientConfig, OtherError, ServerConfig};
use rustls_pki_types::{CertificateDer, ServerName};

use crate::trust::TrustAnchors;
use crate::verify::{Expect, PeerRefused, Usage, VerifiedPeer};

mod credentials;
mod verifier;

pub use credentials::{Credentials, TlsError};
pub use verifier::Note;
use verifier::{Shown, Verifier};

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
            .with_client_cert_verifier(self.verifier(expect, &Note::default()))
            .with_cert_resolver(Arc::new(Shown(self.credentials.clone())));
        config.alpn_protocols = protocols(alpn);
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        config.max_early_data_size = 0;
        Ok(Arc::new(config))
    }

    /// A TLS client that talks to whom `expect` says.
    pub fn client(&self, expect: Expect, leg: Leg, alpn: &[&[u8]]) -> Result<Arc<ClientConfig>, TlsError> {
        self.client_noting(expect, leg, alpn, &Note::default())
    }

    /// As [`Party::client`]; a refusal of the peer is also left in the note, for transports that keep no typed errors.
    pub fn client_noting(
        &self,
        expect: Expect,
        leg: Leg,
        alpn: &[&[u8]],
        note: &Note,
    ) -> Result<Arc<ClientConfig>, TlsError> {
        let mut config = ClientConfig::builder_with_provider(crypto(leg))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(self.verifier(expect, note))
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

    fn verifier(&self, expect: Expect, note: &Note) -> Arc<Verifier> {
        Arc::new(Verifier {
            trust: self.trust.clone(),
            expect,
            note: note.clone(),
        })
    }
}

/// The refusal inside a rustls error, if our verifier made it.
pub fn refusal(error: &rustls::Error) -> Option<&PeerRefused> {
    match error {
        rustls::Error::Other(OtherError(inner)) => inner.downcast_ref(),
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

#[cfg(test)]
mod tests;
