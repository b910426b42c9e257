//! What the survey saw, gathered for the findings of a lint.
//!
//! Never: a finding. Here are facts only.

use std::collections::{BTreeMap, BTreeSet};

use cedar_policy::Effect;
use noderelay_pki::identity::Identity;
use noderelay_pki::name::GroupName;

use crate::entity::home_of;
use crate::question::{Action, Question};
use crate::survey::plan::ClusterPlan;
use crate::survey::side::question;
use crate::survey::{Cell, NodeClass, Outcome, Plan, Side, Subject, SubjectKind, is_reason, is_with_grant};

/// Most groups of which all combinations are tried for a rule that nothing reached.
const MAX_COMBINED: usize = 8;

pub(super) struct Seen<'s> {
    pub(super) side: &'s Side<'s>,
    plan: &'s Plan,
    pub(super) clusters: Vec<SeenCluster<'s>>,
    /// Rules that were a reason, or may have been.
    reached: BTreeSet<usize>,
    /// Rules for which too many groups would have to be combined.
    unsure: BTreeSet<usize>,
    /// Rules that fail, with whom.
    pub(super) broken: BTreeMap<usize, String>,
}

pub(super) struct SeenCluster<'s> {
    pub(super) plan: &'s ClusterPlan,
    /// Whether somebody can get in, at least sometimes, by tenant.
    pub(super) tenants: BTreeMap<String, bool>,
    /// What an ordinary member was told.
    pub(super) refusal: Option<String>,
    /// For each subject.
    pub(super) standing: Vec<Standing>,
    /// Who gets in with a grant only.
    pub(super) asking: BTreeSet<String>,
    /// By which rules.
    pub(super) asked_for: BTreeSet<usize>,
    /// Who approves.
    pub(super) approving: BTreeSet<String>,
}

/// What somebody may do without a grant, whatever else is asked.
#[derive(Default)]
pub(super) struct Standing {
    /// A shell or a command, somewhere.
    pub(super) sessions: bool,
    /// Every action on every node, with some profile.
    pub(super) everything: bool,
    pub(super) rules: BTreeSet<usize>,
}

impl<'s> Seen<'s> {
    pub(super) fn of(side: &'s Side<'s>, plan: &'s Plan) -> Result<Self, String> {
        let mut seen = Self {
            side,
            plan,
            clusters: Vec::new(),
            reached: BTreeSet::new(),
            unsure: BTreeSet::new(),
            broken: BTreeMap::new(),
        };
        for cluster in &plan.clusters {
            let of_cluster = seen.cluster(cluster)?;
            seen.clusters.push(of_cluster);
        }
        Ok(seen)
    }

