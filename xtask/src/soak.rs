//! `cargo xtask soak`: everything at once for long, and the tests whose waits are of their true length.
//!
//! Those tests are marked `#[ignore = "soak: WHY"]`; they are found in the sources by that mark, as the test harness knows nothing
//! of reasons. Built and run in the profile of the tests.

use std::process::Command;

use anyhow::{Result, bail};

use crate::docs::texts;
use crate::stage::{Stages, binaries, cargo, root, run};

/// How such a test is marked.
const MARK: &str = "#[ignore = \"soak: ";

pub(crate) fn run_all(words: &[&str]) -> Result<()> {
    let (mut load, mut written) = ("1h", true);
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        match (*word, rest.clone().next()) {
            ("--for", Some(time)) => {
                load = time;
                rest.next();
            }
            ("--dry-run", _) => written = false,
            _ => bail!("soak does not know {word}; it knows --for TIME and --dry-run"),
        }
    }
    let tests = marked(&root())?;
    let mut stages = Stages::default();
    stages.add("build", || {
        run(cargo().args(["build", "--release", "--locked", "--workspace", "--all-targets"]))
    });
    stages.finish()?;
    let mut stages = Stages::default();
    stages.add("everything at once", || {
        let mut command = Command::new(binaries().join("soak"));
        command.current_dir(root()).args(["--for", load]);
        if written {
            command.arg("--report").arg(root().join("docs/benchmarks.md"));
        }
        run(&mut command)
    });
    if !tests.is_empty() {
        stages.add("waits of true length", || {
            let mut command = cargo();
            command.args(["test", "--release", "--locked", "--workspace", "--", "--ignored"]);
            run(command.args(&tests))
        });
    }
    stages.finish()
}

/// The names of the tests that bear the mark.
fn marked(root: &std::path::Path) -> Result<Vec<String>> {
    Ok(texts(root, "rs")?
        .iter()
        .flat_map(|source| names(&source.text))
        .collect())
}

/// The functions below such a mark.
fn names(source: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut lines = source.lines();
    while lines.by_ref().any(|line| line.trim_start().starts_with(MARK)) {
        let name = lines
            .by_ref()
            .find_map(|line| line.split_once("fn ")?.1.split(['(', '<']).next());
        names.extend(name.map(str::to_owned));
    }
    names
}

#[cfg(test)]
mod tests;
