//! What of a set can matter on one node, cut once when the set is loaded.
//!
//! ```text
//! scope of each policy (principal, action, resource) ── can it hold on this node, for somebody at home there? ──> slice
//! slice ── by action, and by the user or group that a scope names ──> what one decision evaluates
//! ```
//!
//! A node's ancestors are its cluster and its tenant, and whoever is evaluated has its home there: a scope that names
//! another node, cluster, tenant, or a principal of another cluster is false for every question about this node, and a
//! policy with a false scope neither counts nor fails. Only Cedar's own scope constraints are looked at, never conditions.
//!
//! Never: a policy left out because of its conditions, or an answer about another node (the decision denies).

use std::collections::{BTreeMap, HashMap};

use cedar_policy::{ActionConstraint, EntityUid, Policy, PolicySet as Cedar, PrincipalConstraint, ResourceConstraint};
use noderelay_pki::name::{ClusterName, NodeName};

use crate::entity::Spot;
use crate::nodes::NodeFacts;
use crate::question::{Action, Question};
use crate::set::PolicySet;

/// Policies of one action on a node.
#[derive(Debug, Default)]
struct Part {
    /// For whoever asks.
    open: Cedar,
    /// For this user or members of this group alone.
    named: HashMap<EntityUid, Cedar>,
}

/// Policies of one node.
#[derive(Debug)]
pub(crate) struct Slice {
    cluster: ClusterName,
    node: NodeName,
    facts: NodeFacts,
    /// Absent when it could not be cut: then everything is evaluated.
    by_action: Option<BTreeMap<Action, Part>>,
}

impl Slice {
    pub(crate) fn is_for(&self, question: &Question<'_>) -> bool {
        self.cluster == *question.cluster && self.node == *question.node
    }

    pub(crate) fn facts(&self) -> &NodeFacts {
        &self.facts
    }

    /// What a question evaluates that somebody with these identifiers asks about this action; `None` is all of the set.
    pub(crate) fn policies<'s>(
        &'s self,
        action: Action,
        who: impl Iterator<Item = &'s EntityUid>,
    ) -> Option<Vec<&'s Cedar>> {
        let by_action = self.by_action.as_ref()?;
        let Some(part) = by_action.get(&action) else {
            return Some(Vec::new());
        };
        let named = who.filter_map(|uid| part.named.get(uid));
        Some([&part.open].into_iter().chain(named).collect())
    }
}

impl PolicySet {
    /// The same set for questions about one node alone: it answers them as this one does, and evaluates only policies whose
    /// scope can hold there. Questions about any other node are denied.
    #[must_use]
    pub fn for_node(&self, cluster: &ClusterName, node: &NodeName) -> Self {
        let facts = self.node_facts(cluster, node);
        let cut = Spot::of(cluster, node, &facts).ok().and_then(|spot| self.cut(&spot));
        let (policies, by_action) = match cut {
            Some((policies, by_action)) => (policies, Some(by_action)),
            None => (self.policies.clone(), None),
        };
        let kept = policies
            .policies()
            .filter_map(|policy| self.rules.get_key_value(policy.id()));
        Self {
            version: self.version,
            rules: kept.map(|(id, rule)| (id.clone(), rule.clone())).collect(),
            policies,
            // All of them: a refusal tries them in turn, and shall say the same.
            profiles: self.profiles.clone(),
            authorizer: self.authorizer.clone(),
            nodes: self.nodes.clone(),
            slice: Some(Slice {
                cluster: cluster.clone(),
                node: node.clone(),
                facts,
                by_action,
            }),
        }
    }

    /// What can hold there, and the same in parts; nothing when a policy could not be taken over, for none may be lost.
    fn cut(&self, spot: &Spot) -> Option<(Cedar, BTreeMap<Action, Part>)> {
        let mut all = Cedar::new();
        let mut by_action = BTreeMap::<Action, Part>::new();
        for policy in self.policies.policies() {
            let scope = Scope::of(policy);
            if !scope.reaches(spot) {
                continue;
            }
            all.add(policy.clone()).ok()?;
            for action in Action::ALL.into_iter().filter(|action| scope.names(*action)) {
                let part = by_action.entry(action).or_default();
                let set = match scope.principal() {
                    Some(uid) => part.named.entry(uid.clone()).or_default(),
                    None => &mut part.open,
                };
                set.add(policy.clone()).ok()?;
            }
        }
        Some((all, by_action))
    }
}

/// The scope of a policy.
#[derive(Debug)]
pub(crate) struct Scope {
    principal: PrincipalConstraint,
    action: ActionConstraint,
    resource: ResourceConstraint,
}

impl Scope {
    pub(crate) fn of(policy: &Policy) -> Self {
        Self {
            principal: policy.principal_constraint(),
            action: policy.action_constraint(),
            resource: policy.resource_constraint(),
        }
    }

    /// Whether it can hold there for anybody who is at home in the node's cluster.
    pub(crate) fn reaches(&self, spot: &Spot) -> bool {
        let resource = match &self.resource {
            ResourceConstraint::Any => true,
            ResourceConstraint::Is(kind) => spot.is(kind),
            ResourceConstraint::Eq(uid) => *uid == spot.node,
            ResourceConstraint::In(uid) => spot.within(uid),
            ResourceConstraint::IsIn(kind, uid) => spot.is(kind) && spot.within(uid),
        };
        resource && self.principal().is_none_or(|uid| spot.is_home_of(uid))
    }

    /// The user or group that it names.
    fn principal(&self) -> Option<&EntityUid> {
        match &self.principal {
            PrincipalConstraint::Eq(uid) | PrincipalConstraint::In(uid) | PrincipalConstraint::IsIn(_, uid) => {
                Some(uid)
            }
            PrincipalConstraint::Any | PrincipalConstraint::Is(_) => None,
        }
    }

    /// Whether it can hold for this action.
    pub(crate) fn names(&self, action: Action) -> bool {
        let is = |uid: &EntityUid| uid.id().unescaped() == action.as_str();
        match &self.action {
            ActionConstraint::Any => true,
            ActionConstraint::Eq(uid) => is(uid),
            ActionConstraint::In(uids) => uids.iter().any(is),
        }
    }

    /// Whether it holds for this principal, a user in these groups.
    pub(crate) fn holds_for(&self, user: &EntityUid, groups: &[EntityUid]) -> bool {
        let within = |uid: &EntityUid| uid == user || groups.contains(uid);
        let is = |kind: &cedar_policy::EntityTypeName| kind == user.type_name();
        match &self.principal {
            PrincipalConstraint::Any => true,
            PrincipalConstraint::Is(kind) => is(kind),
            PrincipalConstraint::Eq(uid) => uid == user,
            PrincipalConstraint::In(uid) => within(uid),
            PrincipalConstraint::IsIn(kind, uid) => is(kind) && within(uid),
        }
    }

    /// The one user whom it names.
    pub(crate) fn user(&self) -> Option<&EntityUid> {
        self.principal().filter(|uid| uid.type_name().basename() == "User")
    }
}

#[cfg(test)]
mod tests;
