//! `noderelay policy diff OLD NEW`: who gains, who loses, whose obligations change. Answers are compared, not texts.
//!
//! Never: a line about what nobody would notice.

use anyhow::Result;
use noderelay_policy::diff::{Change, Grant, Kind, diff};
use serde::Serialize;

use super::source::Source;
use crate::args::{DiffArgs, Output};
use crate::out;

#[derive(Serialize)]
struct Answer {
    questions: u64,
    changes: Vec<Change>,
}

/// Compares two policies.
pub(super) async fn run(args: DiffArgs) -> Result<()> {
    let (old, new) = (Source::load(&args.old).await?, Source::load(&args.new).await?);
    let (one, other) = (old.policy()?, new.policy()?);
    let diffed = diff((&one, &old.declared()?), (&other, &new.declared()?))?;
    match args.output.output {
        Output::Json => out::json(&Answer {
            questions: diffed.questions,
            changes: diffed.changes,
        }),
        Output::Table if diffed.changes.is_empty() => out::line("no change in who may do what"),
        Output::Table => out::text(&diffed.changes.iter().map(lines).collect::<String>()),
    }
}

fn lines(change: &Change) -> String {
    let how = match change.change {
        Kind::Gains => "gains",
        Kind::Loses => "loses",
        Kind::Changes => "changes",
    };
    let grant = match change.grant {
        Grant::Without => ", without a grant",
        Grant::With => ", with a grant",
        Grant::Either => "",
    };
    format!(
        "{how:<8} {}: {} on {}, profile {}{grant}\n         from {}\n         to   {}\n",
        change.who,
        change.actions.join(", "),
        change.nodes,
        change.profiles.join(" or "),
        change.from,
        change.to
    )
}
