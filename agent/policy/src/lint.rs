//! Lint: what will hurt, found by asking every question of the survey, and by looking at names and node rules.
//!
//! ```text
//! files that are no policy ── faults ──> findings
//! set + what is declared ── survey ──> seen (who gets where, which rules ever count) ──> findings
//! ```
//!
//! Each finding has a stable code. An *error* is what nobody can mean; a *warning* is what somebody should have meant.
//! Never: a judgement on what depends on more than is asked about. That counts as possible where a finding would say
//! "nobody" or "never", and as not given where it would say "anybody".

mod faults;
mod names;
mod seen;

use serde::Serialize;

pub use faults::faults;

use crate::set::PolicySet;
use crate::survey::{Declared, Plan, Side, SubjectKind, SurveyError};
use seen::Seen;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// What nobody can mean.
    Error,
    /// What somebody should have meant.
    Warning,
}

/// Something that will hurt.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// What it is: a stable name.
    pub code: &'static str,
    /// Where: a file with the policy or rule, a cluster, a person.
    pub place: String,
    /// What was seen.
    pub seen: String,
    /// What to do.
    pub fix: String,
}

impl Finding {
    /// One that nobody can mean.
    pub fn error(
        code: &'static str,
        place: impl Into<String>,
        seen: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self {
            level: Level::Error,
            code,
            place: place.into(),
            seen: seen.into(),
            fix: fix.into(),
        }
    }

    /// One that somebody should have meant.
    pub fn warning(
        code: &'static str,
        place: impl Into<String>,
        seen: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self {
            level: Level::Warning,
            ..Self::error(code, place, seen, fix)
        }
    }
}

/// What a lint found, and how much it asked.
#[derive(Clone, Debug)]
pub struct Linted {
    /// Errors first.
    pub findings: Vec<Finding>,
    /// Questions that were asked.
    pub questions: u64,
}

/// Finds what will hurt.
///
/// # Errors
/// More questions than a survey asks.
pub fn lint(set: &PolicySet, declared: &Declared) -> Result<Linted, SurveyError> {
    let side = Side::new(set, declared);
    let plan = Plan::of(&[&side], &[declared])?;
    let mut seen = Seen::of(&side, &plan).map_err(SurveyError::Internal)?;
    seen.look_again_for_unreached().map_err(SurveyError::Internal)?;
    let mut findings = Vec::new();
    locked_out(&seen, &mut findings);
    open_to_all(&seen, &mut findings);
    approvers(&seen, declared, &mut findings);
    rules(&seen, &mut findings);
    names::findings(&side, declared, &mut findings);
    findings.sort();
    findings.dedup();
    Ok(Linted {
        findings,
        questions: plan.questions,
    })
}

/// Clusters and tenants that nobody can get into.
fn locked_out(seen: &Seen<'_>, findings: &mut Vec<Finding>) {
    for cluster in &seen.clusters {
        let name = cluster.plan.cluster.as_str();
        let example = || match &cluster.refusal {
            Some(seen) => format!("; for instance: {seen}"),
            None => String::new(),
        };
        if cluster.tenants.values().all(|open| !open) {
            let seen = match cluster.plan.nodes.is_empty() {
                true => "no rule of nodes.yaml gives any of its nodes a tenant, so nobody can get in".to_owned(),
                false => format!(
                    "nobody can open a shell or run a command on any of its nodes{}",
                    example()
                ),
            };
            let fix = "permit it to a group, or mend the rule that forbids it; in nodes.yaml, give its nodes a tenant";
            findings.push(Finding::error("locked-out", format!("cluster {name}"), seen, fix));
            continue;
        }
        for (tenant, _) in cluster.tenants.iter().filter(|(_, open)| !**open) {
            findings.push(Finding::warning(
                "tenant-locked-out",
                format!("cluster {name}, tenant {tenant}"),
                format!("nobody can open a shell or run a command on its nodes{}", example()),
                "permit it to a group, or leave the tenant out of nodes.yaml until somebody works there",
            ));
        }
    }
}

