//! `noderelay policy lint`: what will hurt, in the policy, in the files beside it, and in what expires.
//!
//! ```text
//! files ─> faults? these alone ─> set + what is declared ─> lint (every question) ─┐
//! routes, signatures ─> what expires within --days ────────────────────────────────┴─> findings, errors first
//! ```
//!
//! Never: a change to anything.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use jiff::Timestamp;
use noderelay_bundle::{FleetFile, Publication, Role};
use noderelay_pki::time;
use noderelay_policy::lint::{Finding, Level, faults, lint};
use serde::Serialize;

use super::source::Source;
use crate::args::{LintArgs, Output};
use crate::out;

/// A day.
const DAY: Duration = Duration::from_secs(86_400);

#[derive(Serialize)]
struct Answer {
    errors: usize,
    warnings: usize,
    questions: u64,
    findings: Vec<Finding>,
}

/// Looks for what will hurt.
pub(super) async fn run(args: LintArgs, now: Timestamp) -> Result<ExitCode> {
    let source = Source::load(&args.dir).await?;
    let mut findings = faults(&source.policies, &source.node_rules);
    let mut questions = 0;
    if findings.is_empty() {
        let linted = lint(&source.policy()?, &source.declared()?)?;
        (findings, questions) = (linted.findings, linted.questions);
    }
    let limit = Limit { now, days: args.days };
    limit.routes(&source.fleet()?, &mut findings);
    if let Some(publication) = &source.publication {
        limit.signatures(publication, &mut findings);
    }
    findings.sort();
    let errors = findings.iter().filter(|finding| finding.level == Level::Error).count();
    let answer = Answer {
        errors,
        warnings: findings.len() - errors,
        questions,
        findings,
    };
    match args.output.output {
        Output::Json => out::json(&answer)?,
        Output::Table => out::text(&lines(&answer))?,
    }
    Ok(super::code(answer.errors == 0 && !(args.strict && answer.warnings > 0)))
}

fn lines(answer: &Answer) -> String {
    let mut text = String::new();
    for finding in &answer.findings {
        let level = match finding.level {
            Level::Error => "error",
            Level::Warning => "warning",
        };
        text.push_str(&format!(
            "{level} {}: {}\n  {}\n  {}\n",
            finding.code, finding.place, finding.seen, finding.fix
        ));
    }
    text.push_str(&format!(
        "{} errors, {} warnings; {} questions asked\n",
        answer.errors, answer.warnings, answer.questions
    ));
    text
}

/// What has expired is an error, what will within some days a warning.
struct Limit {
    now: Timestamp,
    days: u16,
}

impl Limit {
    fn look(&self, place: String, what: &str, expires: Timestamp, fix: &str, findings: &mut Vec<Finding>) {
        let soon = time::after(self.now, DAY * u32::from(self.days));
        let at = time::format(expires);
        if expires <= self.now {
            findings.push(Finding::error("expired", place, format!("{what} expired {at}"), fix));
        } else if expires <= soon {
            let days = time::between(self.now, expires).as_secs() / DAY.as_secs();
            let seen = format!("{what} expires {at}, in {days} days");
            findings.push(Finding::warning("expires-soon", place, seen, fix));
        }
    }

    fn routes(&self, fleet: &FleetFile, findings: &mut Vec<Finding>) {
        for route in &fleet.routes {
            let what = format!("the route from {} to {}", route.from, route.to);
            let fix = "approve it anew with a later date, or take it out";
            self.look("fleet.yaml".to_owned(), &what, route.expires, fix, findings);
        }
    }

    /// The timestamp is signed hourly and valid for a day: it counts only when it has expired.
    fn signatures(&self, publication: &Publication, findings: &mut Vec<Finding>) {
        for (role, fix) in [
            (
                Role::Root,
                "change roles.yaml (valid, say), sign it with --role root and publish",
            ),
            (
                Role::Targets,
                "change the content (a comment is enough), sign it and publish",
            ),
            (
                Role::Snapshot,
                "change the content (a comment is enough), sign it and publish",
            ),
        ] {
            let what = format!("the {role} document");
            self.look("metadata".to_owned(), &what, publication.expires(role), fix, findings);
        }
        let timestamp = publication.expires(Role::Timestamp);
        if timestamp <= self.now {
            let fix = "let the pipeline publish again, and hourly";
            self.look(
                "metadata".to_owned(),
                "the timestamp document",
                timestamp,
                fix,
                findings,
            );
        }
    }
}
