//! A long run of everything at once, on loopback, with the real programs; `cargo xtask soak` starts it.
//!
//! ```text
//! relay, two agents, idle agents ─> lasting sessions ─> what it is at rest ─┬─ load: sessions of every kind, each with its outcome
//!                                                                          └─ watch: memory, descriptors, threads, tasks, files
//! time over ─> load ends ─> what it is at rest again ─> verdict ─> report
//! ```
//!
//! Everything that it starts is its own child in a temporary folder, and is ended by it. It judges by bounds that stand here, and
//! never by those of an earlier run.

mod jobs;
mod load;
mod options;
mod recordings;
mod report;
mod restless;
mod setting;
mod verdict;
mod watch;

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Result, bail};
use netsim_tests::document::{self, Machine};

use options::Options;
use setting::Setting;

fn main() -> ExitCode {
    match Options::parse(std::env::args().skip(1)).and_then(|options| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr().lock(), "soak: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<()> {
    let machine = Machine::look();
    say(&format!("on {machine}"));
    let setting = Setting::serving(options)?;
    let lasting = load::Lasting::open(&setting)?;
    watch::first(&setting)?;
    let rest = watch::settled(&setting, None)?;
    say(&format!("at rest: {rest}"));
    let tallies = load::Tallies::default();
    let samples = load::run(&setting, options, &lasting, &tallies)?;
    let after = watch::settled(&setting, Some(&rest))?;
    say(&format!("at rest again: {after}"));
    drop(lasting);
    let verdict = verdict::judge(&verdict::Seen {
        samples: &samples,
        rest: &rest,
        after: &after,
        failures: tallies.failures(),
        left: watch::left(&setting)?,
        lost_idle: setting.lost_idle(),
    });
    let text = report::markdown(&report::Run {
        machine: &machine,
        options,
        tallies: &tallies,
        samples: &samples,
        verdict: &verdict,
    });
    say(&text);
    if let Some(path) = &options.report {
        document::replace_section(path, report::MARK, &text)?;
        say(&format!("written to {}", path.display()));
    }
    let missed = verdict.missed();
    if !missed.is_empty() {
        setting.keep();
        bail!("not good: {}", missed.join("; "));
    }
    Ok(())
}

/// One line to standard output, with the time since the start.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}");
    let _ = out.flush();
}
