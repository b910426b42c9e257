//! Names, certificates, verification and TLS set-up of NodeRelay.
//!
//! Everything that says *who somebody is* is decided in this crate, once, and used by every other part:
//!
//! ```text
//! name ──> identity ──> ca (issues a certificate) ──> trust + verify (VerifiedPeer or PeerRefused) ──> tls (rustls)
//!                        key, extension                files (keys and certificates re-read from disk)
//! ```
//!
//! What it never does: it opens no socket, decides no authorization, and never reads the clock by itself, except in
//! the callbacks that rustls makes during a handshake (`tls`).

pub mod ca;
mod extension;
pub mod files;
#[doc(hidden)]
pub mod fuzz;
pub mod identity;
pub mod inspect;
pub mod key;
mod leaf;
pub mod name;
pub mod pem;
pub mod text;
pub mod time;
pub mod tls;
pub mod trust;
pub mod verify;

pub use identity::{Identity, Role, RoleKind};
pub use verify::{Expect, PeerRefused, Usage, VerifiedPeer};

#[cfg(test)]
mod testing;
