//! Links and names of files in the documents.
//!
//! Two kinds are followed: Markdown links without a scheme, and words in back-ticks that look like a path of this
//! project (they start with one of its top folders). Fenced blocks are examples and are left alone.

use std::path::{Component, Path, PathBuf};

use super::Text;

/// A word in back-ticks that starts so is the name of something in this project.
const TOP: [&str; 10] = [
    "relay/",
    "agent/",
    "client/",
    "pki/",
    "helm/",
    "netsim-tests/",
    "xtask/",
    "docs/",
    ".ci/",
    ".cargo/",
];

/// Links of one document that lead nowhere.
pub(crate) fn findings(root: &Path, document: &Text, documents: &[Text]) -> Vec<String> {
    let mut findings = Vec::new();
    for (line, target) in links(&document.text) {
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let place = format!("{}:{line}", document.path);
        let (file, heading) = target.split_once('#').unwrap_or((&target, ""));
        let path = if file.is_empty() {
            document.path.clone()
        } else {
            beside(&document.path, file)
        };
        if !root.join(&path).exists() {
            findings.push(format!("{place}: links to {target}, which does not exist"));
            continue;
        }
        let Some(other) = documents.iter().find(|other| other.path == path) else {
            continue;
        };
        if !heading.is_empty() && !headings(&other.text).iter().any(|seen| seen == heading) {
            findings.push(format!("{place}: links to {target}, but {path} has no such heading"));
        }
    }
    findings
}

/// Paths of this project that a text names in back-ticks although they do not exist.
pub(crate) fn named_paths(root: &Path, place: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for word in text.lines().flat_map(in_back_ticks) {
        let path = word.split_once("::").map_or(word, |(path, _)| path);
        let plain = path.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
        if plain && TOP.iter().any(|top| path.starts_with(top)) && !root.join(path).exists() {
            findings.push(format!("{place}: names `{word}`, which does not exist"));
        }
    }
    findings
}

/// A document without its fenced blocks; the lines keep their numbers.
pub(crate) fn prose(text: &str) -> String {
    let mut fenced = false;
    let mut kept = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            kept.push_str(line);
        }
        kept.push('\n');
    }
    kept
}

/// Every link with the number of its line.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (index, line) in prose(text).lines().enumerate() {
        let mut rest = line;
        while let Some((_, after)) = rest.split_once("](") {
            let Some((target, further)) = after.split_once(')') else {
                break;
            };
            found.push((index + 1, target.trim().to_owned()));
            rest = further;
        }
    }
    found
}

/// The words between back-ticks in one line.
fn in_back_ticks(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The anchors of a document's headings, as GitHub writes them.
fn headings(text: &str) -> Vec<String> {
    prose(text)
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| {
            line.trim_start_matches('#')
                .trim()
                .to_lowercase()
                .chars()
                .filter_map(|c| match c {
                    ' ' => Some('-'),
                    c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
                    _ => None,
                })
                .collect()
        })
        .collect()
}

/// A link's path, seen from the root.
fn beside(document: &str, link: &str) -> String {
    let mut path = Path::new(document).parent().map(Path::to_path_buf).unwrap_or_default();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(name) => path.push(name),
            Component::RootDir => path = PathBuf::new(),
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
    path.to_string_lossy().into_owned()
}
