//! One session from its stream to its end, in the order of the modules. Each step takes what the one before made.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use noderelay_audit_event::{Argument, Claimed, Denied, Event, SessionEnded, SessionId, SessionKind, SessionStarted};
use noderelay_pki::tls::Party;
use noderelay_pki::verify::VerifiedPeer;
use noderelay_policy::Permit;
use noderelay_proto::code::Code;
use noderelay_proto::control::{Kind, Missing, Open, Opened};
use noderelay_proto::message::{ToClient, ToHolder};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::accept::{self, Accepted, Arrived, Client, ForUs, Own};
use crate::account;
use crate::authorize::{self, Wish};
use crate::config::Config;
use crate::denials::Denials;
use crate::enforce::{Enforcer, Word};
use crate::events;
use crate::metrics::Metrics;
use crate::places::Places;
use crate::published::InForce;
use crate::pump::{self, Leg, terminate};
use crate::recorder;
use crate::refusal::{Refusal, shown};
use crate::sessions::{Begun, Entry, Live, Sessions};
use crate::standby::{self, Standbys};
use crate::start::{self, Facts, Holder, Launcher};
use crate::sweep;

/// What every session of this node needs.
pub struct Node {
    /// The configuration.
    pub config: Config,
    /// Who the node is.
    pub own: Own,
    /// Its credentials and trust.
    pub party: Party,
    /// What is in force.
    pub published: watch::Receiver<Arc<InForce>>,
    /// Its folders.
    pub places: Places,
    /// What is written of refusals.
    pub denials: Denials,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// The live sessions.
    pub sessions: Sessions,
    /// Who waits without a session.
    pub standbys: Standbys,
    /// How holders are started.
    pub launcher: Launcher,
    /// Cancelled when the agent stops: legs end then, sessions don't.
    pub stop: CancellationToken,
    /// The tasks of streams, whichever link they came by.
    pub streams: TaskTracker,
}

/// A repeated attempt waits this long for the first one, which has a disk and a holder to wait for.
const STARTING: Duration = Duration::from_secs(30);

/// A node's disk answers within moments, or is sick.
const DISK: Duration = Duration::from_secs(20);

/// Serves a stream whose header names this node. `slot` is given back as soon as the client has asked for its session, or said that it
/// will; `carried` is held while there is one.
pub async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    node: &Node,
    stream: ForUs<S>,
    slot: OwnedSemaphorePermit,
    carried: Arc<()>,
) {
    let within = node.config.limits.handshake.duration();
    let accepted = accept::accept(stream, &node.party, &node.own, Timestamp::now);
    let accepted = tokio::time::timeout(within, accepted).await;
    drop(slot);
    match accepted {
        Ok(Ok(Arrived::Session(accepted))) => session(node, *accepted).await,
        Ok(Ok(Arrived::Early(early))) => {
            if let Some((accepted, _carried)) = standby::wait(node, early, carried).await {
                session(node, accepted).await;
            }
        }
        Ok(Err(error)) => node.denials.stranger(error.code(), &error, Instant::now()),
        Err(_) => {
            let seen = format!("no OPEN within {within:?}");
            node.denials.stranger(Code::ProtocolTimeout, &seen, Instant::now());
        }
    }
}

