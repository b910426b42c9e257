//! The client of NodeRelay as a library; `client/cli` is the command.
//!
//! One session, file by file: [`config`] → [`creds`] (who am I, what does the signed bundle say) → [`dial`] (a relay) →
//! [`session`] (inner TLS, the wish of [`open`]) → [`pump`] (bytes both ways) → [`exit`] → [`farewell`]. Beside it:
//! [`terminal`] (raw and restored), [`modes`] (what the remote program left on), [`escape`] (local keys), [`stdio`],
//! [`screen`], [`signals`], [`message`] (what the user is told) and [`status`] (what programs are told).
//!
//! [`warm`] keeps connections from one session to the next. Other commands: [`doctor`], [`whoami`], [`replay`].
//!
//! What the client never does: it returns 0 only after an explicit exit of the remote command; it takes no text of a
//! peer as its own; it decides nothing about access (the node does).

pub mod bundle;
pub mod config;
pub mod creds;
pub mod dial;
pub mod doctor;
pub mod escape;
pub mod exit;
pub mod farewell;
pub mod faults;
mod frames;
#[doc(hidden)]
pub mod fuzz;
pub mod inner;
pub mod message;
pub mod modes;
pub mod open;
pub mod pump;
pub mod replay;
pub mod screen;
pub mod session;
pub mod setup;
pub mod signals;
pub mod status;
pub mod stdio;
pub mod target;
pub mod terminal;
pub mod waiting;
pub mod warm;
pub mod whoami;

#[cfg(test)]
mod testing;

pub use config::{Config, Places};
pub use open::{WantTerminal, Work};
pub use session::{Configured, Outcome, PathChoice, SessionOptions, not_begun, run_session};
