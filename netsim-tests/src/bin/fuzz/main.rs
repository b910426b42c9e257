//! Mutants of the corpora through the fuzz bodies, for some time; `cargo xtask fuzz --mutate` starts it.
//!
//! ```text
//! fuzz [BODY…] [--seconds N] [--seed N]
//! each body: a thread with the stack of a service's worker ─> mutants until the time is over ─> how many, how slow, how big
//!            a panic, a slow one, or much memory: the input is kept, and its name told; the other bodies go on
//! ```
//!
//! The input at work stands in a file of its own while it is at work: what ends the whole process is there afterwards. It changes
//! nothing in the project; whoever mends a fault puts the input into the corpus.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use netsim_tests::chance::Chance;
use netsim_tests::fuzz::mutate::Mutants;
use netsim_tests::fuzz::{BODIES, Body, root};
use tokio::time::Instant;

/// A body that takes longer than this for one input, also on a busy machine, has found a way to keep somebody busy.
const SLOW: Duration = Duration::from_secs(5);
/// Bytes of 64 KiB at most came in: nothing that is made of them is that big.
const BIG: u64 = 512 * 1024 * 1024;

fn main() -> ExitCode {
    match run(std::env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr().lock(), "fuzz: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut words: impl Iterator<Item = String>) -> Result<()> {
    let (mut named, mut time, mut seed) = (Vec::new(), Duration::from_secs(60), None);
    while let Some(word) = words.next() {
        let mut number = || -> Result<u64> {
            let next = words.next().with_context(|| format!("{word} needs a number"))?;
            next.parse()
                .with_context(|| format!("{word} needs a number, not {next}"))
        };
        match word.as_str() {
            "--seconds" => time = Duration::from_secs(number()?),
            "--seed" => seed = Some(number()?),
            name => named.push(find(name)?),
        }
    }
    if named.is_empty() {
        named = BODIES.iter().collect();
    }
    let found = root().join("target/fuzz");
    let mut failed = Vec::new();
    for body in named {
        let chance = seed.map_or_else(Chance::new, Chance::of);
        let at_work = Work::begin(&found, body, chance)?;
        // The default stack of a thread is what workers of the services have.
        let done = std::thread::Builder::new()
            .name(body.name.into())
            .spawn(move || at_work.until(Instant::now() + time))?;
        match done.join() {
            Ok(Ok(told)) => say(&told),
            Ok(Err(error)) => {
                say(&format!("{}: {error:#}", body.name));
                failed.push(body.name);
            }
            Err(_) => bail!("{}: the thread is gone", body.name),
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    bail!("found something in: {}", failed.join(", "))
}

fn find(name: &str) -> Result<&'static Body> {
    let known = || BODIES.iter().map(|body| body.name).collect::<Vec<_>>().join(", ");
    BODIES
        .iter()
        .find(|body| body.name == name)
        .with_context(|| format!("there is no body {name}; there are {}", known()))
}

/// One body at work.
struct Work {
    body: &'static Body,
    chance: Chance,
    seed: u64,
    current: File,
    kept: PathBuf,
}

impl Work {
    fn begin(found: &Path, body: &'static Body, chance: Chance) -> Result<Self> {
        fs::create_dir_all(found).with_context(|| format!("cannot make {}", found.display()))?;
        let path = found.join(format!("{}.at-work", body.name));
        let current = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        let seed = chance.seed();
        say(&format!(
            "== {}: seed {seed}; the input at work is in {}",
            body.name,
            path.display()
        ));
        Ok(Self {
            body,
            chance,
            seed,
            current,
            kept: found.join(format!("{}.found", body.name)),
        })
    }

    fn until(self, deadline: Instant) -> Result<String> {
        let corpus = self.body.corpus();
        let mut mutants = Mutants::of(&corpus, self.chance);
        let (mut count, mut slowest) = (0_u64, Duration::ZERO);
        let begun = Instant::now();
        let mut now = begun;
        forget_peak();
        while now < deadline {
            let input = mutants.mutant();
            self.current.set_len(input.len() as u64)?;
            self.current.write_all_at(input, 0)?;
            let run = self.body.run;
            let outcome = catch_unwind(|| run(input));
            let took = now.elapsed();
            now = Instant::now();
            count += 1;
            slowest = slowest.max(took);
            let trouble = match outcome {
                Err(_) => "panicked".to_owned(),
                Ok(()) if took > SLOW => format!("took {took:?}"),
                Ok(()) if count.is_multiple_of(1024) && peak() > BIG => format!("needed {} bytes", peak()),
                Ok(()) => continue,
            };
            fs::write(&self.kept, input)?;
            bail!(
                "{trouble} at input {count} of seed {}; it is kept in {}",
                self.seed,
                self.kept.display()
            );
        }
        Ok(format!(
            "{}: {count} inputs, {:.0} a second, slowest {slowest:.1?}, at most {} MiB in memory",
            self.body.name,
            count as f64 / begun.elapsed().as_secs_f64(),
            peak() / 1024 / 1024
        ))
    }
}

/// Lets the system count the peak anew.
fn forget_peak() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// Most memory at once since then, in bytes; 0 when the system does not say.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}");
    let _ = out.flush();
}
