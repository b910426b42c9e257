//! The listener: every incoming connection becomes an admitted client or agent, or ends with a code.
//!
//! ```text
//! packet ─> gate ─> handshake (bounded) ─> admit ─> client::serve | control::serve
//! soft stop ─> nothing new is accepted; peers end by themselves when their streams have
//! hard stop ─> what is left is cut
//! ```
//!
//! Never: keeps a connection whose peer was not admitted, or waits for one peer while another one knocks.

use std::net::SocketAddr;
use std::sync::Arc;

use noderelay_pki::Identity;
use noderelay_proto::Code;
use quinn::{Connection, ConnectionError, Endpoint, Incoming};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{Instrument, debug, error, info, info_span};

use crate::admit::{self, Admitted, Place};
use crate::gate::{Handshake, Verdict};
use crate::metrics::Turned;
use crate::state::{Relay, now};
use crate::wire::wire;
use crate::{client, control};

/// Serves until the endpoint ends, or until the stop is complete and every peer has left.
pub(crate) async fn serve(relay: Arc<Relay>, endpoint: Endpoint) {
    let mut peers = JoinSet::new();
    let mut draining = false;
    loop {
        tokio::select! {
            biased;
            () = relay.stop.hard.cancelled() => break,
            () = relay.stop.soft.cancelled(), if !draining => draining = true,
            Some(ended) = peers.join_next(), if !peers.is_empty() => report(ended),
            incoming = endpoint.accept() => match incoming {
                Some(incoming) if draining => incoming.refuse(),
                Some(incoming) => if let Some((incoming, handshake)) = at_gate(&relay, incoming) {
                    let span = info_span!("peer", address = %incoming.remote_address());
                    peers.spawn(serve_peer(relay.clone(), incoming, handshake).instrument(span));
                },
                None => break,
            },
        }
        if draining && peers.is_empty() {
            break;
        }
    }
    // Each peer hears the same words; what does not end by itself ends with the set.
    while let Some(ended) = peers.join_next().await {
        report(ended);
    }
}

/// Reports a task that failed by our own fault.
pub(crate) fn report(ended: Result<(), tokio::task::JoinError>) {
    if let Err(fault) = ended
        && fault.is_panic()
    {
        error!(target: "noderelay::event", event = "relay.fault", %fault, "a task of the relay failed");
    }
}

/// Lets a first packet in, or has it go; nothing is logged here, as whoever floods would write the log.
fn at_gate(relay: &Relay, incoming: Incoming) -> Option<(Incoming, Handshake)> {
    let from = incoming.remote_address().ip();
    match relay
        .gate
        .judge(from, incoming.remote_address_validated(), Instant::now())
    {
        Verdict::Accept(handshake) => return Some((incoming, handshake)),
        Verdict::Retry => {
            relay.metrics.turned_away(Turned::Retry);
            if let Err(error) = incoming.retry() {
                error.into_incoming().ignore();
            }
        }
        Verdict::Refuse => {
            relay.metrics.turned_away(Turned::Refused);
            incoming.refuse();
        }
        Verdict::Ignore => {
            relay.metrics.turned_away(Turned::Ignored);
            incoming.ignore();
        }
    }
    None
}

async fn serve_peer(relay: Arc<Relay>, incoming: Incoming, under_way: Handshake) {
    let address = incoming.remote_address();
    // On the heap while it lasts: what stays for as long as the peer does should be small, there may be ten thousand.
    let connection = match Box::pin(handshake(&relay, incoming)).await {
        Ok(connection) => connection,
        Err((code, seen)) => {
            under_way.failed(Instant::now());
            return refused(&relay, address, None, code, &seen);
        }
    };
    let admitted = match admit::admit(&relay, &connection, now()) {
        Ok(admitted) => admitted,
        Err(reason) => {
            connection.close(wire(reason.refusal()), b"");
            // Who is known and has too much has quotas of its own; others behind its address have nothing to do with that.
            if reason.who().is_none() {
                under_way.failed(Instant::now());
            }
            return refused(&relay, address, reason.who(), reason.code(), &reason.to_string());
        }
    };
    drop(under_way);
    serve_admitted(relay, connection, admitted).await;
}

async fn serve_admitted(relay: Arc<Relay>, connection: Connection, admitted: Admitted) {
    let identity = admitted.peer.identity().clone();
    debug!(%identity, "admitted");
    let code = match admitted.place.clone() {
        Place::Client => client::serve(&relay, &connection, &admitted).await,
        Place::Agent(node) => control::serve(&relay, &connection, &admitted, node).await,
    };
    // Without effect when the peer closed it first.
    connection.close(wire(code), b"");
    debug!(%identity, code = code.name(), "gone");
}

async fn handshake(relay: &Relay, incoming: Incoming) -> Result<Connection, (Code, String)> {
    let connecting = incoming.accept().map_err(explain)?;
    match tokio::time::timeout(relay.timing.handshake.duration(), connecting).await {
        Ok(done) => done.map_err(explain),
        Err(_) => Err((Code::TransportTimeout, "the handshake took too long".to_owned())),
    }
}

fn explain(error: ConnectionError) -> (Code, String) {
    let code = match &error {
        ConnectionError::TimedOut => Code::TransportTimeout,
        ConnectionError::TransportError(_) | ConnectionError::ConnectionClosed(_) => Code::TransportTls,
        ConnectionError::VersionMismatch => Code::ProtocolVersion,
        _ => Code::TransportClosed,
    };
    (code, noderelay_pki::text::escape(&error.to_string(), 300))
}

fn refused(relay: &Relay, address: SocketAddr, who: Option<&Identity>, code: Code, seen: &str) {
    relay.metrics.refused.get_or_create(&code.into()).inc();
    if relay.refusals.connection(who, code, Instant::now()) {
        let identity = who.map(tracing::field::display);
        info!(%address, identity, code = code.name(), seen, "connection refused");
    }
}
