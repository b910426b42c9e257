//! Stages: a name, what it does, how long it took. Every stage runs, also after one that failed, so that one round
//! shows everything there is to mend.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

/// Stages that ran so far and which of them failed.
#[derive(Default)]
pub(crate) struct Stages {
    failed: Vec<&'static str>,
}

impl Stages {
    /// Runs one stage between two printed lines.
    pub(crate) fn add(&mut self, name: &'static str, work: impl FnOnce() -> Result<()>) {
        say(&format!("== {name}"));
        let started = now();
        let outcome = work();
        let seconds = started.elapsed().as_secs_f64();
        match outcome {
            Ok(()) => say(&format!("== {name}: ok, {seconds:.1} s")),
            Err(error) => {
                say(&format!("{error:#}"));
                say(&format!("== {name}: FAILED, {seconds:.1} s"));
                self.failed.push(name);
            }
        }
    }

    /// An error that names the stages which failed.
    pub(crate) fn finish(self) -> Result<()> {
        if self.failed.is_empty() {
            return Ok(());
        }
        bail!("failed: {}", self.failed.join(", "))
    }
}

/// The cargo that runs us, in the project's root.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Runs a command with our own input and output.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = shown(command);
    let status = command.status().with_context(|| format!("cannot start {shown}"))?;
    if !status.success() {
        bail!("{shown} ended with {status}");
    }
    Ok(())
}

/// Runs a command and returns what it printed.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let shown = shown(command);
    let output = command.output().with_context(|| format!("cannot start {shown}"))?;
    if !output.status.success() {
        bail!(
            "{shown} ended with {}:\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    String::from_utf8(output.stdout).with_context(|| format!("{shown} printed bytes that are not UTF-8"))
}

/// The project's root folder.
pub(crate) fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&here)
        .parent()
        .map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// One line to standard output.
pub(crate) fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}");
    let _ = out.flush();
}

/// One message to standard error.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "xtask: {text}");
}

/// Fails with all findings at once, or says that there are none.
pub(crate) fn verdict(what: &str, findings: &[String]) -> Result<()> {
    if findings.is_empty() {
        say(&format!("{what}: good"));
        return Ok(());
    }
    bail!("{what}: {} finding(s)\n  {}", findings.len(), findings.join("\n  "))
}

/// The folder of the release binaries: the one that holds this program, also under another target folder.
pub(crate) fn binaries() -> PathBuf {
    std::env::current_exe()
        .ok()
        .and_then(|path| path.parent().map(Path::to_path_buf))
        .unwrap_or_else(|| root().join("target/release"))
}

fn shown(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for word in command.get_args() {
        text.push(' ');
        text.push_str(&word.to_string_lossy());
    }
    text
}

#[expect(
    clippy::disallowed_methods,
    reason = "a task runner has no runtime whose clock could be paused"
)]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}
