//! The command line (a contract: scripts rely on it).
//!
//! `noderelay [options] NODE [--] [COMMAND…]` has no subcommand word, so the first word that is neither an option nor an
//! option's value decides: a known subcommand, or a node. A node with a subcommand's name is reached by
//! `noderelay shell NODE`. Options of a session end at NODE; all words after it belong to the remote command.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

mod examples;
mod policy;

pub use policy::{DiffArgs, ExplainArgs, LintArgs, PolicyCommand, PolicyInitArgs, SignRole, TestArgs};

/// An audited shell on any node of a fleet, through a relay that cannot read it.
#[derive(Debug, Parser)]
#[command(name = "noderelay", version = version(), about, after_help = examples::ALL, disable_help_subcommand = true)]
#[command(override_usage = "noderelay [OPTIONS] NODE [--] [COMMAND]...\n       noderelay COMMAND ...")]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// Options that stand before or after any subcommand.
#[derive(Debug, Clone, Args)]
pub struct Global {
    /// Configuration file [default: $NODERELAY_CONFIG, then $XDG_CONFIG_HOME/noderelay/config.yaml]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Say less: no line before the shell
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Say more, with the log on standard error; twice for all of it
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Open a shell on NODE, or run one command (what `noderelay NODE` does)
    #[command(after_help = examples::SHELL)]
    Shell(SessionArgs),
    /// A relay, an agent and a shell on this machine, from nothing
    #[cfg(feature = "demo")]
    #[command(after_help = examples::DEMO)]
    Demo(DemoArgs),
    /// Keep connections to relays and recent nodes warm in the background, so that sessions open faster
    #[command(after_help = examples::WARM, override_usage = "noderelay warm [--for SPAN] [--idle SPAN]\n       noderelay warm stop\n       noderelay warm status [-o json]")]
    Warm(WarmArgs),
    /// Check path, identity, policy and grant for NODE
    #[command(after_help = examples::DOCTOR)]
    Doctor(DoctorArgs),
    /// Who I am, until when, from which CA
    #[command(after_help = examples::WHOAMI)]
    Whoami(OutputArgs),
    /// Play a recording
    #[command(after_help = examples::REPLAY)]
    Replay(ReplayArgs),
    /// Signing keys of policy signers and the pipeline
    #[command(subcommand)]
    Key(KeyCommand),
    /// A cluster CA by hand: without Kubernetes, for tests, for providers
    #[command(subcommand)]
    Pki(PkiCommand),
    /// The signed policy: write, ask, test, lint, compare, sign, publish, verify
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Check the configuration file and print what is in effect
    #[command(after_help = examples::CHECK_CONFIG)]
    CheckConfig,
    /// Print a completion script
    #[command(after_help = examples::COMPLETION)]
    Completion(CompletionArgs),
    /// (internal) relay, agent, holder and child of the demo
    #[cfg(feature = "demo")]
    #[command(hide = true, subcommand)]
    Internal(InternalCommand),
}

/// Options of a session.
#[derive(Debug, Clone, Args)]
pub struct SessionArgs {
    /// Use the relays (same as --path relay)
    #[arg(long, conflicts_with = "path")]
    pub via_relay: bool,
    /// How to reach the node
    #[arg(long, value_enum)]
    pub path: Option<PathArg>,
    /// The node's cluster, when its name is not unique
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
    /// A relay's address instead of those of the fleet file (repeatable)
    #[arg(long = "relay", value_name = "HOST:PORT")]
    pub relays: Vec<String>,
    /// Why; policy may demand it. Stands in the record
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Profile to run under [default: the node's]
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
    /// Dial, also when a warm process runs (noderelay warm)
    #[arg(long)]
    pub no_warm: bool,
    /// Write one JSON object about the outcome
    #[arg(long, value_name = "FILE")]
    pub status: Option<PathBuf>,
    /// Force a terminal
    #[arg(short = 't', overrides_with = "no_tty")]
    pub tty: bool,
    /// No terminal
    #[arg(short = 'T', overrides_with = "tty")]
    pub no_tty: bool,
    /// Run LINE in the login shell
    #[arg(short = 'c', value_name = "LINE", conflicts_with = "argv")]
    pub line: Option<OsString>,
    /// The account that the session must run under (checked, for tools that pass -l)
    #[arg(short = 'l', value_name = "USER")]
    pub login: Option<String>,
    /// The node
    #[arg(value_name = "NODE")]
    pub node: String,
    /// The command; without it, a login shell
    #[arg(value_name = "COMMAND", trailing_var_arg = true, allow_hyphen_values = true)]
    pub argv: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PathArg {
    Auto,
    Api,
    Relay,
    Direct,
}

#[cfg(feature = "demo")]
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Keep relay and agent running in the foreground, state and config.yaml in DIR, for a second terminal
    #[arg(long, value_name = "DIR", conflicts_with = "argv")]
    pub up: Option<PathBuf>,
    /// The command; without it, a shell
    #[arg(value_name = "COMMAND", last = true)]
    pub argv: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct WarmArgs {
    /// Start it, or let it go on, for this long
    #[arg(long = "for", value_name = "SPAN", default_value = "1h")]
    pub period: String,
    /// End it earlier when no session used it for this long
    #[arg(long, value_name = "SPAN", default_value = "30m")]
    pub idle: String,
    /// Serve in the foreground, for a service manager
    #[arg(long)]
    pub foreground: bool,
    /// (internal) the process in the background
    #[arg(long, hide = true)]
    pub detached: bool,
    #[command(subcommand)]
    pub command: Option<WarmCommand>,
}

#[derive(Debug, Subcommand)]
pub enum WarmCommand {
    /// End it; sessions that it carries run on
    #[command(after_help = examples::WARM_STOP)]
    Stop,
    /// Show relays, nodes with the age of their last proof, uses and the time left
    #[command(after_help = examples::WARM_STATUS)]
    Status(OutputArgs),
}

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// The node; without it only what needs no node is checked
    pub node: Option<String>,
    /// The node's cluster, when its name is not unique
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Clone, Args)]
pub struct OutputArgs {
    /// Form of the output
    #[arg(short, long, value_enum, default_value = "table")]
    pub output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    Table,
    Json,
}

