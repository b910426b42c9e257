//! The command line of `noderelay-agent`.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use noderelay_pki::text;
use noderelay_service::{Log, LogFormat};
use tokio::sync::mpsc;

use crate::app::{self, Reexec};
use crate::config::Config;

/// The node's agent: authenticates, decides, records.
#[derive(Debug, Parser)]
#[command(name = "noderelay-agent", version = version(), about, after_help = EXAMPLES)]
struct Cli {
    /// Configuration file
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        default_value = "/etc/noderelay/agent.yaml"
    )]
    config: PathBuf,
    /// Form of the log, which goes to stderr
    #[arg(long, global = true, value_enum, default_value = "text")]
    log_format: LogFormat,
    #[command(subcommand)]
    command: Option<Command>,
}

const EXAMPLES: &str = "\
Examples:
  noderelay-agent --config agent.yaml                 dial out to the relays and serve this node
  noderelay-agent --config agent.yaml check-config    say what is wrong with the file, or print what is in effect";

#[derive(Debug, Subcommand)]
enum Command {
    /// Check the configuration file and print what is in effect
    CheckConfig,
    /// (internal) hold one session
    #[command(hide = true)]
    Holder,
    /// (internal) become the command of a session
    #[command(hide = true)]
    Child,
}

/// Most characters of one line of an error.
const MAX_LINE: usize = 2000;

/// The binary's main function.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(usage) if usage.use_stderr() => {
            let again = |words: Vec<OsString>| Some(Cli::try_parse_from(words).err()?.to_string());
            let text = text::usage(std::env::args_os(), &usage.to_string(), again);
            let _ = std::io::stderr().write_all(text.as_bytes());
            return 2.into();
        }
        Err(answer) => answer.exit(),
    };
    let result = match cli.command {
        Some(Command::Child) => noderelay_child::child_main(),
        Some(Command::Holder) => return noderelay_holder::holder_main(Path::new(OWN_PROGRAM), &["child"]),
        Some(Command::CheckConfig) => check_config(&cli.config),
        None => serve(&cli.config, cli.log_format, vec!["holder".into()]),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let seen = text::escape_lines(&text::chain(&*error), MAX_LINE);
            text::last_words(&format!("noderelay-agent: {seen}\n"));
            ExitCode::FAILURE
        }
    }
}

/// This very program, also when its file was replaced since.
pub const OWN_PROGRAM: &str = "/proc/self/exe";

/// Serves until SIGTERM or SIGINT; `words` lead this program to the holder. Prints `ready RELAY` on stdout when a relay routes to this node for the first time.
pub fn serve(config: &Path, logs: LogFormat, words: Vec<OsString>) -> Result<()> {
    let log = init_logs(logs)?;
    let done = run(config, words);
    log.finish();
    done
}

fn run(config: &Path, words: Vec<OsString>) -> Result<()> {
    let config = Config::load(config)?;
    let reexec = Reexec {
        program: OWN_PROGRAM.into(),
        words,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let stop = app::stop_on_signals()?;
        let (said, mut heard) = mpsc::channel(16);
        let say = tokio::spawn(async move {
            while let Some(word) = heard.recv().await {
                if let crate::uplink::Said::Attached(relay) = word {
                    // A pipe that nobody reads blocks a thread of its own only, which ends with the process.
                    std::thread::spawn(move || writeln!(std::io::stdout(), "ready {relay}"));
                    break;
                }
            }
        });
        let ended = app::run(config, reexec, said, stop).await;
        say.abort();
        ended
    })
}

fn check_config(path: &Path) -> Result<()> {
    let config = Config::load(path)?;
    let unprintable = "the configuration can't be printed";
    let json = serde_json::to_string_pretty(&config).context(unprintable)?;
    let text = text::shown_yaml(serde_saphyr::to_string(&config).context(unprintable)?, || json);
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

/// Logs on stderr; `RUST_LOG` changes the filter, past which audit events go: evidence is no matter of taste.
///
/// # Errors
/// As [`Log::begin`].
pub fn init_logs(format: LogFormat) -> Result<&'static Log> {
    // An empty variable is as good as none.
    let chosen = std::env::var("RUST_LOG").ok().filter(|filter| !filter.is_empty());
    Ok(Log::begin(
        format,
        chosen.as_deref().unwrap_or("info"),
        Some(crate::events::TARGET),
    )?)
}

/// Version, commit and protocol version.
pub fn version() -> &'static str {
    static VERSION: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    VERSION.get_or_init(|| {
        let commit = env!("NODERELAY_COMMIT");
        format!("{} (commit {commit}; speaks {})", env!("CARGO_PKG_VERSION"), spoken())
    })
}

fn spoken() -> String {
    let versions = noderelay_proto::version::Version::ALL.iter();
    versions
        .map(|v| String::from_utf8_lossy(v.inner_alpn()))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Name and version for status.
pub fn software() -> &'static str {
    concat!("noderelay-agent ", env!("CARGO_PKG_VERSION"))
}