async fn session<S: AsyncRead + AsyncWrite + Unpin>(node: &Node, accepted: Accepted<S>) {
    let Accepted {
        client,
        open,
        resume_key,
        reader,
        mut writer,
    } = accepted;
    let Ready {
        live,
        number,
        begun,
        mut standing,
        holder,
        word,
        opened,
    } = match begin(node, &client, &open, &resume_key).await {
        Ok(ready) => ready,
        Err(refusal) => {
            let denied = denied(node, &client.peer, &open, &refusal);
            node.denials.person(refusal.code, denied, Instant::now());
            let say = async {
                writer.send(&ToClient::from(refusal.message())).await?;
                writer.finish().await
            };
            let _ = tokio::time::timeout(node.config.limits.handshake.duration(), say).await;
            return;
        }
    };
    writer.queue(&ToClient::from(opened));
    let grace = node.config.limits.hup_grace.duration();
    let mut enforcer = Enforcer::new(live.id, begun.holder, grace, word.clone(), &node.streams, &node.stop);
    let (give, orders) = mpsc::channel(4);
    let stalled = node.config.limits.stalled.duration();
    let leg = pump::pump(
        (reader, writer),
        (holder.reader, holder.writer),
        orders,
        &word,
        stalled,
        || live.superseded(number),
        &node.stop,
    );
    tokio::pin!(leg);
    let mut door = None;
    let mut leg = loop {
        tokio::select! {
            biased;
            order = standing.next_order(node, &client, &begun) => {
                // Refused when the client is gone: then the order takes the holder's own door.
                if let Err(refused) = give.try_send(enforcer.given(order)) {
                    door = node.launcher.tell(&begun, &refused.into_inner()).await;
                }
            }
            leg = &mut leg => break leg,
        }
    };
    while let Some(reader) = door.take() {
        let rest = pump::hear_out(reader, &mut leg, &word, &node.stop);
        tokio::pin!(rest);
        loop {
            tokio::select! {
                biased;
                order = standing.next_order(node, &client, &begun) => {
                    door = node.launcher.tell(&begun, &enforcer.given(order)).await;
                }
                () = &mut rest => break,
            }
        }
    }
    // Whoever has heard the exit leaves at once.
    if let (Some(lost), None) = (&leg.client_lost, leg.exit) {
        tracing::info!(session = %live.id, %lost, "the client's leg ended before the session");
    }
    if live.superseded(number) {
        tracing::info!(session = %live.id, leg = number, "a newer leg goes on with the session");
    } else {
        if leg.holder_lost {
            lost(node, &live, &begun).await;
        }
        let ended = ended(&begun.facts, &leg);
        node.metrics.ended(leg.code, ended.recording_complete);
        events::emit(Event::SessionEnded(ended));
    }
}

/// The holder is gone, or is not to be understood any more: nothing of the session may go on.
async fn lost(node: &Node, live: &Live, begun: &Begun) {
    let (places, session, leader) = (node.places.clone(), begun.facts.session, begun.pid);
    let bury = tokio::task::spawn_blocking(move || sweep::bury(&places, session, leader, Timestamp::now()));
    if let Ok(Ok(true)) = tokio::time::timeout(DISK, bury).await {
        tracing::error!(session = %live.id, "the holder lives and is not understood; it is told to end its session");
        let order = terminate(
            Code::SessionHolderLost,
            "the agent does not understand the session's holder",
        );
        drop(node.launcher.tell(begun, &[order]).await);
    }
}

/// A session that is ready for a leg.
struct Ready {
    live: Arc<Live>,
    number: u64,
    begun: Arc<Begun>,
    standing: Standing,
    holder: Holder,
    word: Word,
    opened: Opened,
}

/// Register, authorize, record, start: in this order, each spending what the one before made. An attempt that opened a
/// session before is authorized again, and gets that one.
async fn begin(node: &Node, client: &Client, open: &Open, resume_key: &[u8]) -> Result<Ready, Refusal> {
    let open_id = open.id().map_err(|e| Refusal::node(e.code(), e.to_string()))?;
    match node.sessions.register(&client.peer, open_id)? {
        Entry::New(live) => {
            let ready = first(node, Arc::clone(&live), client, open, resume_key).await;
            live.settle(
                ready
                    .as_ref()
                    .map(|ready| Arc::clone(&ready.begun))
                    .map_err(Clone::clone),
            );
            ready
        }
        Entry::Again(live) => {
            let (_, standing, _) = decide(node, client, open)?;
            again(node, live, open, standing).await
        }
    }
}

