//! Commands that look at something and change nothing: `doctor`, `whoami`, `replay`.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use noderelay_client::config::Config;
use noderelay_client::doctor::DoctorOptions;
use noderelay_client::replay::{ReplayError, ReplayOptions};
use noderelay_client::whoami::Whoami;
use noderelay_pki::name::ClusterName;

use crate::args::{DoctorArgs, Output, ReplayArgs};
use crate::out;

/// The four parts; 1 when one fails.
pub async fn doctor(args: DoctorArgs, config: &Config) -> Result<ExitCode> {
    let options = DoctorOptions {
        node: args.node,
        cluster: args.cluster.as_deref().map(ClusterName::parse).transpose()?,
        ..DoctorOptions::default()
    };
    let report = noderelay_client::doctor::doctor(config, &options, Timestamp::now()).await;
    show(&report, args.output.output)?;
    Ok(report.exit_code().into())
}

/// Who I am; 1 when the fleet would refuse me.
pub async fn whoami(output: Output, config: &Config) -> Result<ExitCode> {
    let me = Whoami::look(config, Timestamp::now()).await?;
    show(&me, output)?;
    Ok(me.exit_code().into())
}

/// Plays a recording.
pub async fn replay(args: ReplayArgs, quiet: bool) -> Result<()> {
    let options = ReplayOptions {
        speed: if args.no_wait { 0.0 } else { args.speed },
        idle: args.idle,
        terminal: std::io::stdout().is_terminal(),
        quiet,
    };
    let (mut stdout, mut stderr) = (std::io::stdout(), std::io::stderr());
    match noderelay_client::replay::replay(&args.file, options, &mut stdout, &mut stderr).await {
        Err(ReplayError::Output(error)) => out::written(Err(error)),
        other => other.with_context(|| args.file.display().to_string()),
    }
}

pub fn show<T: std::fmt::Display + serde::Serialize>(what: &T, output: Output) -> Result<()> {
    match output {
        Output::Table => out::text(&what.to_string()),
        Output::Json => out::json(what),
    }
}
