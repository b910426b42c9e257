//! The benchmarks of one session through one relay, beside OpenSSH in the same run; `cargo xtask bench` starts it.
//!
//! ```text
//! cold   spawn to first output byte at RTT 0, 50, 150 ms; fitted: round trips and a fixed part
//! warm   the same over what `noderelay warm` keeps: a connection, an inner leg
//! true   `noderelay … -- true` and `ssh -J … true`, start to end, in turns
//! echo   one byte to `cat` on a terminal and back, both sessions open, in turns
//! ```
//!
//! Everything that it starts is its own child, on loopback, with throw-away keys in a temporary folder, and is ended
//! by it. It judges nothing before the delay forwarder has measured itself. It never uses the user's own keys,
//! configuration or agents.

mod crowd;
mod delay;
mod growth;
mod measure;
mod options;
mod product;
mod relay;
mod report;
mod ssh;
mod train;
mod warm;

#[cfg(test)]
mod tests;

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use netsim_tests::document::{self, Machine};

use options::Options;
use report::{Report, Subject, say};

fn main() -> ExitCode {
    // The rival of the relay's figures is a process of its own.
    if std::env::args().nth(1).is_some_and(|word| word == "--serve-plain") {
        return match relay::serve_plain() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                report::complain(&format!("{error:#}"));
                ExitCode::FAILURE
            }
        };
    }
    match Options::parse(std::env::args().skip(1)).and_then(|options| run(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            say("a goal was missed");
            ExitCode::FAILURE
        }
        Err(error) => {
            report::complain(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Runs what is asked for; false when a goal was missed and the caller wants to know.
fn run(options: &Options) -> Result<bool> {
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    if options.train {
        return train::train(options, folder.path()).map(|()| true);
    }
    let machine = Machine::look();
    say(&format!("on {machine}"));
    if let Subject::Relay(frames) = options.subject {
        let mut report = Report::new(options.subject, machine, options.rounds);
        relay::measure(options, frames, folder.path(), &mut report)?;
        return finish(&report, options);
    }
    if options.subject == Subject::Growth {
        let mut report = Report::new(options.subject, machine, options.rounds);
        growth::measure(options, folder.path(), &mut report)?;
        return finish(&report, options);
    }
    if options.subject == Subject::Crowd {
        let mut report = Report::new(options.subject, machine, options.rounds);
        crowd::measure(folder.path(), &options.rounds, &mut report)?;
        return finish(&report, options);
    }
    if options.wants("cold") || options.wants("warm") {
        for rtt in measure::ROUND_TRIPS {
            say(&delay::proof(rtt, delay::TOLERANCE)?);
        }
    }
    let rival = ssh::Rival::start(folder.path()).context("the rival does not start")?;
    let product = product::Product::start(&options.binaries, folder.path()).context("noderelay does not start")?;
    let mut report = Report::new(options.subject, machine, options.rounds);
    if options.wants("cold") {
        measure::cold(&product, &rival, &options.rounds, &mut report)?;
    }
    if options.wants("warm") {
        warm::warm(&product, folder.path(), &options.rounds, &mut report)?;
    }
    if options.wants("true") {
        measure::whole_command(&product, &rival, &options.rounds, &mut report)?;
    }
    if options.wants("echo") {
        measure::echo(&product, &rival, &options.rounds, &mut report)?;
    }
    drop((product, rival));
    finish(&report, options)
}

/// Tells, and writes into the document.
fn finish(report: &Report, options: &Options) -> Result<bool> {
    let text = report.markdown();
    say(&text);
    if let Some(path) = &options.report {
        document::replace_section(path, &options.subject.mark(), &text)?;
        say(&format!("written to {}", path.display()));
    }
    Ok(report.all_met() || !options.check)
}
