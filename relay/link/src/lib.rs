//! QUIC set-up shared by client, relay and agent: one way to configure, dial, and use a connection of the outer leg.
//!
//! ```text
//! transport (numbers) ─> endpoint (sockets) ─> dial (names, races, limits) ─> Link ─> open(RouteHeader) ─> Stream
//!                                          └─> accept (by the relay) ─> accepted(..) ─> VerifiedPeer
//! ```
//!
//! What it never does: decide who may do what, read what a stream carries, or try anything without a limit in time.

pub mod backoff;
pub mod dial;
pub mod endpoint;
pub mod limiter;
pub mod link;
pub mod refused;
pub mod resolve;
mod runtime;
pub mod stream;
pub mod transport;
mod urgency;

pub use dial::{Attempt, Cause, DialError, Dialer};
pub use endpoint::{Restart, client_endpoint, server_config, server_endpoint};
pub use link::{Link, LinkError, Lost, accepted};
pub use refused::identity_code;
pub use runtime::Runtime;
pub use stream::{Stream, lost, peer_refusal};
pub use transport::{Times, agent_transport, client_transport, relay_transport};
pub use urgency::Urgency;

#[cfg(test)]
mod testing;
