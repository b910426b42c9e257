//! Test tables: questions in YAML beside the policies, with the answers that their authors mean.
//!
//! ```yaml
//! tests:
//!   - name: on-call people look into a node
//!     who: { user: kim, groups: [oncall] }     # home: CLUSTER when it is not the node's
//!     node: alpha/gpu-1
//!     action: shell
//!     context: { profile: diagnostic, grant: false, reason: INC-7, fresh: true, at: "2030-01-31T08:00:00Z" }
//!     expect: permit                           # permit | deny
//!     record: required                         # of a permit; tier, max_duration, idle and rules, too
//!   - name: a node that no rule names
//!     …
//!     expect: deny
//!     missing: node_rule                       # of a refusal; kind, too
//! ```
//!
//! Each question goes to the very decision of the agent. What a test does not say is not looked at. Never: a field that is
//! not known, or a test that expects nothing.

use jiff::Timestamp;
use noderelay_pki::identity::{Identity, Role};
use noderelay_pki::name::{ClusterName, GroupName, NodeName, ProfileName, TrustDomain, UserName};
use noderelay_pki::text::{Period, escape};
use noderelay_pki::time;
use serde::Deserialize;

use crate::account::Account;
use crate::question::{Action, Path, Question};
use crate::set::PolicySet;

/// Most tests in one table.
const MAX_TESTS: usize = 10_000;
/// The profile that is asked for when a test names none.
const PROFILE: &str = "diagnostic";

/// Why a table is refused.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// Not YAML of the right form.
    #[error("not a test table: {0}")]
    Malformed(String),
    /// Too many tests.
    #[error("{0} tests; at most {MAX_TESTS} are allowed in one table")]
    TooMany(usize),
    /// A test that breaks a rule.
    #[error("test {number} ({name}): {why}")]
    Test {
        /// The test's number, counted from 1.
        number: usize,
        /// Its name.
        name: String,
        /// What is wrong.
        why: String,
    },
}

/// A table of questions and answers.
#[derive(Debug)]
pub struct Table {
    tests: Vec<Test>,
}

/// What came of one test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// The test's name.
    pub name: String,
    /// What is not as it should be; nothing when all is.
    pub failures: Vec<Failure>,
    /// The answer, the rules that decided and where they stand: for whoever looks for the reason of a failure.
    pub answer: String,
}

