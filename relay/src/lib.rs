//! The relay: carries bytes between clients and agents, and decides nothing about sessions.
//!
//! ```text
//! client ── QUIC, mTLS ──> listen ─> admit ─> client ─> route ─> splice ──(the agent's own connection)──> agent
//! agent  ── QUIC, mTLS ──> listen ─> admit ─> control (registers, is probed) ─> attached
//! ```
//!
//! Follow a session in this order: [`mod@app`] (wiring), `listen`, `admit`, `client`, [`route`], [`splice`]; an agent's
//! side: `control`, [`attached`]. Around them: [`config`], `material` (identity and bundle, re-read), [`metrics`], [`stalled`],
//! `admin`, [`cli`].
//!
//! What a relay never does: reads or changes a session, says who a user is, authorizes, ends anything for good (its
//! refusals mean "try the next"), or gives text to a user. It knows neither policies nor recordings.

mod admin;
mod admit;
pub mod app;
pub mod attached;
mod bucket;
pub mod cli;
mod client;
pub mod config;
mod control;
#[doc(hidden)]
pub mod fuzz;
mod gate;
mod listen;
mod material;
pub mod metrics;
mod quota;
mod refusals;
pub mod route;
pub mod splice;
pub mod stalled;
mod state;
mod wire;

use std::sync::LazyLock;

use noderelay_proto::Version;

pub use app::{run, stop_on_signals};
pub use config::Config;
pub use state::Stop;

/// The commit that was built: what `NODERELAY_COMMIT` said at the build, else what git says, else `unknown`.
pub const COMMIT: &str = env!("NODERELAY_COMMIT");

/// Name, version and commit, as other parties see it.
pub(crate) fn software() -> String {
    format!("noderelay-relay {} ({COMMIT})", env!("CARGO_PKG_VERSION"))
}

/// The text of `--version`: version, commit, protocol versions.
pub(crate) fn version_text() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let alpn = |version: &Version| String::from_utf8_lossy(version.outer_alpn()).into_owned();
        let spoken: Vec<String> = Version::ALL.iter().map(alpn).collect();
        format!(
            "{} (commit {COMMIT}; speaks {})",
            env!("CARGO_PKG_VERSION"),
            spoken.join(", ")
        )
    });
    &TEXT
}
