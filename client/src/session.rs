//! One session from beginning to end: the order in which everything happens.
//!
//! ```text
//! config ─> creds ─> target ─> dial ─> inner ─> banner, raw terminal ─> pump ─> terminal restored ─> message, status ─> farewell
//! ```
//!
//! Until the session is open, the terminal is as it was and Ctrl-C ends the client. After 300 ms one line says what is
//! being waited for. Whatever happens, the terminal is restored before anything is said, and [`Outcome`] tells the exit
//! code.
//!
//! A lost path is not yet resumed in this version: it ends with a message and 255.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use noderelay_link::Stream;
use noderelay_pki::name::ClusterName;
use noderelay_pki::text::escape;
use noderelay_proto::OpenId;
use noderelay_proto::code::{Code, Origin};
use noderelay_proto::control::Opened;
use tokio_rustls::client::TlsStream;

use crate::config::Config;
use crate::creds::Creds;
use crate::dial::{self, Reached, Ways};
use crate::escape::Keys;
use crate::farewell::Farewell;
use crate::faults::Fault;
use crate::inner::{self, Refusal, Session};
use crate::message::{About, Message};
use crate::modes::{Modes, Tracker};
use crate::open::{WantTerminal, Wish, Work};
use crate::pump::{self, Ended, Facts, Liveness, Local};
use crate::screen::Screen;
use crate::signals::Signals;
use crate::status::Status;
use crate::stdio::{Input, Output};
use crate::target::Target;
use crate::terminal::{self, Raw, is_terminal};
use crate::waiting::Waiting;

mod banner;
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
    let (message, farewell) = match session(&options, &mut status).await {
        Ok((message, farewell)) => (message, farewell),
        Err(refusal) => {
            status.policy_version = refusal.policy_version.or(status.policy_version);
            (Some(failed(&refusal.fault, &options, &mut status)), None)
        }
    };
    let outcome = told(&options, status, message);
    if let Some(farewell) = farewell {
        farewell.take().await;
    }
    outcome
}

/// The outcome of a session whose outcome could not be written: it does not begin.
fn no_place(options: &SessionOptions) -> Option<Outcome> {
    let file = options.status.as_deref()?;
    let error = Status::check(file).err()?;
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
    let message = failed(fault, options, &mut status);
    told(options, status, Some(message))
}

/// Says what has to be said and writes the status.
fn told(options: &SessionOptions, status: Status, message: Option<Message>) -> Outcome {
    // Before anything is said: a raw terminal would show it as stairs.
    terminal::restore();
    if let Some(message) = &message
        && !(options.quiet && status.origin == Origin::Remote.name())
    {
        say(&message_lines(message, &status));
    }
    if let Some(file) = &options.status
        && let Err(error) = status.write(file)
    {
        say(&format!(
            "noderelay: --status {}: {}\n",
            escape(&file.to_string_lossy(), 300),
            escape(&error.to_string(), 300)
        ));
    }
    Outcome { status, message }
}

/// What is to be said, and what is left to do after it.
type Over = (Option<Message>, Option<Farewell<TlsStream<Stream>>>);

