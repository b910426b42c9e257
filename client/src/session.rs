//! One session from beginning to end: the order in which everything happens.
//!
//! ```text
//! config ─> creds ─> target ─> dial ─> inner ─> banner, raw terminal ─> pump ─> terminal restored ─> message, status ─> farewell
//!          └──────── Open::reach ────────┘  announce └──────── Open::run ────────┘   └────────────── told ───────────┘
//! ```
//!
//! Until the session is open, the terminal is as it was and Ctrl-C ends the client. After 300 ms one line says what is
//! being waited for. Whatever happens, the terminal is restored before anything is said, and [`Outcome`] tells the exit
//! code.
//!
//! A lost path is not yet resumed in this version: it ends with a message and 255.

use std::ffi::OsString;
use std::path::PathBuf;

use noderelay_pki::name::ClusterName;
use noderelay_pki::text::escape;
use noderelay_proto::code::{Code, Origin};

use crate::config::Config;
use crate::farewell::{self, Farewell};
use crate::faults::Fault;
use crate::inner::{Duplex, Refusal};
use crate::message::Message;
use crate::open::{WantTerminal, Work};
use crate::signals::Signals;
use crate::status::Status;
use crate::terminal::{self, is_terminal};
use crate::waiting::Waiting;
use ending::{failed, interrupted, message_lines, say};
use opened::Open;

pub(crate) mod banner;
mod ending;
mod local;
mod opened;
#[cfg(test)]
mod tests;

/// By which way a session travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PathChoice {
    /// Through the API server.
    #[default]
    Api,
    /// Through a relay.
    Relay,
    /// Straight to the node.
    Direct,
    /// The API path, and the relay when policy permits it.
    Auto,
}

/// Where the configuration of a session comes from.
#[derive(Debug, Clone)]
pub enum Configured {
    /// This file, or the one at its usual place. A failure is told as any other of the session.
    File(Option<PathBuf>),
    /// It was read already.
    Loaded(Box<Config>),
}

impl Default for Configured {
    fn default() -> Self {
        Self::File(None)
    }
}

impl From<Option<PathBuf>> for Configured {
    fn from(file: Option<PathBuf>) -> Self {
        Self::File(file)
    }
}

impl From<Config> for Configured {
    fn from(config: Config) -> Self {
        Self::Loaded(Box::new(config))
    }
}

/// What the user asked for.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// The configuration, or where it is.
    pub config: Configured,
    /// The node, as typed.
    pub node: String,
    /// Its cluster, if one was named.
    pub cluster: Option<ClusterName>,
    /// What shall run.
    pub work: Work,
    /// Whether the remote side gets a terminal.
    pub terminal: WantTerminal,
    /// Why (`--reason`).
    pub reason: Option<String>,
    /// The profile, if one was named.
    pub profile: Option<String>,
    /// Signed grants.
    pub grants: Vec<PathBuf>,
    /// Relay addresses instead of those in the fleet file.
    pub relays: Vec<String>,
    /// The local user that is expected on the node (`-l`).
    pub local_user: Option<String>,
    /// Where the status goes.
    pub status: Option<PathBuf>,
    /// No banner, no notices. Failures are told all the same.
    pub quiet: bool,
    /// Every step is told.
    pub verbose: bool,
    /// Whether what is kept warm is used.
    pub warm: bool,
    /// The way.
    pub path: PathChoice,
}

impl SessionOptions {
    /// A login shell on `node` through a relay, everything else as usual.
    pub fn shell(node: impl Into<String>) -> Self {
        Self {
            config: Configured::default(),
            node: node.into(),
            cluster: None,
            work: Work::Shell,
            terminal: WantTerminal::Auto,
            reason: None,
            profile: None,
            grants: Vec::new(),
            relays: Vec::new(),
            local_user: None,
            status: None,
            quiet: false,
            verbose: false,
            warm: true,
            path: PathChoice::Relay,
        }
    }
}

/// How it went. Everything was told already.
#[derive(Debug)]
pub struct Outcome {
    /// What `--status` says.
    pub status: Status,
    /// What was said on standard error.
    pub message: Option<Message>,
}

impl Outcome {
    /// The exit code of the client.
    pub fn exit_code(&self) -> u8 {
        self.status.exit_code
    }
}

