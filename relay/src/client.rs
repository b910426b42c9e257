//! A client's connection: every stream that it opens is routed and spliced.
//!
//! ```text
//! stream ─> ROUTE (bounded, with whatever came in the same flight) ─> route::decide ─> a stream to the agent
//!        ─> ROUTE with the hop limit lowered + the rest, in one write ─> splice
//! any step fails ─> both halves of the stream end with its code; other streams don't notice
//! ```
//!
//! The relay waits for nobody before it splices: the first flight of the inner handshake is on its way before the
//! agent has said a word.
//!
//! Never: reads behind the header, ends a connection because of one stream, or lets a stream outlive its peer.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use noderelay_link::transport::STREAMS_AT_RELAY;
use noderelay_pki::Identity;
use noderelay_proto::{Code, Frames, Opening, Refusal, RouteHeader, control};
use quinn::Connection;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tracing::{Instrument, info};

use crate::admit::Admitted;
use crate::attached::NodeKey;
use crate::control::AgentLink;
use crate::listen::report;
use crate::metrics::Way;
use crate::quota::{NoSeat, Seat};
use crate::route::{self, Hop, Lookup, Route};
use crate::splice::{Codes, Ends, splice};
use crate::state::Relay;
use crate::wire::{self, Fault, wire};
use noderelay_service::metrics::Held;

/// What a splice says by itself.
const CODES: fn() -> Codes = || Codes {
    lost: wire(Code::TransportLost),
    aborted: wire(Code::RelayDraining),
    gave_way: wire(Code::RelayGaveWay),
};