#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The recording
    pub file: PathBuf,
    /// Times as fast
    #[arg(long, default_value_t = 1.0, value_parser = speed)]
    pub speed: f64,
    /// Longest pause, seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub idle: Option<Duration>,
    /// Print all at once
    #[arg(long)]
    pub no_wait: bool,
}

fn speed(text: &str) -> Result<f64, &'static str> {
    match text.parse::<f64>() {
        Ok(times) if times.is_finite() && times > 0.0 => Ok(times),
        _ => Err("write how many times as fast, like 2 or 0.5; --no-wait prints all at once"),
    }
}

fn seconds(text: &str) -> Result<Duration, &'static str> {
    let seconds = text.parse().ok();
    let span = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    span.ok_or("write seconds, like 2 or 0.5")
}

#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Make a signing key (Ed25519): FILE with mode 0600, FILE.pub beside it
    #[command(after_help = examples::KEY_CREATE)]
    Create {
        /// Where the private half goes
        file: PathBuf,
    },
    /// Show a key's id and public half
    #[command(after_help = examples::KEY_SHOW)]
    Show {
        /// The private half
        file: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
pub enum PkiCommand {
    /// Make a cluster CA: DIR/ca.pem and DIR/ca.key
    #[command(after_help = examples::PKI_INIT)]
    Init {
        /// The CA's folder
        dir: PathBuf,
        /// Trust domain of the fleet
        #[arg(long)]
        trust_domain: String,
        /// The one cluster that this CA may speak for
        #[arg(long)]
        cluster: String,
        /// Life of the CA certificate
        #[arg(long, default_value = "3650d")]
        valid_for: String,
    },
    /// Issue a certificate: OUT.crt and OUT.key
    #[command(after_help = examples::PKI_ISSUE)]
    Issue {
        /// Folder of the CA
        #[arg(long)]
        ca: PathBuf,
        /// Path without ending of what is written
        #[arg(long)]
        out: PathBuf,
        /// Groups of a user
        #[arg(long = "group")]
        groups: Vec<String>,
        /// Life of the certificate [default: 12h for a user, 30d for node and relay]
        #[arg(long)]
        valid_for: Option<String>,
        #[command(flatten)]
        subject: SubjectArgs,
    },
    /// Show what a certificate says
    #[command(after_help = examples::PKI_INSPECT)]
    Inspect {
        /// The certificate, PEM
        file: PathBuf,
        #[command(flatten)]
        output: OutputArgs,
    },
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct SubjectArgs {
    /// Certificate of a user
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Certificate of a node
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// Certificate of a relay
    #[arg(long, value_name = "NAME")]
    pub relay: Option<String>,
}

#[derive(Debug, Args)]
pub struct CompletionArgs {
    /// For which shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

#[cfg(feature = "demo")]
#[derive(Debug, Subcommand)]
pub enum InternalCommand {
    Relay { config: PathBuf },
    Agent { config: PathBuf },
    Holder,
    Child,
}

/// Version, commit and protocol versions.
pub fn version() -> &'static str {
    static VERSION: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    VERSION.get_or_init(|| {
        let commit = env!("NODERELAY_COMMIT");
        let spoken = noderelay_proto::version::Version::ALL
            .iter()
            .map(|v| String::from_utf8_lossy(v.inner_alpn()));
        format!(
            "{} (commit {commit}; speaks {})",
            env!("CARGO_PKG_VERSION"),
            spoken.collect::<Vec<_>>().join(", ")
        )
    })
}

/// Parses the command line. What is no command (help, the version, a usage error) is for the caller to print.
pub fn parse(words: impl Iterator<Item = OsString>) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(with_shell_word(words.collect()))
}

/// Puts the word `shell` in front when the first plain word is no subcommand.
fn with_shell_word(mut words: Vec<OsString>) -> Vec<OsString> {
    let command = Cli::command();
    let known = |w: &OsStr| command.get_subcommands().any(|s| OsStr::new(s.get_name()) == w);
    let takes_value = |w: &str| {
        // Long options as `--name VALUE`, short ones as `-x VALUE`; with `=` or joined they are one word.
        let shell = command.find_subcommand("shell");
        let all = command
            .get_arguments()
            .chain(shell.into_iter().flat_map(|s| s.get_arguments()));
        let mut found = false;
        for arg in all {
            let named = arg.get_long().is_some_and(|l| w.strip_prefix("--") == Some(l))
                || (w.len() == 2
                    && arg
                        .get_short()
                        .is_some_and(|s| w.strip_prefix('-') == Some(s.to_string().as_str())));
            found |= named && arg.get_action().takes_values();
        }
        found
    };
    let mut at = 1;
    while let Some(word) = words.get(at) {
        let text = word.to_string_lossy();
        if text == "--" || matches!(&*text, "-h" | "--help" | "-V" | "--version") {
            return words;
        }
        if !text.starts_with('-') || text == "-" {
            if !known(word) {
                words.insert(1, "shell".into());
            }
            return words;
        }
        at += if takes_value(&text) { 2 } else { 1 };
    }
    if words.len() > 1 {
        // Options only: they are a session's, and the missing NODE is what clap should name.
        words.insert(1, "shell".into());
    }
    words
}

#[cfg(test)]
mod tests;