/// Runs a session with this process's terminal, signals and environment. Says on standard error what has to be said.
pub async fn run_session(options: SessionOptions) -> Outcome {
    if let Some(refused) = no_place(&options) {
        return refused;
    }
    let mut status = Status::new(&escape(&options.node, 253));
    let over = session(&options, &mut status).await.unwrap_or_else(|refusal| {
        status.policy_version = refusal.policy_version.or(status.policy_version);
        Over {
            message: Some(failed(&refusal.fault, &options, &mut status)),
            farewell: None,
        }
    });
    // The last words, and the end of a connection without a session, leave before anything else here may have to wait.
    farewell::told().await;
    say_end(&options, &status, over.message.as_ref());
    // The reader of a pipe may be waited for; the node, which waits for our last words, is not to wait for it, too.
    let waits = options.status.as_deref().is_some_and(Status::may_wait);
    if !waits {
        write_status(&options, &status);
    }
    if let Some(farewell) = over.farewell {
        farewell.take().await;
    }
    if waits {
        write_status(&options, &status);
    }
    Outcome {
        status,
        message: over.message,
    }
}

/// The outcome of a session whose outcome could not be written: it does not begin.
fn no_place(options: &SessionOptions) -> Option<Outcome> {
    let file = options.status.as_deref()?;
    let error = Status::check(file).and_then(|()| Status::forget(file)).err()?;
    let seen = format!("--status {}: {error}; nothing was started", file.display());
    let mut status = Status::new(&escape(&options.node, 253));
    let message = failed(
        &Fault::new(Code::ClientUsage, Origin::Client, seen),
        options,
        &mut status,
    );
    say(&message_lines(&message, &status));
    Some(Outcome {
        status,
        message: Some(message),
    })
}

/// A session that failed before it could be tried: told, and written to `--status`, as any other failure of one.
pub fn not_begun(options: &SessionOptions, fault: &Fault) -> Outcome {
    let mut status = Status::new(&escape(&options.node, 253));
    let message = Some(failed(fault, options, &mut status));
    say_end(options, &status, message.as_ref());
    write_status(options, &status);
    Outcome { status, message }
}

/// Says what has to be said.
fn say_end(options: &SessionOptions, status: &Status, message: Option<&Message>) {
    // Before anything is said: a raw terminal would show it as stairs.
    terminal::restore();
    if let Some(message) = message
        && !(options.quiet && status.origin == Origin::Remote.name())
    {
        say(&message_lines(message, status));
    }
}

fn write_status(options: &SessionOptions, status: &Status) {
    if let Some(file) = &options.status
        && let Err(error) = status.write(file)
    {
        say(&format!(
            "noderelay: --status {}: {}\n",
            escape(&file.to_string_lossy(), 300),
            escape(&error.to_string(), 300)
        ));
    }
}

/// A session that is over.
struct Over {
    /// What is to be said.
    message: Option<Message>,
    /// What is left to do after it was said; nothing when there was no session.
    farewell: Option<Farewell<Box<dyn Duplex>>>,
}

/// The steps: each takes what the one before made.
async fn session(options: &SessionOptions, status: &mut Status) -> Result<Over, Refusal> {
    let config = config(options)?;
    by_relay(options.path)?;
    let mut signals = Signals::install().map_err(|error| Fault::local_io("signals", &error))?;
    let waiting = Waiting::new(
        !options.quiet && (options.verbose || is_terminal(std::io::stderr())),
        options.verbose,
    );
    let open = tokio::select! {
        biased;
        caught = signals.ending() => {
            waiting.clear();
            let message = Some(interrupted(caught, options, status));
            return Ok(Over { message, farewell: None });
        }
        open = waiting.during(Open::reach(options, &config, status, &waiting)) => open?,
    };
    let facts = open.announce(options, status);
    let ran = open.run(facts, &config, signals, options, status).await?;
    Ok(ran.over(options, status))
}

/// The configuration of these options.
fn config(options: &SessionOptions) -> Result<Config, Fault> {
    let config = match &options.config {
        Configured::Loaded(config) => config.as_ref().clone(),
        Configured::File(file) => Config::find(file.as_deref())
            .map_err(|error| Fault::new(Code::ClientConfig, Origin::Client, error.to_string()))?,
    };
    tracing::info!(file = %config.file.display(), "configuration");
    Ok(config)
}

/// The one way of this version.
fn by_relay(path: PathChoice) -> Result<(), Fault> {
    let what = match path {
        PathChoice::Relay => return Ok(()),
        PathChoice::Direct => "the direct path is not built into this version",
        PathChoice::Api | PathChoice::Auto => "the path through the API server is not built into this version",
    };
    Err(Fault::new(Code::ClientUnsupported, Origin::Client, what))
}

/// One command, from words.
pub fn exec(words: impl IntoIterator<Item = impl Into<OsString>>) -> Work {
    Work::Exec(words.into_iter().map(Into::into).collect())
}
