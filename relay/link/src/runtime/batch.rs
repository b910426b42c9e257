//! Datagrams on their way to the kernel: joined while there are more to come, cut where one call can't take them.
//!
//! ```text
//! a full batch of one connection ──> kept ──> joined by the next one ──> to the kernel: when nothing more fits,
//!                                                                        before anything that can't be joined,
//!                                                                        or when the runtime has gone round once
//! anything else ─────────────────────────────────────────────────────> to the kernel
//! ```
//!
//! quinn joins ten datagrams, the kernel takes what fits into one IP packet: 44 of 1,472 bytes, of which each costs it a
//! fraction of a call of its own. A full batch comes from somebody who has more to send, and waits for no longer than it
//! takes to ask him; a keystroke is never kept.
//!
//! What it never does: change the order of datagrams, keep a batch that is not full, or keep more than one IP packet holds.

use std::io;
use std::net::{IpAddr, SocketAddr};

use quinn::udp::{EcnCodepoint, Transmit};

/// The largest IP packet.
pub(super) const IP_PACKET: usize = 65_535;
/// What it holds of UDP payload, IPv6 and UDP headers off.
const PAYLOAD: usize = IP_PACKET - 48;
/// What the kernel cuts into datagrams at once (`UDP_MAX_SEGMENTS` of older kernels).
const SEGMENTS: usize = 64;
/// From this many datagrams on a batch is full. quinn makes up to ten, and some of them carry less.
const FULL: usize = 10;

/// What was kept, at most one IP packet.
#[derive(Debug, Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    /// Whom it is for; nothing is kept without.
    to: Option<To>,
    /// Rises whenever something is kept: whoever looks twice knows whether there was more.
    pub(super) round: u64,
}

/// What joined datagrams have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct To {
    destination: SocketAddr,
    ecn: Option<EcnCodepoint>,
    source: Option<IpAddr>,
    size: usize,
}

impl To {
    /// Of a full batch.
    fn of(transmit: &Transmit<'_>) -> Option<To> {
        let size = transmit.segment_size.filter(|size| *size > 0)?;
        let length = transmit.contents.len();
        (length.is_multiple_of(size) && length / size >= FULL).then_some(To {
            destination: transmit.destination,
            ecn: transmit.ecn,
            source: transmit.src_ip,
            size,
        })
    }

    /// The most bytes that one call takes.
    fn most(&self) -> usize {
        self.size * (PAYLOAD / self.size).clamp(1, SEGMENTS)
    }
}

/// What has become of datagrams.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// The kernel has them, and all that were kept before.
    All,
    /// They are kept: somebody has to flush soon.
    Kept,
}

impl Batch {
    /// Sends or keeps datagrams. When the kernel has no room (an error), nothing of them was taken.
    pub(super) fn send(
        &mut self,
        transmit: &Transmit<'_>,
        mut kernel: impl FnMut(&Transmit<'_>) -> io::Result<()>,
    ) -> io::Result<Sent> {
        let to = To::of(transmit).filter(|to| transmit.contents.len() < to.most());
        let room = self.to.map_or(0, |to| to.most().saturating_sub(self.bytes.len()));
        if self.to != to || room < transmit.contents.len() {
            self.flush(&mut kernel)?;
        }
        let Some(to) = to else {
            pieces(transmit).try_for_each(|piece| kernel(&piece))?;
            return Ok(Sent::All);
        };
        self.to = Some(to);
        self.bytes.extend_from_slice(transmit.contents);
        self.round += 1;
        Ok(Sent::Kept)
    }

    /// Hands on what was kept. It stays kept when the kernel has no room (an error).
    pub(super) fn flush(&mut self, mut kernel: impl FnMut(&Transmit<'_>) -> io::Result<()>) -> io::Result<()> {
        if let Some(to) = self.to {
            kernel(&Transmit {
                destination: to.destination,
                ecn: to.ecn,
                contents: &self.bytes,
                segment_size: Some(to.size),
                src_ip: to.source,
            })?;
            self.to = None;
            self.bytes.clear();
        }
        Ok(())
    }
}

/// What one call hands to the kernel holds at most one IP packet. quinn joins ten datagrams whatever their size, and the kernel
/// refuses more than fits in the way in which it refuses one datagram that is too large for the path.
///
/// When a later piece is refused for want of room, all are sent again: QUIC drops what it has seen already.
fn pieces<'a>(transmit: &'a Transmit<'a>) -> impl Iterator<Item = Transmit<'a>> {
    let whole = transmit.contents.len().max(1);
    let most = match transmit.segment_size {
        Some(size) if size > 0 && whole > PAYLOAD => (PAYLOAD / size).max(1) * size,
        _ => whole,
    };
    (0..whole).step_by(most).map(move |start| {
        let end = transmit.contents.len().min(start + most);
        Transmit {
            contents: transmit.contents.get(start..end).unwrap_or_default(),
            ..*transmit
        }
    })
}

#[cfg(test)]
mod tests;
