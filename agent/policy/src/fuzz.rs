//! Fuzz bodies: what a signed publication can say about rights. They never panic, take no more stack than there is, and what
//! passes keeps its promise.
//!
//! Plain functions over any bytes: ordinary tests run them over `agent/policy/corpus/` and over mutated input, a fuzzer over
//! anything.

use noderelay_pki::name::{ClusterName, NodeName};
use noderelay_pki::text::is_invisible;

use crate::{PolicySet, UNASSIGNED};

/// A file of policies with their annotations.
pub fn policies(bytes: &[u8]) {
    match PolicySet::parse(1, [("policies/fuzz.cedar", bytes)], b"rules: []") {
        Ok(set) => {
            let named = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '-' | '_' | '.');
            assert!(
                set.rules().all(|rule| !rule.is_empty() && rule.chars().all(named)),
                "rules have plain names"
            );
        }
        Err(error) => harmless(&error.to_string()),
    }
}

/// A file of node rules.
pub fn nodes(bytes: &[u8]) {
    const NAMES: [(&str, &str); 4] = [
        ("alpha", "gpu-1"),
        ("alpha", "a.b.c"),
        ("b", "n"),
        ("a-1.b-2", "aaaaaaaaaaaaaaab"),
    ];
    let set = match PolicySet::parse(1, [("", b""); 0], bytes) {
        Ok(set) => set,
        Err(error) => return harmless(&error.to_string()),
    };
    for (cluster, node) in NAMES {
        let (Ok(cluster), Ok(node)) = (ClusterName::parse(cluster), NodeName::parse(node)) else {
            continue;
        };
        let facts = set.node_facts(&cluster, &node);
        let plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
        assert_eq!(facts.is_assigned(), facts.tenant != UNASSIGNED);
        assert!(facts.is_assigned() || facts.labels.is_empty());
        assert!(plain(&facts.tenant) && facts.labels.iter().all(|(name, value)| plain(name) && plain(value)));
    }
}

fn harmless(text: &str) {
    assert!(
        !text.contains(|c: char| c != '\n' && is_invisible(c)),
        "unescaped: {text:?}"
    );
}
