//! `noderelay warm`: starts, shows and ends the process that keeps connections warm.
//!
//! ```text
//! runs already ─> goes on for longer
//! else: ourselves again, detached (own session, nothing of the terminal's) ─> "ready" on its standard output ─> we end
//! ```
//!
//! Two starts at once end in one process: whoever finds the place taken asks the other one to go on.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use noderelay_client::config::{Config, Warm};
use noderelay_client::pump::words;
use noderelay_client::warm::ask::{self, NoAnswer};
use noderelay_client::warm::log::Log;
use noderelay_client::warm::place::{Place, PlaceError};
use noderelay_client::warm::process::{self, Limits, ProcessError};
use noderelay_client::warm::shown::Shown;
use noderelay_pki::text::{Period, chain};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::time::{Instant, sleep, timeout};

use super::look::show;
use super::one_thread;
use crate::args::{WarmArgs, WarmCommand};
use crate::out;

/// Longer than any certificate of a person lives.
const MAX_KEEP: Duration = Duration::from_secs(24 * 60 * 60);
/// What the start may take: reading files, no network.
const START: Duration = Duration::from_secs(15);
/// How long an end is waited for when nothing is carried.
const END: Duration = Duration::from_secs(5);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);
/// What a detached process says when it serves.
const READY: &str = "ready";
/// What it says when another one does.
const TAKEN: &str = "taken";

