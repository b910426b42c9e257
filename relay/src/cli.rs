//! The command line of `noderelay-relay`: parses, sets up the log, runs [`crate::app::run`], turns signals into a stop.
//!
//! On stdout it says one line, `ready ADDRESS`, once it serves; the log goes to stderr. Exit codes: 0 stopped in order, 1 failed, 2 wrong usage (by `clap`).
//!
//! Never: decides anything else, or waits for somebody to read what it says.

use std::ffi::OsString;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use noderelay_pki::text;
use noderelay_service::{Log, LogFormat};

use crate::config::Config;

/// The relay of NodeRelay: carries bytes between clients and agents, and decides nothing about sessions.
#[derive(Debug, Parser)]
#[command(name = "noderelay-relay", version = crate::version_text(), max_term_width = 100, after_help = OUTPUT)]
pub struct Args {
    /// Configuration file (YAML).
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/etc/noderelay/relay.yaml",
        global = true
    )]
    pub config: PathBuf,
    /// Form of the log on stderr.
    #[arg(long, value_enum, default_value_t = LogFormat::Text, global = true)]
    pub log_format: LogFormat,
    /// What to log: a level, or a filter such as `info,noderelay_relay=debug`.
    #[arg(long, value_name = "FILTER", default_value = "info", global = true)]
    pub log: String,
    /// What to do; without it, the relay runs.
    #[command(subcommand)]
    pub command: Option<Command>,
}

const OUTPUT: &str = "\
Output:
  stdout  one line, `ready ADDRESS`, once the relay serves: the UDP address that it listens on
  stderr  the log

Examples:
  noderelay-relay --config relay.yaml                 serve until SIGTERM or SIGINT; the second one cuts what still runs
  noderelay-relay --config relay.yaml check-config    say what is wrong with the file, or print what is in effect";

/// What to do instead of running.
#[derive(Debug, Clone, Copy, Subcommand)]
pub enum Command {
    /// Reads the configuration, prints what is in effect, and ends.
    CheckConfig,
}

/// Most characters of one line of an error.
const MAX_LINE: usize = 2000;

/// The program's main function.
pub fn main() -> ExitCode {
    match Args::try_parse() {
        Ok(args) => execute(&args),
        Err(usage) if usage.use_stderr() => {
            let again = |words: Vec<OsString>| Some(Args::try_parse_from(words).err()?.to_string());
            let text = text::usage(std::env::args_os(), &usage.to_string(), again);
            let _ = std::io::stderr().write_all(text.as_bytes());
            2.into()
        }
        Err(answer) => answer.exit(),
    }
}

/// Runs what the arguments ask for.
pub fn execute(args: &Args) -> ExitCode {
    let done = match args.command {
        Some(Command::CheckConfig) => check_config(args),
        None => run(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let seen = text::escape_lines(&text::chain(&*error), MAX_LINE);
            text::last_words(&format!("noderelay-relay: {seen}\n"));
            ExitCode::FAILURE
        }
    }
}

fn check_config(args: &Args) -> anyhow::Result<()> {
    let config = Config::load(&args.config)?;
    let json = serde_json::to_string_pretty(&config)?;
    let text = text::shown_yaml(serde_saphyr::to_string(&config)?, || json);
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

fn run(args: &Args) -> anyhow::Result<()> {
    let config = Config::load(&args.config)?;
    let log = Log::begin(args.log_format, &args.log, None)?;
    let done = serve(config);
    log.finish();
    done
}

fn serve(config: Config) -> anyhow::Result<()> {
    tracing::info!(config = %serde_json::to_string(&config)?, "effective configuration");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let stop = crate::app::stop_on_signals()?;
        crate::app::run(config, say_ready, stop).await
    })
}

/// Says where the relay serves, for whoever started it. On a thread of its own: a pipe that nobody reads blocks that one
/// only (it ends with the process), and a closed one is nobody's fault.
fn say_ready(address: SocketAddr) {
    std::thread::spawn(move || {
        let mut stdout = std::io::stdout().lock();
        let _ = writeln!(stdout, "ready {address}").and_then(|()| stdout.flush());
    });
}
