//! `cargo xtask deps`: the directions of the architecture, checked on what cargo itself resolves.
//!
//! Four questions: does each crate name only crates below it; does no crate reach what it must never reach; is there
//! one TLS provider; may only the child crate hold unsafe code. A fifth keeps builds short: a binary built alone
//! must want the same features of each dependency as the whole workspace, or it would be compiled twice.
//!
//! Never looks at a build: everything comes from the manifests and from `cargo tree`.

mod manifest;
mod tree;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};

use crate::stage::{root, verdict};

use tree::Tree;

/// Each crate of ours with the crates of ours that it may name. A crate that is not in this table is a finding.
pub(crate) const MAY_NAME: &[(&str, &[&str])] = &[
    ("noderelay-pki", &[]),
    ("noderelay-child", &[]),
    ("noderelay-proto", &["noderelay-pki"]),
    ("noderelay-bundle", &["noderelay-pki"]),
    ("noderelay-policy", &["noderelay-pki"]),
    ("noderelay-audit-event", &["noderelay-pki"]),
    ("noderelay-audit", &["noderelay-audit-event", "noderelay-pki"]),
    ("noderelay-link", &["noderelay-proto", "noderelay-pki"]),
    ("noderelay-service", &["noderelay-proto", "noderelay-pki"]),
    (
        "noderelay-holder",
        &["noderelay-proto", "noderelay-audit", "noderelay-child", "noderelay-pki"],
    ),
    (
        "noderelay-relay",
        &[
            "noderelay-proto",
            "noderelay-link",
            "noderelay-service",
            "noderelay-bundle",
            "noderelay-audit-event",
            "noderelay-pki",
        ],
    ),
    (
        "noderelay-client",
        &[
            "noderelay-proto",
            "noderelay-link",
            "noderelay-bundle",
            "noderelay-policy",
            "noderelay-audit",
            "noderelay-audit-event",
            "noderelay-pki",
        ],
    ),
    (
        "noderelay-agent",
        &[
            "noderelay-proto",
            "noderelay-link",
            "noderelay-service",
            "noderelay-bundle",
            "noderelay-policy",
            "noderelay-audit",
            "noderelay-audit-event",
            "noderelay-holder",
            "noderelay-child",
            "noderelay-pki",
        ],
    ),
    ("noderelay", ANYTHING),
    ("netsim-tests", ANYTHING),
    ("xtask", &[]),
];

/// The two crates at the top may name every crate below.
const ANYTHING: &[&str] = &["*"];

/// What a crate must never reach, however far down, and why.
pub(crate) const NEVER: &[(&str, &[&str], &str)] = &[
    (
        "noderelay-proto",
        &["tokio", "quinn", "quinn-proto"],
        "the protocol is bytes only: no runtime, no sockets",
    ),
    (
        "noderelay-policy",
        &["tokio", "kube", "kube-client", "quinn", "quinn-proto"],
        "the decision is pure",
    ),
    (
        "noderelay-relay",
        &[
            "noderelay-policy",
            "cedar-policy",
            "noderelay-audit",
            "age",
            "noderelay-agent",
            "noderelay-holder",
            "noderelay-child",
        ],
        "a relay carries bytes: it decides nothing and opens no recording",
    ),
    (
        "noderelay-client",
        &[
            "noderelay-agent",
            "noderelay-holder",
            "noderelay-child",
            "noderelay-relay",
        ],
        "the client library holds nothing that only a node needs",
    ),
    (
        "noderelay-holder",
        &["kube", "kube-client", "quinn", "quinn-proto"],
        "a session outlives network and API server",
    ),
    (
        "noderelay-child",
        &["tokio", "kube", "kube-client", "quinn"],
        "what becomes the shell is small and has no runtime",
    ),
    (
        "noderelay-audit",
        &["kube", "kube-client", "quinn", "quinn-proto"],
        "recording needs no network",
    ),
];

/// A second TLS or crypto stack: never in what is built.
pub(crate) const FOREIGN_CRYPTO: &[&str] = &[
    "ring",
    "openssl",
    "openssl-sys",
    "native-tls",
    "boring",
    "boring-sys",
    "josekit",
    "schannel",
    "security-framework",
];

