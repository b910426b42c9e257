//! Signed publications ("bundles"): what the policy signers of a fleet have decided, verified before anything reads it.
//!
//! A bundle is a TUF repository in a directory: `root`, `timestamp`, `snapshot` and `targets` metadata, and the files that
//! `targets` names (`fleet.yaml`, `principals.yaml`, `nodes.yaml`, `policies/*.cedar`). `docs/bundle.md` lists each file
//! and field.
//!
//! ```text
//! signers:   files ── author::sign (each with an own key) ──> signatures/ ── author::publish (pipeline) ──> directory
//! a node:    directory ── strict ── root chain ── threshold ── rollback ── tough ── expiry ── Store ──> Publication
//! ```
//!
//! Reading order: [`store`] (what a program calls) → `verify` (the steps, numbered as in the TUF specification) →
//! [`strict`] and [`threshold`] (the two rules that `tough` leaves open) → [`fleet`] and [`principals`] (what was signed).
//!
//! What this crate never does: read the clock, decide who may do what, talk to a network, or keep local time as a floor.
//! A publication that fails any step changes nothing: the last good one stays in force.

pub mod author;
pub mod error;
pub mod fleet;
#[doc(hidden)]
pub mod fuzz;
pub mod key;
pub mod limits;
pub mod metadata;
pub mod principals;
pub mod publication;
pub mod signing;
pub mod source;
pub mod store;
pub mod strict;
pub mod threshold;

mod tuf;
mod verify;
mod yaml;

pub use error::BundleError;
pub use fleet::FleetFile;
pub use key::PublicKey;
pub use metadata::Role;
pub use principals::PrincipalsFile;
pub use publication::{Freshness, Publication, Versions};
pub use store::{Accepted, Begun, Store};
