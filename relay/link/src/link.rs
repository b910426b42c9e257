//! One connection of the outer leg, verified, and what is told about its end.
//!
//! What it never does: wait for an answer when it opens a stream.

use std::time::Duration;

use bytes::BytesMut;
use jiff::Timestamp;
use noderelay_pki::tls::Party;
use noderelay_pki::{Expect, PeerRefused, Usage, VerifiedPeer};
use noderelay_proto::code::{Code, Refusal};
use noderelay_proto::control::{self, RouteHeader};
use noderelay_proto::version::Version;
use quinn::{Connection, ConnectionError, Endpoint, VarInt};
use rustls_pki_types::CertificateDer;

use crate::stream::Stream;

/// How long a closing link waits for its last packet to leave.
const CLOSING: Duration = Duration::from_millis(300);

/// A connection to a verified peer.
#[derive(Debug)]
pub struct Link {
    /// The QUIC connection.
    pub connection: Connection,
    /// Who is at the other end.
    pub peer: VerifiedPeer,
    /// The version of the protocol that both sides agreed on.
    pub version: Version,
    /// The address that answered.
    pub remote: std::net::SocketAddr,
    /// The same as it was given.
    pub address: String,
    /// Held, so that the socket lives as long as the link.
    endpoint: Endpoint,
}

/// Something failed on this side of a link.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The socket.
    #[error("UDP socket: {0}")]
    Socket(#[source] std::io::Error),
    /// The TLS configuration does not fit QUIC.
    #[error("QUIC set-up: {0}")]
    Setup(String),
    /// The peer negotiated no version that we speak.
    #[error("the peer speaks no version of the protocol that this build knows")]
    Version,
    /// The peer's certificate.
    #[error(transparent)]
    Peer(#[from] PeerRefused),
    /// The connection ended.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// A stream could not be written.
    #[error("the stream could not be opened: {0}")]
    Stream(#[source] std::io::Error),
}

/// How a connection ended, told apart by what one does about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// The peer closed it with a code of ours.
    #[error("the peer closed the connection: {0}")]
    Closed(Refusal),
    /// The peer ended the TLS handshake with an alert: it does not accept us (or what we sent).
    #[error("the peer ended the TLS handshake with alert {0} ({name}); its log says why", name = alert(*.0))]
    Alert(u8),
    /// We refused the peer, or could not understand it, during the handshake.
    #[error("the handshake failed here: {0}")]
    Handshake(String),
    /// Nothing was received for longer than the idle limit.
    #[error("nothing was received for as long as a connection may be silent")]
    Silent,
    /// The peer does not know the connection any more: it was restarted, or its idle limit was over because we were stopped or asleep.
    #[error(
        "the peer does not know the connection any more: it was restarted, or it heard nothing from here for too long"
    )]
    Forgotten,
    /// We closed it.
    #[error("closed on this side")]
    Here,
    /// Anything else at the level of QUIC.
    #[error("QUIC: {0}")]
    Transport(String),
}

/// Names of the TLS alerts that one meets.
fn alert(number: u8) -> &'static str {
    match number {
        40 => "handshake failure, most likely our certificate is not accepted",
        42 => "bad certificate",
        46 => "certificate not accepted",
        43 => "unsupported certificate",
        44 => "certificate revoked",
        45 => "certificate expired",
        48 => "unknown CA",
        70 => "protocol version",
        116 => "certificate required",
        120 => "no common protocol version",
        _ => "see RFC 8446",
    }
}

impl Lost {
    /// When the peer wants to be tried again, if it said so.
    pub fn back(&self) -> Option<Duration> {
        match self {
            Lost::Closed(refusal) => refusal.back,
            _ => None,
        }
    }
}

impl From<&ConnectionError> for Lost {
    fn from(error: &ConnectionError) -> Lost {
        // QUIC carries TLS alerts as error codes 0x100 to 0x1ff (RFC 9001 § 4.8).
        let alert = |code: u64| u8::try_from(code.checked_sub(0x100)?).ok();
        match error {
            ConnectionError::ApplicationClosed(closed) => {
                Lost::Closed(Refusal::from_wire(closed.error_code.into_inner()))
            }
            ConnectionError::ConnectionClosed(closed) => match alert(u64::from(closed.error_code)) {
                Some(number) => Lost::Alert(number),
                None => Lost::Transport(noderelay_pki::text::escape(&closed.to_string(), 200)),
            },
            ConnectionError::TransportError(error) if alert(u64::from(error.code)).is_some() => {
                // What rustls puts before the text of a verifier says nothing.
                let text = error.reason.trim_start_matches("other error: ");
                Lost::Handshake(noderelay_pki::text::escape(text, 800))
            }
            ConnectionError::TimedOut => Lost::Silent,
            ConnectionError::Reset => Lost::Forgotten,
            ConnectionError::LocallyClosed => Lost::Here,
            other => Lost::Transport(noderelay_pki::text::escape(&other.to_string(), 200)),
        }
    }
}

impl Link {
    /// Wraps a client connection whose handshake is complete.
    pub(crate) fn new(
        connection: Connection,
        endpoint: Endpoint,
        address: &str,
        party: &Party,
        expect: &Expect,
        now: Timestamp,
    ) -> Result<Link, LinkError> {
        let peer = peer(&connection, party, Usage::Server, expect, now)?;
        let version = version(&connection).ok_or(LinkError::Version)?;
        Ok(Link {
            remote: connection.remote_address(),
            address: address.to_owned(),
            connection,
            peer,
            version,
            endpoint,
        })
    }

    /// Opens a stream and writes its header. Waits for no answer: what the caller writes next goes out with it.
    pub async fn open(&self, header: &RouteHeader) -> Result<Stream, LinkError> {
        let (mut send, recv) = self.connection.open_bi().await.map_err(|error| Lost::from(&error))?;
        let mut bytes = BytesMut::new();
        control::encode(header, &mut bytes);
        send.write_all(&bytes)
            .await
            .map_err(|error| LinkError::Stream(error.into()))?;
        Ok(Stream::new(send, recv))
    }

    /// Why the connection ended, once it has.
    pub fn lost(&self) -> Option<Lost> {
        self.connection.close_reason().as_ref().map(Lost::from)
    }

    /// Closes the connection with a code, and waits (a moment at most) until the peer was told.
    pub async fn close(self, code: Code) {
        self.connection.close(VarInt::from_u32(code.number()), b"");
        // Only a courtesy: without it the peer notices by its idle limit.
        let _ = tokio::time::timeout(CLOSING, self.endpoint.wait_idle()).await;
    }
}

/// The version that the peers of a connection agreed on by ALPN.
pub fn version(connection: &Connection) -> Option<Version> {
    let data = connection
        .handshake_data()?
        .downcast::<quinn::crypto::rustls::HandshakeData>()
        .ok()?;
    Version::from_outer_alpn(data.protocol.as_deref()?)
}

/// The verified peer of an accepted connection.
pub fn accepted(
    connection: &Connection,
    party: &Party,
    expect: &Expect,
    now: Timestamp,
) -> Result<VerifiedPeer, PeerRefused> {
    peer(connection, party, Usage::Client, expect, now)
}

fn peer(
    connection: &Connection,
    party: &Party,
    usage: Usage,
    expect: &Expect,
    now: Timestamp,
) -> Result<VerifiedPeer, PeerRefused> {
    let chain = connection
        .peer_identity()
        .and_then(|any| any.downcast::<Vec<CertificateDer<'static>>>().ok());
    party.peer(chain.as_ref().map(|chain| chain.as_slice()), usage, expect, now)
}

#[cfg(test)]
mod tests;
