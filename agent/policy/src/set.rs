//! [`PolicySet`]: the policies and node rules of one bundle, checked as a whole or not at all.
//!
//! ```text
//! each file: length, UTF-8, nesting ─> parser ─> no templates ─> annotations ─> unique ids ─> strict validation
//! ```
//!
//! A set answers for every node; [`PolicySet::for_node`] cuts it to what can matter on one (see `slice`). Never: a set that
//! lacks a policy of the bundle because that one was bad.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr as _;
use std::sync::{Arc, LazyLock};

use cedar_policy::{Authorizer, PolicyId, Schema, ValidationMode, Validator};
use noderelay_pki::name::{ClusterName, NodeName, ProfileName};
use noderelay_pki::text::escape;

use crate::annotation::{self, AnnotationError, Demands};
use crate::guard;
use crate::nodes::{NodeFacts, NodeRules, NodeRulesError};
use crate::slice::Slice;

/// Most policies in one set.
const MAX_POLICIES: usize = 20_000;
/// Longest text of a parser's or validator's complaint.
const MAX_COMPLAINT: usize = 400;

/// The policies and node rules of one bundle.
#[derive(Debug)]
pub struct PolicySet {
    pub(crate) version: u64,
    pub(crate) policies: cedar_policy::PolicySet,
    pub(crate) rules: BTreeMap<PolicyId, Rule>,
    pub(crate) profiles: BTreeSet<ProfileName>,
    pub(crate) authorizer: Authorizer,
    pub(crate) nodes: Arc<NodeRules>,
    /// The node that this set was cut for.
    pub(crate) slice: Option<Slice>,
}

/// What is kept of a policy beside its conditions.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) demands: Demands,
    pub(crate) place: Place,
}

/// Where a policy stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Place {
    /// The file, as it was named to [`PolicySet::parse`].
    pub file: String,
    /// Its place in the file, counted from 1.
    pub policy: usize,
    /// The name that its author gave it with `@id`.
    pub id: Option<String>,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, policy {}", self.file, self.policy)?;
        match &self.id {
            Some(id) => write!(f, ", @id(\"{id}\")"),
            None => Ok(()),
        }
    }
}

/// Why a set of policies is refused as a whole.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// A file's name is not one that rules can be named after.
    #[error(
        "policy file {file}: a policy file has a name of lower-case letters, digits, '-', '_' and '.', ending in .cedar"
    )]
    FileName {
        /// The name.
        file: String,
    },
    /// A file that is not given to the parser.
    #[error("policy file {file}: {why}")]
    Unreadable {
        /// The file.
        file: String,
        /// Why not.
        why: String,
    },
    /// A file that is not Cedar.
    #[error("policy file {file} does not parse: {why}")]
    Syntax {
        /// The file.
        file: String,
        /// What the parser says.
        why: String,
    },
    /// A template: it has slots, so it is no rule.
    #[error("policy file {file} holds a template (?principal or ?resource): write the principal or resource itself")]
    Template {
        /// The file.
        file: String,
    },
    /// An annotation that cannot be an obligation.
    #[error("policy {rule} in {file}: {why}")]
    Annotation {
        /// The file.
        file: String,
        /// The policy.
        rule: String,
        /// What is wrong.
        why: AnnotationError,
    },
    /// Two policies of one name.
    #[error("policy {rule} in {file}: another policy has this id; ids are unique in a bundle")]
    DuplicateId {
        /// The file.
        file: String,
        /// The policy.
        rule: String,
    },
    /// A policy that the schema refuses.
    #[error("policy {rule} does not fit the schema: {why}")]
    Invalid {
        /// The policy.
        rule: String,
        /// What the validator says.
        why: String,
    },
    /// Too many policies.
    #[error("more than {MAX_POLICIES} policies")]
    TooMany,
    /// The node rules.
    #[error("node rules: {0}")]
    NodeRules(#[from] NodeRulesError),
    /// The shipped schema itself: a fault of this build.
    #[error("the schema of this build is broken: {0}")]
    Schema(String),
}

impl PolicySet {
    /// Checks and keeps the policies (name of the file, content) and node rules of bundle version `version`.
    pub fn parse(
        version: u64,
        policies: impl IntoIterator<Item = (impl AsRef<str>, impl AsRef<[u8]>)>,
        node_rules: &[u8],
    ) -> Result<Self, PolicyError> {
        let schema = SCHEMA.as_ref().map_err(|why| PolicyError::Schema(why.clone()))?;
        let mut set = Self {
            version,
            policies: cedar_policy::PolicySet::new(),
            rules: BTreeMap::new(),
            profiles: BTreeSet::new(),
            authorizer: Authorizer::new(),
            nodes: Arc::new(NodeRules::parse(node_rules)?),
            slice: None,
        };
        for (name, content) in policies {
            set.add_file(name.as_ref(), content.as_ref())?;
        }
        let result = Validator::new(schema.clone()).validate(&set.policies, ValidationMode::Strict);
        if let Some(error) = result.validation_errors().next() {
            let rule = escape(AsRef::<str>::as_ref(error.policy_id()), 128);
            return Err(PolicyError::Invalid {
                rule,
                why: escape(&error.to_string(), MAX_COMPLAINT),
            });
        }
        Ok(set)
    }