/// Asks the policy. What comes in force after this is a change to the session, however long its start takes.
fn decide(node: &Node, client: &Client, open: &Open) -> Result<(Permit, Standing, Arc<InForce>), Refusal> {
    let wish = Wish::of(open, &node.config.default_profile)?;
    let mut published = node.published.clone();
    let in_force = published.borrow_and_update().clone();
    let permit = authorize::authorize(&in_force, &node.own, &client.peer, &wish, Timestamp::now())?;
    Ok((permit, Standing { published, wish }, in_force))
}

async fn first(
    node: &Node,
    live: Arc<Live>,
    client: &Client,
    open: &Open,
    resume_key: &[u8],
) -> Result<Ready, Refusal> {
    let (now, peer) = (Timestamp::now(), &client.peer);
    let word = Word::new()?;
    let (permit, standing, in_force) = decide(node, client, open)?;
    let number = live.new_leg();
    let version = permit.version();
    let versioned = |refusal| Refusal {
        policy_version: version,
        ..refusal
    };
    let profile = &permit.obligations().profile;
    let (settings, expected) = (node.config.profiles.get(profile).cloned(), open.local_user.clone());
    let name = profile.clone();
    let account = on_disk(move || account::resolve(&name, settings.as_ref(), &expected))
        .await
        .map_err(versioned)?;
    let started = facts(&permit, peer, open, &standing.wish, &live, &account.name, now);
    let (places, header) = (node.places.clone(), recorder::header(started.clone(), open));
    let recording = on_disk(move || recorder::open(&places, &header))
        .await
        .map_err(versioned)?;
    let demo = in_force.publication.demo();
    let facts = Facts {
        started: &started,
        open,
        account: &account,
        resume_key,
        demo,
    };
    let (holder, begun) = node.launcher.start(permit, recording, facts, live.id).await?;
    node.metrics.sessions_started.inc();
    events::emit(Event::SessionStarted(started));
    let begun = Arc::new(begun);
    Ok(Ready {
        opened: begun.opened.clone(),
        live,
        number,
        begun,
        standing,
        holder,
        word,
    })
}

/// Runs what may wait for a disk away from the thread that carries everybody's bytes. A disk that hangs costs the one
/// session that asked for it.
async fn on_disk<T: Send + 'static>(work: impl FnOnce() -> Result<T, Refusal> + Send + 'static) -> Result<T, Refusal> {
    match tokio::time::timeout(DISK, tokio::task::spawn_blocking(work)).await {
        Ok(Ok(done)) => done,
        Ok(Err(_)) => Err(Refusal::node(Code::AgentInternal, "a task of the agent broke off")),
        Err(_) => {
            let seen = format!("the node's disk did not answer within {DISK:?}");
            Err(Refusal::new(Code::RecordingUnavailable, Missing::Recording, seen))
        }
    }
}

async fn again(node: &Node, live: Arc<Live>, open: &Open, standing: Standing) -> Result<Ready, Refusal> {
    let begun = live.outcome(STARTING).await?;
    if begun.open != *open {
        return Err(Refusal::node(
            Code::SessionDuplicate,
            format!("session {} was opened with other words", live.id),
        ));
    }
    let word = Word::new()?;
    // Numbered before the holder drops the old leg, so that its end is not taken for the session's.
    let number = live.new_leg();
    let (holder, consumed) = match node.launcher.again(&begun).await {
        Ok(adopted) => adopted,
        Err(refusal) => {
            // Else the end of the leg before it would be nobody's.
            live.no_leg(number);
            return Err(refusal);
        }
    };
    tracing::info!(session = %live.id, leg = number, "the same attempt again: the same session");
    let opened = Opened {
        consumed,
        ..begun.opened.clone()
    };
    Ok(Ready {
        live,
        number,
        begun,
        standing,
        holder,
        word,
        opened,
    })
}

/// What an open session stands on: it is asked again whenever what is in force changes.
struct Standing {
    published: watch::Receiver<Arc<InForce>>,
    wish: Wish,
}

