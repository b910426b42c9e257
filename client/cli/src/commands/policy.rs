//! `noderelay policy`: the policy repository, its signatures, its publication. The very crates that the agent uses.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use jiff::Timestamp;
use noderelay_bundle::author::{self, Draft};
use noderelay_bundle::signing::SigningKey;
use noderelay_bundle::{Publication, Role};
use serde::Serialize;

use crate::args::{Output, PolicyCommand, SignRole};
use crate::out;

mod diff;
mod explain;
mod init;
mod lint;
mod source;
mod test;

use source::Source;

/// Runs one of the commands.
pub async fn run(command: PolicyCommand) -> Result<ExitCode> {
    let now = Timestamp::now();
    match command {
        PolicyCommand::Explain(args) => return explain::run(args, now).await,
        PolicyCommand::Test(args) => return test::run(args, now),
        PolicyCommand::Lint(args) => return lint::run(args, now).await,
        PolicyCommand::Diff(args) => diff::run(args).await?,
        PolicyCommand::Init(args) => init::run(args)?,
        PolicyCommand::Sign { dir, key, role } => {
            let role = match role {
                SignRole::Root => Role::Root,
                SignRole::Targets => Role::Targets,
            };
            check_policies(&dir)?;
            signed(&author::sign(&dir, &SigningKey::load(&key)?, role, now)?)?;
        }
        PolicyCommand::Publish { dir, key, to } => {
            check_policies(&dir)?;
            let publication = author::publish(&dir, &to, &SigningKey::load(&key)?, now).await?;
            out::line(&format!(
                "policy version {} published to {}",
                publication.policy_version(),
                to.display()
            ))?;
        }
        PolicyCommand::Verify {
            publication,
            root,
            output,
        } => {
            let publication = source::publication(&publication, root.as_deref()).await?;
            noderelay_client::bundle::policy(&publication)?;
            verified(&publication, now, output.output)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What a finding makes of the exit code.
fn code(good: bool) -> ExitCode {
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What a signer or the pipeline would put its name under is read as a node reads it first.
fn check_policies(dir: &Path) -> Result<()> {
    Source::repository(dir)?.policy()?;
    Ok(())
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
