//! Diff: who gains, who loses, and whose obligations change from one set to another.
//!
//! ```text
//! both sets, what is declared for each ── one plan ──> the same questions to both ── answers that differ ──> changes
//! ```
//!
//! A change is told once: not for each action, not with and without a grant when both are alike, and not of a group when
//! everybody, or of several groups when one of them, sees the same. Where the answer depends on more than the survey asks
//! (a time of day, say), the rules that it depends on are compared by their content. Never: the names of rules, or files;
//! what they say counts.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::set::PolicySet;
use crate::survey::plan::ClusterPlan;
use crate::survey::side::Ground;
use crate::survey::{Cell, Declared, NodeClass, Outcome, Plan, Side, Subject, SubjectKind, SurveyError};

/// What kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// More than before.
    Gains,
    /// Less than before.
    Loses,
    /// As much as before, under other obligations or conditions.
    Changes,
}

/// Profiles that no policy names.
pub const OTHER_PROFILES: &str = "any other";

/// With which grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Grant {
    /// Without one.
    Without,
    /// With one.
    With,
    /// Either way.
    Either,
}

/// A change for somebody.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Change {
    /// The node's cluster.
    pub cluster: String,
    /// Its nodes: pattern or name, and tenant.
    pub nodes: String,
    /// Who.
    pub who: String,
    /// What kind.
    pub change: Kind,
    /// Which actions, in their usual order.
    pub actions: Vec<&'static str>,
    /// Which profiles; the last may be [`OTHER_PROFILES`].
    pub profiles: Vec<String>,
    /// With which grant.
    pub grant: Grant,
    /// Before.
    pub from: String,
    /// Now.
    pub to: String,
}

/// Everything that changes.
#[derive(Clone, Debug)]
pub struct Diffed {
    /// By cluster and nodes.
    pub changes: Vec<Change>,
    /// Questions that were asked of each set.
    pub questions: u64,
}

/// Compares two sets.
///
/// # Errors
/// More questions than a survey asks.
pub fn diff(old: (&PolicySet, &Declared), new: (&PolicySet, &Declared)) -> Result<Diffed, SurveyError> {
    let (one, other) = (Side::new(old.0, old.1), Side::new(new.0, new.1));
    let plan = Plan::of(&[&one, &other], &[old.1, new.1])?;
    let diff = Diff {
        content: [content(&one), content(&other)],
        sides: [one, other],
        plan: &plan,
    };
    let mut changes = Vec::new();
    for cluster in &plan.clusters {
        for class in &cluster.nodes {
            diff.nodes(cluster, class, &mut changes)
                .map_err(SurveyError::Internal)?;
        }
    }
    changes.sort();
    Ok(Diffed {
        changes,
        questions: plan.questions,
    })
}

struct Diff<'a> {
    sides: [Side<'a>; 2],
    plan: &'a Plan,
    /// What each rule says, without its name.
    content: [Vec<String>; 2],
}

/// How an answer changes: which way, from what to what.
type Step = (Kind, String, String);
/// The steps of one subject: by action, profile and grant.
type Steps = BTreeMap<(usize, usize, bool), Step>;

/// The answers without and with a grant, each for reason and freshness.
type Half<'c> = [Option<&'c Cell>; 4];