pub fn run(args: WarmArgs, config: &Config) -> Result<ExitCode> {
    let runtime = one_thread()?;
    match args.command {
        Some(WarmCommand::Stop) => return runtime.block_on(stop(config)),
        Some(WarmCommand::Status(output)) => {
            let shown = Shown::from(runtime.block_on(ask::report(config))?);
            show(&shown, output.output)?;
            return Ok(ExitCode::SUCCESS);
        }
        None => {}
    }
    let span = |option: &str, text: &str| {
        let period = Period::parse(text).with_context(|| option.to_owned())?.duration();
        if period.is_zero() || period > MAX_KEEP {
            bail!("{option} {text}: from 1ms to {} are possible", words(MAX_KEEP));
        }
        Ok(period)
    };
    let limits = Limits {
        keep: span("--for", &args.period)?,
        idle: span("--idle", &args.idle)?,
    };
    if config.warm == Warm::None {
        bail!("the configuration says warm: none, so no session would use it");
    }
    if args.detached {
        return Ok(runtime.block_on(detached(config, limits)));
    }
    if args.foreground {
        runtime.block_on(process::serve(config.clone(), limits, || {
            // Nobody may read it.
            let _ = out::line(READY);
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    runtime.block_on(start(config, limits, &args))
}

async fn start(config: &Config, limits: Limits, args: &WarmArgs) -> Result<ExitCode> {
    match ask::keep(config, limits.keep).await {
        Ok(report) => return goes_on(report),
        Err(NoAnswer::Nobody(_)) => {}
        Err(error) => return Err(unanswered(error, config)),
    }
    let place = Place::of(config);
    place.make()?;
    let mut child = command(config, args, &place)?
        .spawn()
        .context("the warm process can't be started")?;
    let stdout = child.stdout.take().context("no standard output")?;
    let mut lines = BufReader::new(stdout).lines();
    let first = timeout(START, lines.next_line()).await;
    match first.context("the warm process did not begin in time")?? {
        Some(line) if line == READY => {
            let until = words(limits.keep);
            out::line(&format!(
                "connections are kept warm for {until}, and end after {} without use; noderelay warm status shows them",
                words(limits.idle.min(limits.keep))
            ))?;
            Ok(ExitCode::SUCCESS)
        }
        Some(line) if line == TAKEN => {
            let until = Instant::now() + START;
            loop {
                match ask::keep(config, limits.keep).await {
                    Ok(report) => return goes_on(report),
                    Err(NoAnswer::Nobody(_)) if Instant::now() < until => sleep(LOOK).await,
                    Err(error) => return Err(unanswered(error, config)),
                }
            }
        }
        Some(line) => bail!("{line}"),
        None => bail!(
            "the warm process ended without a word; its log is in {}",
            place.folder().display()
        ),
    }
}

/// Somebody has the place and does not answer.
fn unanswered(error: NoAnswer, config: &Config) -> anyhow::Error {
    let holder = Place::of(config).holder();
    match error {
        NoAnswer::Nobody(why) => anyhow!(
            "{holder}, and no warm process answers there ({why}): end that process, or set another state: in the configuration"
        ),
        error => anyhow!("{error} ({holder})"),
    }
}

fn goes_on(report: noderelay_proto::control::Report) -> Result<ExitCode> {
    let left = words(Duration::from_secs(report.left_secs.into()));
    out::line(&format!("it runs already (process {}), for {left} more", report.pid))?;
    Ok(ExitCode::SUCCESS)
}

/// Ourselves again, with nothing of the terminal's.
fn command(config: &Config, args: &WarmArgs, place: &Place) -> Result<tokio::process::Command> {
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(place.folder().join("log"))
        .context("the log of the warm process")?;
    let mut command = tokio::process::Command::new(std::env::current_exe().context("which program is this?")?);
    command
        .arg("--config")
        .arg(std::path::absolute(&config.file)?)
        .args(["warm", "--for", &args.period, "--idle", &args.idle, "--detached"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log);
    // Whatever whoever started us left open.
    close_fds::set_fds_cloexec(3, &[]);
    Ok(command)
}

/// The process in the background: says on its standard output how its start went, and lets go of it.
async fn detached(config: &Config, limits: Limits) -> ExitCode {
    let begun = || -> Result<()> {
        // We are nobody's group leader, so this is a session of our own, which no terminal ends.
        nix::unistd::setsid().context("setsid")?;
        std::env::set_current_dir("/").context("chdir /")?;
        crate::logs::to(Log::open(Place::of(config).folder()).context("the log")?);
        Ok(())
    };
    let served = match begun() {
        Ok(()) => process::serve(config.clone(), limits, ready)
            .await
            .map_err(anyhow::Error::from),
        Err(error) => Err(error),
    };
    let Err(error) = served else { return ExitCode::SUCCESS };
    let taken = matches!(
        error.downcast_ref::<ProcessError>(),
        Some(ProcessError::Place(PlaceError::Taken(_)))
    );
    let said = if taken { TAKEN.to_owned() } else { chain(&*error) };
    // Whoever started us may be gone.
    let _ = writeln!(std::io::stdout(), "{}", said.lines().collect::<Vec<_>>().join("; "));
    ExitCode::FAILURE
}

fn ready() {
    let mut stdout = std::io::stdout();
    let _ = writeln!(stdout, "{READY}").and_then(|()| stdout.flush());
    let let_go = OpenOptions::new()
        .write(true)
        .open("/dev/null")
        .map_err(anyhow::Error::from)
        .and_then(|null| Ok(nix::unistd::dup2_stdout(null)?));
    if let Err(error) = let_go {
        tracing::warn!(%error, "standard output stays open");
    }
}

async fn stop(config: &Config) -> Result<ExitCode> {
    let report = match ask::stop(config).await {
        Ok(report) => report,
        Err(NoAnswer::Nobody(_)) => {
            out::line("no warm process runs")?;
            return Ok(ExitCode::SUCCESS);
        }
        Err(error) => return Err(error.into()),
    };
    let until = Instant::now() + END;
    while ask::report(config).await.is_ok() {
        if Instant::now() > until {
            bail!("process {} still answers", report.pid);
        }
        sleep(LOOK).await;
    }
    match report.carrying {
        0 => out::line("stopped")?,
        carrying => out::line(&format!(
            "no session begins over it any more; process {} ends with the {carrying} that it carries",
            report.pid
        ))?,
    }
    Ok(ExitCode::SUCCESS)
}
