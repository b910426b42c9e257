//! The relay as a whole: real QUIC on loopback, real certificates, a real signed publication, fake peers.

#![allow(unreachable_pub, reason = "one test binary, helpers shared by its modules")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests: what fails here fails the test"
)]

mod abuse;
mod admission;
mod agents;
mod common;
mod program;
mod routing;
