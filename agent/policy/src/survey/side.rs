//! One set of policies under survey, and its answers.
//!
//! ```text
//! policies whose scope reaches the node, names the action, holds for the principal    (Cedar's scope constraints)
//! ─> each without condition: holds
//! ─> the others, for each grant, reason, freshness (and profile) that they look at: Cedar's authorizer
//! ─> forbidden? denied — permits for the profile? permitted — something not known? sometimes
//! ```
//!
//! It follows `decide` step by step, and a test holds the two together. Never: an answer to somebody's real question.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use cedar_policy::{AuthorizationError, Decision, Effect, EntityUid, EvaluationError, Policy, PolicyId};
use noderelay_pki::name::{ClusterName, ProfileName};

use super::plan::{NodeClass, Subject};
use super::{Declared, Reads};
use crate::annotation::{self, Demands, Obligations, Tier};
use crate::entity::{Asked, Case, Known as KnownNames, Spot, principal_ids};
use crate::question::{Action, Path, Question};
use crate::set::{PolicySet, Rule};
use crate::slice::Scope;

/// Stands for the words of a reason.
const SOME_REASON: &str = "a reason";
/// Grant, reason, freshness: each there or not.
const CONTEXTS: usize = 8;

/// Whether a grant is there in this context.
pub(crate) const fn is_with_grant(context: usize) -> bool {
    context & 4 != 0
}

/// Whether a reason is there in this context.
pub(crate) const fn is_reason(context: usize) -> bool {
    context & 2 != 0
}

const fn is_fresh(context: usize) -> bool {
    context & 1 != 0
}

/// A set under survey.
pub(crate) struct Side<'a> {
    pub(crate) set: &'a PolicySet,
    pub(crate) known: Vec<Known<'a>>,
    clusters: BTreeSet<&'a ClusterName>,
    sets: RefCell<HashMap<Vec<usize>, cedar_policy::PolicySet>>,
}

/// A policy and what is known of it.
pub(crate) struct Known<'a> {
    pub(crate) name: &'a str,
    pub(crate) rule: &'a Rule,
    pub(crate) policy: &'a Policy,
    pub(crate) scope: Scope,
    pub(crate) reads: Reads,
}

/// What comes of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    /// Whatever else is asked.
    Denied,
    /// It depends.
    Sometimes,
    /// Whatever else is asked.
    Permitted,
}

/// The answer in one context, for one profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) outcome: Outcome,
    /// Of the permits that surely hold.
    pub(crate) obligations: Option<Obligations>,
    /// The permits that hold or may.
    pub(crate) permits: Vec<usize>,
    /// The rules that may hold: on them it depends.
    pub(crate) depends: Vec<usize>,
    /// Rules whose evaluation fails.
    pub(crate) broken: Vec<usize>,
}

impl Cell {
    const fn denied() -> Self {
        Self {
            outcome: Outcome::Denied,
            obligations: None,
            permits: Vec::new(),
            depends: Vec::new(),
            broken: Vec::new(),
        }
    }
}

/// Answers by profile and context; nothing when no policy has to do with it.
pub(crate) type Answers = Option<Vec<[Cell; CONTEXTS]>>;

/// The policies that can hold on a node, by action.
pub(crate) struct Ground {
    by_action: BTreeMap<Action, Vec<usize>>,
}

impl Ground {
    /// Whether this policy is among them.
    pub(crate) fn holds(&self, at: usize) -> bool {
        self.by_action.values().any(|policies| policies.contains(&at))
    }
}

/// One subject on one node.
pub(crate) struct Place {
    case: Case,
    user: EntityUid,
    groups: Vec<EntityUid>,
}

/// What the rules say in one context.
#[derive(Clone, Default)]
struct Found {
    forbidden: bool,
    permits: Vec<usize>,
    maybe_permits: Vec<usize>,
    maybe_forbids: Vec<usize>,
    broken: Vec<usize>,
}

impl<'a> Side<'a> {
    pub(crate) fn new(set: &'a PolicySet, declared: &'a Declared) -> Self {
        let rules = set.rules.iter();
        let known = rules.filter_map(|(id, rule)| {
            let policy = set.policies.policy(id)?;
            Some(Known {
                name: id.as_ref(),
                rule,
                policy,
                scope: Scope::of(policy),
                reads: Reads::of(policy),
            })
        });
        Self {
            known: known.collect(),
            set,
            clusters: declared.clusters.iter().collect(),
            sets: RefCell::default(),
        }
    }

    /// What can hold on these nodes; nothing for a cluster or a node that is nobody's.
    pub(crate) fn ground(&self, class: &NodeClass) -> Result<Option<Ground>, String> {
        let facts = self.set.node_facts(&class.cluster, &class.node);
        if !self.clusters.contains(&class.cluster) || !facts.is_assigned() {
            return Ok(None);
        }
        let spot = Spot::of(&class.cluster, &class.node, &facts)?;
        let mut by_action = BTreeMap::<Action, Vec<usize>>::new();
        for (at, known) in self.known.iter().enumerate() {
            if known.scope.reaches(&spot) {
                for action in Action::ALL.into_iter().filter(|action| known.scope.names(*action)) {
                    by_action.entry(action).or_default().push(at);
                }
            }
        }
        Ok(Some(Ground { by_action }))
    }