/// The crate that becomes the shell.
const MAY_BE_UNSAFE: &str = "noderelay-child";

/// Everything, with all findings in one message.
pub(crate) fn check() -> Result<()> {
    let mut findings = directions()?;
    findings.extend(reach()?);
    findings.extend(one_provider()?);
    findings.extend(unsafe_code()?);
    findings.extend(features_agree()?);
    verdict("dependency directions", &findings)
}

/// Each manifest names only crates below it.
pub(crate) fn directions() -> Result<Vec<String>> {
    let mut findings = Vec::new();
    let members = manifest::who_names_whom()?;
    for (name, named) in &members {
        let Some((_, allowed)) = MAY_NAME.iter().find(|(known, _)| known == name) else {
            findings.push(format!(
                "{name}: is not in the table of layers (xtask/src/deps.rs): say there what it may name"
            ));
            continue;
        };
        for other in named {
            if *allowed != ANYTHING && !allowed.contains(&other.as_str()) {
                findings.push(format!(
                    "{name}: names {other}, but may name only [{}]",
                    allowed.join(", ")
                ));
            }
        }
    }
    for (known, _) in MAY_NAME {
        if !members.contains_key(*known) {
            findings.push(format!("{known}: is in the table of layers but not in the workspace"));
        }
    }
    Ok(findings)
}

/// No crate reaches what it must never reach.
pub(crate) fn reach() -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for (package, never, reason) in NEVER {
        let tree = Tree::of(package)?;
        for banned in *never {
            if let Some(way) = tree.way_to(banned) {
                findings.push(format!(
                    "{package}: must never reach {banned} ({reason}), but does: {}",
                    way.join(" → ")
                ));
            }
        }
    }
    Ok(findings)
}

/// One TLS provider for the whole workspace, tests included.
pub(crate) fn one_provider() -> Result<Vec<String>> {
    let tree = Tree::of_everything()?;
    let found = FOREIGN_CRYPTO
        .iter()
        .filter_map(|banned| Some((banned, tree.way_to(banned)?)));
    Ok(found
        .map(|(banned, way)| {
            let way = way.join(" → ");
            format!("{banned} is brought in by {way}: the only TLS provider is aws-lc-rs (switch default features off)")
        })
        .collect())
}

/// Unsafe code is forbidden by the workspace, and only the child crate may decide otherwise.
pub(crate) fn unsafe_code() -> Result<Vec<String>> {
    let mut findings = Vec::new();
    let whole = std::fs::read_to_string(root().join("Cargo.toml")).context("cannot read Cargo.toml")?;
    if manifest::value(&whole, "workspace.lints.rust", "unsafe_code") != Some("\"forbid\"") {
        findings.push("Cargo.toml: [workspace.lints.rust] must say unsafe_code = \"forbid\"".to_owned());
    }
    for member in manifest::members()? {
        findings.extend(manifest::unsafe_finding(
            &member.name,
            &member.text,
            member.name == MAY_BE_UNSAFE,
        ));
    }
    Ok(findings)
}

/// A binary built alone wants the same features as the workspace as a whole.
pub(crate) fn features_agree() -> Result<Vec<String>> {
    let whole = tree::features(&["--workspace", "-e", "normal,build,dev"])?;
    let mut findings = Vec::new();
    for package in ["noderelay", "xtask"] {
        findings.extend(differences(
            package,
            &tree::features(&["-p", package, "-e", "normal,build"])?,
            &whole,
        ));
    }
    Ok(findings)
}

/// Findings for the dependencies whose features differ between a package alone and everything together.
fn differences(
    package: &str,
    alone: &BTreeMap<String, BTreeSet<String>>,
    whole: &BTreeMap<String, BTreeSet<String>>,
) -> Vec<String> {
    let mut findings = Vec::new();
    for (dependency, wanted) in alone {
        let Some(together) = whole.get(dependency) else {
            continue;
        };
        for features in wanted.difference(together) {
            let others = together
                .iter()
                .map(|set| format!("[{set}]"))
                .collect::<Vec<_>>()
                .join(" ");
            findings.push(format!(
                "{dependency} would be compiled twice: {package} alone wants [{features}], the workspace {others}; \
                 put the union of the features into [workspace.dependencies]"
            ));
        }
    }
    findings
}