    /// The version of the bundle.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// What the signed rules say about a node.
    pub fn node_facts(&self, cluster: &ClusterName, node: &NodeName) -> NodeFacts {
        self.nodes.facts(cluster, node)
    }

    /// The node rule that says it: its number, counted from 1, and its pattern.
    pub fn node_rule(&self, cluster: &ClusterName, node: &NodeName) -> Option<(usize, String)> {
        let number = self.nodes.deciding(cluster, node)?;
        Some((number + 1, self.nodes.pattern(number)?))
    }

    /// The names of all rules.
    pub fn rules(&self) -> impl Iterator<Item = &str> {
        self.rules.keys().map(AsRef::as_ref)
    }

    /// Where a rule stands.
    pub fn place(&self, rule: &str) -> Option<&Place> {
        self.rules.get(&PolicyId::new(rule)).map(|rule| &rule.place)
    }

    fn add_file(&mut self, name: &str, content: &[u8]) -> Result<(), PolicyError> {
        let file = escape(name, 128);
        let stem = stem(name).ok_or_else(|| PolicyError::FileName { file: file.clone() })?;
        let unreadable = |why: String| PolicyError::Unreadable {
            file: file.clone(),
            why,
        };
        let text = std::str::from_utf8(content).map_err(|e| unreadable(format!("not UTF-8: {e}")))?;
        guard::check(text).map_err(|e| unreadable(e.to_string()))?;
        let parsed = cedar_policy::PolicySet::from_str(text).map_err(|errors| {
            let why = errors
                .iter()
                .next()
                .map_or_else(|| errors.to_string(), |first| first.to_string());
            PolicyError::Syntax {
                file: file.clone(),
                why: escape(&why, MAX_COMPLAINT),
            }
        })?;
        if parsed.templates().next().is_some() {
            return Err(PolicyError::Template { file });
        }
        for (policy, number) in in_order(&parsed).into_iter().zip(1_usize..) {
            let fallback = format!("{stem}.{number}");
            let (id, demands) = annotation::read(policy).map_err(|why| PolicyError::Annotation {
                file: file.clone(),
                rule: policy.annotation("id").map_or(fallback.clone(), |id| escape(id, 64)),
                why,
            })?;
            let place = Place {
                file: file.clone(),
                policy: number,
                id: id.clone(),
            };
            let rule = id.unwrap_or(fallback);
            let id = PolicyId::new(&rule);
            if self.rules.contains_key(&id) {
                return Err(PolicyError::DuplicateId { file, rule });
            }
            if self.rules.len() >= MAX_POLICIES {
                return Err(PolicyError::TooMany);
            }
            self.policies
                .add(policy.new_id(id.clone()))
                .map_err(|e| PolicyError::Invalid {
                    rule: rule.clone(),
                    why: escape(&e.to_string(), MAX_COMPLAINT),
                })?;
            self.profiles.extend(demands.profile.clone());
            self.rules.insert(id, Rule { demands, place });
        }
        Ok(())
    }
}

static SCHEMA: LazyLock<Result<Schema, String>> = LazyLock::new(|| {
    Schema::from_cedarschema_str(crate::SCHEMA)
        .map(|(schema, _)| schema)
        .map_err(|e| e.to_string())
});

/// The file's name without folders and extension.
fn stem(name: &str) -> Option<&str> {
    let stem = name.rsplit('/').next()?.strip_suffix(".cedar")?;
    let allowed = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '-' | '_' | '.');
    ((1..=60).contains(&stem.len()) && stem.chars().all(allowed)).then_some(stem)
}

/// The parser names policies `policy0`, `policy1`, … in the order of the text.
fn in_order(parsed: &cedar_policy::PolicySet) -> Vec<&cedar_policy::Policy> {
    let mut policies: Vec<_> = parsed.policies().collect();
    policies.sort_by_key(|policy| {
        let id: &str = policy.id().as_ref();
        id.trim_start_matches("policy").parse::<usize>().unwrap_or(usize::MAX)
    });
    policies
}

#[cfg(test)]
mod tests;