impl Diff<'_> {
    fn nodes(&self, cluster: &ClusterPlan, class: &NodeClass, changes: &mut Vec<Change>) -> Result<(), String> {
        let [old, new] = &self.sides;
        let grounds = [old.ground(class)?, new.ground(class)?];
        let mut told: Vec<(&Subject, Steps)> = Vec::new();
        for subject in &cluster.subjects {
            let all = self.steps(&grounds, subject, class)?;
            let mut steps = all.clone();
            // What everybody sees, or one of these groups alone, was told.
            for (before, same) in &told {
                let covers = match (before.kind, subject.kind) {
                    (SubjectKind::Nobody, _) => true,
                    (SubjectKind::Group, SubjectKind::Together | SubjectKind::User) => {
                        before.groups.iter().all(|group| subject.groups.contains(group))
                    }
                    (SubjectKind::User, SubjectKind::User) => before.identity == subject.identity,
                    _ => false,
                };
                if covers {
                    steps.retain(|key, step| same.get(key) != Some(step));
                }
            }
            self.tell(class, subject, &steps, changes);
            told.push((subject, all));
        }
        Ok(())
    }

    fn steps(&self, grounds: &[Option<Ground>; 2], subject: &Subject, class: &NodeClass) -> Result<Steps, String> {
        let mut steps = Steps::new();
        let Some(profile) = self.plan.profiles.first() else {
            return Ok(steps);
        };
        let mut places = Vec::new();
        for side in &self.sides {
            places.push(side.place(subject, class, profile)?);
        }
        for (number, action) in crate::Action::ALL.into_iter().enumerate() {
            let mut answers = Vec::new();
            for ((side, ground), place) in self.sides.iter().zip(grounds).zip(&places) {
                answers.push(match ground {
                    Some(ground) => side.answers(ground, place, action, &self.plan.profiles)?,
                    None => None,
                });
            }
            let [old, new] = &answers[..] else { continue };
            if old.is_none() && new.is_none() {
                continue;
            }
            for profile in 0..self.plan.profiles.len() {
                let half = |answers: &'_ crate::survey::side::Answers, grant: usize| -> [Option<Cell>; 4] {
                    let cells = answers.as_ref().and_then(|answers| answers.get(profile));
                    std::array::from_fn(|context| cells.and_then(|cells| cells.get(grant * 4 + context).cloned()))
                };
                for grant in [0, 1] {
                    let (before, now) = (half(old, grant), half(new, grant));
                    if let Some(step) = self.step(
                        &before.each_ref().map(Option::as_ref),
                        &now.each_ref().map(Option::as_ref),
                    ) {
                        steps.insert((number, profile, grant == 1), step);
                    }
                }
            }
        }
        Ok(steps)
    }

    fn step(&self, before: &Half<'_>, now: &Half<'_>) -> Option<Step> {
        let outcome = |cell: &Option<&Cell>| cell.map_or(Outcome::Denied, |cell| cell.outcome);
        let (mut more, mut less, mut other) = (false, false, false);
        for (one, two) in before.iter().zip(now) {
            more |= outcome(two) > outcome(one);
            less |= outcome(two) < outcome(one);
            let open = outcome(one) > Outcome::Denied && outcome(two) > Outcome::Denied;
            other |= open && self.terms(0, *one) != self.terms(1, *two);
        }
        let kind = match (more, less) {
            (true, false) => Kind::Gains,
            (false, true) => Kind::Loses,
            (true, true) => Kind::Changes,
            (false, false) if other => Kind::Changes,
            (false, false) => return None,
        };
        let (from, to) = (self.told(0, before), self.told(1, now));
        let (from, to) = match from == to {
            // The same words: what it depends on says something else now.
            true => (
                format!("{from} ({})", self.rules(0, before)),
                format!("{to} ({})", self.rules(1, now)),
            ),
            false => (from, to),
        };
        Some((kind, from, to))
    }

    /// What must be the same for an answer to be the same: obligations, and the content of rules that it depends on.
    fn terms(&self, side: usize, cell: Option<&Cell>) -> Option<(Option<String>, BTreeSet<&str>)> {
        let cell = cell?;
        let obligations = cell.obligations.as_ref().map(|o| format!("{} {o}", o.tier.as_str()));
        let content = self.content.get(side)?;
        let depends = cell
            .depends
            .iter()
            .filter_map(|at| content.get(*at))
            .map(String::as_str);
        Some((obligations, depends.collect()))
    }

    /// The answer in words.
    fn told(&self, side: usize, half: &Half<'_>) -> String {
        let open = |context: usize| {
            half.get(context)
                .copied()
                .flatten()
                .filter(|cell| cell.outcome > Outcome::Denied)
        };
        // With the least that opens it: freshness, then a reason.
        let least = [
            (0, ""),
            (1, "while the bundle is fresh"),
            (2, "with a reason"),
            (3, "with a reason, while the bundle is fresh"),
        ];
        let Some((cell, needs)) = least
            .into_iter()
            .find_map(|(context, needs)| Some((open(context)?, needs)))
        else {
            return "denied".to_owned();
        };
        let mut words = match cell.outcome {
            Outcome::Sometimes => vec!["sometimes".to_owned()],
            _ => vec!["permitted".to_owned()],
        };
        if !needs.is_empty() {
            words.push(needs.to_owned());
        }
        if cell.outcome == Outcome::Sometimes {
            let on = self.depends_on(side, cell);
            if !on.is_empty() {
                words.push(format!("by {on}"));
            }
        }
        if let Some(obligations) = &cell.obligations {
            words.push(format!("{}: {obligations}", obligations.tier.as_str()));
        }
        // Where a reason or freshness changes the obligations, both are told.
        let mut others = (0..4)
            .filter_map(open)
            .filter(|other| other.obligations != cell.obligations);
        if let Some(other) = others.next_back().and_then(|other| other.obligations.as_ref()) {
            words.push(format!("or {other}"));
        }
        words.join(", ")
    }

    fn depends_on(&self, side: usize, cell: &Cell) -> String {
        let known = self.sides.get(side).map(|side| &side.known);
        let rules = cell.depends.iter().filter_map(|at| known?.get(*at));
        let told: BTreeSet<_> = rules.flat_map(|known| known.reads.told()).collect();
        told.into_iter().collect::<Vec<_>>().join(" and ")
    }

    fn rules(&self, side: usize, half: &Half<'_>) -> String {
        let known = self.sides.get(side).map(|side| &side.known);
        let depends: BTreeSet<_> = half.iter().flatten().flat_map(|cell| &cell.depends).collect();
        let names: Vec<_> = depends
            .into_iter()
            .filter_map(|at| Some(known?.get(*at)?.name))
            .collect();
        match names.is_empty() {
            true => "other obligations with or without a reason".to_owned(),
            false => format!("as {} has it", names.join(" and ")),
        }
    }

    /// Writes the steps down: actions, grants and profiles together.
    fn tell(&self, class: &NodeClass, subject: &Subject, steps: &Steps, changes: &mut Vec<Change>) {
        let mut by_step = BTreeMap::<(usize, &Step), BTreeMap<usize, BTreeSet<bool>>>::new();
        for ((action, profile, grant), step) in steps {
            let actions = by_step.entry((*profile, step)).or_default();
            actions.entry(*action).or_default().insert(*grant);
        }
        let mut alike = BTreeMap::<(&Step, Grant, Vec<usize>), Vec<String>>::new();
        for ((profile, step), actions) in by_step {
            let mut by_grant = BTreeMap::<Grant, Vec<usize>>::new();
            for (action, grants) in actions {
                let grant = match (grants.contains(&false), grants.contains(&true)) {
                    (true, true) => Grant::Either,
                    (true, false) => Grant::Without,
                    _ => Grant::With,
                };
                by_grant.entry(grant).or_default().push(action);
            }
            let named = self
                .plan
                .profiles
                .get(profile)
                .filter(|_| profile + 1 < self.plan.profiles.len());
            let name = named.map_or_else(|| OTHER_PROFILES.to_owned(), ToString::to_string);
            for (grant, actions) in by_grant {
                alike.entry((step, grant, actions)).or_default().push(name.clone());
            }
        }
        for (((kind, from, to), grant, actions), profiles) in alike {
            let name = |action: usize| crate::Action::ALL.get(action).map_or("", |action| action.as_str());
            changes.push(Change {
                cluster: class.cluster.to_string(),
                nodes: class.label.clone(),
                who: subject.label(),
                change: *kind,
                actions: actions.into_iter().map(name).collect(),
                profiles,
                grant,
                from: from.clone(),
                to: to.clone(),
            });
        }
    }
}

/// What the rules of a side say, without names and texts for people.
fn content(side: &Side<'_>) -> Vec<String> {
    let of = |known: &crate::survey::Known<'_>| match known.policy.to_pst() {
        Ok(tree) => {
            let body = tree.body();
            let demands = &known.rule.demands;
            format!(
                "{:?} {:?} {:?} {:?} {:?} {demands:?}",
                body.effect,
                body.principal,
                body.action,
                body.resource,
                body.clauses()
            )
        }
        Err(_) => known.policy.to_string(),
    };
    side.known.iter().map(of).collect()
}

#[cfg(test)]
mod tests;
