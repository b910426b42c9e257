//! The survey: every question that can be told apart by what is declared, asked of a set at once. Lint and diff stand on it.
//!
//! ```text
//! declared clusters and groups, and names in policies ── plan ──> who × which nodes × actions × profiles
//! each of them × grant, reason, freshness ── side ──> denied | sometimes | permitted, by which rules, under which obligations
//! ```
//!
//! | asked about | all of |
//! |---|---|
//! | who | nobody's member, a member of each group alone, of all groups of the cluster, of groups that one policy names together, each user whom a policy names |
//! | nodes | one for each tenant and set of labels that the node rules give in a cluster, each node that a policy names |
//! | profiles | those that policies name, and one that none names |
//!
//! What else a policy can look at (the time, the path, the words of a reason, a user's or a node's name) is left out of the
//! question. Cedar's authorizer then fails where a policy looks at it, and the outcome is *sometimes*. So nothing is
//! *permitted* or *denied* here that a node decides otherwise; a member of several groups that no policy names together is
//! not asked about, only of all of them.
//!
//! Cedar's own partial evaluation is not used: it is experimental, and to switch it on adds a function to the language that
//! nodes accept.

pub(crate) mod plan;
mod reads;
pub(crate) mod side;

use noderelay_pki::name::{ClusterName, GroupName, TrustDomain};

pub(crate) use plan::{NodeClass, Plan, Subject, SubjectKind};
pub(crate) use reads::Reads;
pub(crate) use side::{Cell, Known, Outcome, Side, is_reason, is_with_grant};

/// Most questions (who × nodes × actions × profiles) that are asked: some minutes of work.
pub const MAX_QUESTIONS: u64 = 20_000_000;

/// What is declared beside the policies.
#[derive(Clone, Debug)]
pub struct Declared {
    /// The trust domain.
    pub trust_domain: TrustDomain,
    /// The clusters of the fleet file.
    pub clusters: Vec<ClusterName>,
    /// The groups of the principals file.
    pub groups: Vec<(ClusterName, GroupName)>,
    /// The persons of the principals file.
    pub persons: Vec<DeclaredPerson>,
}

/// A person of the principals file.
#[derive(Clone, Debug)]
pub struct DeclaredPerson {
    /// Name of the entry.
    pub name: String,
    /// Usernames with their home clusters.
    pub usernames: Vec<(ClusterName, String)>,
    /// Whether one of the keys may sign approvals.
    pub approves: bool,
}

/// Why no survey is made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SurveyError {
    /// More than [`MAX_QUESTIONS`].
    #[error(
        "{questions} questions would have to be asked, and {MAX_QUESTIONS} are allowed: {subjects} kinds of people, {nodes} kinds of nodes, {profiles} profiles; give fewer nodes labels of their own, or split the fleet"
    )]
    TooMany {
        /// How many.
        questions: u64,
        /// Kinds of people, in all clusters.
        subjects: usize,
        /// Kinds of nodes, in all clusters.
        nodes: usize,
        /// Profiles.
        profiles: usize,
    },
    /// A name that this program made is none: a fault of this build.
    #[error("the survey cannot be made: {0}")]
    Internal(String),
}

#[cfg(test)]
mod tests;
