//! A refusal that explains itself: which of the four parts is missing, what was seen, under which policy version.
//!
//! Every step before the shell ends in its own type or in a [`Refusal`]; one function turns it into the `Denied` message.
//! The words that tell the operator what to type come from the client's own table: a node never sends commands.

use noderelay_pki::text;
use noderelay_proto::code::Code;
use noderelay_proto::control::{Denied, Missing};
use noderelay_proto::limits::MAX_TEXT;

/// Why a session does not start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The closed code.
    pub code: Code,
    /// Which part is missing.
    pub missing: Missing,
    /// What was seen.
    pub seen: String,
    /// The policy in force, 0 when none was asked.
    pub policy_version: u64,
}

impl Refusal {
    /// A refusal by a step that asks no policy.
    pub fn new(code: Code, missing: Missing, seen: impl Into<String>) -> Self {
        Self {
            code,
            missing,
            seen: seen.into(),
            policy_version: 0,
        }
    }

    /// A refusal for a reason that lies in the node itself.
    pub fn node(code: Code, seen: impl Into<String>) -> Self {
        Self::new(code, Missing::Node, seen)
    }

    /// The message for the client: text escaped, cut to the protocol's bound.
    pub fn message(&self) -> Denied {
        Denied {
            code: self.code.number(),
            missing: self.missing.into(),
            seen: shown(&self.seen),
            policy_version: self.policy_version,
        }
    }
}

/// Escaped, and short enough for a message's text field.
pub fn shown(text: &str) -> String {
    // An escape makes several bytes of one character, so the bound on characters is a third of the field's.
    text::escape(text, MAX_TEXT / 3).chars().take(MAX_TEXT / 4).collect()
}

#[cfg(test)]
mod tests;
