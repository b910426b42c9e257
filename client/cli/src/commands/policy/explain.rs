//! `noderelay policy explain`: what a node would answer to one question, by the very decision of the agent, and why.
//!
//! ```text
//! words ─> Question ─> PolicySet::account (decide, and what led to it) ─> a few lines, or one JSON object
//! ```
//!
//! Never: a decision of its own. A publication that has expired is refused before the policy is asked, as on a node.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::Result;
use jiff::Timestamp;
use noderelay_bundle::Freshness;
use noderelay_pki::identity::{Identity, Role};
use noderelay_pki::text::Period;
use noderelay_pki::time;
use noderelay_policy::{Account, Cited, DenialKind, Missing, Obligations, Path, Question};
use serde::Serialize;

use super::source::{NODE_RULES, Source};
use crate::args::{ExplainArgs, Output};
use crate::out;

/// Answers one question.
pub(super) async fn run(args: ExplainArgs, now: Timestamp) -> Result<ExitCode> {
    let source = Source::load(&args.dir).await?;
    let at = args.at.unwrap_or(now);
    let freshness = source.publication.as_ref().map(|publication| publication.freshness(at));
    let unusable = freshness.as_ref().filter(|freshness| !freshness.usable());
    let set = source.policy()?;
    let home = args.home.clone().unwrap_or_else(|| args.cluster.clone());
    let principal = Identity::new(source.fleet()?.trust_domain, home, Role::User(args.user.clone()));
    let question = Question {
        principal: &principal,
        groups: &args.groups,
        action: args.action,
        cluster: &args.cluster,
        node: &args.node,
        profile: &args.profile,
        path: Path::Relay,
        fresh: !args.stale && freshness.as_ref().is_none_or(Freshness::fresh),
        reason: args.reason.as_deref(),
        grant: args.with_grant,
        now: source
            .publication
            .as_ref()
            .map_or(at, |publication| publication.effective_time(at)),
    };
    let account = set.account(&question);
    let answer = match unusable {
        Some(freshness) => Answer::expired(&question, &account, freshness),
        None => Answer::of(&question, &account),
    };
    match args.output.output {
        Output::Json => out::json(&answer)?,
        Output::Table => out::text(&answer.lines())?,
    }
    Ok(super::code(answer.permitted))
}

/// The answer, as it is printed.
#[derive(Serialize)]
struct Answer {
    permitted: bool,
    policy_version: Option<u64>,
    at: String,
    question: Asked,
    #[serde(skip_serializing_if = "Option::is_none")]
    tier: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    obligations: Option<Demanded>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<Refusal>,
    decided_by: Vec<Named>,
    holds_too: Vec<Named>,
    node: Node,
    #[serde(skip)]
    obliged: String,
}

#[derive(Serialize)]
struct Asked {
    user: String,
    home: String,
    groups: Vec<String>,
    action: &'static str,
    cluster: String,
    node: String,
    profile: String,
    grant: bool,
    reason: bool,
    fresh: bool,
}

#[derive(Serialize)]
struct Demanded {
    profile: String,
    record: &'static str,
    max_duration: Option<String>,
    idle: Option<String>,
}

#[derive(Serialize)]
struct Refusal {
    missing: &'static str,
    kind: &'static str,
    seen: String,
    supply: &'static str,
}

#[derive(Serialize)]
struct Named {
    rule: String,
    file: String,
    policy: usize,
    id: Option<String>,
    profile: Option<String>,
}

#[derive(Serialize)]
struct Node {
    tenant: String,
    labels: BTreeMap<String, String>,
    rule: Option<usize>,
    pattern: Option<String>,
}

impl Answer {
    fn of(question: &Question<'_>, account: &Account) -> Self {
        let permit = account.outcome.as_ref().ok();
        let obligations = permit.map(noderelay_policy::Permit::obligations);
        Self {
            permitted: permit.is_some(),
            policy_version: permit
                .map(noderelay_policy::Permit::version)
                .filter(|version| *version > 0),
            at: time::format(question.now),
            question: Asked::of(question),
            tier: obligations.map(|obligations| obligations.tier.as_str()),
            obligations: obligations.map(Demanded::of),
            refusal: account.outcome.as_ref().err().map(|denial| Refusal {
                missing: denial.missing.as_str(),
                kind: denial.kind.as_str(),
                seen: denial.seen.clone(),
                supply: match denial.kind {
                    DenialKind::Forbidden => "nothing that a person brings along: a rule forbids it",
                    DenialKind::NeedsReason => "a reason (--reason)",
                    DenialKind::WrongProfile => "another profile (--profile)",
                    _ => supply(denial.missing),
                },
            }),
            decided_by: account.decided.iter().map(Named::of).collect(),
            holds_too: account.also.iter().map(Named::of).collect(),
            node: Node {
                tenant: account.node.tenant.clone(),
                labels: account.node.labels.clone(),
                rule: account.node_rule.as_ref().map(|(number, _)| *number),
                pattern: account.node_rule.as_ref().map(|(_, pattern)| pattern.clone()),
            },
            obliged: obligations.map(ToString::to_string).unwrap_or_default(),
        }
    }

