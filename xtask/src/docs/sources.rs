//! The shape of a source file: its opening comment and its length.

use super::Text;

/// Longer than this and a file does more than one thing.
pub(crate) const MOST_LINES: usize = 600;

/// What is wrong with one source file.
pub(crate) fn findings(source: &Text) -> Vec<String> {
    let mut findings = Vec::new();
    let lines = source.text.lines().count();
    if opening(&source.text).trim().is_empty() && !speaks_for_its_sibling(&source.path) {
        findings.push(format!(
            "{}: must open with //! (what it is for, what it never does)",
            source.path
        ));
    }
    if lines > MOST_LINES {
        findings.push(format!(
            "{}: {lines} lines, at most {MOST_LINES}: split it",
            source.path
        ));
    }
    findings
}

/// `foo/tests.rs` holds the tests of `foo.rs`, which says what they are about.
fn speaks_for_its_sibling(path: &str) -> bool {
    path.contains("/src/") && path.ends_with("/tests.rs")
}

/// The text of the `//!` comment that opens a file.
pub(crate) fn opening(text: &str) -> String {
    text.lines()
        .skip_while(|line| line.trim().is_empty())
        .map_while(|line| line.trim().strip_prefix("//!"))
        .collect::<Vec<_>>()
        .join("\n")
}