async fn session(options: &SessionOptions, status: &mut Status) -> Result<Over, Refusal> {
    let config = config(options)?;
    if options.path != PathChoice::Relay {
        let what = match options.path {
            PathChoice::Direct => "the direct path is not built into this version",
            _ => "the path through the API server is not built into this version",
        };
        return Err(Fault::new(Code::ClientUnsupported, Origin::Client, what).into());
    }
    let local_io =
        |what: &str, error: std::io::Error| Fault::new(Code::ClientLocalIo, Origin::Client, format!("{what}: {error}"));
    tracing::info!(file = %config.file.display(), "configuration");
    let mut signals = Signals::install().map_err(|error| local_io("signals", error))?;
    let waiting = Waiting::new(
        !options.quiet && (options.verbose || is_terminal(std::io::stderr())),
        options.verbose,
    );
    let opening = open(options, &config, status, &waiting);
    let (reached, stdin_is_terminal, with_terminal) = tokio::select! {
        biased;
        caught = signals.ending() => {
            waiting.clear();
            return Ok((Some(interrupted(caught, options, status)), None));
        }
        reached = waiting.during(opening) => reached?,
    };
    let Reached {
        link,
        relay,
        value: Session {
            mut stream,
            frames,
            opened,
        },
    } = reached;
    status.session = opened.session_id().ok().map(|id| id.to_string());
    tracing::info!(
        node = opened.node,
        relay,
        session = status.session,
        "the session is open"
    );
    status.policy_version = Some(opened.policy_version);
    let line = banner::line(&opened, &relay, Timestamp::now());
    if with_terminal && !options.quiet {
        say(&line);
    }
    let mut local = local(&config, signals, stdin_is_terminal, with_terminal, options.quiet)
        .map_err(|error| local_io("terminal", error))?;
    let facts = Facts {
        session: format!(
            "{} session {}",
            line.trim_end(),
            status.session.as_deref().unwrap_or("?")
        ),
    };
    let liveness = Liveness {
        keepalive: config.keepalive,
        patience: config.patience,
    };
    let finished = pump::run(&mut stream, frames, opened.window, &mut local, facts, liveness).await;
    drop(local);
    terminal::restore();
    status.bytes_in = finished.bytes_in;
    status.bytes_out = finished.bytes_out;
    let message = ended(&finished.ended, &opened, options, status);
    let answers = !matches!(&finished.ended, Ended::Fault(fault) if fault.is_transport());
    Ok((message, Some(Farewell::new(stream, link, answers))))
}

type Opening = (Reached<Session<Stream>>, bool, bool);

async fn open(
    options: &SessionOptions,
    config: &Config,
    status: &mut Status,
    waiting: &Waiting,
) -> Result<Opening, Refusal> {
    waiting.tell("the bundle");
    let creds = Creds::load(config, Timestamp::now())
        .await
        .map_err(|error| error.fault())?;
    if let Some(error) = creds.stale_because.as_ref().filter(|_| options.verbose) {
        waiting.note(&format!("the last good bundle is used: {error}"));
    }
    let fleet = creds.publication.fleet();
    let target = Target::find(&options.node, options.cluster.as_ref(), config.cluster.as_ref(), fleet)?;
    status.cluster = Some(target.cluster.to_string());
    status.path = Some("relay");
    let grants = grants(&options.grants)?;
    let stdin_is_terminal = is_terminal(std::io::stdin());
    let with_terminal = options.terminal.decide(&options.work, stdin_is_terminal);
    let size = || local_terminal().as_ref().and_then(terminal::size);
    let wish = Wish {
        id: OpenId::new(random()?),
        node: &target.node,
        cluster: &target.cluster,
        work: &options.work,
        terminal: with_terminal.then(size),
        environment: std::env::vars_os().collect(),
        profile: options.profile.as_deref(),
        reason: options.reason.as_deref(),
        grants: &grants,
        local_user: options.local_user.as_deref(),
    };
    let wish = wish
        .message()
        .map_err(|error| Fault::new(error.code(), Origin::Client, error.to_string()))?;
    let given = if options.relays.is_empty() {
        &config.relays
    } else {
        &options.relays
    };
    let ways = Ways::new(fleet, &target.cluster, given);
    let attempt = |stream| inner::open(stream, &creds.party, &target.identity, wish.clone());
    let reached = dial::through_relays(&creds.party, ways, &target, &|what| waiting.tell(what), attempt)
        .await
        .map_err(|refusal| creds.explain(refusal))?;
    status.relay = Some(reached.relay.clone());
    Ok((reached, stdin_is_terminal, with_terminal))
}

/// The configuration of these options.
fn config(options: &SessionOptions) -> Result<Config, Fault> {
    match &options.config {
        Configured::Loaded(config) => Ok(config.as_ref().clone()),
        Configured::File(file) => Config::find(file.as_deref())
            .map_err(|error| Fault::new(Code::ClientConfig, Origin::Client, error.to_string())),
    }
}

fn local(
    config: &Config,
    signals: Signals,
    stdin_is_terminal: bool,
    with_terminal: bool,
    quiet: bool,
) -> std::io::Result<Local> {
    let modes = Modes::default();
    let interactive = with_terminal && stdin_is_terminal;
    let raw = if interactive {
        Some(Raw::enter(std::io::stdin(), modes.clone())?)
    } else {
        None
    };
    let tracker = (interactive && is_terminal(std::io::stdout())).then(|| Tracker::new(modes));
    Ok(Local {
        input: Input::stdin()?,
        screen: Screen::new(Output::stdout()?, Output::stderr()?, tracker),
        signals,
        keys: Keys::new(config.escape.filter(|_| interactive)),
        raw,
        window: if with_terminal { local_terminal() } else { None },
        terminal: with_terminal,
        quiet,
    })
}

