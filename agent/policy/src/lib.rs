//! The decision: may this principal do this on this node, and under which obligations?
//!
//! ```text
//! verified bytes of a bundle ── PolicySet::parse ──> PolicySet      schema, annotations, node rules: strict, or an error
//!                  Question ── PolicySet::decide ──> Permit | Denial
//!                  Question ── PolicySet::account ─> the same answer with all that led to it, for people
//! ```
//!
//! Default deny: no rule, no entry. An error in any policy that is evaluated denies, whatever the others say, and
//! names the policy. A [`Permit`] is made only here; starting work takes one by value, so a check that is left out
//! does not compile. A [`Denial`] names the part that is missing and what was seen.
//!
//! Never: a clock, a file, a network, a signature check (the bundle was verified before), text for a person beyond
//! what was seen (the client has its own table of fixes).

mod account;
mod annotation;
mod decide;
pub mod diff;
mod entity;
mod explain;
#[doc(hidden)]
pub mod fuzz;
mod guard;
pub mod lint;
mod nodes;
mod question;
mod set;
mod slice;
pub mod starter;
pub mod survey;
pub mod table;
#[cfg(test)]
mod testing;

pub use account::{Account, Cited};
pub use annotation::{AnnotationError, Obligations, RecordLevel, Tier};
pub use decide::Permit;
pub use explain::{Denial, DenialKind, Missing};
pub use nodes::{NodeFacts, NodeRulesError, UNASSIGNED};
pub use question::{Action, Path, Question};
pub use set::{Place, PolicyError, PolicySet};

/// The schema that every policy is validated against, as it ships.
pub const SCHEMA: &str = include_str!("schema.cedarschema");
