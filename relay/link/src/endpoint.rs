//! Sockets and QUIC endpoints.
//!
//! A server that is restarted is known to its peers only by packets that it can't read. With the secrets of [`Restart`] it
//! recognises its former connection ids and answers with the stateless reset that it promised then (RFC 9000 § 10.3): its
//! peers come back at once instead of after their idle limit. Whoever was just proving its address to it (Retry) goes on: a
//! client follows one Retry alone, and would wait in vain for what a second one asks.
//!
//! What it never does: keep a socket beyond the endpoint, or choose a port (0 unless the caller bound one).

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use aws_lc_rs::{hkdf, hmac};
use noderelay_pki::key::{KeyError, PrivateKey};
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{Endpoint, EndpointConfig, ServerConfig};

use quinn_proto::HashedConnectionIdGenerator;
use zeroize::Zeroizing;

use crate::link::LinkError;
use crate::runtime::Runtime;
use crate::transport::{LARGEST_DATAGRAM, Times, relay_transport};

/// Connections that may wait for their handshake at once: state for strangers is bounded.
const MAX_INCOMING: usize = 4096;
/// Bytes kept for one connection that was not accepted yet.
const INCOMING_BUFFER: u64 = 64 * 1024;
/// Bytes kept for all of them together.
const INCOMING_BUFFER_TOTAL: u64 = 16 * 1024 * 1024;

/// What a server has to know again after a restart.
pub struct Restart {
    reset: Zeroizing<[u8; 64]>,
    ids: Zeroizing<[u8; 8]>,
    tokens: Zeroizing<[u8; 64]>,
}

impl Restart {
    /// Derived from the server's private key, so that there is nothing more to keep. A server whose key changed between the two
    /// starts is not recognised: its peers then notice by their idle limit.
    ///
    /// # Errors
    /// The crypto library failed.
    pub fn from_key(key: &PrivateKey) -> Result<Restart, KeyError> {
        Ok(Restart {
            reset: key.derive("QUIC stateless reset")?,
            ids: key.derive("QUIC connection ids")?,
            tokens: key.derive("QUIC address tokens")?,
        })
    }

    fn config(&self) -> Result<EndpointConfig, LinkError> {
        let mut config = EndpointConfig::new(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, self.reset.as_ref())));
        let ids = u64::from_be_bytes(*self.ids);
        config.cid_generator(move || Box::new(HashedConnectionIdGenerator::from_key(ids)));
        taking_large_datagrams(config)
    }
}

fn taking_large_datagrams(mut config: EndpointConfig) -> Result<EndpointConfig, LinkError> {
    match config.max_udp_payload_size(LARGEST_DATAGRAM) {
        Ok(_) => Ok(config),
        Err(error) => Err(LinkError::Setup(error.to_string())),
    }
}

/// A server (and client) endpoint on a bound socket. Must be called within a tokio runtime.
pub fn server_endpoint(
    socket: UdpSocket,
    tls: Arc<rustls::ServerConfig>,
    restart: &Restart,
    times: &Times,
) -> Result<Endpoint, LinkError> {
    let config = server_config(tls, restart, times)?;
    Endpoint::new(restart.config()?, Some(config), socket, Arc::new(Runtime)).map_err(LinkError::Socket)
}

/// The server side's QUIC configuration, also for replacing it in a running endpoint.
pub fn server_config(
    tls: Arc<rustls::ServerConfig>,
    restart: &Restart,
    times: &Times,
) -> Result<ServerConfig, LinkError> {
    let crypto = QuicServerConfig::try_from(tls).map_err(|error| LinkError::Setup(error.to_string()))?;
    let tokens = hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(restart.tokens.as_ref());
    let mut config = ServerConfig::new(Arc::new(crypto), Arc::new(tokens));
    config
        .transport_config(relay_transport(times))
        // A NAT may give a peer another port, or address, in the middle of a connection: it goes on once the peer has shown
        // that it gets what is sent there.
        .migration(true)
        .max_incoming(MAX_INCOMING)
        .incoming_buffer_size(INCOMING_BUFFER)
        .incoming_buffer_size_total(INCOMING_BUFFER_TOTAL);
    Ok(config)
}

/// A client endpoint on a new socket of the family of `remote`, with a port of the system's choice. Must be called
/// within a tokio runtime.
pub fn client_endpoint(remote: SocketAddr) -> Result<Endpoint, LinkError> {
    let any: SocketAddr = match remote {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let config = taking_large_datagrams(EndpointConfig::default())?;
    let made = UdpSocket::bind(any).and_then(|socket| Endpoint::new(config, None, socket, Arc::new(Runtime)));
    made.map_err(|error: io::Error| LinkError::Socket(error))
}

#[cfg(test)]
mod tests;