impl Standing {
    /// Waits for a change that means something to the session; gives the order for its holder. Cancel safe.
    async fn next_order(&mut self, node: &Node, client: &Client, begun: &Begun) -> ToHolder {
        loop {
            if self.published.changed().await.is_err() {
                return std::future::pending().await; // The agent stops; the holder lives on.
            }
            let in_force = self.published.borrow_and_update().clone();
            if let Err(refused) = client.verify_again(&node.party) {
                return terminate(Code::SessionRevoked, &refused.to_string());
            }
            match authorize::authorize(&in_force, &node.own, &client.peer, &self.wish, Timestamp::now()) {
                Ok(permit) if permit.obligations().profile.as_str() != begun.opened.profile => {
                    return terminate(Code::SessionPolicy, "the policy permits another profile only");
                }
                Ok(permit) => {
                    let tighter = start::tightened(&begun.opened, &begun.facts, permit.obligations());
                    if let Some(terms) = tighter {
                        return terms.into();
                    }
                }
                // An expired publication ends nothing: open sessions run to their own end.
                Err(refusal) if refusal.code == Code::BundleExpired => {}
                Err(refusal) => return terminate(Code::SessionPolicy, &refusal.seen),
            }
        }
    }
}

fn facts(
    permit: &Permit,
    peer: &VerifiedPeer,
    open: &Open,
    wish: &Wish,
    live: &Live,
    account: &str,
    now: Timestamp,
) -> SessionStarted {
    SessionStarted {
        session: SessionId(*live.id.as_bytes()),
        cluster: permit.cluster().clone(),
        node: permit.node().clone(),
        principal: peer.identity().clone(),
        key_fingerprint: peer.key_fingerprint().to_owned(),
        groups: peer.groups().to_vec(),
        kind: match (Kind::try_from(open.kind), open.login_line) {
            (Ok(Kind::Exec), true) => SessionKind::Line,
            (Ok(Kind::Exec), false) => SessionKind::Exec,
            _ => SessionKind::Shell,
        },
        argv: open.argv.iter().map(|a| Argument::from(&a[..])).collect(),
        profile: permit.obligations().profile.clone(),
        account: account.to_owned(),
        policy_version: permit.version(),
        rules: permit.rules().to_vec(),
        reason: wish.reason.clone(),
        level: recorder::level(permit),
        started: recorder::start_of(now),
        claimed: claimed(open, wish),
    }
}

fn claimed(open: &Open, wish: &Wish) -> Claimed {
    let correlation_id = (!open.correlation_id.is_empty()).then(|| open.correlation_id.clone());
    Claimed {
        path: Some(wish.path.as_str().to_owned()),
        correlation_id,
    }
}

fn ended(facts: &SessionStarted, leg: &Leg) -> SessionEnded {
    SessionEnded {
        session: facts.session,
        code: leg.code.name().to_owned(),
        exit_code: leg.exit.and_then(|e| e.code),
        signal: leg.exit.and_then(|e| e.signal),
        bytes_in: leg.bytes_in,
        bytes_out: leg.bytes_out,
        recording_complete: leg.recording_complete && !leg.holder_lost && leg.code != Code::RecordingFailed,
    }
}

fn denied(node: &Node, peer: &VerifiedPeer, open: &Open, refusal: &Refusal) -> Denied {
    let wish = Wish::of(open, &node.config.default_profile).ok();
    Denied {
        cluster: node.own.cluster.clone(),
        node: node.own.node.clone(),
        principal: peer.identity().clone(),
        key_fingerprint: peer.key_fingerprint().to_owned(),
        action: wish.as_ref().map_or("unknown", |w| w.action.as_str()).to_owned(),
        profile: wish.as_ref().map(|w| w.profile.clone()),
        code: refusal.code.name().to_owned(),
        seen: shown(&refusal.seen),
        policy_version: refusal.policy_version,
        claimed: wish.map(|w| claimed(open, &w)).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests;
