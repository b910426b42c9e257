//! The crate as its users see it: publications good and bad, over stores on a disk.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "helpers of tests are tests"
)]

mod accepted;
mod author;
mod common;
mod floors;
mod mutations;
mod refusals;
