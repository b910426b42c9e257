//! The warm path: a process of the user's that keeps connections to relays, and inner legs to nodes that were used lately, so that a
//! session opens in two round trips, or in one.
//!
//! ```text
//! noderelay NODE ── ASK ──> warm process ── a stream on its QUIC connection ──────────> relay ──> node     2 round trips:
//!                <─ ANSWER                                                                             the inner TLS is ours
//!                ── ASK ──> warm process ── an inner leg that stands ─────────────────────────> node     1 round trip:
//!                <─ ANSWER                                                                             OPEN is what comes next
//!                no answer, or one that does not help: the client dials by itself, as without it
//! ```
//!
//! [`place`] (folder, socket, lock) → [`ask`] (the client's side) → [`carried`] (what the client got) | [`process`] (the other side) →
//! [`keeper`] (what is kept) → [`relays`], [`standby`] → [`carry`] (bytes both ways); [`seats`] (how many at once), [`shown`] for people.
//!
//! The process is the same user, has the same configuration and reads the same files: it can do nothing that the client could
//! not. Each session is authorized by the node as ever. What it never does: fail a command that would work without it, keep a
//! secret that is not on the disk, listen to another user, or let a terminal hold it.

use bytes::BytesMut;
use noderelay_proto::{OpenId, ToNode, control};
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;

use crate::config::Config;
use crate::creds::Creds;
use crate::faults;
use crate::inner::{self, Duplex, Refusal, Session};
use crate::target::Target;
use ask::Leg;

pub mod ask;
pub(crate) mod carried;
mod carry;
mod keeper;
pub mod log;
pub mod place;
pub mod process;
mod relays;
mod seats;
pub mod shown;
mod standby;

#[cfg(test)]
mod tests;

/// The node's first flight over a warm connection must be here by then, or the client dials: a path that has died without a word
/// must not cost the ten seconds that a cold handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(2);
/// The same for the answer to OPEN on a standby. The same OPEN over another path then gets the same session.
const ANSWER: Duration = Duration::from_secs(3);

/// A session that was opened over what is kept warm.
#[derive(Debug)]
pub struct Reached {
    /// The relay that it leads through.
    pub relay: String,
    /// The session.
    pub session: Session<Box<dyn Duplex>>,
}

/// Opens a session over what is kept warm; nothing when that can't be done, for whatever reason: then the client dials.
///
/// # Errors
/// What the node itself said, inside the inner TLS: that is final on any path.
pub async fn reach(
    config: &Config,
    creds: &Creds,
    target: &Target,
    wish: &control::Open,
) -> Result<Option<Reached>, Refusal> {
    let given = match ask::stream(config, creds, target).await {
        Ok(given) => given,
        Err(why) => {
            tracing::info!(%why, "nothing is warm; dialling");
            return Ok(None);
        }
    };
    let (relay, standby) = (given.relay.clone(), matches!(given.leg, Leg::Standby { .. }));
    tracing::debug!(relay, standby, open_id = ?OpenId::from_slice(&wish.open_id), "over what is kept warm");
    match open(given, creds, target, wish).await {
        Ok(session) => Ok(Some(Reached { relay, session })),
        Err(refusal) if refusal.fault.is_transport() => {
            let (code, seen) = (refusal.fault.code.name(), &refusal.fault.seen);
            tracing::info!(relay, standby, code, seen, "what was warm did not work; dialling");
            Ok(None)
        }
        Err(refusal) => Err(refusal),
    }
}

async fn open(
    given: ask::Given,
    creds: &Creds,
    target: &Target,
    wish: &control::Open,
) -> Result<Session<Box<dyn Duplex>>, Refusal> {
    let mut bytes = BytesMut::new();
    ToNode::Open(wish.clone()).encode(&mut bytes);
    match given.leg {
        Leg::Standby { mut carried, .. } => {
            let limit = ANSWER.max(given.rtt * 4);
            carried
                .write_all_buf(&mut bytes)
                .await
                .map_err(|error| faults::of_stream(&error))?;
            Ok(inner::opened(carried, &target.identity, limit).await?.boxed())
        }
        Leg::Ours(carried) => {
            let limit = HANDSHAKE.max(given.rtt * 4);
            let stream = inner::connect(carried, &creds.party, &target.identity, &bytes, limit).await?;
            Ok(inner::opened(stream, &target.identity, inner::ANSWER).await?.boxed())
        }
    }
}
