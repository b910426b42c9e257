//! `cargo xtask docs`: what the documents say must be there.
//!
//! - every source file opens with its `//!` comment and stays short enough to be read at once;
//! - every relative link in a document leads to a file, and to a heading when it names one;
//! - every path of this project that a document or a `//!` comment names exists;
//! - every promise in SPECIFICATION.md names a test that exists and runs.
//!
//! Never judges the prose, and never follows a link to the outside.

mod links;
mod promises;
mod sources;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::stage::{root, verdict};

/// Folders that hold nothing written by us, wherever they are.
const NOT_OURS: [&str; 2] = [".git", "node_modules"];
/// What was built. Only at the top: a module may have this name.
const BUILT: &str = "target";

/// A text file of the project, with its path from the root.
pub(crate) struct Text {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Everything, with all findings in one message.
pub(crate) fn check() -> Result<()> {
    verdict("documents and sources", &findings(&root())?)
}

/// All findings in the project below `root`.
pub(crate) fn findings(root: &Path) -> Result<Vec<String>> {
    let documents = texts(root, "md")?;
    let sources = texts(root, "rs")?;
    let mut findings = Vec::new();
    for source in &sources {
        findings.extend(sources::findings(source));
        findings.extend(links::named_paths(root, &source.path, &sources::opening(&source.text)));
    }
    for document in &documents {
        findings.extend(links::findings(root, document, &documents));
        findings.extend(links::named_paths(root, &document.path, &links::prose(&document.text)));
    }
    match documents.iter().find(|document| document.path == promises::FILE) {
        Some(document) => findings.extend(promises::findings(document, &sources)),
        None => findings.push(format!("{}: is missing", promises::FILE)),
    }
    Ok(findings)
}

/// The files with that ending, sorted by path.
pub(crate) fn texts(root: &Path, ending: &str) -> Result<Vec<Text>> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let kind = entry.file_type()?;
            if kind.is_dir() {
                let built = name == BUILT && folder == root;
                if !built && !NOT_OURS.contains(&name.as_str()) {
                    folders.push(entry.path());
                }
            } else if kind.is_file() && entry.path().extension().is_some_and(|seen| seen == ending) {
                found.push(read(root, entry.path())?);
            }
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}

fn read(root: &Path, path: PathBuf) -> Result<Text> {
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let path = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
    Ok(Text { path, text })
}
