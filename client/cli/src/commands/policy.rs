//! `noderelay policy`: the policy repository, its signatures, its publication. The very crates that the agent uses.

use std::path::Path;

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use noderelay_bundle::author::{self, Draft};
use noderelay_bundle::signing::SigningKey;
use noderelay_bundle::{Publication, Role};
use noderelay_pki::files;
use noderelay_policy::PolicySet;
use serde::Serialize;

use crate::args::{Output, PolicyCommand, SignRole};
use crate::out;

mod init;

/// Largest root.
const MAX_ROOT: usize = 1024 * 1024;

/// Runs one of the commands.
pub async fn run(command: PolicyCommand) -> Result<()> {
    let now = Timestamp::now();
    match command {
        PolicyCommand::Init(args) => init::run(args),
        PolicyCommand::Sign { dir, key, role } => {
            let role = match role {
                SignRole::Root => Role::Root,
                SignRole::Targets => Role::Targets,
            };
            check_policies(&dir)?;
            signed(&author::sign(&dir, &SigningKey::load(&key)?, role, now)?)
        }
        PolicyCommand::Publish { dir, key, to } => {
            check_policies(&dir)?;
            let publication = author::publish(&dir, &to, &SigningKey::load(&key)?, now).await?;
            out::line(&format!(
                "policy version {} published to {}",
                publication.policy_version(),
                to.display()
            ))
        }
        PolicyCommand::Verify {
            publication,
            root,
            output,
        } => {
            let root = root.unwrap_or_else(|| publication.join("metadata/1.root.json"));
            let root = files::read_bounded(&root, MAX_ROOT)?;
            let publication = author::verify(&publication, &root).await?;
            parse(&publication)?;
            verified(&publication, now, output.output)
        }
    }
}

/// What a signer or the pipeline would put its name under is read as a node reads it first.
fn check_policies(dir: &Path) -> Result<()> {
    let mut policies = Vec::new();
    let folder = dir.join("policies");
    for entry in std::fs::read_dir(&folder).with_context(|| format!("folder {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.ends_with(".cedar") {
            policies.push((name, files::read_bounded(&path, MAX_ROOT)?));
        }
    }
    let rules = files::read_bounded(&dir.join("nodes.yaml"), MAX_ROOT)?;
    PolicySet::parse(0, policies, &rules)?;
    Ok(())
}

fn parse(publication: &Publication) -> Result<PolicySet> {
    Ok(noderelay_client::bundle::policy(publication)?)
}

fn signed(draft: &Draft) -> Result<()> {
    let mut told = format!(
        "{} version {}: {} signed\n",
        draft.role,
        draft.version,
        draft.signed_by.len()
    );
    if draft.signed_by.len() as u64 >= draft.threshold {
        told.push_str("enough signatures\n");
    } else {
        told.push_str(&format!("{} needed; these keys can still sign:\n", draft.threshold));
        for key in &draft.missing {
            told.push_str(&format!("  {key}\n"));
        }
    }
    out::text(&told)
}

#[derive(Serialize)]
struct Facts {
    policy_version: u64,
    root: String,
    freshness: String,
    demo: bool,
    clusters: Vec<String>,
}

fn verified(publication: &Publication, now: Timestamp, output: Output) -> Result<()> {
    let facts = Facts {
        policy_version: publication.policy_version(),
        root: publication.root_fingerprint().to_owned(),
        freshness: publication.freshness(now).code().to_owned(),
        demo: publication.demo(),
        clusters: publication
            .fleet()
            .clusters
            .iter()
            .map(|c| c.name.to_string())
            .collect(),
    };
    match output {
        Output::Json => out::json(&facts),
        Output::Table => out::line(&format!(
            "policy version {} ({}), clusters {}, root {}",
            facts.policy_version,
            facts.freshness,
            facts.clusters.join(", "),
            facts.root
        )),
    }
}
