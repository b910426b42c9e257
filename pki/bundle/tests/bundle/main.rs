//! The crate as its users see it: publications good and bad, over stores on a disk.

mod author;
mod common;
mod floors;
mod mutations;
mod refusals;
