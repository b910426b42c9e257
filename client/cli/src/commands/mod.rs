//! One function per command; each calls a library and gives an exit code.
//!
//! Sessions give the remote command's code or 255. Other commands: 0 good, 1 a finding, 2 usage (clap's).

mod key;
mod look;
mod pki;
mod policy;
pub mod session;

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::CommandFactory as _;
use noderelay_client::config::Config;

use crate::args::{Cli, Command, Global};
use crate::out;

/// Runs the command.
pub fn run(cli: Cli) -> ExitCode {
    match execute(cli) {
        Ok(code) => code,
        Err(error) => {
            out::say(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn execute(cli: Cli) -> Result<ExitCode> {
    let global = cli.global;
    match cli.command {
        #[cfg(feature = "demo")]
        Command::Internal(command) => return crate::demo::internal(command),
        Command::Completion(args) => {
            clap_complete::generate(args.shell, &mut Cli::command(), "noderelay", &mut std::io::stdout());
        }
        Command::Key(command) => key::run(command)?,
        Command::Pki(command) => pki::run(command)?,
        Command::CheckConfig => out::text(&serde_saphyr::to_string(&config(&global)?)?),
        Command::Policy(command) => one_thread()?.block_on(policy::run(command))?,
        Command::Shell(args) => return Ok(one_thread()?.block_on(session::run(args, &global))?.into()),
        #[cfg(feature = "demo")]
        Command::Demo(args) => return Ok(all_cores()?.block_on(crate::demo::run(args, &global))?.into()),
        Command::Doctor(args) => return one_thread()?.block_on(look::doctor(args, &config(&global)?)),
        Command::Whoami(args) => return one_thread()?.block_on(look::whoami(args.output, &config(&global)?)),
        Command::Replay(args) => one_thread()?.block_on(look::replay(args, global.quiet))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The client's configuration, from where it is looked for.
fn config(global: &Global) -> Result<Config> {
    Ok(Config::find(global.config.as_deref())?)
}

/// A session is one flow of bytes: a single thread has the least delay and the fastest start.
fn one_thread() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the runtime can't start")
}

#[cfg(feature = "demo")]
fn all_cores() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("the runtime can't start")
}
