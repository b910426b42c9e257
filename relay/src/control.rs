//! An agent's connection: its control stream, its claim on its node, and the probe that settles a conflict.
//!
//! ```text
//! agent: opens a stream, REGISTER(instance) ─> relay: REGISTERED           the node's streams come from now on
//!                                              relay: REGISTERED(parked)   another live instance holds the node
//! relay: PING ─> agent: PONG      asked only when another instance claims the node; no PONG within `probe` = dead
//! parked: the incumbent is probed again every `probe_again`; it leaves or is dead ─> REGISTERED
//! agent: ends its half              it gets nothing new, what it carries runs on until it closes the connection
//! relay stops: DRAIN, then the connection ends with the last stream
//! ```
//!
//! The answer to a probe has to come from the agent itself, not from its kernel or QUIC stack: an agent that hangs must
//! not keep its successor out.
//!
//! Never: opens streams (that is `client`), accepts a second stream from an agent, or lets one silent agent delay
//! anybody but the newcomer to its own node.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use noderelay_pki::text::escape;
use noderelay_proto::control::{Drain, Register, Registered};
use noderelay_proto::{Code, Frames, FromAgent, Opening, ToAgent};
use quinn::Connection;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{info, warn};

use crate::admit::Admitted;
use crate::attached::{Attachment, Guard, NodeKey, Placement, Standing};
use crate::metrics::Verdict;
use crate::splice::Ends;
use crate::state::{Relay, now};
use crate::wire::{self, wire};

/// Probes that may wait for an agent at once; each newcomer has one under way at most.
const PROBES: usize = crate::attached::MAX_PARKED;

/// How to reach an attached agent.
#[derive(Debug, Clone)]
pub(crate) struct AgentLink {
    pub(crate) connection: Connection,
    /// It leaves: it gets nothing new.
    pub(crate) draining: bool,
    probes: Weak<Probes>,
}

/// Who waits for a sign of life. Not a channel of tokio's: that makes room for 32 messages at once, for each of ten thousand
/// agents, and hardly one is ever sent.
#[derive(Debug, Default)]
struct Probes {
    waiting: Mutex<Vec<oneshot::Sender<()>>>,
    told: Notify,
}