/// The terminal whose size counts: standard input, else output, else error.
fn local_terminal() -> Option<std::os::fd::OwnedFd> {
    let (stdin, stdout, stderr) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    let all = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
    all.into_iter()
        .find(|descriptor| is_terminal(descriptor))?
        .try_clone_to_owned()
        .ok()
}

fn grants(files: &[PathBuf]) -> Result<Vec<Bytes>, Fault> {
    let read = |path: &PathBuf| {
        noderelay_pki::files::read_bounded(path, noderelay_proto::limits::MAX_GRANT)
            .map(Bytes::from)
            .map_err(|error| Fault::new(Code::ClientUsage, Origin::Client, format!("grant: {error}")))
    };
    files.iter().map(read).collect()
}

fn random() -> Result<[u8; 16], Fault> {
    let mut id = [0; 16];
    aws_lc_rs::rand::fill(&mut id)
        .map_err(|_| Fault::new(Code::ClientInternal, Origin::Client, "no random numbers"))?;
    Ok(id)
}

/// What an ended session leaves: its status, and what has to be said.
fn ended(ended: &Ended, opened: &Opened, options: &SessionOptions, status: &mut Status) -> Option<Message> {
    match ended {
        Ended::Exit(remote) => {
            status.origin = Origin::Remote.name();
            status.exit_code = remote.exit_code();
            if let crate::exit::Remote::Signal { number, .. } = remote {
                status.signal = Some(*number);
            }
            let note = remote.note()?;
            Some(Message::from(Code::Ok, Origin::Remote, &note, about(options)))
        }
        Ended::Closed(fault) => Some(failed(fault, options, status)),
        Ended::Fault(fault) => {
            let mut fault = fault.clone();
            if fault.is_transport() && opened.resume_window_secs > 0 {
                let window = Duration::from_secs(opened.resume_window_secs.into());
                fault.seen = format!(
                    "{}; the node hangs the command up after {}",
                    fault.seen,
                    banner::words(window)
                );
            }
            Some(failed(&fault, options, status))
        }
        Ended::Left => {
            failed(&Fault::new(Code::SessionLeft, Origin::Client, ""), options, status);
            (!options.quiet).then(|| {
                Message::new(
                    Code::SessionLeft,
                    "the session was left with the local key",
                    about(options),
                )
            })
        }
        Ended::Signalled(caught) => Some(interrupted(*caught, options, status)),
        // As usual in a pipeline whose reader has enough: nothing is said.
        Ended::OutputClosed => {
            let fault = Fault::new(Code::ClientLocalIo, Origin::Client, "nobody reads the output any more");
            let message = failed(&fault, options, status);
            options.verbose.then_some(message)
        }
    }
}

fn failed(fault: &Fault, options: &SessionOptions, status: &mut Status) -> Message {
    status.code = fault.code.name();
    status.origin = fault.origin.name();
    status.exit_code = crate::exit::FAILED;
    Message::from(fault.code, fault.origin, &fault.seen, about(options))
}

fn interrupted(caught: crate::signals::Caught, options: &SessionOptions, status: &mut Status) -> Message {
    let seen = format!("ended by {}", caught.name());
    failed(
        &Fault::new(Code::ClientInterrupted, Origin::Client, seen),
        options,
        status,
    )
}

fn about(options: &SessionOptions) -> About<'_> {
    About { node: &options.node }
}

/// A note about the remote command has no fix: it is one line.
fn message_lines(message: &Message, status: &Status) -> String {
    if status.origin == Origin::Remote.name() || message.code == Code::SessionLeft {
        return format!("noderelay: {}\n", message.seen);
    }
    message.lines("\n")
}

/// Writes to standard error. When nobody reads it, there is nobody to tell.
fn say(text: &str) {
    use std::io::Write;
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// One command, from words.
pub fn exec(words: impl IntoIterator<Item = impl Into<OsString>>) -> Work {
    Work::Exec(words.into_iter().map(Into::into).collect())
}
