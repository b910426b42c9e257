//! The numbers of a QUIC connection, each with its reason.
//!
//! What it never does: differ between two parties by accident; every connection of the outer leg uses these.

use std::sync::Arc;
use std::time::Duration;

use noderelay_pki::text::Period;
use quinn::{AckFrequencyConfig, IdleTimeout, MtuDiscoveryConfig, TransportConfig, VarInt};
use serde::{Deserialize, Serialize};

/// Default keepalive: well under the 15 to 30 s after which NATs forget a UDP mapping, and several times within [`IDLE`]. It
/// is also how long an idle agent may not know that its relay was restarted.
pub const KEEPALIVE: Duration = Duration::from_secs(5);
/// A client's, which has a person waiting: a restarted relay is noticed within this time.
const KEEPALIVE_CLIENT: Duration = Duration::from_secs(2);
/// A connection from which nothing was received for this long is dead. Each side says its own, the shorter one counts for both.
pub const IDLE: Duration = Duration::from_secs(20);
/// After a path stopped taking large datagrams they are tried again this much later.
const REGROW: Duration = Duration::from_secs(60);
/// Longest keepalive: some NATs forget a UDP mapping after 15 s without a packet from within.
const LONGEST_KEEPALIVE: Duration = Duration::from_secs(10);
/// Longest idle limit: a dead path should be known as such while somebody still waits for it.
const LONGEST_IDLE: Duration = Duration::from_secs(60);
/// Shortest of all: below it a busy processor looks like a dead path.
const SHORTEST: Duration = Duration::from_millis(50);
/// First guess of the round trip: a lost first packet is sent again after three times this, instead of after a second.
const FIRST_RTT: Duration = Duration::from_millis(100);
/// What one stream may have in flight on one leg. A session's bulk window (4 MiB) spans two legs, so both together keep
/// it full: 160 Mbit/s at twice 100 ms.
pub(crate) const STREAM_WINDOW: u32 = 2 * 1024 * 1024;
/// What all streams of one connection may have in flight towards a relay or client: as much as their own windows let in. Less would
/// let a few sessions whose clients stall stop every other session of the node, its control stream included, as unread bytes
/// count until they are read. How many streams a relay lets stall is its own bound.
const CONNECTION_WINDOW: VarInt = VarInt::MAX;
/// The same towards an agent, which reads whatever an honest client sends: its bound on what a relay can make it hold.
const AGENT_WINDOW: u32 = 64 * 1024 * 1024;
/// What one connection may hold for sending: it is unacknowledged, not unread, so stalled streams don't use it up. As much as a
/// session's bulk window.
const SEND_WINDOW: u64 = 4 * 1024 * 1024;
/// Out-of-order handshake bytes: a chain with many groups is larger than the usual 16 KiB.
const HANDSHAKE_BUFFER: usize = 64 * 1024;
/// The largest UDP payload: an Ethernet frame of 9,000 bytes without the headers of IPv6 and UDP. A packet costs much the same
/// whatever it carries, and many clouds have such frames inside.
pub(crate) const LARGEST_DATAGRAM: u16 = 8952;
/// The same of a frame of 1,500 bytes.
const USUAL_DATAGRAM: u16 = 1452;
/// Headers of IPv6 and UDP.
const HEADERS: u32 = 48;
/// A receiver acknowledges when more than this many packets came (RFC 9000's usual is 1), or after its delay of 25 ms.
const PACKETS_PER_ACKNOWLEDGEMENT: u32 = 8;
/// Streams that a peer may have open at a relay at first: QUIC keeps room for each from the start, an agent opens one, and there
/// may be ten thousand agents.
const STREAMS_AT_FIRST: u32 = 4;
/// Streams that a client may have open at a relay; the relay allows them once it knows that it is one.
pub const STREAMS_AT_RELAY: u32 = 64;

/// The times of a path, as relay and agent may set them (`quic:` in their configuration).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Times {
    /// A packet that asks for an answer is sent after this long without any: it keeps NAT mappings, and tells a dead path.
    pub keepalive: Period,
    /// A connection from which nothing was received for this long is dead. The shorter one of both sides counts.
    pub idle: Period,
    /// After a path stopped taking large datagrams (a black hole) they are tried again this much later.
    pub regrow: Period,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            keepalive: period(KEEPALIVE),
            idle: period(IDLE),
            regrow: period(REGROW),
        }
    }
}