    /// Nothing is evaluated any more.
    fn expired(question: &Question<'_>, account: &Account, freshness: &Freshness) -> Self {
        Self {
            permitted: false,
            policy_version: None,
            tier: None,
            obligations: None,
            refusal: Some(Refusal {
                missing: Missing::Bundle.as_str(),
                kind: freshness.code(),
                seen: freshness.to_string(),
                supply: supply(Missing::Bundle),
            }),
            decided_by: Vec::new(),
            holds_too: Vec::new(),
            ..Self::of(question, account)
        }
    }

    fn lines(&self) -> String {
        let asked = &self.question;
        let mut text = match &self.refusal {
            None => format!(
                "permitted: {} of cluster {}, {} on {}/{} with profile {}\n",
                asked.user, asked.home, asked.action, asked.cluster, asked.node, asked.profile
            ),
            Some(refusal) => format!("denied: {}\n", refusal.seen),
        };
        let mut line = |name: &str, value: &str| text.push_str(&format!("  {name:<12}{value}\n"));
        if let Some(tier) = self.tier {
            line("tier", tier);
            line("obligations", &self.obliged);
        }
        if let Some(refusal) = &self.refusal {
            line("missing", &format!("{} ({})", refusal.missing, refusal.kind));
            line("supply", refusal.supply);
        }
        for named in &self.decided_by {
            line("decided by", &named.line());
        }
        for named in &self.holds_too {
            line("holds, too", &named.line());
        }
        let labels = self.node.labels.iter().map(|(name, value)| format!(", {name}={value}"));
        let labels: String = labels.collect();
        let by = match (self.node.rule, &self.node.pattern) {
            (Some(number), Some(pattern)) => format!("rule {number} of {NODE_RULES} ({pattern})"),
            _ => format!("no rule of {NODE_RULES} matches"),
        };
        line("node", &format!("tenant {}{labels}: {by}", self.node.tenant));
        text
    }
}

impl Asked {
    fn of(question: &Question<'_>) -> Self {
        Self {
            user: question.principal.role.name().to_owned(),
            home: question.principal.cluster.to_string(),
            groups: question.groups.iter().map(ToString::to_string).collect(),
            action: question.action.as_str(),
            cluster: question.cluster.to_string(),
            node: question.node.to_string(),
            profile: question.profile.to_string(),
            grant: question.grant,
            reason: question.reason.is_some_and(|reason| !reason.is_empty()),
            fresh: question.fresh,
        }
    }
}

impl Demanded {
    fn of(obligations: &Obligations) -> Self {
        let shown = |span: std::time::Duration| Period::from_secs(span.as_secs()).to_string();
        Self {
            profile: obligations.profile.to_string(),
            record: obligations.record.as_str(),
            max_duration: obligations.max_duration.map(shown),
            idle: obligations.idle.map(shown),
        }
    }
}

impl Named {
    fn of(cited: &Cited) -> Self {
        let place = cited.place.clone();
        let (file, policy, id) = place.map_or((String::new(), 0, None), |place| (place.file, place.policy, place.id));
        Self {
            rule: cited.rule.clone(),
            file,
            policy,
            id,
            profile: cited.profile.clone(),
        }
    }

    fn line(&self) -> String {
        let id = self
            .id
            .as_ref()
            .map(|id| format!(", @id(\"{id}\")"))
            .unwrap_or_default();
        let profile = self.profile.as_ref().map(|profile| format!(", for profile {profile}"));
        let profile = profile.unwrap_or_default();
        format!("{} ({}, policy {}{id}{profile})", self.rule, self.file, self.policy)
    }
}

/// What supplies a part that is missing.
fn supply(missing: Missing) -> &'static str {
    match missing {
        Missing::Identity => "a certificate of the node's own cluster",
        Missing::Rule => "a policy that permits it; then sign and publish",
        Missing::Grant => "a grant for exactly this, signed by whoever may approve it",
        Missing::NodeRule => "a rule in nodes.yaml that matches the node; then sign and publish",
        Missing::Bundle => "a newer publication: sign what expired, and publish",
    }
}
