//! [`Denial`]: which part is missing, and what was seen.
//!
//! When no rule permits, the same question is asked again with one thing more (a reason, a grant, another profile, a
//! fresh bundle): what would be permitted then names what is missing now. Never: a permit; what is found here only
//! words a refusal.

use noderelay_pki::text::escape;

use crate::decide::Evaluated;
use crate::entity::{Asked, Case};
use crate::nodes::NodeFacts;
use crate::question::Question;
use crate::set::PolicySet;

/// Most other profiles that are tried.
const MAX_PROFILES: usize = 16;
/// Longest text of what was seen, in characters.
const MAX_SEEN: usize = 600;
/// Stands for some reason when trying whether one would help.
const SOME_REASON: &str = "a reason";

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{seen}")]
pub struct Denial {
    /// The part that is missing.
    pub missing: Missing,
    /// Why exactly.
    pub kind: DenialKind,
    /// What was seen: short, without controls.
    pub seen: String,
}

/// The part of a session that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Missing {
    /// A certificate of the right kind.
    Identity,
    /// A rule that permits it.
    Rule,
    /// A grant or an activation.
    Grant,
    /// A rule that says what the node is.
    NodeRule,
    /// A bundle that is fresh.
    Bundle,
}

impl Missing {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Identity, Self::Rule, Self::Grant, Self::NodeRule, Self::Bundle];

    /// The part of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.as_str() == name)
    }

    /// Its name, for programs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Rule => "rule",
            Self::Grant => "grant",
            Self::NodeRule => "node_rule",
            Self::Bundle => "bundle",
        }
    }
}

/// Why a question is answered with no. The closed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DenialKind {
    /// The principal is a node, relay or issuer.
    WrongRole,
    /// The principal belongs to another cluster, and no mapping names it.
    ForeignPrincipal,
    /// An emergency account without an activation.
    NeedsActivation,
    /// No node rule matches the node.
    Unassigned,
    /// A policy failed in evaluation.
    PolicyError,
    /// A rule forbids it.
    Forbidden,
    /// It would be permitted with a grant.
    NeedsGrant,
    /// It would be permitted with a reason.
    NeedsReason,
    /// It would be permitted with another profile.
    WrongProfile,
    /// It would be permitted if the bundle were fresh.
    NotFresh,
    /// Nothing permits it.
    NoRule,
}

impl DenialKind {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::WrongRole,
        Self::ForeignPrincipal,
        Self::NeedsActivation,
        Self::Unassigned,
        Self::PolicyError,
        Self::Forbidden,
        Self::NeedsGrant,
        Self::NeedsReason,
        Self::WrongProfile,
        Self::NotFresh,
        Self::NoRule,
    ];

    /// Its name, for programs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WrongRole => "wrong_role",
            Self::ForeignPrincipal => "foreign_principal",
            Self::NeedsActivation => "needs_activation",
            Self::Unassigned => "unassigned",
            Self::PolicyError => "policy_error",
            Self::Forbidden => "forbidden",
            Self::NeedsGrant => "needs_grant",
            Self::NeedsReason => "needs_reason",
            Self::WrongProfile => "wrong_profile",
            Self::NotFresh => "not_fresh",
            Self::NoRule => "no_rule",
        }
    }

    /// The part that is missing.
    pub const fn missing(self) -> Missing {
        match self {
            Self::WrongRole | Self::ForeignPrincipal => Missing::Identity,
            Self::NeedsActivation | Self::NeedsGrant => Missing::Grant,
            Self::Unassigned => Missing::NodeRule,
            Self::NotFresh => Missing::Bundle,
            Self::PolicyError | Self::Forbidden | Self::NeedsReason | Self::WrongProfile | Self::NoRule => {
                Missing::Rule
            }
        }
    }
}

