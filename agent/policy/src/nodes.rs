//! Node rules: which tenant a node belongs to and which labels it has, by signed rules over names.
//!
//! ```yaml
//! rules:
//!   - nodes: "alpha/gpu-*"        # CLUSTER/NAME; '*' any number of characters, '?' one, never the '/'
//!     tenant: acme
//!     labels: { pool: gpu }
//!   - nodes: "alpha/*"            # a catch-all
//!     tenant: platform
//! ```
//!
//! Read from the top; the first rule that matches decides alone. No match: tenant [`UNASSIGNED`], no labels, and only
//! break-glass gets in. Never: labels of the live Node object, which whoever controls the node can write.

use std::collections::{BTreeMap, BTreeSet};

use noderelay_pki::name::{ClusterName, NodeName};
use noderelay_pki::text::escape;
use serde::Deserialize;

/// The tenant of a node that no rule matches.
pub const UNASSIGNED: &str = "unassigned";

/// Most rules in a file: more than a rule per node of a very large fleet would need pools instead.
const MAX_RULES: usize = 10_000;
/// Most labels on one rule.
const MAX_LABELS: usize = 64;
/// Longest tenant, label name and label value, as Kubernetes has it for label values and prefixed names.
const MAX_WORD: usize = 63;
const MAX_LABEL_NAME: usize = 317;
/// Longest pattern: two longest names and the slash.
const MAX_PATTERN: usize = 507;

/// What stands for a star when a pattern is made a name.
const SAMPLES: [&str; 6] = ["x", "", "0", "survey", "x-0", "zz9"];

/// What the signed rules say about a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    /// Its tenant; [`UNASSIGNED`] when no rule matches.
    pub tenant: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

impl NodeFacts {
    /// Whether some rule matched.
    pub fn is_assigned(&self) -> bool {
        self.tenant != UNASSIGNED
    }
}

/// Why a file of node rules is refused.
#[derive(Debug, thiserror::Error)]
pub enum NodeRulesError {
    /// Not YAML of the right form.
    #[error("not a file of node rules: {0}")]
    Malformed(String),
    /// Too many rules.
    #[error("{0} rules; at most {MAX_RULES} are allowed: match pools by pattern")]
    TooMany(usize),
    /// A rule that breaks a rule.
    #[error("rule {number} ({nodes}): {why}")]
    Rule {
        /// The rule's number, counted from 1.
        number: usize,
        /// Its pattern.
        nodes: String,
        /// What is wrong.
        why: &'static str,
    },
}

#[derive(Debug)]
pub(crate) struct NodeRules {
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    cluster: String,
    node: String,
    facts: NodeFacts,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    rules: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    nodes: String,
    tenant: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

impl NodeRules {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, NodeRulesError> {
        let malformed = |why: String| NodeRulesError::Malformed(escape(&why, 400));
        let text = std::str::from_utf8(bytes).map_err(|e| malformed(e.to_string()))?;
        let file: File = serde_saphyr::from_str(text).map_err(|e| malformed(e.to_string()))?;
        if file.rules.len() > MAX_RULES {
            return Err(NodeRulesError::TooMany(file.rules.len()));
        }
        let rules = file.rules.into_iter().zip(1..).map(|(entry, number)| {
            let nodes = escape(&entry.nodes, 80);
            Rule::new(entry).map_err(|why| NodeRulesError::Rule { number, nodes, why })
        });
        Ok(Self {
            rules: rules.collect::<Result<_, _>>()?,
        })
    }

    pub(crate) fn facts(&self, cluster: &ClusterName, node: &NodeName) -> NodeFacts {
        match self.deciding(cluster, node).and_then(|number| self.rules.get(number)) {
            Some(rule) => rule.facts.clone(),
            None => NodeFacts {
                tenant: UNASSIGNED.to_owned(),
                labels: BTreeMap::new(),
            },
        }
    }

