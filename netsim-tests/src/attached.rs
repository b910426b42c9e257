//! A node's place at a real relay, held by this process: a certificate of the fleet's own CA, and a registration.

use anyhow::{Context as _, Result, bail};
use bytes::BytesMut;
use jiff::Timestamp;
use noderelay_pki::ca::{CertificateAuthority, LeafSpec};
use noderelay_pki::identity::Role;
use noderelay_pki::key::PrivateKey;
use noderelay_pki::tls::{Credentials, Live, Party};
use noderelay_pki::trust::TrustAnchors;
use noderelay_pki::{Identity, RoleKind};
use noderelay_proto::control::{Register, encode};
use noderelay_proto::{Frames, InstanceId, ToAgent};
use quinn::{Connection, RecvStream, SendStream};

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