impl Times {
    /// Refuses times that cannot keep a connection.
    ///
    /// # Errors
    /// What is wrong with which of them.
    pub fn check(&self) -> Result<(), String> {
        for (name, seen, most) in [
            ("keepalive", self.keepalive, LONGEST_KEEPALIVE),
            ("idle", self.idle, LONGEST_IDLE),
            ("regrow", self.regrow, Period::MAX.duration()),
        ] {
            if !(SHORTEST..=most).contains(&seen.duration()) {
                let (least, most) = (period(SHORTEST), period(most));
                return Err(format!("quic.{name} is {seen}, it has to be from {least} to {most}"));
            }
        }
        if self.keepalive.duration() * 2 > self.idle.duration() {
            return Err(format!(
                "quic.keepalive is {}, and of quic.idle, {}, it may be half at most: one lost packet must not end a connection",
                self.keepalive, self.idle
            ));
        }
        Ok(())
    }
}

fn period(span: Duration) -> Period {
    Period::from_millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
}

/// For clients: nobody opens streams towards them.
pub fn client_transport() -> Arc<TransportConfig> {
    let times = Times {
        keepalive: period(KEEPALIVE_CLIENT),
        ..Times::default()
    };
    Arc::new(transport(&times, 0))
}

/// For relays, towards clients, agents and peers.
pub fn relay_transport(times: &Times) -> Arc<TransportConfig> {
    Arc::new(transport(times, STREAMS_AT_FIRST))
}

/// For agents: the relay opens one stream for each session, standby and handshake, up to `streams`.
pub fn agent_transport(streams: usize, times: &Times) -> Arc<TransportConfig> {
    let mut config = transport(times, u32::try_from(streams).unwrap_or(u32::MAX));
    config.receive_window(AGENT_WINDOW.into());
    Arc::new(config)
}

/// With these times (a keepalive of at most half of the idle limit is used) and number of streams that the peer may open.
pub fn transport(times: &Times, streams: u32) -> TransportConfig {
    let idle = times.idle.duration().min(LONGEST_IDLE);
    let limit = VarInt::from_u32(u32::try_from(idle.as_millis()).unwrap_or(u32::MAX));
    let mut config = TransportConfig::default();
    config
        .keep_alive_interval(Some(times.keepalive.duration().min(idle / 2)))
        .max_idle_timeout(Some(IdleTimeout::from(limit)))
        .initial_rtt(FIRST_RTT)
        .max_concurrent_bidi_streams(VarInt::from_u32(streams))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .receive_window(CONNECTION_WINDOW)
        .send_window(SEND_WINDOW)
        .crypto_buffer_size(HANDSHAKE_BUFFER)
        .datagram_receive_buffer_size(None)
        // Streams take turns, urgent ones first: else one that was begun would be sent to its end, all that its window holds,
        // before a keystroke of another.
        .send_fairness(true)
        .mtu_discovery_config(Some(discovery(times)))
        .ack_frequency_config(Some(acknowledgements()));
    config
}

/// Datagrams start at 1,200 bytes, which every path carries; larger ones are used once a probe of that size was acknowledged.
/// A path that stops taking them (a tunnel came up, and nobody says "too large") is known by what is lost, and is back at
/// 1,200 bytes then.
fn discovery(times: &Times) -> MtuDiscoveryConfig {
    let mut config = MtuDiscoveryConfig::default();
    config
        .upper_bound(largest_datagram())
        .black_hole_cooldown(times.regrow.duration());
    config
}

/// The largest UDP payload that an interface of this machine can send, from an Ethernet frame of 1,500 bytes up to
/// [`LARGEST_DATAGRAM`]. To probe beyond it would cost ten packets, and their memory for each connection.
fn largest_datagram() -> u16 {
    let mut mtus = Vec::new();
    // Linux; elsewhere there is no such folder.
    for entry in std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten() {
        let mtu = std::fs::read_to_string(entry.path().join("mtu")).ok();
        if let Some(mtu) = mtu.and_then(|text| text.trim().parse::<u32>().ok()) {
            mtus.push((entry.file_name() != "lo", mtu));
        }
    }
    largest_of(&mtus)
}

/// By the MTU of each interface, and whether it leads to others; loopback, whose MTU is 65,536 everywhere, counts alone.
fn largest_of(mtus: &[(bool, u32)]) -> u16 {
    let outside = mtus.iter().any(|(outside, _)| *outside);
    let largest = mtus
        .iter()
        .filter(|(out, _)| *out == outside)
        .map(|(_, mtu)| *mtu)
        .max();
    let payload = largest.unwrap_or_default().saturating_sub(HEADERS);
    u16::try_from(payload).map_or(LARGEST_DATAGRAM, |payload| {
        payload.clamp(USUAL_DATAGRAM, LARGEST_DATAGRAM)
    })
}

/// What we ask of whoever receives from us.
fn acknowledgements() -> AckFrequencyConfig {
    let mut config = AckFrequencyConfig::default();
    config.ack_eliciting_threshold(VarInt::from_u32(PACKETS_PER_ACKNOWLEDGEMENT));
    config
}

#[cfg(test)]
mod tests;
