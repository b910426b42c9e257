//! [`Account`]: a decision with all that led to it, for people who ask why.
//!
//! ```text
//! Question ── PolicySet::decide ──> Permit | Denial        the very answer of a node
//!          └─ the same question again ──> which rules hold, for which profile, which forbid; what the node is, by which rule
//! ```
//!
//! Never: an outcome of its own. What it adds to the answer only explains it.

use noderelay_pki::identity::Role;

use crate::decide::Permit;
use crate::entity::{Asked, Case};
use crate::explain::Denial;
use crate::nodes::NodeFacts;
use crate::question::Question;
use crate::set::{Place, PolicySet};

/// A decision and what led to it.
#[derive(Debug)]
pub struct Account {
    /// What a node answers.
    pub outcome: Result<Permit, Denial>,
    /// What the node is.
    pub node: NodeFacts,
    /// The number and the pattern of the node rule that says so.
    pub node_rule: Option<(usize, String)>,
    /// The rules that decided: the permits of the tier that decides, or the forbids.
    pub decided: Vec<Cited>,
    /// Rules that hold as well and did not decide: permits of a lower tier, or for another profile.
    pub also: Vec<Cited>,
}

/// A rule that has to do with it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cited {
    /// Its name.
    pub rule: String,
    /// Where it stands.
    pub place: Option<Place>,
    /// The profile that it is for, when for one only.
    pub profile: Option<String>,
}

impl PolicySet {
    /// Decides one question and says what led to the answer.
    pub fn account(&self, question: &Question<'_>) -> Account {
        let outcome = self.decide(question);
        let node = self.node_facts(question.cluster, question.node);
        let mut account = Account {
            outcome,
            node_rule: self.node_rule(question.cluster, question.node),
            decided: Vec::new(),
            also: Vec::new(),
            node,
        };
        if let Ok(permit) = &account.outcome {
            account.decided = permit.rules().iter().map(|rule| self.cited(rule)).collect();
        }
        // Only users at home in the cluster are evaluated, and only on a node that is somebody's.
        let evaluated = account.node.is_assigned()
            && matches!(question.principal.role, Role::User(_))
            && question.principal.cluster == *question.cluster;
        let case = Case::new(question, &account.node).ok().filter(|_| evaluated);
        let Some(found) = case.and_then(|case| self.evaluate(&case, question, &Asked::of(question)).ok()) else {
            return account;
        };
        account
            .decided
            .extend(found.forbids.iter().map(|rule| self.cited(rule)));
        let others = found.other_profiles.values().flatten().copied();
        let permits = found.permits.iter().map(|(rule, _)| *rule);
        let also = permits.chain(others).map(|rule| self.cited(rule));
        account.also = also.filter(|cited| !account.decided.contains(cited)).collect();
        account.also.sort();
        account
    }

    fn cited(&self, rule: &str) -> Cited {
        let kept = self.rules.get(&cedar_policy::PolicyId::new(rule));
        Cited {
            rule: rule.to_owned(),
            place: kept.map(|kept| kept.place.clone()),
            profile: kept.and_then(|kept| Some(kept.demands.profile.as_ref()?.to_string())),
        }
    }
}

#[cfg(test)]
mod tests;
