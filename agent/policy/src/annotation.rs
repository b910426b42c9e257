//! Annotations on permits as obligations, and how the obligations of several permits become one.
//!
//! | annotation | value | several permits |
//! |---|---|---|
//! | `@record` | `required` (when absent), `strict` | strict wins |
//! | `@max_duration` | `30m`, `8h` | the shortest wins |
//! | `@idle` | `10m` | the shortest wins |
//! | `@profile` | a profile's name | the permit counts only for that profile |
//! | `@id`, `@description` | name of the rule; text for people | – |
//!
//! Any other annotation is an error: an obligation that is misspelt must not become no obligation.

use std::fmt;
use std::time::Duration;

use cedar_policy::{Effect, Policy};
use noderelay_pki::name::ProfileName;
use noderelay_pki::text::{Period, escape};

/// Longest obligation: what is meant to be without end says so by having none.
const MAX_PERIOD: Duration = Duration::from_secs(30 * 24 * 3600);
/// Longest rule name.
const MAX_ID: usize = 64;

/// What the recording of a session must survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordLevel {
    /// Recorded on disk, else in memory with a stated gap; never refuses.
    Required,
    /// No recording, no session.
    Strict,
}

impl RecordLevel {
    /// The value in policies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::Strict => "strict",
        }
    }
}

/// By what kind of right a session is permitted; the highest that is satisfied decides alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// By a rule that holds without further ado.
    Standing,
    /// By a rule that holds only because of a grant.
    Grant,
    /// By a rule for emergency accounts.
    BreakGlass,
}

impl Tier {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Standing => "standing",
            Self::Grant => "grant",
            Self::BreakGlass => "break-glass",
        }
    }
}

/// Under which conditions a session is permitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obligations {
    /// What the recording must survive.
    pub record: RecordLevel,
    /// Longest duration.
    pub max_duration: Option<Duration>,
    /// Longest time without a person's doing.
    pub idle: Option<Duration>,
    /// The profile.
    pub profile: ProfileName,
    /// By what kind of right.
    pub tier: Tier,
}

impl fmt::Display for Obligations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {}", self.record.as_str())?;
        for (name, span) in [("max_duration", self.max_duration), ("idle", self.idle)] {
            if let Some(span) = span {
                write!(f, ", {name} {}", Period::from_secs(span.as_secs()))?;
            }
        }
        Ok(())
    }
}

/// Why a policy's annotations are refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnnotationError {
    /// An annotation of a name that has no meaning here.
    Unknown {
        /// Its name.
        name: String,
    },
    /// An obligation on a forbid, where it would have no effect.
    OnForbid {
        /// Its name.
        name: String,
    },
    /// A value that cannot be read.
    Value {
        /// The annotation's name.
        name: &'static str,
        /// The value.
        seen: String,
        /// What it should be.
        expected: &'static str,
    },
}

impl fmt::Display for AnnotationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name } => write!(
                f,
                "unknown annotation @{name}; known are @id, @description, @record, @max_duration, @idle, @profile"
            ),
            Self::OnForbid { name } => write!(f, "@{name} has no effect on a forbid: put it on the permits"),
            Self::Value { name, seen, expected } => write!(f, "@{name}(\"{seen}\"): expected {expected}"),
        }
    }
}

impl std::error::Error for AnnotationError {}

/// What one permit demands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Demands {
    pub(crate) record: Option<RecordLevel>,
    pub(crate) max_duration: Option<Duration>,
    pub(crate) idle: Option<Duration>,
    pub(crate) profile: Option<ProfileName>,
}

/// A policy's own name and what it demands.
pub(crate) fn read(policy: &Policy) -> Result<(Option<String>, Demands), AnnotationError> {
    let mut id = None;
    let mut demands = Demands::default();
    for (name, value) in policy.annotations() {
        let bad = |name, expected| AnnotationError::Value {
            name,
            seen: escape(value, 64),
            expected,
        };
        match name {
            "id" => {
                let in_id = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '-' | '_' | '.');
                if !(1..=MAX_ID).contains(&value.len()) || !value.chars().all(in_id) {
                    return Err(bad("id", "1 to 64 lower-case letters, digits, '-', '_' and '.'"));
                }
                id = Some(value.to_owned());
            }
            "description" => {}
            "record" | "max_duration" | "idle" | "profile" if policy.effect() == Effect::Forbid => {
                return Err(AnnotationError::OnForbid { name: name.to_owned() });
            }
            "record" => {
                demands.record = Some(match value {
                    "required" => RecordLevel::Required,
                    "strict" => RecordLevel::Strict,
                    _ => return Err(bad("record", "\"required\" or \"strict\"")),
                });
            }
            "max_duration" => {
                demands.max_duration = Some(period(value).ok_or_else(|| bad("max_duration", PERIOD))?);
            }
            "idle" => demands.idle = Some(period(value).ok_or_else(|| bad("idle", PERIOD))?),
            "profile" => {
                demands.profile =
                    Some(ProfileName::parse(value).map_err(|_| bad("profile", "a profile's name in lower case"))?);
            }
            _ => return Err(AnnotationError::Unknown { name: escape(name, 64) }),
        }
    }
    Ok((id, demands))
}

/// The strictest of several permits of one tier.
pub(crate) fn strictest<'a>(
    demands: impl Iterator<Item = &'a Demands>,
    profile: &ProfileName,
    tier: Tier,
) -> Obligations {
    let none = Obligations {
        record: RecordLevel::Required,
        max_duration: None,
        idle: None,
        profile: profile.clone(),
        tier,
    };
    demands.fold(none, |so_far, one| Obligations {
        record: so_far.record.max(one.record.unwrap_or(RecordLevel::Required)),
        max_duration: shorter(so_far.max_duration, one.max_duration),
        idle: shorter(so_far.idle, one.idle),
        ..so_far
    })
}

const PERIOD: &str = "a duration such as \"30m\" or \"8h\", above 0 and at most 30d";

fn period(text: &str) -> Option<Duration> {
    let period = Period::parse(text).ok()?.duration();
    (!period.is_zero() && period <= MAX_PERIOD).then_some(period)
}

fn shorter(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    one.into_iter().chain(other).min()
}
