//! What the manifests say: the members, whom they name, and their lint settings.
//!
//! Reads the few forms of TOML that manifests here use; a general reader would make every first `cargo xtask` slower.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};

use crate::stage::root;

/// A member of the workspace.
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// Every member, as the root manifest lists them.
pub(crate) fn members() -> Result<Vec<Member>> {
    let whole = std::fs::read_to_string(root().join("Cargo.toml")).context("cannot read Cargo.toml")?;
    listed(&whole)
        .into_iter()
        .map(|folder| {
            let path = root().join(&folder).join("Cargo.toml");
            let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let name = value(&text, "package", "name").with_context(|| format!("{} has no name", path.display()))?;
            Ok(Member {
                name: name.trim_matches('"').to_owned(),
                text,
            })
        })
        .collect()
}

/// Every member with the members that its manifest names, dev and build dependencies included.
pub(crate) fn who_names_whom() -> Result<BTreeMap<String, BTreeSet<String>>> {
    let members = members()?;
    let ours: BTreeSet<&str> = members.iter().map(|member| member.name.as_str()).collect();
    let named = |member: &Member| {
        named(&member.text)
            .into_iter()
            .filter(|other| ours.contains(other.as_str()))
            .collect::<BTreeSet<_>>()
    };
    Ok(members
        .iter()
        .map(|member| (member.name.clone(), named(member)))
        .collect())
}

/// The crates that a manifest names in any of its dependency sections, under their real names.
pub(crate) fn named(manifest: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut inside = false;
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            let section = line.trim_matches(['[', ']']);
            inside = section.ends_with("dependencies");
            if let Some((_, name)) = section.rsplit_once("dependencies.") {
                found.insert(name.trim_matches('"').to_owned());
            }
        } else if inside && let Some((key, rest)) = line.split_once('=') {
            let name = key.split('.').next().unwrap_or(key).trim().trim_matches('"');
            let renamed = rest
                .split_once("package = \"")
                .and_then(|(_, after)| after.split('"').next());
            found.insert(renamed.unwrap_or(name).to_owned());
        }
    }
    found
}

/// The folders in the root manifest's list of members.
fn listed(manifest: &str) -> Vec<String> {
    let after = manifest.split_once("members = [").map_or("", |(_, after)| after);
    let list = after.split(']').next().unwrap_or("");
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The value of a key in a section of a manifest, as it is written there.
pub(crate) fn value<'a>(manifest: &'a str, section: &str, key: &str) -> Option<&'a str> {
    let mut inside = false;
    for line in manifest
        .lines()
        .map(|line| line.split(" #").next().unwrap_or(line).trim())
    {
        if line.starts_with('[') {
            inside = line.trim_matches(['[', ']']) == section;
        } else if inside
            && let Some((name, value)) = line.split_once('=')
            && name.trim() == key
        {
            return Some(value.trim());
        }
    }
    None
}

/// What is wrong with a member's setting for unsafe code.
pub(crate) fn unsafe_finding(name: &str, manifest: &str, exempt: bool) -> Option<String> {
    let inherits = value(manifest, "lints", "workspace") == Some("true");
    let own = value(manifest, "lints.rust", "unsafe_code");
    match (inherits, own) {
        (true, None) => None,
        (_, Some("\"forbid\"")) => None,
        _ if exempt => {
            let documented = value(manifest, "lints.clippy", "undocumented_unsafe_blocks");
            (!matches!(documented, Some("\"deny\"" | "\"forbid\""))).then(|| {
                format!("{name}: holds unsafe code, so [lints.clippy] must say undocumented_unsafe_blocks = \"deny\"")
            })
        }
        _ => Some(format!(
            "{name}: only noderelay-child may hold unsafe code; write [lints] workspace = true"
        )),
    }
}
