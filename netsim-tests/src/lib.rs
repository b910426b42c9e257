//! Tests that need the whole product: real programs as processes, real certificates, real terminals, loopback.
//!
//! The library holds what the tests share. It is never part of a program that is shipped.

// Tests may fail loudly; this crate is nothing but tests.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs
)]

pub mod admin;
pub mod attached;
pub mod between;
pub mod burden;
pub mod chance;
pub mod document;
pub mod echo;
pub mod fleet;
pub mod forge;
pub mod fuzz;
pub mod liar;
pub mod middleman;
pub mod plot;
pub mod process;
pub mod running;
pub mod stats;
pub mod terminal;
pub mod told;
pub mod unfinished;
pub mod warm;