/// Why a stream was not spliced.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("no route header came in time")]
    Silent,
    #[error(transparent)]
    Header(Fault),
    #[error("the stream ended before its route header")]
    Empty,
    #[error("the first frame is a registration, which only agents send")]
    Registration,
    #[error(transparent)]
    Quota(#[from] NoSeat),
    #[error(transparent)]
    Route(#[from] route::Refused),
    #[error("the agent takes no more streams for now")]
    Busy,
    #[error("the agent's connection ended while a stream was opened to it")]
    NextHop,
    #[error("the relay is stopping")]
    Draining,
}

impl Refused {
    fn code(&self) -> Code {
        match self {
            Self::Silent => Code::RelayTimeout,
            Self::Header(Fault::Stream(_)) => Code::TransportClosed,
            Self::Header(Fault::Protocol(_)) | Self::Empty | Self::Registration => Code::RelayBadHeader,
            Self::Quota(no_seat) => no_seat.code(),
            Self::Route(refused) => refused.code(),
            Self::Busy => Code::RelayBusy,
            Self::NextHop => Code::RelayNextHop,
            Self::Draining => Code::RelayDraining,
        }
    }

    /// What the peer is told.
    fn refusal(&self) -> Refusal {
        match self {
            Self::Quota(no_seat) => no_seat.refusal(),
            other => other.code().into(),
        }
    }
}

/// Serves until the client leaves, is put out, or the relay ends; returns the code to close with.
pub(crate) async fn serve(relay: &Arc<Relay>, connection: &Connection, admitted: &Admitted) -> Code {
    let who = admitted.peer.identity();
    connection.set_max_concurrent_bi_streams(STREAMS_AT_RELAY.into());
    let mut streams = JoinSet::new();
    let mut trust = relay.trust_changes.subscribe();
    let mut draining = false;
    let code = loop {
        tokio::select! {
            biased;
            () = relay.stop.hard.cancelled() => return Code::RelayDraining,
            () = relay.stop.soft.cancelled(), if !draining => draining = true,
            Ok(()) = trust.changed() => if let Err(reason) = admitted.recheck(relay, connection) {
                info!(code = reason.code().name(), %reason, "trust has changed: the client is put out");
                break reason.code();
            },
            Some(ended) = streams.join_next(), if !streams.is_empty() => report(ended),
            opened = connection.accept_bi() => match opened {
                Ok(ends) => {
                    let near = Ends::new(ends, CODES().aborted);
                    let task = serve_stream(relay.clone(), who.clone(), near, draining).in_current_span();
                    streams.spawn(relay.streams.track_future(task));
                }
                Err(_) => break Code::TransportLost,
            },
        }
        if draining && streams.is_empty() {
            return Code::RelayDraining;
        }
    };
    // The streams see the end of the connection themselves and tell the agents that the path is lost.
    connection.close(wire(code), b"");
    loop {
        tokio::select! {
            ended = streams.join_next() => match ended {
                Some(ended) => report(ended),
                None => return code,
            },
            () = relay.stop.hard.cancelled() => return code,
        }
    }
}

async fn serve_stream(relay: Arc<Relay>, who: Identity, mut near: Ends, draining: bool) {
    let opened = if draining {
        Err(Refused::Draining)
    } else {
        open(&relay, &who, &mut near).await
    };
    let (far, first, node, _seat) = match opened {
        Ok(opened) => opened,
        Err(refused) => {
            let code = refused.code();
            relay.metrics.streams_refused.get_or_create(&code.into()).inc();
            if relay.refusals.stream(&who, code, Instant::now()) {
                info!(code = code.name(), seen = %refused, "stream refused");
            }
            return near.refuse(wire(refused.refusal()));
        }
    };
    relay.metrics.streams_routed.inc();
    let _open = Held::new(&relay.metrics.streams_open);
    let started = Instant::now();
    let (to_node, to_client) = (relay.metrics.bytes(Way::ToNode), relay.metrics.bytes(Way::ToClient));
    let count_out = |n| _ = to_node.inc_by(n);
    let count_back = |n| _ = to_client.inc_by(n);
    let (out, back) = splice(near, far, first, CODES(), (&relay.stalled, &who), count_out, count_back).await;
    info!(
        %node,
        to_node = out.bytes,
        to_client = back.bytes,
        ended = ?(out.end, back.end),
        seconds = started.elapsed().as_secs_f64(),
        "stream ended"
    );
}

/// Reads the header, decides, and opens the stream to the next party.
async fn open(relay: &Relay, who: &Identity, near: &mut Ends) -> Result<(Ends, Bytes, NodeKey, Seat), Refused> {
    // Before its header is waited for: who opens and says nothing uses up seats of its own.
    let seat = relay.quotas.stream(who, Instant::now())?;
    let reading = timeout(relay.timing.header.duration(), read_header(near));
    let (header, rest) = reading.await.map_err(|_| Refused::Silent)??;
    let lookup = |node: &NodeKey| match relay.registry.find(node) {
        Some(found) if !found.handle.draining => Lookup::Attached(found.handle),
        Some(_) => Lookup::Offline,
        None if relay.registry.departed(node).is_some() => Lookup::Offline,
        None => Lookup::Unknown,
    };
    let Route {
        hop: Hop::Agent(agent),
        header,
        node,
    } = route::decide(&relay.map.get(), who.kind(), &header, lookup)?;
    let far = open_to(relay, &agent).await?;
    let mut first = BytesMut::new();
    control::encode(&header, &mut first);
    first.extend_from_slice(&rest);
    Ok((far, first.freeze(), node, seat))
}

async fn read_header(near: &mut Ends) -> Result<(RouteHeader, BytesMut), Refused> {
    let mut frames = Frames::<Opening>::new();
    match wire::next(&mut frames, near.source.stream())
        .await
        .map_err(Refused::Header)?
    {
        Some(Opening::Route(header)) => Ok((header, frames.into_rest())),
        Some(Opening::Register(_)) => Err(Refused::Registration),
        None => Err(Refused::Empty),
    }
}

async fn open_to(relay: &Relay, agent: &AgentLink) -> Result<Ends, Refused> {
    match timeout(relay.timing.open.duration(), agent.connection.open_bi()).await {
        Ok(Ok(ends)) => Ok(Ends::new(ends, CODES().aborted)),
        Ok(Err(_)) => Err(Refused::NextHop),
        Err(_) => Err(Refused::Busy),
    }
}
