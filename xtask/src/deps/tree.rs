//! What `cargo tree` says: which crates a package reaches, and by which way.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use crate::stage::{cargo, output};

/// One package's dependencies, in the order in which cargo prints them: depth and name.
pub(crate) struct Tree {
    lines: Vec<(usize, String)>,
}

impl Tree {
    /// What is compiled into the package.
    pub(crate) fn of(package: &str) -> Result<Tree> {
        Tree::asked(&["-p", package, "-e", "normal,build"])
    }

    /// What the whole workspace compiles, tests included: one root after the other.
    pub(crate) fn of_everything() -> Result<Tree> {
        Tree::asked(&["--workspace", "-e", "normal,build,dev"])
    }

    /// The first way from the package to the crate of that name, both ends included.
    pub(crate) fn way_to(&self, name: &str) -> Option<Vec<String>> {
        let mut way: Vec<String> = Vec::new();
        for (depth, seen) in &self.lines {
            way.truncate(*depth);
            way.push(seen.clone());
            if seen == name && *depth > 0 {
                return Some(way);
            }
        }
        None
    }

    /// Reads lines of the form `2quinn v0.11.12 (*)`.
    pub(crate) fn parse(text: &str) -> Tree {
        let lines = text
            .lines()
            .filter_map(|line| {
                let digits = line.chars().take_while(char::is_ascii_digit).count();
                let (depth, rest) = line.split_at_checked(digits)?;
                let name = rest.split_whitespace().next()?;
                Some((depth.parse().ok()?, name.to_owned()))
            })
            .collect();
        Tree { lines }
    }

    fn asked(scope: &[&str]) -> Result<Tree> {
        Ok(Tree::parse(&output(
            cargo().args(["tree", "--locked", "--prefix", "depth"]).args(scope),
        )?))
    }
}

/// Each dependency (`name vVERSION`) with the sets of features in which it is built.
pub(crate) fn features(scope: &[&str]) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let text = output(
        cargo()
            .args(["tree", "--locked", "--prefix", "none", "-f", "{p}|{f}"])
            .args(scope),
    )?;
    Ok(parse_features(&text))
}

/// Reads lines of the form `nix v0.32.0|fs,user (*)`.
pub(crate) fn parse_features(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in text.lines() {
        let Some((package, features)) = line.trim_end_matches(" (*)").split_once('|') else {
            continue;
        };
        found
            .entry(package.to_owned())
            .or_default()
            .insert(features.trim().to_owned());
    }
    found
}
