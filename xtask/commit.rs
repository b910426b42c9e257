//! The build script of every program of ours: which commit this is, for `--version`.
//!
//! `NODERELAY_COMMIT` as it is set at the build, else `git rev-parse --short HEAD`, else `unknown`.
//!
//! Never: fails a build, or asks anything but git.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

const NAME: &str = "NODERELAY_COMMIT";

fn main() {
    let given = std::env::var(NAME).ok().filter(|commit| !commit.is_empty());
    let commit = given
        .or_else(|| git(&["rev-parse", "--short", "HEAD"]))
        .unwrap_or_else(|| "unknown".to_owned());
    say(&format!("rustc-env={NAME}={commit}"));
    say(&format!("rerun-if-env-changed={NAME}"));
    // HEAD changes with the branch, its log with each commit. A missing file would mean a build each time.
    for file in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", file]).filter(|path| Path::new(path).exists()) {
            say(&format!("rerun-if-changed={path}"));
        }
    }
}

/// What git says, in one line; nothing when there is no git, or no repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let line = text.lines().next()?.trim().to_owned();
    (output.status.success() && !line.is_empty()).then_some(line)
}

fn say(instruction: &str) {
    // Cargo reads it to the end.
    let _ = writeln!(std::io::stdout(), "cargo::{instruction}");
}