impl Probes {
    /// False when too many wait already: the agent does not answer.
    fn ask(&self, answer: oneshot::Sender<()>) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= PROBES {
            return false;
        }
        waiting.push(answer);
        self.told.notify_one();
        true
    }

    /// Those who asked since the last time, once there are any.
    async fn asked(&self) -> Vec<oneshot::Sender<()>> {
        self.told.notified().await;
        std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl AgentLink {
    /// Whether the agent answers within `bound`.
    async fn answers(&self, bound: std::time::Duration) -> bool {
        let (answer, answered) = oneshot::channel();
        // None: it is gone.
        if !self.probes.upgrade().is_some_and(|probes| probes.ask(answer)) {
            return false;
        }
        matches!(timeout(bound, answered).await, Ok(Ok(())))
    }
}

/// Serves until the agent leaves, is put out, or the relay ends; returns the code to close with.
pub(crate) async fn serve(relay: &Arc<Relay>, connection: &Connection, admitted: &Admitted, node: NodeKey) -> Code {
    let registering = Box::pin(timeout(relay.timing.header.duration(), register(connection)));
    let (ends, frames, hello) = match registering.await {
        Ok(Ok(registered)) => registered,
        Ok(Err(code)) => return code,
        Err(_) => return Code::RelayTimeout,
    };
    let Ok(instance) = hello.instance() else {
        return Code::RelayBadHeader;
    };
    let probes = Arc::new(Probes::default());
    let link = AgentLink {
        connection: connection.clone(),
        draining: hello.draining,
        probes: Arc::downgrade(&probes),
    };
    let Ok((guard, placement)) = relay.registry.attach(node.clone(), instance, link, now) else {
        warn!(%node, %instance, "too many agents claim this node");
        return Code::RelayParked;
    };
    info!(%node, %instance, software = escape(&hello.software, 128), "agent attached");
    let mut control = Control {
        relay,
        connection,
        ends,
        frames,
        guard,
        node,
        probes,
        waiting: VecDeque::new(),
        pings: 0,
    };
    match placement {
        Placement::First | Placement::Reconnected { surplus: None } => {}
        Placement::Reconnected { surplus: Some(surplus) } => surplus.connection.close(wire(Code::RelayReplaced), b""),
        Placement::Parked { incumbent } => Box::pin(control.settle(Some(incumbent))).await,
    }
    let code = control.run(admitted).await;
    info!(node = %control.node, %instance, code = code.name(), "agent detached");
    if code != Code::Ok {
        return code;
    }
    // It leaves in good order: nothing new goes to it, what it carries ends by itself.
    control.ends.sink.finish();
    drop(control);
    tokio::select! {
        _ = connection.closed() => code,
        () = relay.stop.hard.cancelled() => Code::RelayDraining,
    }
}

/// Waits for the control stream and its first frame.
async fn register(connection: &Connection) -> Result<(Ends, Frames<FromAgent>, Register), Code> {
    let ends = connection.accept_bi().await.map_err(|_| Code::TransportLost)?;
    let mut ends = Ends::new(ends, wire(Code::TransportClosed));
    let mut frames = Frames::<Opening>::new();
    match wire::next(&mut frames, ends.source.stream()).await {
        Ok(Some(Opening::Register(hello))) => Ok((ends, frames.switch(), hello)),
        Ok(Some(Opening::Route(_))) => Err(Code::RelayPurpose),
        Ok(None) | Err(wire::Fault::Protocol(_)) => Err(Code::RelayBadHeader),
        Err(wire::Fault::Stream(_)) => Err(Code::TransportClosed),
    }
}

struct Control<'a> {
    relay: &'a Arc<Relay>,
    connection: &'a Connection,
    ends: Ends,
    frames: Frames<FromAgent>,
    guard: Guard<AgentLink>,
    node: NodeKey,
    probes: Arc<Probes>,
    /// Who waits for which PONG.
    waiting: VecDeque<(u64, oneshot::Sender<()>)>,
    pings: u64,
}

