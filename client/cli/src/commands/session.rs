//! A session: the command line becomes options, the library does the rest.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Result;
use noderelay_client::session::{PathChoice, SessionOptions, run_session};
use noderelay_client::{WantTerminal, Work};
use noderelay_pki::name::ClusterName;

use crate::args::{Global, PathArg, SessionArgs};
use crate::out;

/// Runs `noderelay NODE`.
pub async fn run(args: SessionArgs, global: &Global) -> Result<u8> {
    if let [only] = &args.argv[..]
        && only.to_string_lossy().contains(' ')
    {
        out::say("the command is one word with spaces in it; for a line of shell use -c 'LINE'");
    }
    let path = match (args.via_relay, args.path) {
        (true, _) | (_, Some(PathArg::Relay)) => PathChoice::Relay,
        (_, Some(PathArg::Auto)) => PathChoice::Auto,
        (_, Some(PathArg::Direct)) => PathChoice::Direct,
        (_, None | Some(PathArg::Api)) => PathChoice::Api,
    };
    let options = SessionOptions {
        config: global.config.clone().into(),
        cluster: args.cluster.as_deref().map(ClusterName::parse).transpose()?,
        work: work(args.line, args.argv),
        terminal: match (args.tty, args.no_tty) {
            (true, _) => WantTerminal::Force,
            (_, true) => WantTerminal::Never,
            _ => WantTerminal::Auto,
        },
        reason: args.reason,
        profile: args.profile,
        relays: args.relays,
        local_user: args.login,
        status: args.status,
        quiet: global.quiet,
        verbose: global.verbose > 0,
        path,
        ..SessionOptions::shell(args.node)
    };
    Ok(run_session(options).await.exit_code())
}

/// The demo's session.
#[cfg(feature = "demo")]
pub async fn demo(config: PathBuf, argv: Vec<OsString>, global: &Global) -> u8 {
    let options = SessionOptions {
        config: Some(config).into(),
        work: work(None, argv),
        quiet: global.quiet,
        verbose: global.verbose > 0,
        ..SessionOptions::shell("local")
    };
    run_session(options).await.exit_code()
}

fn work(line: Option<OsString>, argv: Vec<OsString>) -> Work {
    match line {
        Some(line) => Work::Line(line),
        None if argv.is_empty() => Work::Shell,
        None => Work::Exec(argv),
    }
}
