//! The decision itself, and [`Permit`], its only positive outcome.
//!
//! ```text
//! role and home cluster ─> node rules ─> evaluation ─> errors? deny ─> profile ─> highest tier ─> strictest ─> Permit
//! ```
//!
//! A permit that holds only because of a grant outranks standing ones: what was approved for this very work decides,
//! not what happens to hold as well. Never: a decision from a part of the set, unless that was cut for this very node.

use std::collections::BTreeMap;

use cedar_policy::{AuthorizationError, Decision};
use noderelay_pki::identity::{Identity, Role};
use noderelay_pki::name::{ClusterName, NodeName, ProfileName};
use noderelay_pki::text::escape;

use crate::annotation::{self, Demands, Obligations, Tier};
use crate::entity::{Asked, Case};
use crate::explain::{self, Denial, DenialKind};
use crate::question::{Action, Question};
use crate::set::{PolicySet, Rule};

/// The proof that the policy permits exactly this. Made only by [`PolicySet::decide`]; not clonable, so that one
/// permit starts one session.
#[derive(Debug)]
pub struct Permit {
    principal: Identity,
    action: Action,
    cluster: ClusterName,
    node: NodeName,
    obligations: Obligations,
    rules: Vec<String>,
    version: u64,
}

impl Permit {
    /// Who may.
    pub fn principal(&self) -> &Identity {
        &self.principal
    }

    /// What they may do.
    pub fn action(&self) -> Action {
        self.action
    }

    /// The cluster of the node where they may.
    pub fn cluster(&self) -> &ClusterName {
        &self.cluster
    }

    /// The node where they may.
    pub fn node(&self) -> &NodeName {
        &self.node
    }

    /// Under which conditions.
    pub fn obligations(&self) -> &Obligations {
        &self.obligations
    }

    /// The rules that decided, sorted.
    pub fn rules(&self) -> &[String] {
        &self.rules
    }

    /// The version of the bundle.
    pub fn version(&self) -> u64 {
        self.version
    }
}

impl PolicySet {
    /// Decides one question.
    pub fn decide(&self, question: &Question<'_>) -> Result<Permit, Denial> {
        let deny = |kind, detail: &str| Err(explain::denial(question, None, kind, detail));
        match &question.principal.role {
            Role::User(_) if question.principal.cluster != *question.cluster => {
                return deny(
                    DenialKind::ForeignPrincipal,
                    "its home is another cluster, and no signed mapping names it",
                );
            }
            Role::User(_) => {}
            Role::BreakGlass(_) => {
                return deny(DenialKind::NeedsActivation, "no activation by custodians came along");
            }
            Role::Node(_) | Role::Relay(_) | Role::Issuer(_) => {
                return deny(DenialKind::WrongRole, "only persons open sessions");
            }
        }
        let facts = match &self.slice {
            Some(slice) if !slice.is_for(question) => {
                return deny(
                    DenialKind::PolicyError,
                    "the policies at hand are those of another node, so nothing is permitted",
                );
            }
            Some(slice) => slice.facts().clone(),
            None => self.node_facts(question.cluster, question.node),
        };
        let deny = |kind, detail: &str| Err(explain::denial(question, Some(&facts), kind, detail));
        if !facts.is_assigned() {
            return deny(DenialKind::Unassigned, "no node rule matches this node");
        }
        let asked = Asked::of(question);
        let decided = Case::new(question, &facts).map_err(Trouble::Internal).and_then(|case| {
            let with = self.evaluate(&case, question, &asked)?;
            let without = match asked.grant {
                true if !with.permits.is_empty() => self.evaluate(&case, question, &Asked { grant: false, ..asked })?,
                _ => Evaluated::default(),
            };
            Ok((case, with, without))
        });
        let (case, with, without) = match decided {
            Ok(decided) => decided,
            Err(trouble) => return deny(DenialKind::PolicyError, &trouble.to_string()),
        };
        if with.permits.is_empty() {
            let (kind, detail) = explain::why_not(self, &case, question, &asked, &with);
            return deny(kind, &detail);
        }
        let by_grant: Vec<_> = with
            .permits
            .iter()
            .filter(|(rule, _)| !without.names(rule))
            .copied()
            .collect();
        let (tier, deciding) = match asked.grant {
            true if !by_grant.is_empty() => (Tier::Grant, by_grant),
            _ => (Tier::Standing, with.permits),
        };
        Ok(Permit {
            principal: question.principal.clone(),
            action: question.action,
            cluster: question.cluster.clone(),
            node: question.node.clone(),
            obligations: annotation::strictest(deciding.iter().map(|(_, demands)| *demands), question.profile, tier),
            rules: deciding.iter().map(|(rule, _)| (*rule).to_owned()).collect(),
            version: self.version,
        })
    }

