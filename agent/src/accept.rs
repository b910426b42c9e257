//! From a stream that a relay opened to a client whose certificate the node saw itself.
//!
//! ```text
//! ROUTE (names this node?) → inner TLS, both sides show a certificate → OPEN (repeats cluster, node, purpose)
//!                                                                      → STANDBY … OPEN, certificate looked at again
//! ```
//!
//! Everything up to `OPEN` is bounded in time and size. The relay's header is only a claim: what it says is compared with
//! what the node is, and again with what the client says inside the TLS. Never asks the policy and starts nothing.

use std::io;
use std::time::Duration;

use bytes::BytesMut;
use jiff::Timestamp;
use noderelay_link::identity_code;
use noderelay_pki::identity::RoleKind;
use noderelay_pki::name::{ClusterName, NodeName};
use noderelay_pki::tls::{Leg, Party, refusal_in};
use noderelay_pki::verify::{Expect, PeerRefused, Usage, VerifiedPeer};
use noderelay_proto::code::Code;
use noderelay_proto::control::{Open, Purpose, RouteHeader, StandingBy};
use noderelay_proto::error::ProtocolError;
use noderelay_proto::frame::{Decoder, Direction};
use noderelay_proto::message::{Opening, ToClient, ToNode};
use noderelay_proto::version::Version;
use noderelay_proto::{resume, version};
use rustls_pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadHalf, WriteHalf};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::framed::{FrameReader, FrameWriter, FramedError};

/// Who may open sessions at all.
pub const CLIENTS: &[RoleKind] = &[RoleKind::User, RoleKind::BreakGlass];

/// The node's own names, from its certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Own {
    /// Its cluster.
    pub cluster: ClusterName,
    /// Its name.
    pub node: NodeName,
}

/// Who came, and the proof of it.
pub struct Client {
    /// As verified.
    pub peer: VerifiedPeer,
    chain: Vec<CertificateDer<'static>>,
    at: Timestamp,
}

impl Client {
    /// Whether the certificate would still be accepted: its expiry ends nothing that is open, a CA that was removed does.
    ///
    /// # Errors
    /// Why not.
    pub fn verify_again(&self, party: &Party) -> Result<VerifiedPeer, PeerRefused> {
        party.peer(Some(&self.chain), Usage::Client, &Expect::Roles(CLIENTS), self.at)
    }
}

/// Whoever came over a stream, authenticated by the node itself.
pub enum Arrived<S> {
    /// With a wish for a session.
    Session(Box<Accepted<S>>),
    /// Ahead of time.
    Early(Early<S>),
}

/// A client without a wish: what it gets is decided when it has one.
pub struct Early<S>(Box<Inside<S>>);

/// The inner leg of an authenticated client.
struct Inside<S> {
    client: Client,
    resume_key: [u8; resume::LENGTH],
    reader: FrameReader<ReadHalf<TlsStream<S>>, ToNode>,
    writer: FrameWriter<WriteHalf<TlsStream<S>>>,
}

/// A client that asked for a session, authenticated by the node itself.
pub struct Accepted<S> {
    /// Who it is.
    pub client: Client,
    /// What it wants.
    pub open: Open,
    /// The key that a later return to this session is proven with; never sent.
    pub resume_key: [u8; resume::LENGTH],
    /// The client's frames.
    pub reader: FrameReader<ReadHalf<TlsStream<S>>, ToNode>,
    /// Frames to the client.
    pub writer: FrameWriter<WriteHalf<TlsStream<S>>>,
}

