//! Child processes: timed ones, and ones that must be gone when we are.

use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::time::Instant;

/// A command that has not ended by then hangs.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a child may take to end by itself when asked.
const GRACE: Duration = Duration::from_secs(5);

/// What one run took.
pub struct Timing {
    /// From the start to the first byte on standard output, if there was one.
    pub first_byte: Option<Duration>,
    /// From the start to the end.
    pub total: Duration,
}

/// Runs a command to its end. An error when it fails, with what it said.
pub fn timed(command: &mut Command) -> Result<Timing> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let shown = shown(command);
    let started = Instant::now();
    let mut running = Running::start(command)?;
    let mut out = running.child.stdout.take().context("no standard output")?;
    let mut err = running.child.stderr.take().context("no standard error")?;
    let deadline = started + PATIENCE;
    let mut first_byte = None;
    let mut buffer = [0; 4096];
    loop {
        readable(out.as_fd(), deadline).with_context(|| format!("{shown} hangs"))?;
        if out.read(&mut buffer)? == 0 {
            break;
        }
        first_byte.get_or_insert_with(|| started.elapsed());
    }
    let status = running.child.wait()?;
    let total = started.elapsed();
    if !status.success() {
        let mut said = String::new();
        let _ = err.read_to_string(&mut said);
        bail!("{shown} ended with {status}: {}", said.trim());
    }
    Ok(Timing { first_byte, total })
}

/// Waits until something can be read, or the end of the stream.
pub fn readable(stream: BorrowedFd<'_>, deadline: Instant) -> Result<()> {
    let left = deadline.saturating_duration_since(Instant::now());
    let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
    let mut waiting = [PollFd::new(stream, PollFlags::POLLIN)];
    if poll(&mut waiting, timeout)? == 0 {
        bail!("nothing came within {} s", PATIENCE.as_secs());
    }
    Ok(())
}

/// A child that is ended when this is dropped: TERM, and KILL after a grace period.
pub struct Running {
    pub child: Child,
}

impl Running {
    pub fn start(command: &mut Command) -> Result<Running> {
        let shown = shown(command);
        Ok(Running {
            child: command.spawn().with_context(|| format!("cannot start {shown}"))?,
        })
    }

    /// An error when the child has ended although it should serve.
    pub fn still_serves(&mut self, log: &Path) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            let said = std::fs::read_to_string(log).unwrap_or_default();
            let tail: Vec<&str> = said.lines().rev().take(20).collect();
            let tail: Vec<&str> = tail.into_iter().rev().collect();
            bail!("it ended with {status}: {}", tail.join("\n"));
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(Some(_)) = self.child.try_wait() {
            return;
        }
        let pid = Pid::from_raw(self.child.id().cast_signed());
        let _ = kill(pid, Signal::SIGTERM);
        let deadline = Instant::now() + GRACE;
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks again and again until there is an answer, or the deadline.
pub fn eventually<T>(what: &str, limit: Duration, mut ask: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(answer) = ask()? {
            return Ok(answer);
        }
        if Instant::now() > deadline {
            bail!("{what}: not within {} s", limit.as_secs());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A command for messages.
pub fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program())
        .file_name()
        .unwrap_or(command.get_program());
    let words = command.get_args().map(|word| word.to_string_lossy());
    std::iter::once(program.to_string_lossy())
        .chain(words)
        .collect::<Vec<_>>()
        .join(" ")
}
