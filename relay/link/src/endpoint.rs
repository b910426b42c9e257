//! Sockets and QUIC endpoints.
//!
//! What it never does: keep a socket beyond the endpoint, or choose a port (0 unless the caller bound one).

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use quinn::crypto::rustls::QuicServerConfig;
use quinn::{Endpoint, EndpointConfig, ServerConfig, TokioRuntime};

use crate::link::LinkError;
use crate::transport::relay_transport;

/// Connections that may wait for their handshake at once: state for strangers is bounded.
const MAX_INCOMING: usize = 4096;
/// Bytes kept for one connection that was not accepted yet.
const INCOMING_BUFFER: u64 = 64 * 1024;
/// Bytes kept for all of them together.
const INCOMING_BUFFER_TOTAL: u64 = 16 * 1024 * 1024;

/// A server (and client) endpoint on a bound socket. Must be called within a tokio runtime.
pub fn server_endpoint(socket: UdpSocket, tls: Arc<rustls::ServerConfig>) -> Result<Endpoint, LinkError> {
    let config = server_config(tls)?;
    Endpoint::new(EndpointConfig::default(), Some(config), socket, Arc::new(TokioRuntime)).map_err(LinkError::Socket)
}

/// The server side's QUIC configuration, also for replacing it in a running endpoint.
pub fn server_config(tls: Arc<rustls::ServerConfig>) -> Result<ServerConfig, LinkError> {
    let crypto = QuicServerConfig::try_from(tls).map_err(|error| LinkError::Setup(error.to_string()))?;
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    config
        .transport_config(relay_transport())
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
    let made = UdpSocket::bind(any)
        .and_then(|socket| Endpoint::new(EndpointConfig::default(), None, socket, Arc::new(TokioRuntime)));
    made.map_err(|error: io::Error| LinkError::Socket(error))
}
