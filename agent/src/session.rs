//! One session from its stream to its end, in the order of the modules. Each step takes what the one before made.

use std::sync::Arc;

use jiff::Timestamp;
use noderelay_audit_event::{Argument, Claimed, Denied, Event, SessionEnded, SessionId, SessionKind, SessionStarted};
use noderelay_pki::tls::Party;
use noderelay_pki::verify::VerifiedPeer;
use noderelay_policy::Permit;
use noderelay_proto::code::Code;
use noderelay_proto::control::{Kind, Open, Opened, Terminate};
use noderelay_proto::message::ToClient;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};

use crate::accept::{self, Accepted, ForUs, Own};
use crate::account;
use crate::authorize::{self, Wish};
use crate::config::Config;
use crate::events;
use crate::published::InForce;
use crate::pump::{self, Leg};
use crate::recorder;
use crate::refusal::{Refusal, shown};
use crate::sessions::{Begun, Entry, Live, Sessions};
use crate::start::{Facts, Holder, Launcher};

/// What every session of this node needs.
pub struct Node {
    /// The configuration.
    pub config: Config,
    /// Who the node is.
    pub own: Own,
    /// Its credentials and trust.
    pub party: Party,
    /// What is in force.
    pub published: watch::Receiver<Option<Arc<InForce>>>,
    /// The live sessions.
    pub sessions: Sessions,
    /// How holders are started.
    pub launcher: Launcher,
}

/// Serves a stream whose header names this node. `slot` is given back as soon as the client has asked for its session.
pub async fn serve<S: AsyncRead + AsyncWrite + Unpin>(node: &Node, stream: ForUs<S>, slot: OwnedSemaphorePermit) {
    let within = node.config.limits.handshake.duration();
    let accepted = accept::accept(stream, &node.party, &node.own, Timestamp::now);
    let accepted = tokio::time::timeout(within, accepted).await;
    drop(slot);
    match accepted {
        Ok(Ok(accepted)) => session(node, accepted).await,
        Ok(Err(error)) => tracing::info!(%error, code = %error.code(), "a stream got no session"),
        Err(_) => tracing::info!(code = %Code::ProtocolTimeout, "a stream got no session: no OPEN within {within:?}"),
    }
}

async fn session<S: AsyncRead + AsyncWrite + Unpin>(node: &Node, accepted: Accepted<S>) {
    let Accepted {
        peer,
        open,
        resume_key,
        reader,
        mut writer,
    } = accepted;
    match begin(node, &peer, &open, &resume_key).await {
        Ok(Ready {
            live,
            begun,
            wish,
            holder,
            opened,
        }) => {
            let number = live.new_leg();
            writer.queue(&ToClient::from(opened));
            let (give_order, orders) = mpsc::channel(1);
            let leg = pump::pump((reader, writer), (holder.reader, holder.writer), orders);
            tokio::pin!(leg);
            let leg = tokio::select! {
                leg = &mut leg => leg,
                order = ask_again(node, &peer, &wish) => {
                    let _ = give_order.send(order).await;
                    leg.await
                }
            };
            if let Some(lost) = &leg.client_lost {
                tracing::info!(session = %live.id, %lost, "the client's leg ended before the session");
            }
            if live.superseded(number) {
                tracing::info!(session = %live.id, leg = number, "a newer leg goes on with the session");
            } else {
                events::emit(Event::SessionEnded(ended(&begun.facts, &leg)));
            }
        }
        Err(refusal) => {
            events::emit(Event::Denied(denied(node, &peer, &open, &refusal)));
            let _ = writer.send(&ToClient::from(refusal.message())).await;
            let _ = writer.finish().await;
        }
    }
}

/// A session that is ready for a leg.
struct Ready {
    live: Arc<Live>,
    begun: Arc<Begun>,
    wish: Wish,
    holder: Holder,
    opened: Opened,
}

/// Register, authorize, record, start: in this order, each spending what the one before made. An attempt that opened a
/// session before is authorized again, and gets that one.
async fn begin(node: &Node, peer: &VerifiedPeer, open: &Open, resume_key: &[u8]) -> Result<Ready, Refusal> {
    let now = Timestamp::now();
    let open_id = open.id().map_err(|e| Refusal::node(e.code(), e.to_string()))?;
    let entry = node.sessions.register(peer, open_id)?;
    let wish = Wish::of(open, &node.config.default_profile)?;
    let in_force = node.published.borrow().clone();
    let permit = authorize::authorize(in_force.as_deref(), &node.own, peer, &wish, now)?;
    let live = match entry {
        Entry::New(live) => live,
        Entry::Again(live) => return again(node, live, open, wish).await,
    };
    let profile = &permit.obligations().profile;
    let account = account::resolve(profile, node.config.profiles.get(profile), &open.local_user)?;
    let started = facts(&permit, peer, open, &wish, &live, &account.name, now);
    let recording = recorder::open(&node.config.recordings(), &permit, started.clone(), open)?;
    let demo = in_force.is_some_and(|f| f.publication.demo());
    let facts = Facts {
        started: &started,
        open,
        account: &account,
        resume_key,
        demo,
    };
    let (holder, begun) = node.launcher.start(permit, recording, facts, live.id).await?;
    events::emit(Event::SessionStarted(started));
    let begun = live.begun.get_or_init(|| Arc::new(begun)).clone();
    Ok(Ready {
        opened: begun.opened.clone(),
        live,
        begun,
        wish,
        holder,
    })
}

async fn again(node: &Node, live: Arc<Live>, open: &Open, wish: Wish) -> Result<Ready, Refusal> {
    let Some(begun) = live.begun.get().cloned() else {
        return Err(Refusal::node(
            Code::AgentNotReady,
            "this attempt is being served over another path",
        ));
    };
    if begun.open != *open {
        return Err(Refusal::node(
            Code::SessionDuplicate,
            format!("session {} was opened with other words", live.id),
        ));
    }
    let (holder, consumed) = node.launcher.again(&begun).await?;
    tracing::info!(session = %live.id, "the same attempt again: the same session");
    Ok(Ready {
        opened: Opened {
            consumed,
            ..begun.opened.clone()
        },
        live,
        begun,
        wish,
        holder,
    })
}

/// Waits until what is in force no longer permits the session; gives the order that ends it.
async fn ask_again(node: &Node, peer: &VerifiedPeer, wish: &Wish) -> Terminate {
    let mut published = node.published.clone();
    published.mark_unchanged();
    loop {
        if published.changed().await.is_err() {
            return std::future::pending().await; // The agent stops; the holder lives on.
        }
        let in_force = published.borrow_and_update().clone();
        if let Err(refusal) = authorize::authorize(in_force.as_deref(), &node.own, peer, wish, Timestamp::now())
            && refusal.code != Code::BundleExpired
        {
            return Terminate {
                code: Code::SessionPolicy.number(),
                seen: shown(&refusal.seen),
            };
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
        recording_complete: leg.code != Code::SessionHolderLost && leg.code != Code::RecordingFailed,
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
