//! The parts policy and grant: how fresh the bundle is, and the question that the node would be asked, asked here.
//!
//! ```text
//! publication ─> fresh enough? ─> its policies ─> each usual profile, without and then with a grant ─> findings
//! ```
//!
//! It looks at the bundle in force here and at nothing else; the node's word counts.

use jiff::Timestamp;
use noderelay_bundle::{Freshness, Publication};
use noderelay_pki::name::ProfileName;
use noderelay_policy::{Action, Denial, DenialKind, Path, PolicySet, Question};
use noderelay_proto::code::{Code, Origin};

use super::{DoctorOptions, Finding, Part, Verdict, failed, good, unknown};
use crate::creds::Creds;
use crate::faults::Fault;
use crate::target::Target;

/// The profile that is asked about when none is named, in this order: the first that is permitted counts.
const USUAL_PROFILES: [&str; 3] = ["diagnostic", "login", "root"];

pub(super) fn freshness(publication: &Publication, now: Timestamp) -> Finding {
    let version = publication.policy_version();
    let demo = if publication.demo() {
        " (a demo's, or of one signer)"
    } else {
        ""
    };
    match publication.freshness(now) {
        Freshness::Fresh => good(Part::Policy, &format!("bundle version {version} is fresh{demo}")),
        stale @ Freshness::Stale { .. } => Finding {
            fix: Some(
                "The pipeline has to publish again; rules that ask for a fresh bundle do not hold meanwhile."
                    .to_owned(),
            ),
            ..good(Part::Policy, &format!("bundle version {version}{demo}: {stale}"))
        },
        expired => failed(
            Part::Policy,
            &Fault::new(Code::BundleExpired, Origin::Client, expired.to_string()),
            "",
        ),
    }
}

pub(super) fn policy(creds: &Creds, target: &Target, options: &DoctorOptions, now: Timestamp) -> [Finding; 2] {
    let node = target.node.as_str();
    let fresh = freshness(&creds.publication, now);
    if fresh.verdict == Verdict::Failed {
        return [fresh, unknown(Part::Grant, "cannot be looked at without a policy")];
    }
    let set = match crate::bundle::policy(&creds.publication) {
        Ok(set) => set,
        Err(error) => {
            let fault = Fault::new(Code::BundleInvalid, Origin::Client, error.to_string());
            return [
                failed(Part::Policy, &fault, node),
                unknown(Part::Grant, "cannot be looked at without a policy"),
            ];
        }
    };
    let asked = Asked {
        set: &set,
        creds,
        target,
        options,
        now,
    };
    match asked.best() {
        Ok((profile, with_grant, rules)) => {
            let seen = format!(
                "{}; a shell with profile {profile} is permitted by {}",
                fresh.seen,
                rules.join(", ")
            );
            let rule = Finding {
                fix: fresh.fix,
                ..good(Part::Policy, &seen)
            };
            let grant = match (with_grant, options.grant) {
                (false, _) => good(Part::Grant, "the rule asks for none"),
                (true, true) => good(Part::Grant, "the rule asks for one, and one would come along"),
                (true, false) => {
                    let seen = format!("the rule for profile {profile} asks for a grant");
                    failed(
                        Part::Grant,
                        &Fault::new(Code::GrantRequired, Origin::Client, seen),
                        node,
                    )
                }
            };
            [rule, grant]
        }
        Err(denial) => {
            let fault = Fault::new(code_of(denial.kind), Origin::Client, denial.seen);
            [
                failed(Part::Policy, &fault, node),
                unknown(Part::Grant, "no rule that could ask for one"),
            ]
        }
    }
}

/// The question that the node would be asked.
struct Asked<'a> {
    set: &'a PolicySet,
    creds: &'a Creds,
    target: &'a Target,
    options: &'a DoctorOptions,
    now: Timestamp,
}

impl Asked<'_> {
    /// The first profile that is permitted, whether it needs a grant, and by which rules.
    fn best(&self) -> Result<(ProfileName, bool, Vec<String>), Denial> {
        let usual = || USUAL_PROFILES.iter().filter_map(|name| ProfileName::parse(name).ok());
        let profiles: Vec<ProfileName> = self
            .options
            .profile
            .clone()
            .map_or_else(|| usual().collect(), |named| vec![named]);
        let mut denial = None;
        for grant in [false, true] {
            for profile in &profiles {
                match self.decide(profile, grant) {
                    Ok(rules) => return Ok((profile.clone(), grant, rules)),
                    Err(refused) => _ = denial.get_or_insert(refused),
                }
            }
        }
        Err(denial.unwrap_or_else(|| Denial {
            missing: DenialKind::NoRule.missing(),
            kind: DenialKind::NoRule,
            seen: "no profile to ask about".to_owned(),
        }))
    }

    fn decide(&self, profile: &ProfileName, grant: bool) -> Result<Vec<String>, Denial> {
        let credentials = self.creds.party.credentials.get();
        let publication = &self.creds.publication;
        let question = Question {
            principal: credentials.identity(),
            groups: credentials.groups(),
            action: Action::Shell,
            cluster: &self.target.cluster,
            node: &self.target.node,
            profile,
            path: Path::Relay,
            fresh: publication.freshness(self.now).fresh(),
            reason: self.options.reason.as_deref(),
            grant,
            now: publication.effective_time(self.now),
        };
        self.set.decide(&question).map(|permit| permit.rules().to_vec())
    }
}

fn code_of(kind: DenialKind) -> Code {
    match kind {
        DenialKind::WrongRole => Code::IdentityWrongRole,
        DenialKind::NeedsActivation => Code::ActivationRequired,
        DenialKind::NeedsGrant => Code::GrantRequired,
        DenialKind::NeedsReason => Code::PolicyReason,
        DenialKind::WrongProfile => Code::PolicyProfile,
        DenialKind::Unassigned => Code::PolicyNode,
        DenialKind::PolicyError => Code::PolicyError,
        _ => Code::PolicyDenied,
    }
}
