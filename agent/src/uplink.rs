//! The agent's own connections to relays: it dials out, registers, and receives the streams that relays open.
//!
//! ```text
//! dial (new socket each time) → REGISTER / REGISTERED on a control stream → accept streams … → lost
//!   └────────────────────── wait, doubling with jitter up to a bound ────────────────────────────┘
//! ```
//!
//! One task for each relay; a lost link never disturbs another. Streams are admitted up to a bound and each gets a task of its
//! own, which outlives the link: a session ends by its own rules, not by a relay's. Never listens, never trusts what a relay
//! says beyond "this stream is for you".

use std::sync::Arc;
use std::time::Duration;

use noderelay_link::{Dialer, Link, Stream};
use noderelay_pki::Expect;
use noderelay_proto::code::Code;
use noderelay_proto::control::Register;
use noderelay_proto::id::InstanceId;
use noderelay_proto::message::{FromAgent, Opening, ToAgent};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::accept;
use crate::framed::{FrameReader, FrameWriter, FramedError};
use crate::session::{self, Node};

/// A link that lived this long starts again with the shortest wait.
const STEADY: Duration = Duration::from_secs(30);

/// A relay that finished the handshake answers a registration at once, or is sick: the next one is tried.
const REGISTERED_WITHIN: Duration = Duration::from_secs(10);

/// What a link's task tells the wiring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// The relay routes to us now.
    Attached(String),
    /// The relay holds another live agent of our name; it keeps us waiting.
    Parked(String),
}

/// Keeps one link, to whichever of `addresses` answers, until `stop`.
pub async fn keep(
    node: Arc<Node>,
    dialer: Dialer,
    addresses: Vec<String>,
    instance: InstanceId,
    said: mpsc::Sender<Said>,
    stop: CancellationToken,
) {
    let limits = &node.config.limits;
    let (least, most) = (limits.redial_min.duration(), limits.redial_max.duration());
    let slots = Arc::new(Semaphore::new(limits.handshakes));
    let mut wait = least;
    loop {
        let since = Instant::now();
        let expect = Expect::Relay {
            cluster: Some(node.own.cluster.clone()),
        };
        let ended = tokio::select! {
            () = stop.cancelled() => return,
            linked = dialer.dial(&addresses, expect) => match linked {
                Ok(link) => tokio::select! {
                    () = stop.cancelled() => {
                        link.close(Code::SessionAgentStopping).await;
                        return;
                    }
                    ended = serve(&node, &link, instance, &said, &slots) => ended.to_string(),
                },
                Err(error) => error.to_string(),
            },
        };
        if since.elapsed() >= STEADY {
            wait = least;
        }
        let pause = jittered(wait);
        tracing::warn!(%ended, ?pause, "no link to this relay; dialling again");
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => wait = (wait * 2).min(most),
        }
    }
}

/// Why a link ended.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("the relay did not take the registration: {0}")]
    Registration(FramedError),
    #[error("the relay did not answer the registration within {REGISTERED_WITHIN:?}")]
    Silent,
    #[error("the link was lost: {0}")]
    Lost(#[from] quinn::ConnectionError),
    #[error("the control stream ended: {0}")]
    Control(FramedError),
}

async fn serve(
    node: &Arc<Node>,
    link: &Link,
    instance: InstanceId,
    said: &mpsc::Sender<Said>,
    slots: &Arc<Semaphore>,
) -> Ended {
    let relay = link.peer.identity().role.name().to_owned();
    let control = async {
        let (send, recv) = link.connection.open_bi().await.map_err(std::io::Error::from)?;
        let (mut reader, mut writer) = (FrameReader::<_, ToAgent>::new(recv), FrameWriter::new(send));
        let sessions = u32::try_from(node.sessions.count()).unwrap_or(u32::MAX);
        let register = Register {
            sessions,
            ..Register::new(instance, crate::cli::software())
        };
        writer.send(&Opening::from(register)).await?;
        Ok::<_, FramedError>((reader.expect().await?, reader, writer))
    };
    let (first, mut reader, mut writer) = match tokio::time::timeout(REGISTERED_WITHIN, control).await {
        Ok(Ok(registered)) => registered,
        Ok(Err(error)) => return Ended::Registration(error),
        Err(_) => return Ended::Silent,
    };
    report(first, &relay, said);
    loop {
        tokio::select! {
            message = reader.expect() => match message {
                // The relay asks whether we live: the answer is what keeps a copy of our key from taking our place.
                Ok(ToAgent::Ping(number)) => if let Err(error) = writer.send(&FromAgent::Pong(number)).await {
                    return Ended::Control(error);
                },
                Ok(message) => report(message, &relay, said),
                Err(error) => return Ended::Control(error),
            },
            opened = link.connection.accept_bi() => match opened {
                Ok((send, recv)) => {
                    let stream = Stream::new(send, recv);
                    match Arc::clone(slots).try_acquire_owned() {
                        Ok(slot) => { node.streams.spawn(self::stream(Arc::clone(node), stream, slot)); }
                        // Left alone it would hold room in the window that all streams of the link share.
                        Err(_) => stream.reset(Code::AgentNotReady),
                    }
                }
                Err(error) => return error.into(),
            },
        }
    }
}

/// A stream that a relay opened. The slot is held until the client has asked for its session.
async fn stream(node: Arc<Node>, stream: Stream, slot: tokio::sync::OwnedSemaphorePermit) {
    let within = node.config.limits.handshake.duration();
    let routed = tokio::time::timeout(within, accept::route(stream, &node.own)).await;
    match routed {
        Ok(Ok(ours)) => session::serve(&node, ours, slot).await,
        Ok(Err((stream, error))) => {
            tracing::warn!(%error, "a relay sent a stream that is not for us");
            stream.reset(error.code());
        }
        Err(_) => tracing::info!("a relay opened a stream and sent no header"),
    }
}

fn report(message: ToAgent, relay: &str, said: &mpsc::Sender<Said>) {
    let word = match message {
        ToAgent::Registered(registered) if registered.parked => Said::Parked(relay.to_owned()),
        ToAgent::Registered(_) => Said::Attached(relay.to_owned()),
        // On DRAIN the open streams go on, and the relay closes the link itself when its time is over.
        other => return tracing::debug!(frame = %other.frame(), "from the relay"),
    };
    match &word {
        Said::Attached(relay) => tracing::info!(%relay, "attached"),
        Said::Parked(relay) => {
            tracing::error!(%relay, "another live agent has our name: two nodes share one key, or a copy runs");
        }
    }
    // Whoever listens no more, or lags behind, holds up nothing.
    let _ = said.try_send(word);
}

/// Between three quarters and five quarters of `wait`, so that agents that lost a relay together come back apart.
fn jittered(wait: Duration) -> Duration {
    let random = crate::sessions::random::<1>().map_or(128, |[byte]| byte);
    wait.mul_f64(0.75 + f64::from(random) / 512.0)
}

#[cfg(test)]
mod tests;