/// Words a refusal.
pub(crate) fn denial(question: &Question<'_>, facts: Option<&NodeFacts>, kind: DenialKind, detail: &str) -> Denial {
    let principal = question.principal;
    let mut groups: Vec<_> = question
        .groups
        .iter()
        .take(5)
        .map(|group| escape(group.as_str(), 40))
        .collect();
    if question.groups.len() > 5 {
        groups.push(format!("and {} more", question.groups.len() - 5));
    }
    let groups = if groups.is_empty() {
        "no group".to_owned()
    } else {
        format!("groups {}", groups.join(", "))
    };
    let tenant = facts
        .map(|facts| format!(" (tenant {})", facts.tenant))
        .unwrap_or_default();
    let seen = format!(
        "{} {} of cluster {} ({groups}) asked for {} on {}/{}{tenant} with profile {}: {detail}",
        principal.kind(),
        escape(principal.role.name(), 80),
        escape(principal.cluster.as_str(), 80),
        question.action,
        escape(question.cluster.as_str(), 80),
        escape(question.node.as_str(), 80),
        escape(question.profile.as_str(), 40),
    );
    Denial {
        missing: kind.missing(),
        kind,
        seen: escape(&seen, MAX_SEEN),
    }
}

/// Finds out what would have to be different.
pub(crate) fn why_not(
    set: &PolicySet,
    case: &Case,
    question: &Question<'_>,
    asked: &Asked<'_>,
    evaluated: &Evaluated<'_>,
) -> (DenialKind, String) {
    let would = |other: Asked<'_>| {
        set.evaluate(case, question, &other)
            .is_ok_and(|found| !found.permits.is_empty())
    };
    let list = |profiles: &[String]| format!("rules permit it with profile {}", profiles.join(" or "));
    if !evaluated.other_profiles.is_empty() {
        let names: Vec<_> = evaluated
            .other_profiles
            .keys()
            .map(|profile| escape(profile.as_str(), 40))
            .collect();
        // The profile that was asked for may be there for the asking: with a grant, say.
        if let Some(found) = with_more(asked, would) {
            return (found.0, format!("{}; without, {}", found.1, list(&names)));
        }
        return (DenialKind::WrongProfile, list(&names));
    }
    if let Some((kind, detail)) = with_more(asked, would) {
        return (kind, detail.to_owned());
    }
    let others = set
        .profiles
        .iter()
        .filter(|profile| *profile != asked.profile)
        .take(MAX_PROFILES);
    let names: Vec<_> = others
        .filter(|&profile| would(Asked { profile, ..*asked }))
        .map(|profile| escape(profile.as_str(), 40))
        .collect();
    if !names.is_empty() {
        return (DenialKind::WrongProfile, list(&names));
    }
    if !evaluated.forbids.is_empty() {
        return (
            DenialKind::Forbidden,
            format!("forbidden by rule {}", evaluated.forbids.join(", ")),
        );
    }
    (DenialKind::NoRule, "no rule permits it".to_owned())
}

/// Tries what the person could bring along, the least first.
fn with_more(asked: &Asked<'_>, would: impl Fn(Asked<'_>) -> bool) -> Option<(DenialKind, &'static str)> {
    let reason = Asked {
        reason: asked.reason.or(Some(SOME_REASON)),
        ..*asked
    };
    let tries = [
        (
            asked.reason.is_none(),
            reason,
            DenialKind::NeedsReason,
            "a reason would permit it",
        ),
        (
            !asked.grant,
            Asked { grant: true, ..*asked },
            DenialKind::NeedsGrant,
            "a grant would permit it",
        ),
        (
            !asked.grant && asked.reason.is_none(),
            Asked { grant: true, ..reason },
            DenialKind::NeedsGrant,
            "a grant and a reason would permit it",
        ),
        (
            !asked.fresh,
            Asked { fresh: true, ..*asked },
            DenialKind::NotFresh,
            "a fresh bundle would permit it",
        ),
    ];
    tries
        .into_iter()
        .find(|(applies, other, ..)| *applies && would(*other))
        .map(|(_, _, kind, text)| (kind, text))
}