    /// Puts a subject on a node.
    pub(crate) fn place(&self, subject: &Subject, class: &NodeClass, profile: &ProfileName) -> Result<Place, String> {
        let facts = self.set.node_facts(&class.cluster, &class.node);
        let names = KnownNames {
            user: subject.is_named(),
            node: class.named,
        };
        let case = Case::with(&question(subject, class, profile), &facts, names)?;
        let (user, groups) = principal_ids(&class.cluster, subject.identity.role.name(), &subject.groups)?;
        Ok(Place { case, user, groups })
    }

    /// All answers about one action.
    pub(crate) fn answers(
        &self,
        ground: &Ground,
        place: &Place,
        action: Action,
        profiles: &[ProfileName],
    ) -> Result<Answers, String> {
        let on_node = ground.by_action.get(&action).map(Vec::as_slice).unwrap_or_default();
        let holds = |at: &&usize| {
            let known = self.known.get(**at);
            known.is_some_and(|known| known.scope.holds_for(&place.user, &place.groups))
        };
        let candidates: Vec<usize> = on_node.iter().filter(holds).copied().collect();
        let of = |reads: fn(&Reads) -> bool| {
            candidates
                .iter()
                .filter_map(|at| self.known.get(*at))
                .any(|k| reads(&k.reads))
        };
        if !self.effects(&candidates).any(|effect| effect == Effect::Permit) {
            // No permit: no. A failing forbid only denies what is denied.
            return Ok(None);
        }
        let matters = [of(|r| r.fresh), of(|r| r.reason), of(|r| r.grant)];
        let mut answers = Vec::with_capacity(profiles.len());
        let mut shared: Option<Vec<Found>> = None;
        for profile in profiles {
            let found = match &shared {
                Some(found) => found.clone(),
                None => self.contexts(place, action, profile, &candidates, matters)?,
            };
            answers.push(std::array::from_fn(|context| self.cell(&found, context, profile)));
            if !of(|r| r.profile) {
                shared = Some(found);
            }
        }
        Ok(Some(answers))
    }

    fn effects(&self, candidates: &[usize]) -> impl Iterator<Item = Effect> {
        candidates
            .iter()
            .filter_map(|at| Some(self.known.get(*at)?.policy.effect()))
    }

    /// What the rules say in each context; contexts that differ in nothing that a rule looks at are one.
    fn contexts(
        &self,
        place: &Place,
        action: Action,
        profile: &ProfileName,
        candidates: &[usize],
        matters: [bool; 3],
    ) -> Result<Vec<Found>, String> {
        let mut found: Vec<Found> = Vec::with_capacity(CONTEXTS);
        for context in 0..CONTEXTS {
            let [fresh, reason, grant] = matters;
            let same = context & (usize::from(fresh) | usize::from(reason) << 1 | usize::from(grant) << 2);
            let one = match found.get(same).filter(|_| same != context) {
                Some(one) => one.clone(),
                None => {
                    let asked = Asked {
                        profile,
                        grant: is_with_grant(context),
                        reason: is_reason(context).then_some(SOME_REASON),
                        fresh: is_fresh(context),
                    };
                    self.find(place, action, &asked, candidates)?
                }
            };
            found.push(one);
        }
        Ok(found)
    }

    fn find(&self, place: &Place, action: Action, asked: &Asked<'_>, candidates: &[usize]) -> Result<Found, String> {
        let mut found = Found::default();
        let mut open = Vec::new();
        for at in candidates {
            let Some(known) = self.known.get(*at) else { continue };
            let unseen = known.reads.opaque || (asked.reason.is_some() && known.reads.reason_text);
            match (unseen, known.policy.has_non_scope_constraint()) {
                (true, _) => found.may(known, *at),
                (false, true) => open.push(*at),
                (false, false) => found.holds(known, *at),
            }
        }
        if open.is_empty() || found.forbidden {
            return Ok(found);
        }
        let request = place.case.open_request(action, asked)?;
        let mut sets = self.sets.borrow_mut();
        if !sets.contains_key(&open) {
            sets.insert(open.clone(), self.set_of(&open)?);
        }
        let policies = sets.get(&open).ok_or("a set that was made is gone")?;
        let response = self
            .set
            .authorizer
            .is_authorized(&request, policies, &place.case.entities);
        let at = |id: &PolicyId| {
            let name: &str = id.as_ref();
            open.iter()
                .copied()
                .find(|at| self.known.get(*at).is_some_and(|k| k.name == name))
        };
        for AuthorizationError::PolicyEvaluationError(error) in response.diagnostics().errors() {
            let Some((at, known)) = at(error.policy_id()).and_then(|at| Some((at, self.known.get(at)?))) else {
                continue;
            };
            match error.inner() {
                // A policy that fits the schema looks for nothing that is not there, but for what was left out.
                EvaluationError::EntityAttrDoesNotExist(_) | EvaluationError::RecordAttrDoesNotExist(_) => {
                    found.may(known, at);
                }
                _ => found.broken.push(at),
            }
        }
        let reasons: Vec<usize> = response.diagnostics().reason().filter_map(at).collect();
        match response.decision() {
            Decision::Allow => found.permits.extend(reasons),
            Decision::Deny => found.forbidden |= !reasons.is_empty(),
        }
        for list in [
            &mut found.permits,
            &mut found.maybe_permits,
            &mut found.maybe_forbids,
            &mut found.broken,
        ] {
            list.sort_unstable();
        }
        Ok(found)
    }

