//! The inner TLS, end to end with the node, and the opening of a session in it.
//!
//! ```text
//! ── ClientHello ──>          (behind the route header, in the same flight)
//! <── node certificate ──     exactly the node that was asked for, else nothing is sent
//! ── Finished, OPEN ──>       one flight
//! <── OPENED | DENIED | CLOSED ──
//! ```
//!
//! OPEN is handed to TLS before the handshake and leaves together with Finished: TLS holds it back until the node has
//! proved who it is. No resumption, no 0-RTT (see [`noderelay_pki::tls`]).
//!
//! It works over any stream, tries once, and never falls back to anything weaker.

use std::io::Write;
use std::time::Duration;

use bytes::BytesMut;
use noderelay_pki::tls::{Leg, Party, server_name};
use noderelay_pki::{Expect, Identity};
use noderelay_proto::code::{Code, Origin};
use noderelay_proto::control::{Open, Opened};
use noderelay_proto::{Frames, ToClient, ToNode, Version, version};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::faults::{self, Fault};
use crate::frames;

#[cfg(test)]
mod tests;

/// How long the node may take for its part of the handshake.
pub const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long it may take to decide, open the recording and answer.
pub const ANSWER: Duration = Duration::from_secs(30);
/// What TLS keeps back for us before it refuses more, once the connection is up.
const TLS_BUFFER: usize = 64 * 1024;

/// What a session's frames travel over, whatever carries it.
pub trait Duplex: AsyncRead + AsyncWrite + Unpin + Send + std::fmt::Debug {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + std::fmt::Debug> Duplex for S {}

/// An open session.
#[derive(Debug)]
pub struct Session<S> {
    /// The inner TLS, or a carrier of what is said inside it.
    pub stream: S,
    /// What came behind OPENED.
    pub frames: Frames<ToClient>,
    /// The terms.
    pub opened: Opened,
}

impl<S: Duplex + 'static> Session<S> {
    /// The same, with what carries it out of sight.
    pub fn boxed(self) -> Session<Box<dyn Duplex>> {
        Session {
            stream: Box::new(self.stream),
            frames: self.frames,
            opened: self.opened,
        }
    }
}

/// Why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What happened.
    pub fault: Fault,
    /// The policy that was asked, when one was.
    pub policy_version: Option<u64>,
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self {
            fault,
            policy_version: None,
        }
    }
}

/// Makes the inner connection to `node`, with `early` as its first bytes.
///
/// # Errors
/// The node is not who it should be, does not accept us, or the path failed or took longer than `within`.
pub async fn connect<S>(
    stream: S,
    party: &Party,
    node: &Identity,
    early: &[u8],
    within: Duration,
) -> Result<TlsStream<S>, Fault>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let internal = |error: String| Fault::new(Code::ClientInternal, Origin::Client, error);
    let config = party
        .client(Expect::Exactly(node.clone()), Leg::Inner, version::INNER)
        .map_err(|error| internal(error.to_string()))?;
    let mut kept = Ok(());
    let connecting = TlsConnector::from(config).connect_with(server_name(), stream, |connection| {
        connection.set_buffer_limit(None);
        kept = connection.writer().write_all(early);
        connection.set_buffer_limit(Some(TLS_BUFFER));
    });
    kept.map_err(|error| internal(error.to_string()))?;
    let stream = match timeout(within, connecting).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Err(faults::before_proof(&error)),
        Err(_) => {
            return Err(Fault::on_the_way(
                Code::TransportTimeout,
                "the node did not answer the inner TLS handshake",
            ));
        }
    };
    match stream.get_ref().1.alpn_protocol().and_then(Version::from_inner_alpn) {
        Some(_) => Ok(stream),
        None => Err(Fault::new(
            Code::ProtocolVersion,
            Origin::Client,
            "the node agreed on no version of the session protocol",
        )),
    }
}

/// Opens a session on `node`.
///
/// # Errors
/// The connection failed, or the node refused.
pub async fn open<S>(stream: S, party: &Party, node: &Identity, wish: Open) -> Result<Session<TlsStream<S>>, Refusal>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut early = BytesMut::new();
    ToNode::Open(wish).encode(&mut early);
    let stream = connect(stream, party, node, &early, HANDSHAKE).await?;
    opened(stream, node, ANSWER).await
}

/// Waits for what `node` says to the wish that it was sent.
///
/// # Errors
/// The connection failed, nothing came `within` this time, or the node refused.
pub async fn opened<S: AsyncRead + Unpin>(
    mut stream: S,
    node: &Identity,
    within: Duration,
) -> Result<Session<S>, Refusal> {
    let mut frames = Frames::new();
    let opened = match timeout(within, answer(&mut stream, &mut frames)).await {
        Ok(answer) => answer?,
        Err(_) => {
            return Err(
                Fault::on_the_way(Code::TransportTimeout, "the node did not answer the wish for a session").into(),
            );
        }
    };
    let Target { name, cluster } = Target::of(node);
    if (opened.node.as_str(), opened.cluster.as_str()) != (name, cluster) {
        let seen = format!("the session is on node {} of cluster {}", opened.node, opened.cluster);
        return Err(Fault::new(Code::ProtocolWrongNode, Origin::Client, seen).into());
    }
    Ok(Session { stream, frames, opened })
}

struct Target<'a> {
    name: &'a str,
    cluster: &'a str,
}

impl<'a> Target<'a> {
    fn of(node: &'a Identity) -> Self {
        Self {
            name: node.role.name(),
            cluster: node.cluster.as_str(),
        }
    }
}

async fn answer<R: AsyncRead + Unpin>(stream: &mut R, frames: &mut Frames<ToClient>) -> Result<Opened, Refusal> {
    let message = frames::next(stream, frames)
        .await
        .map_err(|error| error.fault("the stream ended before the node answered"))?;
    match message {
        ToClient::Opened(opened) => Ok(opened),
        ToClient::Denied(denied) => Err(Refusal {
            fault: Fault::new(Code::from_number(denied.code), Origin::Agent, denied.seen),
            policy_version: (denied.policy_version > 0).then_some(denied.policy_version),
        }),
        ToClient::Closed(closed) => Err(Fault::new(Code::from_number(closed.code), Origin::Agent, closed.seen).into()),
        other => {
            let seen = format!("the node sent {} before it answered", other.frame());
            Err(Fault::new(Code::ProtocolOutOfOrder, Origin::Client, seen).into())
        }
    }
}
