//! One function per command; each calls a library and gives an exit code.
//!
//! Sessions give the remote command's code, and 255 for every failure of ours, also of one before the session. Other
//! commands: 0 good, 1 a finding or a failure, 2 usage (clap's), 141 nobody reads the output any more.

mod key;
mod look;
mod pki;
mod policy;
pub mod session;
mod warm;

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::CommandFactory as _;
use noderelay_client::config::Config;
use noderelay_pki::text::{chain, escape, shown_yaml};

use crate::args::{Cli, Command, Global};
use crate::out;

/// Runs the command.
pub fn run(cli: Cli) -> ExitCode {
    execute(cli).unwrap_or_else(|error| failed(&error, 1))
}

/// Says what failed, once, and gives the exit code: `code`, or the one of a reader that went away, of which nothing is said.
pub fn failed(error: &anyhow::Error, code: u8) -> ExitCode {
    if error.is::<out::NobodyReads>() {
        return out::NOBODY_READS.into();
    }
    out::say(&chain(&**error));
    code.into()
}

fn execute(cli: Cli) -> Result<ExitCode> {
    let global = cli.global;
    if !is_internal(&cli.command) {
        crate::logs::init(global.verbose);
    }
    match cli.command {
        #[cfg(feature = "demo")]
        Command::Internal(command) => return crate::demo::internal(command),
        Command::Completion(args) => {
            let mut script = Vec::new();
            clap_complete::generate(args.shell, &mut Cli::command(), "noderelay", &mut script);
            out::bytes(&script)?;
        }
        Command::Key(command) => key::run(command)?,
        Command::Pki(command) => pki::run(command)?,
        Command::CheckConfig => {
            let config = config(&global)?;
            let file = escape(&config.file.to_string_lossy(), 300);
            let json = serde_json::to_string_pretty(&config)?;
            let yaml = shown_yaml(serde_saphyr::to_string(&config)?, || json);
            out::text(&format!("# {file}\n{yaml}"))?;
        }
        Command::Policy(command) => return one_thread()?.block_on(policy::run(command)),
        Command::Shell(args) => return Ok(session::run(args, &global).into()),
        #[cfg(feature = "demo")]
        Command::Demo(args) => return demo(args, &global),
        Command::Warm(args) => return warm::run(args, &config(&global)?),
        Command::Doctor(args) => return one_thread()?.block_on(look::doctor(args, &config(&global)?)),
        Command::Whoami(args) => return one_thread()?.block_on(look::whoami(args.output, &config(&global)?)),
        Command::Replay(args) => one_thread()?.block_on(look::replay(args, global.quiet))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// With `--up` a service like any other; else a session, whose failures are 255.
#[cfg(feature = "demo")]
fn demo(args: crate::args::DemoArgs, global: &Global) -> Result<ExitCode> {
    let is_session = args.up.is_none();
    let code = all_cores().and_then(|runtime| runtime.block_on(crate::demo::run(args, global)));
    match code {
        Err(error) if is_session => Ok(failed(&error, noderelay_client::exit::FAILED)),
        code => Ok(code?.into()),
    }
}

#[cfg(feature = "demo")]
fn is_internal(command: &Command) -> bool {
    matches!(command, Command::Internal(_)) || is_detached(command)
}

#[cfg(not(feature = "demo"))]
fn is_internal(command: &Command) -> bool {
    is_detached(command)
}

/// The warm process in the background, which has a log of its own.
fn is_detached(command: &Command) -> bool {
    matches!(command, Command::Warm(args) if args.detached)
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
