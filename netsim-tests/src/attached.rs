//! A node's place at a real relay, held by this process: a certificate of the fleet's own CA, and a registration.
//!
//! Many of them share one socket and cost this process little: agents that are attached and do nothing.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use bytes::BytesMut;
use jiff::Timestamp;
use noderelay_link::{Times, agent_transport};
use noderelay_pki::ca::{CertificateAuthority, LeafSpec};
use noderelay_pki::identity::Role;
use noderelay_pki::key::PrivateKey;
use noderelay_pki::name::NodeName;
use noderelay_pki::tls::{Credentials, Leg, Live, Party, SERVER_NAME};
use noderelay_pki::trust::TrustAnchors;
use noderelay_pki::{Expect, Identity, RoleKind};
use noderelay_proto::control::{Register, encode};
use noderelay_proto::{Frames, InstanceId, ToAgent, version};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Connection, Endpoint, RecvStream, SendStream};
use tokio::task::JoinSet;

/// Handshakes under way at once.
const AT_ONCE: usize = 24;

/// A party with a new key and certificate, who trusts this CA alone.
pub fn party(ca: &CertificateAuthority, role: Role) -> Result<Party> {
    let identity = Identity::new(ca.trust_domain().clone(), ca.cluster().clone(), role);
    let (key, now) = (PrivateKey::generate()?, Timestamp::now());
    let leaf = ca.issue(&LeafSpec::new(identity, key.public_key_der(), now))?;
    let credentials = Credentials::new(vec![leaf.into()], key, now)?;
    let trust = TrustAnchors::new(
        ca.trust_domain().clone(),
        vec![ca.entry(RoleKind::ALL.into_iter().collect())],
    )?;
    Ok(Party::new(Live::new(credentials), Live::new(trust)))
}

/// Registers a connection as its node's agent. Its node is held for as long as the control stream that is given back.
pub async fn register(connection: &Connection, instance: InstanceId) -> Result<(SendStream, RecvStream)> {
    let (mut send, mut recv) = connection.open_bi().await?;
    let mut bytes = BytesMut::new();
    encode(&Register::new(instance, "a test"), &mut bytes);
    send.write_all(&bytes).await?;
    let mut frames = Frames::<ToAgent>::new();
    loop {
        match frames.next()? {
            Some(ToAgent::Registered(registered)) if !registered.parked => return Ok((send, recv)),
            Some(other) => bail!("{other:?} instead of REGISTERED"),
            None => {
                let chunk = recv.read_chunk(4096, true).await?.context("the control stream ended")?;
                frames.push(&chunk.bytes);
            }
        }
    }
}

/// An attached agent that gets no streams, held for as long as the connection lives. All of them share one socket: ten thousand
/// would use up the descriptors.
pub async fn idle(
    ca: &CertificateAuthority,
    node: NodeName,
    relay: SocketAddr,
    socket: &Endpoint,
) -> Result<Connection> {
    let expect = Expect::Relay {
        cluster: Some(ca.cluster().clone()),
    };
    let tls = party(ca, Role::Node(node))?.client(expect, Leg::Outer, version::OUTER)?;
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    config.transport_config(agent_transport(256, &Times::default()));
    let connection = socket.connect_with(config, relay, SERVER_NAME)?.await?;
    hold(&connection).await?;
    Ok(connection)
}

/// Registers a connection and holds its node for as long as it lives.
pub async fn hold(connection: &Connection) -> Result<()> {
    let mut instance = [0; 16];
    aws_lc_rs::rand::fill(&mut instance).map_err(|_| anyhow::anyhow!("no random bytes"))?;
    let (send, mut recv) = register(connection, InstanceId::new(instance)).await?;
    tokio::spawn(async move {
        let _ = recv.read_chunk(4096, true).await;
        drop(send);
    });
    Ok(())
}

/// Attaches that many at once, never more than a few handshakes at a time; `each` makes the one with that number.
pub async fn crowd<F>(numbers: Range<usize>, each: impl Fn(usize) -> F) -> Result<Vec<Connection>>
where
    F: Future<Output = Result<Connection>> + Send + 'static,
{
    let (mut joining, mut joined) = (JoinSet::new(), Vec::new());
    let mut numbers = numbers.into_iter();
    loop {
        while joining.len() < AT_ONCE
            && let Some(number) = numbers.next()
        {
            joining.spawn(each(number));
        }
        match joining.join_next().await {
            Some(one) => joined.push(one?.context("an agent was not attached")?),
            None => return Ok(joined),
        }
    }
}
