//! A session: the command line becomes options, the library does the rest.

use std::ffi::OsString;
#[cfg(feature = "demo")]
use std::path::PathBuf;

use noderelay_client::faults::Fault;
use noderelay_client::session::{PathChoice, SessionOptions, not_begun, run_session};
use noderelay_client::{WantTerminal, Work};
use noderelay_pki::name::ClusterName;
use noderelay_pki::text::chain;
use noderelay_proto::code::{Code, Origin};

use crate::args::{Global, PathArg, SessionArgs};
use crate::out;

/// Runs `noderelay NODE`. Whatever fails is told, written to `--status`, and 255.
pub fn run(args: SessionArgs, global: &Global) -> u8 {
    if let [only] = &args.argv[..]
        && only.to_string_lossy().contains(' ')
    {
        out::say("the command is one word with spaces in it; for a line of shell use -c 'LINE'");
    }
    let cluster = args.cluster.as_deref().map(ClusterName::parse).transpose();
    let mut options = options(args, global);
    let outcome = match (cluster, super::one_thread()) {
        (Ok(cluster), Ok(runtime)) => {
            options.cluster = cluster;
            runtime.block_on(run_session(options))
        }
        (Err(error), _) => {
            let fault = Fault::new(Code::ClientUsage, Origin::Client, format!("--cluster: {error}"));
            not_begun(&options, &fault)
        }
        (_, Err(error)) => {
            let fault = Fault::new(Code::ClientInternal, Origin::Client, chain(&*error));
            not_begun(&options, &fault)
        }
    };
    outcome.exit_code()
}

/// What was typed, but for the cluster.
fn options(args: SessionArgs, global: &Global) -> SessionOptions {
    let path = match (args.via_relay, args.path) {
        (true, _) | (_, Some(PathArg::Relay)) => PathChoice::Relay,
        (_, Some(PathArg::Auto)) => PathChoice::Auto,
        (_, Some(PathArg::Direct)) => PathChoice::Direct,
        (_, None | Some(PathArg::Api)) => PathChoice::Api,
    };
    SessionOptions {
        config: global.config.clone().into(),
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
        warm: !args.no_warm,
        path,
        ..SessionOptions::shell(args.node)
    }
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