impl Control<'_> {
    async fn run(&mut self, admitted: &Admitted) -> Code {
        let relay = self.relay;
        let mut trust = relay.trust_changes.subscribe();
        let mut draining = false;
        if let Err(code) = self.say_standing().await {
            return code;
        }
        loop {
            let probe_again = Instant::now() + relay.timing.probe_again.duration();
            let parked = self.guard.standing() == Standing::Parked;
            let done = tokio::select! {
                biased;
                () = relay.stop.hard.cancelled() => Err(Code::RelayDraining),
                () = relay.stop.soft.cancelled(), if !draining => {
                    draining = true;
                    let within = relay.timing.drain.duration().as_millis();
                    let drain = Drain { spread_ms: u32::try_from(within).unwrap_or(u32::MAX), back_ms: 0 };
                    self.say(ToAgent::Drain(drain)).await
                }
                // The last stream has ended (the tracker is closed when the drain begins).
                () = relay.streams.wait(), if draining => Err(Code::RelayDraining),
                Ok(()) = trust.changed() => self.recheck(admitted),
                standing = self.guard.changed() => match standing {
                    Standing::Active => self.say_standing().await,
                    // It may still carry streams of its own earlier life; nothing new comes this way.
                    Standing::Parked | Standing::Replaced => Ok(()),
                },
                asked = self.probes.asked() => self.ping(asked).await,
                message = wire::next(&mut self.frames, self.ends.source.stream()) => self.heard(message).await,
                // An agent opens its control stream and no other.
                opened = self.connection.accept_bi() => Err(match opened {
                    Ok(ends) => {
                        Ends::new(ends, wire(Code::RelayPurpose)).refuse(wire(Code::RelayPurpose));
                        Code::RelayPurpose
                    }
                    Err(_) => Code::TransportLost,
                }),
                () = sleep_until(probe_again), if parked => {
                    Box::pin(self.settle(None)).await;
                    Ok(())
                }
            };
            if let Err(code) = done {
                return code;
            }
        }
    }

    /// Probes whoever holds the node until somebody answers or this agent holds it.
    async fn settle(&mut self, mut incumbent: Option<Attachment<AgentLink>>) {
        let relay = self.relay;
        let first = incumbent.is_some();
        while self.guard.standing() == Standing::Parked {
            let Some(holder) = incumbent.take().or_else(|| relay.registry.find(&self.node)) else {
                return;
            };
            if holder.handle.answers(relay.timing.probe.duration()).await {
                if first {
                    relay.metrics.conflict(Verdict::Parked);
                    warn!(
                        target: "noderelay::event", event = "agent.conflict", node = %self.node,
                        incumbent = %holder.instance, incumbent_address = %holder.handle.connection.remote_address(),
                        newcomer_address = %self.connection.remote_address(),
                        "two live agents claim one node: is its key copied? the first one stays, the newcomer waits"
                    );
                }
                return;
            }
            if let Some(dead) = relay.registry.replace(&holder, &self.guard) {
                dead.connection.close(wire(Code::RelayReplaced), b"");
                relay.metrics.conflict(Verdict::Replaced);
                info!(node = %self.node, dead = %holder.instance, "the agent that held the node did not answer: replaced");
            }
        }
    }

    fn recheck(&self, admitted: &Admitted) -> Result<(), Code> {
        admitted.recheck(self.relay, self.connection).map_err(|reason| {
            info!(node = %self.node, code = reason.code().name(), %reason, "trust has changed: the agent is put out");
            reason.code()
        })
    }

    async fn heard(&mut self, message: Result<Option<FromAgent>, wire::Fault>) -> Result<(), Code> {
        match message {
            Ok(Some(FromAgent::Ping(number))) => self.say(ToAgent::Pong(number)).await,
            Ok(Some(FromAgent::Pong(number))) => {
                while self.waiting.front().is_some_and(|(asked, _)| *asked <= number) {
                    if let Some((_, answer)) = self.waiting.pop_front() {
                        // Whoever asked may have stopped waiting.
                        let _ = answer.send(());
                    }
                }
                Ok(())
            }
            Ok(None) => Err(Code::Ok),
            Err(wire::Fault::Protocol(error)) => Err(error.code()),
            Err(wire::Fault::Stream(_)) => Err(Code::TransportClosed),
        }
    }

    async fn ping(&mut self, asked: Vec<oneshot::Sender<()>>) -> Result<(), Code> {
        self.pings += 1;
        self.waiting.retain(|(_, answer)| !answer.is_closed());
        self.waiting
            .extend(asked.into_iter().map(|answer| (self.pings, answer)));
        self.say(ToAgent::Ping(self.pings)).await
    }

    async fn say_standing(&mut self) -> Result<(), Code> {
        let parked = self.guard.acknowledge() == Standing::Parked;
        let seen = if parked {
            "another live agent holds this node at this relay"
        } else {
            ""
        };
        self.say(ToAgent::Registered(Registered {
            relay: self.relay.name.to_string(),
            software: crate::software(),
            parked,
            seen: seen.to_owned(),
        }))
        .await
    }

    async fn say(&mut self, message: ToAgent) -> Result<(), Code> {
        // A control stream that takes no few bytes within the time of a probe belongs to nobody who listens.
        match timeout(
            self.relay.timing.probe.duration(),
            wire::write(self.ends.sink.stream(), &message),
        )
        .await
        {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(Code::TransportLost),
            Err(_) => Err(Code::TransportTimeout),
        }
    }
}