    /// One evaluation of the whole set.
    pub(crate) fn evaluate<'s>(
        &'s self,
        case: &Case,
        question: &Question<'_>,
        asked: &Asked<'_>,
    ) -> Result<Evaluated<'s>, Trouble> {
        let request = case.request(question, asked).map_err(Trouble::Internal)?;
        let slice = self.slice.as_ref();
        let cut = slice.and_then(|slice| slice.policies(question.action, case.principals()));
        // The parts of a cut are one set: what holds in one of them holds, and what forbids in one forbids.
        let parts = cut.unwrap_or_else(|| vec![&self.policies]);
        let mut broken = Vec::new();
        let mut evaluated = Evaluated::default();
        for part in parts {
            let response = self.authorizer.is_authorized(&request, part, &case.entities);
            broken.extend(response.diagnostics().errors().map(rule_in_error));
            for rule in response.diagnostics().reason() {
                // Every policy was entered with its demands; one without would be a fault here, and faults deny.
                let Some((rule, Rule { demands, .. })) = self.rules.get_key_value(rule) else {
                    return Err(Trouble::Internal("a rule without an entry decided".to_owned()));
                };
                let rule: &str = rule.as_ref();
                match (response.decision(), &demands.profile) {
                    (Decision::Deny, _) => evaluated.forbids.push(rule),
                    (Decision::Allow, Some(other)) if other != asked.profile => {
                        evaluated.other_profiles.entry(other).or_default().push(rule);
                    }
                    (Decision::Allow, _) => evaluated.permits.push((rule, demands)),
                }
            }
        }
        if !broken.is_empty() {
            broken.sort();
            return Err(Trouble::Rules(broken));
        }
        if !evaluated.forbids.is_empty() {
            evaluated.permits.clear();
            evaluated.other_profiles.clear();
        }
        evaluated.permits.sort_by_key(|(rule, _)| *rule);
        evaluated.forbids.sort_unstable();
        evaluated
            .other_profiles
            .values_mut()
            .for_each(|rules| rules.sort_unstable());
        Ok(evaluated)
    }
}

/// What one evaluation says.
#[derive(Debug, Default)]
pub(crate) struct Evaluated<'s> {
    /// Satisfied permits for the profile that was asked for; none when something forbids.
    pub(crate) permits: Vec<(&'s str, &'s Demands)>,
    /// Satisfied forbids.
    pub(crate) forbids: Vec<&'s str>,
    /// Satisfied permits for other profiles; none when something forbids.
    pub(crate) other_profiles: BTreeMap<&'s ProfileName, Vec<&'s str>>,
}

impl Evaluated<'_> {
    fn names(&self, rule: &str) -> bool {
        self.permits.iter().any(|(other, _)| *other == rule)
    }
}

/// Why an evaluation has no outcome.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    #[error("the evaluation of {} failed, so nothing is permitted", .0.join(", "))]
    Rules(Vec<String>),
    #[error("the question cannot be put to the policy: {0}")]
    Internal(String),
}

fn rule_in_error(error: &AuthorizationError) -> String {
    let AuthorizationError::PolicyEvaluationError(error) = error;
    format!(
        "rule {} ({})",
        error.policy_id(),
        escape(&error.inner().to_string(), 120)
    )
}

#[cfg(test)]
mod tests;
