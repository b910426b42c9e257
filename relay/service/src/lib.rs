//! What a program of ours has that runs for long, whether it carries bytes or decides: a log, named parts of readiness, metrics
//! that both count, and a Unix socket to ask for all of that.
//!
//! ```text
//! Log::begin ─> lines behind a thread of their own ─> stderr        Health, Counts ─┐
//!     └──────── its filter, changed for a while <── PUT /log ── Admin ──────────────┴─> GET /readyz, /metrics
//! ```
//!
//! What it never does: listen on the network, know a session, a route or a policy, or let anything at the socket stop a program.

pub mod admin;
#[doc(hidden)]
pub mod fuzz;
pub mod health;
mod identity;
pub mod log;
pub mod metrics;

pub use admin::{Admin, AdminError, Report};
pub use health::{Health, Part};
pub use identity::IdentityFiles;
pub use log::{Log, LogFormat};
