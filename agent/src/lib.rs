//! The agent: one per node, the only party that decides about a session.
//!
//! A session passes through the modules in this order; each step's output is the next step's input, so the order
//! can't be changed without the compiler objecting:
//!
//! ```text
//! uplink     dials out to relays, registers, receives one stream per session channel
//! accept     inner TLS with the client itself          -> Accepted { Open, VerifiedPeer }, or Early without a wish
//! standby    … which waits for it                      -> Accepted
//! sessions   the session is registered first            -> Registered (a guard)
//! authorize  the signed policy is asked                 -> Permit, or a Refusal that explains itself
//! recorder   the recording is opened                    -> Recording
//! start      Permit and Recording are spent             -> a holder with the shell under it
//! pump       bytes, renewed decisions, the end
//! ```
//!
//! What the agent never does: listen on TCP or UDP, ask the API server, kubelet or DNS before it opens a shell, start a
//! process without a `Permit` and a `Recording`, trust a relay for anything but delivery.

pub mod accept;
mod account;
mod admin;
pub mod app;
mod authorize;
pub mod cli;
pub mod config;
mod denials;
mod enforce;
mod events;
mod framed;
#[doc(hidden)]
pub mod fuzz;
mod metrics;
mod places;
mod published;
mod pump;
mod recorder;
mod refusal;
mod session;
mod sessions;
mod standby;
mod start;
mod sweep;
#[cfg(test)]
mod testing;
pub mod uplink;
