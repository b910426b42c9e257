//! Files that are no policy: each looked at alone, so that all faults are told at once.
//!
//! Never: a set. Where there is a fault there is nothing to survey.

use super::Finding;
use crate::annotation::AnnotationError;
use crate::set::{PolicyError, PolicySet};

/// What is wrong with the files; nothing when they make a set.
pub fn faults(policies: &[(String, Vec<u8>)], node_rules: &[u8]) -> Vec<Finding> {
    let alone = policies.iter().filter_map(|(name, bytes)| {
        let error = PolicySet::parse(0, [(name, bytes)], b"rules: []").err()?;
        Some(of(name, &error))
    });
    let mut findings: Vec<_> = alone.collect();
    let files = policies.iter().map(|(name, bytes)| (name, bytes));
    match PolicySet::parse(0, files, node_rules) {
        Err(error @ PolicyError::NodeRules(_)) => findings.push(of("nodes.yaml", &error)),
        // Only together: two of one name, or too many.
        Err(error) if findings.is_empty() => findings.push(of("policies", &error)),
        _ => {}
    }
    findings.sort();
    findings
}

fn of(place: &str, error: &PolicyError) -> Finding {
    let (code, fix) = match error {
        PolicyError::FileName { .. } => ("file-name", "rename the file"),
        PolicyError::Unreadable { .. } => (
            "unreadable",
            "save it as UTF-8 text, with policies that people can read",
        ),
        PolicyError::Syntax { .. } => ("does-not-parse", "mend the policy at the place that is named"),
        PolicyError::Template { .. } => ("template", "write one policy for each principal or resource"),
        PolicyError::Annotation { why, .. } => match why {
            AnnotationError::Unknown { .. } => (
                "unknown-annotation",
                "write an annotation that is known, or take it out",
            ),
            AnnotationError::OnForbid { .. } => ("annotation-on-forbid", "put it on the permits"),
            AnnotationError::Value { .. } => ("annotation-value", "write a value as it is expected"),
        },
        PolicyError::DuplicateId { .. } => ("duplicate-id", "give one of the two another @id"),
        PolicyError::Invalid { .. } => (
            "does-not-fit-the-schema",
            "mend the policy: the schema has other names or types",
        ),
        PolicyError::TooMany => ("too-many-policies", "join policies that differ in one name only"),
        PolicyError::NodeRules(_) => ("node-rules", "mend the rule that is named"),
        PolicyError::Schema(_) => ("schema", "install this program again"),
    };
    Finding::error(code, place, error.to_string(), fix)
}