/// Why a stream did not get as far as a wish for a session.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    /// The relay's header is not for this node: the relay's fault.
    #[error("the route header is for {cluster}/{node} ({purpose}), not for a session on this node")]
    NotForUs {
        /// The cluster it names.
        cluster: String,
        /// The node it names.
        node: String,
        /// The purpose it names.
        purpose: &'static str,
    },
    /// Inner TLS failed; with a client's certificate that is refused, this holds the reason.
    #[error("inner TLS: {0}")]
    Tls(#[source] io::Error),
    /// The client offers no version of the session protocol that we speak.
    #[error("the client offers no version of the session protocol that this agent speaks")]
    Version,
    /// A stream or frame was broken.
    #[error(transparent)]
    Framed(#[from] FramedError),
    /// The first frame inside is not OPEN.
    #[error("the first message was {0}, not OPEN")]
    NotOpen(noderelay_proto::frame::Type),
    /// The certificate was good when the client came, and is not any more.
    #[error("the client's certificate is not accepted any more: {0}")]
    Refused(#[source] PeerRefused),
    /// What OPEN repeats differs from the node or the header: a client's fault, or an attack on the path.
    #[error("the client asks for {0}, which is not this node")]
    WrongNode(String),
}

impl AcceptError {
    /// The code for log and peer.
    pub fn code(&self) -> Code {
        match self {
            Self::NotForUs { .. } => Code::RelayNoSuchNode,
            Self::Tls(e) => refusal_in(e).map_or(Code::TransportTls, identity_code),
            Self::Refused(refused) => identity_code(refused),
            Self::Version => Code::ProtocolVersion,
            Self::Framed(e) => e.code(),
            Self::NotOpen(_) => Code::ProtocolOutOfOrder,
            Self::WrongNode(_) => Code::ProtocolWrongNode,
        }
    }
}

impl From<ProtocolError> for AcceptError {
    fn from(error: ProtocolError) -> Self {
        Self::Framed(error.into())
    }
}

/// A stream whose header names this node, for a session.
pub struct ForUs<S>(S);

/// Reads the relay's header and nothing behind it.
///
/// # Errors
/// A broken header, or one that is for somebody else; the stream is returned to be reset with the code.
pub async fn route<S: AsyncRead + Unpin>(mut stream: S, own: &Own) -> Result<ForUs<S>, (S, AcceptError)> {
    match header(&mut stream).await.and_then(|header| for_us(&header, own)) {
        Ok(()) => Ok(ForUs(stream)),
        Err(error) => Err((stream, error)),
    }
}

/// Inner TLS, then the wish, or the word that there is none yet. `stream` has passed [`route`].
///
/// # Errors
/// See [`AcceptError`]. What has to be said to an authenticated client is said before this returns.
pub async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
    ForUs(stream): ForUs<S>,
    party: &Party,
    own: &Own,
    now: impl Fn() -> Timestamp,
) -> Result<Arrived<S>, AcceptError> {
    let tls = |error: &dyn std::fmt::Display| AcceptError::Tls(io::Error::other(error.to_string()));
    let config = party
        .server(Expect::Roles(CLIENTS), Leg::Inner, version::INNER)
        .map_err(|e| tls(&e))?;
    let stream = TlsAcceptor::from(config)
        .accept(stream)
        .await
        .map_err(AcceptError::Tls)?;
    let (_, connection) = stream.get_ref();
    // Verified once more from the certificates that the connection holds: no state of the handshake can stand in for it.
    let (at, chain) = (now(), connection.peer_certificates().unwrap_or_default());
    let peer = party
        .peer(Some(chain), Usage::Client, &Expect::Roles(CLIENTS), at)
        .map_err(|e| tls(&e))?;
    let chain = chain.iter().map(|c| c.clone().into_owned()).collect();
    let client = Client { peer, chain, at };
    // rustls lets a client pass that offers no protocol at all.
    if connection.alpn_protocol().and_then(Version::from_inner_alpn).is_none() {
        return Err(AcceptError::Version);
    }
    let resume_key = connection
        .export_keying_material([0; resume::LENGTH], resume::KEY_LABEL, None)
        .map_err(|e| tls(&e))?;
    let (read, write) = tokio::io::split(stream);
    let mut inside = Inside {
        client,
        resume_key,
        reader: FrameReader::new(read),
        writer: FrameWriter::new(write),
    };
    match inside.reader.demand().await {
        Ok(ToNode::Standby(standby)) if is_node(&standby.cluster, &standby.node, standby.purpose, own) => {
            Ok(Arrived::Early(Early(Box::new(inside))))
        }
        Ok(ToNode::Standby(standby)) => {
            let error = AcceptError::WrongNode(format!("{}/{}", standby.cluster, standby.node));
            // It is on its way out, whether it hears why or not.
            let _ = inside.close(error.code(), &error.to_string()).await;
            Err(error)
        }
        first => inside
            .wish(first, own)
            .await
            .map(|accepted| Arrived::Session(Box::new(accepted))),
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Inside<S> {
    /// The wish in this first message. What has to be said when there is none is said before this returns.
    async fn wish(mut self, first: Result<ToNode, FramedError>, own: &Own) -> Result<Accepted<S>, AcceptError> {
        let wish = match first {
            Ok(ToNode::Open(open)) => check(open, own),
            Ok(ToNode::Resume(_)) => {
                let closed = closed(Code::SessionUnknown, "this node can't resume sessions yet");
                let _ = self.writer.send(&closed).await;
                return Err(AcceptError::NotOpen(noderelay_proto::frame::Type::Resume));
            }
            Ok(other) => Err(AcceptError::NotOpen(other.frame())),
            Err(error) => Err(error.into()),
        };
        match wish {
            Ok(open) => Ok(Accepted {
                client: self.client,
                open,
                resume_key: self.resume_key,
                reader: self.reader,
                writer: self.writer,
            }),
            Err(error) => {
                // It is on its way out, whether it hears why or not.
                let _ = self.close(error.code(), &error.to_string()).await;
                Err(error)
            }
        }
    }

    async fn close(&mut self, code: Code, seen: &str) -> Result<(), FramedError> {
        self.writer.send(&closed(code, seen)).await?;
        self.writer.finish().await
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Early<S> {
    /// Who it is.
    pub fn client(&self) -> &Client {
        &self.0.client
    }

    /// Says for how long a wish is waited for.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn stand_by(&mut self, within: Duration) -> Result<(), FramedError> {
        let secs = u32::try_from(within.as_secs()).unwrap_or(u32::MAX);
        self.0.writer.send(&ToClient::from(StandingBy { secs })).await
    }

    /// Waits until the client says something; `false` when it left. Cancel safe, and holds no buffer.
    pub async fn said_something(&mut self) -> bool {
        self.0.reader.wait().await.unwrap_or(false)
    }

    /// Sends the client away.
    ///
    /// # Errors
    /// It is gone.
    pub async fn close(&mut self, code: Code, seen: &str) -> Result<(), FramedError> {
        self.0.close(code, seen).await
    }

    /// Takes the wish. The client is who its certificate says now, by what is trusted now.
    ///
    /// # Errors
    /// See [`AcceptError`]. What has to be said is said before this returns.
    pub async fn open(self, party: &Party, own: &Own, now: impl Fn() -> Timestamp) -> Result<Accepted<S>, AcceptError> {
        let Self(mut inside) = self;
        let first = inside.reader.demand().await;
        let at = now();
        match party.peer(Some(&inside.client.chain), Usage::Client, &Expect::Roles(CLIENTS), at) {
            Ok(peer) => (inside.client.peer, inside.client.at) = (peer, at),
            Err(refused) => {
                let error = AcceptError::Refused(refused);
                // It is on its way out, whether it hears why or not.
                let _ = inside.close(error.code(), &error.to_string()).await;
                return Err(error);
            }
        }
        inside.wish(first, own).await
    }
}

fn closed(code: Code, seen: &str) -> ToClient {
    let seen = crate::refusal::shown(seen);
    noderelay_proto::control::Closed {
        code: code.number(),
        seen,
    }
    .into()
}

/// Takes one byte at a time, so that nothing of the TLS behind the header is taken: a header has some 60 bytes.
async fn header<S: AsyncRead + Unpin>(stream: &mut S) -> Result<RouteHeader, AcceptError> {
    let mut decoder = Decoder::with(Direction::Opening, BytesMut::with_capacity(128));
    loop {
        let byte = stream.read_u8().await.map_err(FramedError::Io)?;
        decoder.push(&[byte]);
        if let Some((frame, payload)) = decoder.next_frame()? {
            return match Opening::decode(frame, payload)? {
                Opening::Route(header) => Ok(header),
                Opening::Register(_) => Err(ProtocolError::WrongDirection(frame).into()),
            };
        }
    }
}

fn for_us(header: &RouteHeader, own: &Own) -> Result<(), AcceptError> {
    if is_node(&header.cluster, &header.node, header.purpose, own) {
        return Ok(());
    }
    let purpose = Purpose::try_from(header.purpose).map_or("unknown", Purpose::name);
    Err(AcceptError::NotForUs {
        cluster: header.cluster.clone(),
        node: header.node.clone(),
        purpose,
    })
}

fn check(open: Open, own: &Own) -> Result<Open, AcceptError> {
    if is_node(&open.cluster, &open.node, open.purpose, own) {
        return Ok(open);
    }
    Err(AcceptError::WrongNode(format!("{}/{}", open.cluster, open.node)))
}

fn is_node(cluster: &str, name: &str, purpose: i32, own: &Own) -> bool {
    cluster == own.cluster.as_str() && name == own.node.as_str() && purpose == i32::from(Purpose::Session)
}

#[cfg(test)]
mod tests;