/// Rights that somebody without any group has, and groups that may do everything.
fn open_to_all(seen: &Seen<'_>, findings: &mut Vec<Finding>) {
    for cluster in &seen.clusters {
        let name = &cluster.plan.cluster;
        for (subject, rights) in cluster.plan.subjects.iter().zip(&cluster.standing) {
            let rules = seen.places(&rights.rules);
            match subject.kind {
                SubjectKind::Nobody if rights.everything => findings.push(Finding::error(
                    "anyone-everything",
                    rules,
                    format!("every user whom the CA of {name} certifies may do everything on every node of {name}, without a grant"),
                    "name the group that may, and the actions",
                )),
                SubjectKind::Nobody if rights.sessions => findings.push(Finding::error(
                    "open-to-anyone",
                    rules,
                    format!("every user whom the CA of {name} certifies may open a shell or run a command there, in no group and without a grant"),
                    "name the group that may",
                )),
                SubjectKind::Group | SubjectKind::User if rights.everything => findings.push(Finding::warning(
                    "group-everything",
                    rules,
                    format!("{} may do everything on every node of {name}, without a grant", subject.label()),
                    "name the actions that are needed, and ask for a grant for the rest",
                )),
                _ => {}
            }
        }
    }
}

/// Grants that nobody could give, or that those who ask give each other.
fn approvers(seen: &Seen<'_>, declared: &Declared, findings: &mut Vec<Finding>) {
    for cluster in seen.clusters.iter().filter(|cluster| !cluster.asking.is_empty()) {
        let name = &cluster.plan.cluster;
        let place = seen.places(&cluster.asked_for);
        let asking = cluster.asking.iter().cloned().collect::<Vec<_>>().join(", ");
        if cluster.approving.is_empty() {
            findings.push(Finding::warning(
                "nobody-approves",
                place,
                format!("{asking} can only get in with a grant, and nobody may approve one on nodes of {name}"),
                "permit the action approve to a group of others, or take the rule out",
            ));
        } else if cluster.approving == cluster.asking {
            findings.push(Finding::warning(
                "approvers-are-requesters",
                place,
                format!("who needs a grant on nodes of {name} and who approves one are the same: {asking}"),
                "permit the action approve to a group of others",
            ));
        } else if !declared.persons.iter().any(|person| person.approves) {
            findings.push(Finding::warning(
                "no-approval-key",
                "principals.yaml",
                format!("a grant is needed on nodes of {name}, and no person has a key that approves"),
                "give the approvers a key with the use approve",
            ));
        }
    }
}

/// Rules that never count, fail, name one person or rest on a hint.
fn rules(seen: &Seen<'_>, findings: &mut Vec<Finding>) {
    for (at, known) in seen.side.known.iter().enumerate() {
        let place = seen.place(at);
        if let Some(how) = seen.broken.get(&at) {
            findings.push(Finding::error(
                "evaluation-fails",
                &place,
                format!(
                    "its evaluation fails for {how}, and then nothing is permitted to them, whatever other rules say"
                ),
                "mend the condition: numbers and times that overflow, attributes of entities that are named in it",
            ));
        }
        if known.reads.path {
            findings.push(Finding::error(
                "needs-path",
                &place,
                "it looks at context.path, which is only what the client says",
                "decide by group, action, profile, grant or reason",
            ));
        }
        if known.policy.effect() != cedar_policy::Effect::Permit {
            continue;
        }
        if let Some(user) = seen.named_user(at) {
            findings.push(Finding::warning(
                "names-one-user",
                &place,
                format!("it names {user}"),
                "name a group: people come and go, and rules are signed",
            ));
        }
        if seen.is_unreached(at) {
            findings.push(Finding::warning(
                "unreachable",
                &place,
                "it is never the reason of a permit: nobody fits it on any node, or another rule forbids whatever it permits",
                "mend the names in it, or take it out",
            ));
        }
    }
}

#[cfg(test)]
mod tests;
