//! The agent's own connections to relays: it dials out, registers, and receives the streams that relays open.
//!
//! ```text
//! dial (new socket each time) → REGISTER / REGISTERED on a control stream → accept streams … → lost
//!   │                                                                  └ DRAIN: leave within its spread; what runs, runs on
//!   └──── wait (`Backoff`), and until the time that a refusal or DRAIN announced (`Doors`) ─────────┘
//! a link that was left ─> closed by the relay, or here once it carries nothing
//! ```
//!
//! One task for each relay; a lost link never disturbs another. Streams are admitted up to a bound and each gets a task of its
//! own, which outlives the link: a session ends by its own rules, not by a relay's. Never listens, never trusts what a relay
//! says beyond "this stream is for you".

mod alive;
mod doors;

use std::sync::Arc;
use std::time::Duration;

use noderelay_link::backoff::{self, Backoff};
use noderelay_link::{DialError, Dialer, Link, Lost, Stream};
use noderelay_pki::Expect;
use noderelay_proto::code::Code;
use noderelay_proto::control::{Register, Registered};
use noderelay_proto::frame::Type;
use noderelay_proto::id::InstanceId;
use noderelay_proto::message::{FromAgent, Opening, ToAgent};
use noderelay_service::metrics::Held;
use quinn::{RecvStream, SendStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::alive::{Alive, Due};
use self::doors::Doors;
use crate::accept;
use crate::framed::{FrameReader, FrameWriter, FramedError};
use crate::metrics::Metrics;
use crate::session::{self, Node};

/// What a link's task tells the wiring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// The relay routes to us now.
    Attached(String),
    /// The relay holds another live agent of our name; it keeps us waiting.
    Parked(String),
}

