//! The relay as a whole: real QUIC on loopback, real certificates, a real signed publication, fake peers.

#![allow(unreachable_pub, reason = "one test binary, helpers shared by its modules")]

mod admission;
mod agents;
mod common;
mod routing;
