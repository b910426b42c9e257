//! Keeps the relay and the agent of `demo --up` running as child processes: what dies is started again.
//!
//! ```text
//! start → first line on its stdout ("ready …") → serving → died → wait (0.1 s, doubling to 5 s while it keeps dying) → start
//! ```
//!
//! It ends only processes that it started, by their id, and waits for each. Each child gets its own log file. It holds
//! the other end of each child's standard input and never writes to it: when the supervisor is gone, however it went, the
//! child reads the end and stops ([`end_with_the_supervisor`]). That holds from the child's first moment on.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result};

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::out;

/// First wait before a dead child is started again.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// Longest such wait.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// A child that ran this long starts from [`FIRST_WAIT`] again.
const STEADY: Duration = Duration::from_secs(10);
/// After SIGTERM a child has this long before it is killed.
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// One program to keep running.
pub struct Service {
    /// `relay` or `agent`: subcommand and name in messages.
    pub name: &'static str,
    /// This very binary.
    pub program: PathBuf,
    /// Its configuration file.
    pub config: PathBuf,
    /// Where its stderr goes.
    pub log: PathBuf,
}

impl Service {
    /// Runs until `stop`; `serving` is told when it is ready for the first time.
    pub async fn keep(self, stop: CancellationToken, serving: oneshot::Sender<()>) -> Result<()> {
        let mut serving = Some(serving);
        let mut wait = FIRST_WAIT;
        loop {
            let started = Instant::now();
            let mut child = self.start()?;
            // Kept open until the child has ended; waiting for the child would close it.
            let _alive = child.stdin.take();
            let mut lines = BufReader::new(child.stdout.take().context("the child has no stdout")?).split(b'\n');
            // It is read to its end: a child must not wait for somebody who reads its stdout.
            let mut talks = true;
            let status = loop {
                tokio::select! {
                    () = stop.cancelled() => return end(child).await,
                    line = lines.next_segment(), if talks => match line {
                        Ok(Some(line)) if line.starts_with(b"ready") => { serving.take().map(|s| s.send(())); }
                        Ok(Some(_)) => {}
                        Ok(None) | Err(_) => talks = false,
                    },
                    status = child.wait() => break status?,
                }
            };
            if serving.is_some() {
                let log = std::fs::read_to_string(&self.log).unwrap_or_default();
                let last = log.lines().last().unwrap_or("(its log is empty)").to_string();
                anyhow::bail!("the {} ended before it served ({status}): {last}", self.name);
            }
            out::say(&format!("the {} ended ({status}); starting it again", self.name));
            wait = if started.elapsed() >= STEADY { FIRST_WAIT } else { wait };
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(wait) => wait = (wait * 2).min(LONGEST_WAIT),
            }
        }
    }

    fn start(&self) -> Result<Child> {
        let log = append(&self.log)?;
        Command::new(&self.program)
            .args(["internal", self.name])
            .arg(&self.config)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{} can't be started as the {}", self.program.display(), self.name))
    }
}

/// In a child: stops this process as Ctrl-C would once standard input ends, and ends it when that takes too long.
pub fn end_with_the_supervisor() {
    std::thread::spawn(|| {
        // An error is an end, too: nothing holds the other side any more.
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        // Before the handler is in place this ends the process at once, which is as good.
        let _ = nix::sys::signal::kill(nix::unistd::Pid::this(), nix::sys::signal::Signal::SIGTERM);
        std::thread::sleep(STOP_WITHIN);
        std::process::exit(1);
    });
}

async fn end(mut child: Child) -> Result<()> {
    if let Some(id) = child.id().and_then(|id| i32::try_from(id).ok()) {
        // Our own child, not yet waited for, so the id can't be somebody else's.
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(id), nix::sys::signal::Signal::SIGTERM)?;
    }
    if tokio::time::timeout(STOP_WITHIN, child.wait()).await.is_err() {
        child.kill().await?;
    }
    Ok(())
}

fn append(path: &Path) -> Result<File> {
    File::options()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("log file {}", path.display()))
}

#[cfg(test)]
mod tests;