    /// The rule that decides about a node, counted from 0.
    pub(crate) fn deciding(&self, cluster: &ClusterName, node: &NodeName) -> Option<usize> {
        let matches = |rule: &Rule| glob(&rule.cluster, cluster.as_str()) && glob(&rule.node, node.as_str());
        self.rules.iter().position(matches)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether it takes every node that no earlier rule took, in clusters of its pattern.
    pub(crate) fn is_catch_all(&self, number: usize) -> bool {
        let rule = self.rules.get(number);
        rule.is_some_and(|rule| rule.node.chars().all(|c| c == '*'))
    }

    /// The tenants that they give.
    pub(crate) fn tenants(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(|rule| rule.facts.tenant.as_str())
    }

    /// Whether some rule can match a node of the cluster.
    pub(crate) fn has_any_for(&self, cluster: &ClusterName) -> bool {
        self.rules.iter().any(|rule| glob(&rule.cluster, cluster.as_str()))
    }

    /// For each tenant and set of labels in a cluster a pattern and a node that has them, other than the nodes `not`. A
    /// pattern that earlier rules leave nothing, or whose nodes have names that are not thought of here, is left out.
    pub(crate) fn samples(&self, cluster: &ClusterName, not: &BTreeSet<NodeName>) -> Vec<(String, NodeName)> {
        let mut seen = BTreeSet::new();
        let mut samples = Vec::new();
        for (number, rule) in self.rules.iter().enumerate() {
            let facts = (&rule.facts.tenant, &rule.facts.labels);
            if seen.contains(&facts) || !glob(&rule.cluster, cluster.as_str()) {
                continue;
            }
            let one = |stars: &str| NodeName::parse(&rule.node.replace('*', stars).replace('?', "x")).ok();
            let mut fitting = SAMPLES.iter().filter_map(|stars| one(stars));
            let fits = |node: &NodeName| !not.contains(node) && self.deciding(cluster, node) == Some(number);
            if let Some(node) = fitting.find(fits) {
                seen.insert(facts);
                samples.push((format!("{cluster}/{}", rule.node), node));
            }
        }
        samples
    }

    /// A rule's pattern, as it was written.
    pub(crate) fn pattern(&self, number: usize) -> Option<String> {
        let rule = self.rules.get(number)?;
        Some(format!("{}/{}", rule.cluster, rule.node))
    }
}

impl Rule {
    fn new(entry: Entry) -> Result<Self, &'static str> {
        let in_pattern = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '-' | '.' | '*' | '?');
        let (cluster, node) = entry
            .nodes
            .split_once('/')
            .ok_or("the pattern has the form CLUSTER/NAME")?;
        if entry.nodes.len() > MAX_PATTERN {
            return Err("the pattern is longer than any name");
        }
        if cluster.is_empty() || node.is_empty() || !cluster.chars().chain(node.chars()).all(in_pattern) {
            return Err("the pattern has the form CLUSTER/NAME, of lower-case letters, digits, '-', '.', '*' and '?'");
        }
        if entry.tenant == UNASSIGNED {
            return Err("'unassigned' is the tenant of nodes that no rule matches; leave the rule out");
        }
        if !is_word(&entry.tenant, MAX_WORD, "-") || entry.tenant.chars().any(|c| c.is_ascii_uppercase()) {
            return Err("the tenant is 1 to 63 lower-case letters, digits and '-'");
        }
        if entry.labels.len() > MAX_LABELS {
            return Err("more than 64 labels");
        }
        for (name, value) in &entry.labels {
            if !is_word(name, MAX_LABEL_NAME, "-_./") {
                return Err("a label's name is 1 to 317 letters, digits, '-', '_', '.' and '/'");
            }
            if !value.is_empty() && !is_word(value, MAX_WORD, "-_.") {
                return Err("a label's value is at most 63 letters, digits, '-', '_' and '.'");
            }
        }
        let facts = NodeFacts {
            tenant: entry.tenant,
            labels: entry.labels,
        };
        Ok(Self {
            cluster: cluster.to_owned(),
            node: node.to_owned(),
            facts,
        })
    }
}

fn is_word(text: &str, longest: usize, also: &str) -> bool {
    (1..=longest).contains(&text.len()) && text.chars().all(|c| c.is_ascii_alphanumeric() || also.contains(c))
}

/// Whether the pattern matches the whole text. Takes pattern × text steps at worst.
fn glob(pattern: &str, text: &str) -> bool {
    let (mut pattern, mut text) = (pattern.as_bytes(), text.as_bytes());
    // Where to go on when what follows the last star does not fit: one more byte under the star.
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        match (pattern.split_first(), text.split_first()) {
            (Some((b'*', after)), _) => {
                retry = Some((after, text));
                pattern = after;
            }
            (Some((p, after_p)), Some((t, after_t))) if p == t || *p == b'?' => (pattern, text) = (after_p, after_t),
            (None, None) => return true,
            _ => match retry {
                Some((after_star, [_, under_star @ ..])) => {
                    retry = Some((after_star, under_star));
                    (pattern, text) = (after_star, under_star);
                }
                _ => return false,
            },
        }
    }
}

#[cfg(test)]
mod tests;
