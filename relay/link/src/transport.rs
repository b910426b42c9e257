//! The numbers of a QUIC connection, each with its reason.
//!
//! What it never does: differ between two parties by accident; every connection of the outer leg uses these.

use std::sync::Arc;
use std::time::Duration;

use quinn::{IdleTimeout, TransportConfig, VarInt};

/// Default keepalive: well under the 15 to 30 s after which NATs forget a UDP mapping, and several times within [`IDLE`]. It
/// is also how long an idle agent may not know that its relay was restarted.
pub const KEEPALIVE: Duration = Duration::from_secs(5);
/// A client's, which has a person waiting: a restarted relay is noticed within this time.
const KEEPALIVE_CLIENT: Duration = Duration::from_secs(2);
/// A connection from which nothing was received for this long is dead.
pub const IDLE: Duration = Duration::from_secs(20);
/// First guess of the round trip: a lost first packet is sent again after three times this, instead of after a second.
const FIRST_RTT: Duration = Duration::from_millis(100);
/// What one stream may have in flight on one leg. A session's bulk window (4 MiB) spans two legs, so both together keep
/// it full: 160 Mbit/s at twice 100 ms.
pub(crate) const STREAM_WINDOW: u32 = 2 * 1024 * 1024;
/// What all streams of one connection may have in flight towards us: all that there can be, each with its window full.
/// Less would let a few sessions whose clients stall stop every other session of the node, its control stream included,
/// as unread bytes count until they are read. It is a bound, not a need: a client has at most [`STREAMS_AT_RELAY`] streams
/// (128 MiB), and a session that keeps to its own window holds 256 KiB with a terminal.
const CONNECTION_WINDOW: u32 = (STREAMS_AT_AGENT + STREAMS_AT_RELAY) * STREAM_WINDOW;
/// What one connection may hold for sending. Stalled streams don't use it up: what the peer's windows took is
/// acknowledged, read or not, and nothing beyond them is taken from the writer.
const SEND_WINDOW: u64 = 16 * 1024 * 1024;
/// Out-of-order handshake bytes: a chain with many groups is larger than the usual 16 KiB.
const HANDSHAKE_BUFFER: usize = 64 * 1024;
/// Streams that a client or agent may have open at a relay. Small, as QUIC keeps room for each at once.
const STREAMS_AT_RELAY: u32 = 64;
/// Streams that a relay may have open at an agent: one for each session or channel.
const STREAMS_AT_AGENT: u32 = 256;

/// For clients: nobody opens streams towards them.
pub fn client_transport() -> Arc<TransportConfig> {
    Arc::new(transport(KEEPALIVE_CLIENT, 0))
}

/// For relays, towards clients, agents and peers.
pub fn relay_transport() -> Arc<TransportConfig> {
    Arc::new(transport(KEEPALIVE, STREAMS_AT_RELAY))
}

/// For agents: the relay opens one stream for each session.
pub fn agent_transport() -> Arc<TransportConfig> {
    Arc::new(transport(KEEPALIVE, STREAMS_AT_AGENT))
}

/// With another keepalive (at most half of [`IDLE`] is used) and number of streams that the peer may open.
pub fn transport(keepalive: Duration, streams: u32) -> TransportConfig {
    let mut config = TransportConfig::default();
    config
        .keep_alive_interval(Some(keepalive.min(IDLE / 2)))
        .max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(20_000))))
        .initial_rtt(FIRST_RTT)
        .max_concurrent_bidi_streams(VarInt::from_u32(streams))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .receive_window(VarInt::from_u32(CONNECTION_WINDOW))
        .send_window(SEND_WINDOW)
        .crypto_buffer_size(HANDSHAKE_BUFFER)
        .datagram_receive_buffer_size(None)
        // Streams of one connection are served in the order in which they became ready: a keystroke is small and goes
        // out whole; turn-taking between large streams would cut every packet into pieces.
        .send_fairness(false);
    // Datagrams start at 1,200 bytes, which every path carries; larger ones are used once probed (the default).
    config
}

#[cfg(test)]
mod tests;