    fn set_of(&self, members: &[usize]) -> Result<cedar_policy::PolicySet, String> {
        let mut set = cedar_policy::PolicySet::new();
        for known in members.iter().filter_map(|at| self.known.get(*at)) {
            set.add(known.policy.clone()).map_err(|e| e.to_string())?;
        }
        Ok(set)
    }

    /// As `decide` does it: errors, forbids, profile, tier, the strictest.
    fn cell(&self, found: &[Found], context: usize, profile: &ProfileName) -> Cell {
        let Some(with) = found.get(context) else {
            return Cell::denied();
        };
        if !with.broken.is_empty() {
            return Cell {
                broken: with.broken.clone(),
                ..Cell::denied()
            };
        }
        if with.forbidden {
            return Cell::denied();
        }
        let for_profile = |at: &&usize| {
            self.demands(**at)
                .is_some_and(|d| d.profile.as_ref().is_none_or(|p| p == profile))
        };
        let sure: Vec<usize> = with.permits.iter().filter(for_profile).copied().collect();
        let maybe: Vec<usize> = with.maybe_permits.iter().filter(for_profile).copied().collect();
        if sure.is_empty() && maybe.is_empty() {
            return Cell::denied();
        }
        let mut depends = [&maybe[..], &with.maybe_forbids].concat();
        let can_fail = |at: &usize| {
            self.known
                .get(*at)
                .is_some_and(|known| known.reads.can_fail || known.reads.opaque)
        };
        let mut outcome = match sure.is_empty() || !with.maybe_forbids.is_empty() || with.fails_perhaps(can_fail) {
            true => Outcome::Sometimes,
            false => Outcome::Permitted,
        };
        let (mut tier, mut deciding) = (Tier::Standing, sure.clone());
        if let Some(without) = found.get(context & !4).filter(|_| is_with_grant(context)) {
            if !sure.is_empty() && !without.broken.is_empty() {
                return Cell {
                    broken: without.broken.clone(),
                    ..Cell::denied()
                };
            }
            if without.fails_perhaps(can_fail) {
                outcome = Outcome::Sometimes;
            }
            depends.extend(without.maybe_permits.iter().chain(&without.maybe_forbids));
            let stands = |at: &usize| !without.forbidden && without.permits.contains(at);
            let by_grant: Vec<usize> = sure.iter().copied().filter(|at| !stands(at)).collect();
            if !by_grant.is_empty() {
                (tier, deciding) = (Tier::Grant, by_grant);
            }
        }
        depends.sort_unstable();
        depends.dedup();
        let demands = deciding.iter().filter_map(|at| self.demands(*at));
        Cell {
            outcome,
            obligations: (!deciding.is_empty()).then(|| annotation::strictest(demands, profile, tier)),
            permits: [deciding, maybe].concat(),
            depends,
            broken: Vec::new(),
        }
    }

    fn demands(&self, at: usize) -> Option<&Demands> {
        self.known.get(at).map(|known| &known.rule.demands)
    }
}

impl Found {
    fn holds(&mut self, known: &Known<'_>, at: usize) {
        match known.policy.effect() {
            Effect::Permit => self.permits.push(at),
            Effect::Forbid => self.forbidden = true,
        }
    }

    fn may(&mut self, known: &Known<'_>, at: usize) {
        match known.policy.effect() {
            Effect::Permit => self.maybe_permits.push(at),
            Effect::Forbid => self.maybe_forbids.push(at),
        }
    }

    /// Whether one of the rules that are not known may fail: that would deny, whatever the others say.
    fn fails_perhaps(&self, can_fail: impl Fn(&usize) -> bool) -> bool {
        self.maybe_permits.iter().chain(&self.maybe_forbids).any(can_fail)
    }
}

/// The question that entities are made of; what is not known of it stays out of them.
pub(crate) fn question<'q>(subject: &'q Subject, class: &'q NodeClass, profile: &'q ProfileName) -> Question<'q> {
    Question {
        principal: &subject.identity,
        groups: &subject.groups,
        action: Action::Shell,
        cluster: &class.cluster,
        node: &class.node,
        profile,
        path: Path::Relay,
        fresh: true,
        reason: None,
        grant: false,
        now: jiff::Timestamp::UNIX_EPOCH,
    }
}