/// One thing that is not as expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Of what.
    pub what: &'static str,
    /// What the test says.
    pub expected: String,
    /// What the policy says.
    pub seen: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    tests: Vec<Test>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Test {
    name: String,
    who: Who,
    node: String,
    action: String,
    #[serde(default)]
    context: Context,
    expect: Expect,
    tier: Option<String>,
    record: Option<String>,
    max_duration: Option<Period>,
    idle: Option<Period>,
    rules: Option<Vec<String>>,
    missing: Option<String>,
    kind: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Who {
    user: UserName,
    #[serde(default)]
    groups: Vec<GroupName>,
    home: Option<ClusterName>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Context {
    profile: Option<ProfileName>,
    #[serde(default)]
    grant: bool,
    reason: Option<String>,
    fresh: Option<bool>,
    at: Option<String>,
    path: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Expect {
    Permit,
    Deny,
}

/// A test whose words were read.
struct Ready {
    home: ClusterName,
    cluster: ClusterName,
    node: NodeName,
    action: Action,
    profile: ProfileName,
    path: Path,
    at: Option<Timestamp>,
}

impl Table {
    /// Reads a table; whatever can't be asked or can't be met is an error.
    pub fn parse(bytes: &[u8]) -> Result<Self, TableError> {
        let malformed = |why: String| TableError::Malformed(escape(&why, 400));
        let text = std::str::from_utf8(bytes).map_err(|e| malformed(e.to_string()))?;
        let file: File = serde_saphyr::from_str(text).map_err(|e| malformed(e.to_string()))?;
        if file.tests.len() > MAX_TESTS {
            return Err(TableError::TooMany(file.tests.len()));
        }
        for (test, number) in file.tests.iter().zip(1..) {
            test.ready()
                .and_then(|_| test.check())
                .map_err(|why| TableError::Test {
                    number,
                    name: escape(&test.name, 80),
                    why,
                })?;
        }
        Ok(Self { tests: file.tests })
    }

    /// Asks every question, those without a time at `now`.
    pub fn run(&self, set: &PolicySet, domain: &TrustDomain, now: Timestamp) -> Vec<Tried> {
        self.tests.iter().map(|test| test.run(set, domain, now)).collect()
    }
}

impl Test {
    fn ready(&self) -> Result<Ready, String> {
        let (cluster, node) = self.node.split_once('/').ok_or("node has the form CLUSTER/NAME")?;
        let text = |e: &dyn std::fmt::Display| e.to_string();
        let cluster = ClusterName::parse(cluster).map_err(|e| text(&e))?;
        let profile = self
            .context
            .profile
            .clone()
            .map_or_else(|| ProfileName::parse(PROFILE), Ok);
        let path = self.context.path.as_deref().unwrap_or("relay");
        let at = self.context.at.as_deref().map(time::parse).transpose();
        Ok(Ready {
            home: self.who.home.clone().unwrap_or_else(|| cluster.clone()),
            node: NodeName::parse(node).map_err(|e| text(&e))?,
            action: Action::parse(&self.action)
                .ok_or_else(|| format!("action is one of {}", Action::ALL.map(Action::as_str).join(", ")))?,
            profile: profile.map_err(|e| text(&e))?,
            path: Path::parse(path).ok_or("path is api, relay or direct")?,
            at: at.map_err(|e| text(&e))?,
            cluster,
        })
    }

    /// That it expects nothing that its answer does not have.
    fn check(&self) -> Result<(), String> {
        let permits = [
            ("tier", self.tier.is_some()),
            ("record", self.record.is_some()),
            ("max_duration", self.max_duration.is_some()),
            ("idle", self.idle.is_some()),
        ];
        let refusals = [("missing", self.missing.is_some()), ("kind", self.kind.is_some())];
        let wrong: &[_] = match self.expect {
            Expect::Permit => &refusals,
            Expect::Deny => &permits,
        };
        if let Some((name, _)) = wrong.iter().find(|(_, given)| *given) {
            return Err(match self.expect {
                Expect::Permit => format!("{name} belongs to a test that expects deny"),
                Expect::Deny => format!("{name} belongs to a test that expects permit"),
            });
        }
        one_of("tier", &self.tier, &["standing", "grant", "break-glass"])?;
        one_of("record", &self.record, &["required", "strict"])?;
        one_of(
            "missing",
            &self.missing,
            &crate::Missing::ALL.map(crate::Missing::as_str),
        )?;
        one_of(
            "kind",
            &self.kind,
            &crate::DenialKind::ALL.map(crate::DenialKind::as_str),
        )
    }

    fn run(&self, set: &PolicySet, domain: &TrustDomain, now: Timestamp) -> Tried {
        let failed = |what, expected: &str, seen: String| Failure {
            what,
            expected: expected.to_owned(),
            seen,
        };
        let ready = match self.ready() {
            Ok(ready) => ready,
            // It was read once: what fails now is a fault of this program, and a failed test.
            Err(why) => {
                return Tried {
                    name: self.name.clone(),
                    failures: vec![failed("test", "a question", why)],
                    answer: String::new(),
                };
            }
        };
        let principal = Identity::new(domain.clone(), ready.home, Role::User(self.who.user.clone()));
        let account = set.account(&Question {
            principal: &principal,
            groups: &self.who.groups,
            action: ready.action,
            cluster: &ready.cluster,
            node: &ready.node,
            profile: &ready.profile,
            path: ready.path,
            fresh: self.context.fresh.unwrap_or(true),
            reason: self.context.reason.as_deref(),
            grant: self.context.grant,
            now: ready.at.unwrap_or(now),
        });
        Tried {
            name: self.name.clone(),
            failures: self.compare(&account),
            answer: answer(&account),
        }
    }

    fn compare(&self, account: &Account) -> Vec<Failure> {
        let mut found = Vec::new();
        let mut compare = |what, expected: Option<String>, seen: String| {
            if let Some(expected) = expected.filter(|expected| *expected != seen) {
                found.push(Failure { what, expected, seen });
            }
        };
        let span = |span: Option<std::time::Duration>| {
            span.map_or_else(
                || "none".to_owned(),
                |span| Period::from_secs(span.as_secs()).to_string(),
            )
        };
        match (&account.outcome, self.expect) {
            (Ok(_), Expect::Deny) => compare("expect", Some("deny".to_owned()), "permit".to_owned()),
            (Err(_), Expect::Permit) => compare("expect", Some("permit".to_owned()), "deny".to_owned()),
            (Ok(permit), Expect::Permit) => {
                let obligations = permit.obligations();
                compare("tier", self.tier.clone(), obligations.tier.as_str().to_owned());
                compare("record", self.record.clone(), obligations.record.as_str().to_owned());
                let expected = |period: Option<Period>| period.map(|period| period.to_string());
                compare(
                    "max_duration",
                    expected(self.max_duration),
                    span(obligations.max_duration),
                );
                compare("idle", expected(self.idle), span(obligations.idle));
            }
            (Err(denial), Expect::Deny) => {
                compare("missing", self.missing.clone(), denial.missing.as_str().to_owned());
                compare("kind", self.kind.clone(), denial.kind.as_str().to_owned());
            }
        }
        let sorted = |mut rules: Vec<String>| {
            rules.sort();
            rules.join(", ")
        };
        let decided = account.decided.iter().map(|cited| cited.rule.clone()).collect();
        compare("rules", self.rules.clone().map(sorted), sorted(decided));
        found
    }
}

fn one_of(what: &str, given: &Option<String>, known: &[&str]) -> Result<(), String> {
    match given {
        Some(given) if !known.contains(&given.as_str()) => Err(format!("{what} is one of {}", known.join(", "))),
        _ => Ok(()),
    }
}

/// The answer in a few lines.
fn answer(account: &Account) -> String {
    let mut text = match &account.outcome {
        Ok(permit) => format!(
            "permitted ({}): {}",
            permit.obligations().tier.as_str(),
            permit.obligations()
        ),
        Err(denial) => format!(
            "denied ({}, {}): {}",
            denial.missing.as_str(),
            denial.kind.as_str(),
            denial.seen
        ),
    };
    for (how, cited) in [("decided by", &account.decided), ("holds, too:", &account.also)] {
        for cited in cited {
            let place = cited.place.as_ref().map(ToString::to_string).unwrap_or_default();
            text.push_str(&format!("\n{how} {} ({place})", cited.rule));
        }
    }
    text
}

#[cfg(test)]
mod tests;
