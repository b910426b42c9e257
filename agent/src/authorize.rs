//! Asks the signed policy, and resolves what the session would run as.
//!
//! ```text
//! publication usable? → PolicySet::decide → Permit
//! ```
//!
//! The decision takes what was verified (identity, groups), what was asked (action, profile, reason) and what the client
//! claims (path). It runs again for open sessions at each change. Never: a permit of its own making, a look at a server.

use jiff::Timestamp;
use noderelay_bundle::Freshness;
use noderelay_pki::name::ProfileName;
use noderelay_pki::verify::VerifiedPeer;
use noderelay_policy::{Action, Denial, DenialKind, Path, Permit, Question};
use noderelay_proto::code::Code;
use noderelay_proto::control::{ClaimedPath, Kind, Missing, Open};

use crate::accept::Own;
use crate::published::InForce;
use crate::refusal::Refusal;

/// What one session asks for, kept so that it can be asked again.
#[derive(Debug, Clone)]
pub struct Wish {
    /// What is done.
    pub action: Action,
    /// The profile.
    pub profile: ProfileName,
    /// The claimed path.
    pub path: Path,
    /// The reason that the person gave.
    pub reason: Option<String>,
}

impl Wish {
    /// From the message; a session without a profile gets `default`.
    ///
    /// # Errors
    /// A profile that is no name.
    pub fn of(open: &Open, default: &ProfileName) -> Result<Self, Refusal> {
        let profile = match open.profile.as_str() {
            "" => default.clone(),
            name => ProfileName::parse(name)
                .map_err(|e| Refusal::new(Code::PolicyProfile, Missing::Rule, format!("profile {name}: {e}")))?,
        };
        let action = match Kind::try_from(open.kind) {
            Ok(Kind::Exec) => Action::Exec,
            _ => Action::Shell,
        };
        let path = match ClaimedPath::try_from(open.claimed_path) {
            Ok(ClaimedPath::Api) => Path::Api,
            Ok(ClaimedPath::Direct) => Path::Direct,
            _ => Path::Relay,
        };
        let reason = (!open.reason.trim().is_empty()).then(|| open.reason.clone());
        Ok(Self {
            action,
            profile,
            path,
            reason,
        })
    }
}

/// Decides, at `now`, under what is in force.
///
/// # Errors
/// A refusal that names the missing part.
pub fn authorize(
    in_force: &InForce,
    own: &Own,
    peer: &VerifiedPeer,
    wish: &Wish,
    now: Timestamp,
) -> Result<Permit, Refusal> {
    let version = in_force.publication.policy_version();
    let versioned = |refusal| Refusal {
        policy_version: version,
        ..refusal
    };
    let freshness = in_force.publication.freshness(now);
    if !freshness.usable() {
        return Err(versioned(expired(&freshness)));
    }
    let question = Question {
        principal: peer.identity(),
        groups: peer.groups(),
        action: wish.action,
        cluster: &own.cluster,
        node: &own.node,
        profile: &wish.profile,
        path: wish.path,
        fresh: freshness.fresh(),
        reason: wish.reason.as_deref(),
        grant: false,
        now: in_force.publication.effective_time(now),
    };
    in_force
        .policy
        .decide(&question)
        .map_err(|denial| versioned(refusal(denial)))
}

fn expired(freshness: &Freshness) -> Refusal {
    let seen = match freshness {
        Freshness::Expired { what, when } => {
            format!(
                "{what} of the publication expired {}",
                noderelay_pki::time::format(*when)
            )
        }
        other => other.code().to_owned(),
    };
    Refusal::node(Code::BundleExpired, seen)
}

fn refusal(denial: Denial) -> Refusal {
    let (code, missing) = match denial.kind {
        DenialKind::WrongRole => (Code::IdentityWrongRole, Missing::Identity),
        DenialKind::ForeignPrincipal => (Code::PolicyDenied, Missing::Identity),
        DenialKind::NeedsActivation => (Code::ActivationRequired, Missing::Grant),
        DenialKind::NeedsGrant => (Code::GrantRequired, Missing::Grant),
        DenialKind::NeedsReason => (Code::PolicyReason, Missing::Rule),
        DenialKind::WrongProfile => (Code::PolicyProfile, Missing::Rule),
        DenialKind::Unassigned => (Code::PolicyNode, Missing::Rule),
        DenialKind::PolicyError => (Code::PolicyError, Missing::Rule),
        DenialKind::NotFresh | DenialKind::Forbidden | DenialKind::NoRule => (Code::PolicyDenied, Missing::Rule),
    };
    Refusal::new(code, missing, denial.seen)
}

#[cfg(test)]
mod tests;
