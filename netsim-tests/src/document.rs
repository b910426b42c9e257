//! The document of benchmarks: where figures come from, and the section between two marks that a run replaces.
//!
//! Never touches anything outside of the marks.

use std::fmt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

/// Where the figures come from.
pub struct Machine {
    day: String,
    commit: String,
    processors: String,
    kernel: String,
    load: String,
}

impl Machine {
    pub fn look() -> Machine {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let cpu = read("/proc/cpuinfo");
        let model = cpu
            .lines()
            .find_map(|line| line.strip_prefix("model name"))
            .unwrap_or("unknown processor");
        let count = std::thread::available_parallelism().map_or(0, usize::from);
        Machine {
            day: jiff::Timestamp::now().strftime("%F").to_string(),
            commit: git(&["rev-parse", "--short", "HEAD"]),
            processors: format!("{count} × {}", model.trim_start_matches([' ', '\t', ':'])),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            load: read("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned(),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine {
            day,
            commit,
            processors,
            kernel,
            load,
        } = self;
        write!(
            out,
            "{day}, commit {commit}, {processors}, Linux {kernel}, load at the start {load}"
        )
    }
}

/// Puts the text between the two marks of this name.
pub fn replace_section(path: &Path, mark: &str, text: &str) -> Result<()> {
    let document = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let replaced = replaced(&document, mark, text)
        .with_context(|| format!("{} has no section between {:?}", path.display(), marks(mark)))?;
    std::fs::write(path, replaced).with_context(|| format!("cannot write {}", path.display()))
}

/// The document with another text between the marks.
pub fn replaced(document: &str, mark: &str, text: &str) -> Option<String> {
    let [begin, end] = marks(mark);
    let (before, rest) = document.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}\n\n{}\n\n{end}{after}", text.trim()))
}

fn marks(name: &str) -> [String; 2] {
    ["begin", "end"].map(|which| format!("<!-- {name}: {which} -->"))
}

fn git(words: &[&str]) -> String {
    let output = Command::new("git")
        .args(words)
        .output()
        .ok()
        .filter(|output| output.status.success());
    output.map_or_else(
        || "unknown".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}
