//! `cargo xtask fuzz`: the fuzz bodies, guided by coverage, or over mutants where there is no nightly toolchain.
//!
//! ```text
//! fuzz [BODY…] [--seconds N]                   cargo-fuzz, each body for so long; what it finds stays below target/fuzz
//! fuzz --mutate [BODY…] [--seconds N] [--seed N]     mutants of the corpora, with this very toolchain
//! ```
//!
//! The list of bodies is that of `fuzz/Cargo.toml`, which a test keeps equal to the one in the code. Nothing is installed and
//! no corpus is changed: whoever mends a fault puts the input there.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::stage::{Stages, binaries, cargo, root, run};

const MISSING: &str = "\
coverage-guided fuzzing needs a nightly toolchain and cargo-fuzz; at least one of them is not there. To get them:
  rustup toolchain install nightly --profile minimal
  cargo install cargo-fuzz
Without them: cargo xtask fuzz --mutate";

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
struct Wish<'a> {
    bodies: Vec<&'a str>,
    seconds: u64,
    mutate: bool,
    seed: Option<u64>,
}

pub(crate) fn run_all(words: &[&str]) -> Result<()> {
    let manifest = root().join("fuzz/Cargo.toml");
    let manifest = std::fs::read_to_string(&manifest).with_context(|| format!("cannot read {}", manifest.display()))?;
    let all = targets(&manifest);
    let wish = parse(words, &all)?;
    if wish.mutate { mutants(&wish) } else { guided(&wish) }
}

fn parse<'a>(words: &[&'a str], all: &[&'a str]) -> Result<Wish<'a>> {
    let mut wish = Wish {
        bodies: Vec::new(),
        seconds: 60,
        mutate: false,
        seed: None,
    };
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let mut number = || -> Result<u64> {
            let next = rest.next().with_context(|| format!("{word} needs a number"))?;
            next.parse()
                .with_context(|| format!("{word} needs a number, not {next}"))
        };
        match *word {
            "--seconds" => wish.seconds = number()?,
            "--seed" => wish.seed = Some(number()?),
            "--mutate" => wish.mutate = true,
            body if all.contains(&body) => wish.bodies.push(body),
            other => bail!(
                "fuzz does not know {other}; it knows --seconds N, --mutate, --seed N and the bodies {}",
                all.join(", ")
            ),
        }
    }
    if wish.seed.is_some() && !wish.mutate {
        bail!("--seed is for --mutate");
    }
    if wish.bodies.is_empty() {
        wish.bodies = all.to_vec();
    }
    Ok(wish)
}

fn mutants(wish: &Wish<'_>) -> Result<()> {
    let mut stages = Stages::default();
    stages.add("build", || {
        run(cargo().args(["build", "--release", "--locked", "--workspace", "--all-targets"]))
    });
    stages.finish()?;
    let mut command = Command::new(binaries().join("fuzz"));
    command.current_dir(root()).args(&wish.bodies);
    command.args(["--seconds", &wish.seconds.to_string()]);
    if let Some(seed) = wish.seed {
        command.args(["--seed", &seed.to_string()]);
    }
    run(&mut command)
}

fn guided(wish: &Wish<'_>) -> Result<()> {
    let there = nightly()
        .args(["fuzz", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !there.is_ok_and(|status| status.success()) {
        bail!(MISSING);
    }
    let root = root();
    // The versions that are tested are the versions that are fuzzed.
    std::fs::copy(root.join("Cargo.lock"), root.join("fuzz/Cargo.lock")).context("cannot copy the lock file")?;
    let list =
        std::fs::read_to_string(root.join("netsim-tests/src/fuzz.rs")).context("cannot read the list of bodies")?;
    let mut found = Vec::new();
    for body in &wish.bodies {
        let own = root.join("target/fuzz/corpus").join(body);
        let kept = root.join("target/fuzz/found").join(body);
        let seeds = root.join(corpus(&list, body).with_context(|| format!("{body} is not in the list of bodies"))?);
        for folder in [&own, &kept] {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        let mut command = nightly();
        command.args([
            "fuzz",
            "run",
            "--release",
            "--fuzz-dir",
            "fuzz",
            "--target-dir",
            "target/fuzz/build",
            body,
        ]);
        command.args([&own, &seeds]).arg("--");
        command
            .arg(format!("-max_total_time={}", wish.seconds))
            .args(["-timeout=10", "-max_len=65536"]);
        command.arg(format!("-artifact_prefix={}/", shown(&kept)));
        if let Err(error) = run(&mut command) {
            found.push(format!("{body}: {error:#}; what it found is in {}", shown(&kept)));
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    bail!("{}", found.join("\n"))
}

/// A nightly cargo in the project's root.
fn nightly() -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo"]).current_dir(root());
    // The cargo that runs us has named itself and its toolchain there.
    for name in ["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(name);
    }
    command
}

/// The names of the targets in the manifest.
fn targets(manifest: &str) -> Vec<&str> {
    manifest
        .split("[[bin]]")
        .skip(1)
        .filter_map(|target| target.split_once("name = \"")?.1.split('"').next())
        .collect()
}

/// The corpus of a body, as the list has it: `name function, "folder";`.
fn corpus<'a>(list: &'a str, body: &str) -> Option<&'a str> {
    let entry = list
        .lines()
        .find(|line| line.split_whitespace().next() == Some(body) && line.ends_with("\";"))?;
    entry.split('"').nth(1)
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests;
