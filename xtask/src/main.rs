//! Development tasks, started as `cargo xtask NAME`.
//!
//! ```text
//! ci      fmt, clippy, deps, docs, test: everything that a change must pass, in stages with their seconds
//! test    the test command of the README
//! dist    the programs as they are shipped, optimised for what a session does
//! bench   the benchmarks, side by side with OpenSSH in the same run
//! soak    everything at once for long, and the tests whose waits are of their true length
//! fuzz    everything that a peer or a file can send, guided by coverage or as mutants
//! deps    which crate may know which
//! docs    links, opening comments, file sizes, and that each promise has its test
//! ```
//!
//! One build profile (release) serves everything, so that nothing is compiled twice; for the same reason this program
//! needs next to no dependencies. A task never changes the system: what must be installed is named, with the command,
//! and left to the person.

mod bench;
mod deps;
mod dist;
mod docs;
mod fuzz;
mod soak;
mod stage;

use std::process::ExitCode;

use anyhow::Result;

use crate::stage::{Stages, cargo, run, say};

const USAGE: &str = "\
usage: cargo xtask TASK

  ci [--without-test]  everything that a change must pass, in stages with their seconds
  test [WORD…]         build every binary, then run every test; words go to `cargo test`
  dist [--profile FILE]
                       the programs as they are shipped, into target/dist: built twice, with a training between (needs
                       `rustup component add llvm-tools`); with the counts of an earlier build that build again
  bench [OPTION…]      dist, then benchmarks against OpenSSH; the figures go into docs/benchmarks.md
                       (--quick: few rounds; --check: fail when a goal is missed; --dry-run: print only)
  soak [--for TIME]    everything at once for an hour, and tests with waits of true length; the figures go into
                       docs/benchmarks.md (--dry-run: print only)
  fuzz [BODY…] [--seconds N] [--mutate [--seed N]]
                       what a peer or a file can send, each body for a minute: guided by coverage (nightly, cargo-fuzz),
                       or with --mutate as mutants of the corpora, with nothing installed
  deps                 which crate may know which
  docs                 documents, links, and that each promise has its test";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["ci"] => ci(true),
        ["ci", "--without-test"] => ci(false),
        ["test", rest @ ..] => test(rest),
        ["dist", words @ ..] => dist::run_all(words),
        ["bench", options @ ..] => bench::run_all(options),
        ["soak", words @ ..] => soak::run_all(words),
        ["fuzz", words @ ..] => fuzz::run_all(words),
        ["deps"] => deps::check(),
        ["docs"] => docs::check(),
        ["help" | "--help" | "-h"] => {
            say(USAGE);
            Ok(())
        }
        _ => {
            stage::complain(&format!("unknown task: {}\n{USAGE}", words.join(" ")));
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            stage::complain(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn ci(with_test: bool) -> Result<()> {
    let mut stages = Stages::default();
    stages.add("fmt", || run(cargo().args(["fmt", "--all", "--check"])));
    stages.add("clippy", || {
        run(cargo().args([
            "clippy",
            "--release",
            "--locked",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ]))
    });
    stages.add("deps", deps::check);
    stages.add("docs", docs::check);
    if with_test {
        stages.add("test", || test(&[]));
    }
    stages.finish()
}

/// Integration tests start the real binaries, so those are built first. `--all-targets` builds them with the very
/// features that the tests use: a plain `--bins` could choose others and compile the dependencies a second time.
fn test(rest: &[&str]) -> Result<()> {
    let mut stages = Stages::default();
    stages.add("build", || {
        run(cargo().args(["build", "--release", "--locked", "--workspace", "--all-targets"]))
    });
    stages.finish()?;
    let scope: &[&str] = if rest.iter().any(|word| *word == "-p" || *word == "--package") {
        &[]
    } else {
        &["--workspace"]
    };
    run(cargo().args(["test", "--release", "--locked"]).args(scope).args(rest))
}