    fn cluster(&mut self, plan: &'s ClusterPlan) -> Result<SeenCluster<'s>, String> {
        let mut seen = SeenCluster {
            plan,
            tenants: BTreeMap::new(),
            refusal: None,
            standing: plan.subjects.iter().map(|_| Standing::default()).collect(),
            asking: BTreeSet::new(),
            asked_for: BTreeSet::new(),
            approving: BTreeSet::new(),
        };
        // What a subject may do standing, by (node, action).
        let mut all = vec![0_usize; plan.subjects.len()];
        for class in &plan.nodes {
            let Some(ground) = self.side.ground(class)? else {
                continue;
            };
            let tenant = class
                .facts
                .first()
                .map(|facts| facts.tenant.clone())
                .unwrap_or_default();
            let mut open = false;
            for (number, subject) in plan.subjects.iter().enumerate() {
                let Some(profile) = self.plan.profiles.first() else {
                    continue;
                };
                let place = self.side.place(subject, class, profile)?;
                for action in Action::ALL {
                    let answers = self.side.answers(&ground, &place, action, &self.plan.profiles)?;
                    let Some(answers) = answers else { continue };
                    let mut stands = false;
                    for cells in &answers {
                        self.note(cells, subject, class);
                        let possible = cells.iter().any(|cell| cell.outcome > Outcome::Denied);
                        open |= possible && is_session(action);
                        if possible && action == Action::Approve && subject.kind != SubjectKind::Together {
                            seen.approving.insert(subject.label());
                        }
                        note_asking(&mut seen, subject, action, cells);
                        let cell = &cells[1];
                        if cell.outcome == Outcome::Permitted {
                            stands = true;
                            if let Some(standing) = seen.standing.get_mut(number) {
                                standing.sessions |= is_session(action);
                                standing.rules.extend(&cell.permits);
                            }
                        }
                    }
                    if let Some(count) = all.get_mut(number).filter(|_| stands) {
                        *count += 1;
                    }
                }
            }
            *seen.tenants.entry(tenant).or_default() |= open;
        }
        let everything = plan.nodes.len() * Action::ALL.len();
        for (standing, count) in seen.standing.iter_mut().zip(all) {
            standing.everything = count == everything && count > 0;
        }
        seen.refusal = self.refusal(plan);
        Ok(seen)
    }

    /// What the members of all groups are told where nobody gets in.
    fn refusal(&self, plan: &ClusterPlan) -> Option<String> {
        let class = plan.nodes.first()?;
        let subject = plan
            .subjects
            .iter()
            .rev()
            .find(|subject| subject.kind != SubjectKind::User)?;
        let asked = Question {
            grant: true,
            reason: Some("a reason"),
            ..question(subject, class, self.plan.profiles.first()?)
        };
        Some(self.side.set.decide(&asked).err()?.seen)
    }

    fn note(&mut self, cells: &[Cell], subject: &Subject, class: &NodeClass) {
        for cell in cells {
            if cell.outcome > Outcome::Denied {
                self.reached.extend(&cell.permits);
            }
            for at in &cell.broken {
                let how = || format!("{} on {}", subject.label(), class.label);
                self.broken.entry(*at).or_insert_with(how);
            }
        }
    }

    /// A rule may need members of some groups who are in no other. Of the groups that have to do with it, all combinations
    /// are tried.
    pub(super) fn look_again_for_unreached(&mut self) -> Result<(), String> {
        let permits = self.side.known.iter().enumerate();
        let permits =
            permits.filter(|(at, known)| known.policy.effect() == Effect::Permit && !self.reached.contains(at));
        for at in permits.map(|(at, _)| at).collect::<Vec<_>>() {
            for cluster in &self.plan.clusters {
                self.combine(at, cluster)?;
            }
        }
        Ok(())
    }

    fn combine(&mut self, at: usize, cluster: &ClusterPlan) -> Result<(), String> {
        let mut grounds = Vec::new();
        for class in &cluster.nodes {
            grounds.extend(
                self.side
                    .ground(class)?
                    .filter(|ground| ground.holds(at))
                    .map(|ground| (class, ground)),
            );
        }
        if grounds.is_empty() {
            return Ok(());
        }
        let home = cluster.cluster.as_str();
        let mut groups = BTreeSet::new();
        for (other, known) in self.side.known.iter().enumerate() {
            if other == at || known.policy.effect() == Effect::Forbid {
                let uids = known.policy.entity_literals();
                let names = uids
                    .iter()
                    .filter(|uid| uid.type_name().basename() == "Group")
                    .filter_map(home_of);
                groups.extend(
                    names
                        .filter(|(cluster, _)| *cluster == home)
                        .filter_map(|(_, name)| GroupName::parse(name).ok()),
                );
            }
        }
        let Some(nobody) = cluster.subjects.first() else {
            return Ok(());
        };
        if groups.len() > MAX_COMBINED {
            self.unsure.insert(at);
            return Ok(());
        }
        let groups: Vec<_> = groups.into_iter().collect();
        let users = cluster
            .subjects
            .iter()
            .filter(|subject| subject.kind == SubjectKind::User);
        let identities: Vec<(&Identity, SubjectKind)> = [(&nobody.identity, SubjectKind::Together)]
            .into_iter()
            .chain(users.map(|u| (&u.identity, u.kind)))
            .collect();
        let Some(scope) = self.side.known.get(at).map(|known| &known.scope) else {
            return Ok(());
        };
        let actions: Vec<_> = Action::ALL.into_iter().filter(|action| scope.names(*action)).collect();
        for (class, ground) in &grounds {
            for chosen in 0..(1_usize << groups.len()) {
                for (identity, kind) in &identities {
                    let members = groups.iter().enumerate().filter(|(n, _)| chosen & (1 << n) != 0);
                    let subject = Subject {
                        kind: *kind,
                        identity: (*identity).clone(),
                        groups: members.map(|(_, group)| group.clone()).collect(),
                    };
                    let Some(profile) = self.plan.profiles.first() else {
                        return Ok(());
                    };
                    let place = self.side.place(&subject, class, profile)?;
                    for action in &actions {
                        let answers = self.side.answers(ground, &place, *action, &self.plan.profiles)?;
                        for cells in answers.iter().flatten() {
                            self.note(cells, &subject, class);
                        }
                        if self.reached.contains(&at) {
                            return Ok(());
                        }
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn is_unreached(&self, at: usize) -> bool {
        !self.reached.contains(&at) && !self.unsure.contains(&at)
    }

    /// Where a rule stands.
    pub(super) fn place(&self, at: usize) -> String {
        let known = self.side.known.get(at);
        known.map_or_else(String::new, |known| known.rule.place.to_string())
    }

    pub(super) fn places(&self, rules: &BTreeSet<usize>) -> String {
        rules.iter().map(|at| self.place(*at)).collect::<Vec<_>>().join("; ")
    }

    /// The one user whom a rule names, in its scope or its conditions.
    pub(super) fn named_user(&self, at: usize) -> Option<String> {
        let known = self.side.known.get(at)?;
        if let Some(user) = known.scope.user() {
            return Some(user.to_string());
        }
        let literals = known.policy.entity_literals();
        let user = literals.iter().find(|uid| uid.type_name().basename() == "User")?;
        Some(user.to_string())
    }
}

fn is_session(action: Action) -> bool {
    matches!(action, Action::Shell | Action::Exec)
}

/// Whether a grant opens what is closed without.
fn note_asking(seen: &mut SeenCluster<'_>, subject: &Subject, action: Action, cells: &[Cell; 8]) {
    if !is_session(action) || subject.kind == SubjectKind::Together {
        return;
    }
    let (with, without): (Vec<_>, Vec<_>) = cells
        .iter()
        .enumerate()
        .partition(|(context, _)| is_with_grant(*context));
    let possible = |cells: &[(usize, &Cell)]| {
        let with_reason = cells.iter().filter(|(context, _)| is_reason(*context));
        with_reason
            .map(|(_, cell)| cell.outcome)
            .max()
            .unwrap_or(Outcome::Denied)
            > Outcome::Denied
    };
    if possible(&with) && !possible(&without) {
        seen.asking.insert(subject.label());
        let permits = with.iter().flat_map(|(_, cell)| cell.permits.iter().copied());
        seen.asked_for.extend(permits);
    }
}