/// Keeps one link, to whichever of `doors` (addresses, each with the relay that must be behind it) answers, until `stop`.
pub async fn keep(
    node: Arc<Node>,
    dialer: Dialer,
    doors: Vec<(String, Expect)>,
    instance: InstanceId,
    said: mpsc::Sender<Said>,
    stop: CancellationToken,
) {
    let limits = &node.config.limits;
    let mut backoff = Backoff::new(limits.redial_min.duration(), limits.redial_max.duration());
    let slots = Arc::new(Semaphore::new(limits.handshakes));
    let mut doors = Doors::new(doors);
    loop {
        let since = Instant::now();
        let mut code = None;
        let mut at_once = false;
        let open = doors.open(since);
        let ended = tokio::select! {
            () = stop.cancelled() => return,
            linked = dialer.dial_each(&open) => match linked {
                Ok(link) => {
                    let (peer, address) = (link.peer.identity().clone(), link.address.clone());
                    let uplink = Uplink {
                        node: Arc::clone(&node),
                        relay: link.peer.identity().role.name().to_owned(),
                        link,
                        said: said.clone(),
                        slots: Arc::clone(&slots),
                        carried: Arc::default(),
                        stop: stop.clone(),
                    };
                    let ended = uplink.serve(instance).await;
                    if let Ended::Stopped = ended {
                        return;
                    }
                    doors.last(&address, &peer);
                    if let Some(until) = ended.back(Instant::now()) {
                        doors.close(&address, Some(&peer), until);
                    }
                    // The wait was the spread; the next relay is dialled at once. One that sends everybody away as soon as they
                    // come is dialled like one that is lost.
                    at_once = matches!(ended, Ended::Left(_)) && since.elapsed() >= backoff::STEADY;
                    ended.to_string()
                }
                Err(error) => {
                    close_refusing(&mut doors, &error);
                    code = Some(error.code());
                    error.to_string()
                }
            },
        };
        let now = Instant::now();
        let opens = doors.opens(now).map(|opens| opens - now);
        if at_once && opens.is_none() {
            continue;
        }
        if !at_once {
            node.metrics.links_lost.inc();
        }
        let pause = backoff
            .pause(since.elapsed(), backoff::random())
            .max(opens.unwrap_or_default());
        let code = code.map(tracing::field::display);
        tracing::warn!(%ended, code, ?pause, "no link to this relay; dialling again");
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Leaves those alone who said during the handshake when they want to be tried again.
fn close_refusing(doors: &mut Doors, error: &DialError) {
    let DialError::AllFailed(attempts) = error else { return };
    for attempt in attempts {
        if let Some(back) = attempt.cause.back() {
            doors.close(&attempt.address, None, come_back(back, Instant::now()));
        }
    }
}

fn come_back(announced: Duration, now: Instant) -> Instant {
    now + backoff::come_back_after(announced, backoff::random())
}

/// Why a link ended.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("the agent stops")]
    Stopped,
    #[error("the relay drains")]
    Left(Leave),
    #[error("the relay did not take the registration: {0}")]
    Registration(FramedError),
    #[error("the relay answered the registration with {0}")]
    OutOfOrder(Type),
    #[error("the relay took nothing on the control stream for {0:?}")]
    Deaf(Duration),
    #[error("the relay did not answer the registration within {0:?}")]
    Silent(Duration),
    #[error("the relay answered nothing for {0:?}, whatever arrived from it: the path is dead")]
    Unheard(Duration),
    #[error("the link was lost: {0}")]
    Lost(Lost),
    #[error("the control stream ended: {0}")]
    Control(FramedError),
}

impl Ended {
    /// Until when the relay wants to be left alone, if it said so.
    fn back(&self, now: Instant) -> Option<Instant> {
        match self {
            Self::Left(leave) => leave.back,
            Self::Lost(lost) => lost.back().map(|back| come_back(back, now)),
            _ => None,
        }
    }
}

/// What a draining relay asks for.
#[derive(Debug, Clone, Copy)]
struct Leave {
    at: Instant,
    /// When it expects to be back, if it said so.
    back: Option<Instant>,
}

/// One link with all that its streams need.
struct Uplink {
    node: Arc<Node>,
    relay: String,
    link: Link,
    said: mpsc::Sender<Said>,
    slots: Arc<Semaphore>,
    /// Shared with each stream of this link.
    carried: Arc<()>,
    stop: CancellationToken,
}

type Reader = FrameReader<RecvStream, ToAgent>;
type Writer = FrameWriter<SendStream>;

impl Uplink {
    async fn serve(self, instance: InstanceId) -> Ended {
        let mut ended = self.work(instance).await;
        // A stream only says that its connection is gone; the connection says why.
        if let (Ended::Control(_) | Ended::Registration(_), Some(lost)) = (&ended, self.link.lost()) {
            ended = Ended::Lost(lost);
        }
        match ended {
            Ended::Stopped => self.link.close(Code::SessionAgentStopping).await,
            Ended::Left(_) => _ = tokio::spawn(self.let_go()),
            _ => {}
        }
        ended
    }

    /// After it was left nothing new comes over a link. The relay closes it when its time is over or the last stream has ended;
    /// one that does not do so keeps nothing here.
    async fn let_go(self) {
        let a_while = self.node.config.limits.registration.duration();
        let code = loop {
            tokio::select! {
                () = self.stop.cancelled() => break Code::SessionAgentStopping,
                _ = self.link.connection.closed() => return,
                () = tokio::time::sleep(a_while) => if !self.carries() { break Code::Ok },
            }
        };
        self.link.close(code).await;
    }

    /// Whether anything runs over this link, or may be about to.
    fn carries(&self) -> bool {
        Arc::strong_count(&self.carried) > 1
    }

    async fn work(&self, instance: InstanceId) -> Ended {
        let within = self.node.config.limits.registration.duration();
        let registered = tokio::select! {
            () = self.stop.cancelled() => return Ended::Stopped,
            registered = tokio::time::timeout(within, self.register(instance)) => registered,
        };
        let (standing, mut reader, mut writer) = match registered {
            Ok(Ok((ToAgent::Registered(first), reader, writer))) => (Standing::of(&first), reader, writer),
            Ok(Ok((other, ..))) => return Ended::OutOfOrder(other.frame()),
            Ok(Err(error)) => return Ended::Registration(error),
            // A relay that finished the handshake answers a registration at once, or is sick: the next one is tried.
            Err(_) => return Ended::Silent(within),
        };
        let ended = self.attend(standing, &mut reader, &mut writer).await;
        if let Ended::Left(_) = ended {
            let _ = tokio::time::timeout(within, writer.finish()).await;
        }
        ended
    }

    async fn register(&self, instance: InstanceId) -> Result<(ToAgent, Reader, Writer), FramedError> {
        let (send, recv) = self.link.connection.open_bi().await.map_err(std::io::Error::from)?;
        let (mut reader, mut writer) = (FrameReader::new(recv), FrameWriter::new(send));
        let sessions = u32::try_from(self.node.sessions.count()).unwrap_or(u32::MAX);
        let register = Register {
            sessions,
            ..Register::new(instance, crate::cli::software())
        };
        writer.send(&Opening::from(register)).await?;
        Ok((reader.demand().await?, reader, writer))
    }

    /// Until the link is lost, or left. What a relay says again and again is neither followed nor logged again.
    async fn attend(&self, mut standing: Standing, reader: &mut Reader, writer: &mut Writer) -> Ended {
        let report = |standing| report(standing, &self.relay, &self.said, &self.node.metrics);
        let mut _place = report(standing);
        let mut leaving: Option<Leave> = None;
        let mut alive = Alive::new(self.node.config.quic.idle.duration(), Instant::now());
        loop {
            let busy = self.carries();
            tokio::select! {
                () = self.stop.cancelled() => return Ended::Stopped,
                leave = until(leaving) => return Ended::Left(leave),
                message = reader.demand() => match message {
                    // The relay asks whether we live: the answer is what keeps a copy of our key from taking our place.
                    Ok(ToAgent::Ping(number)) => if let Err(ended) = self.say(writer, &FromAgent::Pong(number)).await {
                        return ended;
                    },
                    Ok(ToAgent::Pong(number)) => alive.heard(number, Instant::now()),
                    Ok(ToAgent::Drain(drain)) if leaving.is_none() => {
                        let spread = Duration::from_millis(drain.spread_ms.into());
                        let after = backoff::leave_after(spread, backoff::random());
                        let now = Instant::now();
                        let back = Duration::from_millis(drain.back_ms.into());
                        let back = (!back.is_zero()).then(|| come_back(back, now));
                        tracing::info!(relay = %self.relay, ?spread, ?after, "the relay drains");
                        leaving = Some(Leave { at: now + after, back });
                    }
                    Ok(ToAgent::Registered(again)) if standing.changes_to(&again) => {
                        standing = Standing::Attached;
                        _place = report(standing);
                    }
                    Ok(other) => tracing::debug!(relay = %self.relay, frame = %other.frame(), "nothing new from the relay"),
                    Err(error) => return Ended::Control(error),
                },
                () = tokio::time::sleep_until(alive.look_at(busy)) => match alive.due(busy, Instant::now()) {
                    Due::Ask(number) => if let Err(ended) = self.say(writer, &FromAgent::Ping(number)).await {
                        return ended;
                    },
                    Due::Dead(limit) => return Ended::Unheard(limit),
                    Due::Nothing => {}
                },
                opened = self.link.connection.accept_bi() => match opened {
                    Ok((send, recv)) => self.take(Stream::new(send, recv)),
                    Err(error) => return Ended::Lost(Lost::from(&error)),
                },
            }
        }
    }

    /// Says something to the relay. One that never reads holds up neither the agent's stop nor its way to another relay.
    async fn say(&self, writer: &mut Writer, message: &FromAgent) -> Result<(), Ended> {
        let within = self.node.config.limits.registration.duration();
        tokio::select! {
            () = self.stop.cancelled() => Err(Ended::Stopped),
            said = tokio::time::timeout(within, writer.send(message)) => match said {
                Ok(said) => said.map_err(Ended::Control),
                Err(_) => Err(Ended::Deaf(within)),
            },
        }
    }

    fn take(&self, opened: Stream) {
        match Arc::clone(&self.slots).try_acquire_owned() {
            Ok(slot) => {
                let (node, carried) = (Arc::clone(&self.node), Arc::clone(&self.carried));
                self.node.streams.spawn(stream(node, opened, slot, carried));
            }
            // Left alone it would hold room in the window that all streams of the link share.
            Err(_) => opened.reset(Code::AgentNotReady),
        }
    }
}

async fn until(leaving: Option<Leave>) -> Leave {
    match leaving {
        Some(leave) => {
            tokio::time::sleep_until(leave.at).await;
            leave
        }
        None => std::future::pending().await,
    }
}

/// A stream that a relay opened. The slot is held until the client has asked for its session; `carried` while one runs, or may
/// be about to.
async fn stream(node: Arc<Node>, stream: Stream, slot: tokio::sync::OwnedSemaphorePermit, carried: Arc<()>) {
    let within = node.config.limits.handshake.duration();
    let routed = tokio::time::timeout(within, accept::route(stream, &node.own)).await;
    match routed {
        Ok(Ok(ours)) => session::serve(&node, ours, slot, carried).await,
        Ok(Err((stream, error))) => {
            node.denials.stranger(error.code(), &error, Instant::now());
            stream.reset(error.code());
        }
        Err(_) => {
            let seen = format!("a relay opened a stream and sent no header within {within:?}");
            node.denials.stranger(Code::ProtocolTimeout, &seen, Instant::now());
        }
    }
}

/// What a registration came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Attached,
    Parked,
}

impl Standing {
    fn of(registered: &Registered) -> Self {
        if registered.parked {
            Self::Parked
        } else {
            Self::Attached
        }
    }

    /// Whether this is news: who waited is let in. A relay never takes a place back but by closing.
    fn changes_to(self, registered: &Registered) -> bool {
        self == Self::Parked && Self::of(registered) == Self::Attached
    }
}

/// Says where we are at the relay, and counts it for as long as the answer is kept.
fn report(standing: Standing, relay: &str, said: &mpsc::Sender<Said>, metrics: &Metrics) -> Held {
    let (word, place) = match standing {
        Standing::Attached => {
            tracing::info!(%relay, "attached");
            (Said::Attached(relay.to_owned()), &metrics.relays_attached)
        }
        Standing::Parked => {
            tracing::error!(%relay, "another live agent has our name: two nodes share one key, or a copy runs");
            (Said::Parked(relay.to_owned()), &metrics.relays_parked)
        }
    };
    let place = Held::new(place);
    // Whoever listens no more, or lags behind, holds up nothing.
    let _ = said.try_send(word);
    place
}

#[cfg(test)]
mod tests;
