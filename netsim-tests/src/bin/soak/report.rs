//! What was seen, as a section of the document of benchmarks.

use std::fmt::Write as _;

use netsim_tests::document::Machine;
use netsim_tests::plot::{curve, short};

use crate::jobs::JOBS;
use crate::load::{LASTING_NAME, Lasting, Tallies};
use crate::options::Options;
use crate::recordings;
use crate::verdict::Verdict;
use crate::watch::Sample;

/// The name of the section's marks.
pub(crate) const MARK: &str = "soak";

pub(crate) struct Run<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) options: &'a Options,
    pub(crate) tallies: &'a Tallies,
    pub(crate) samples: &'a [Sample],
    pub(crate) verdict: &'a Verdict,
}

pub(crate) fn markdown(run: &Run<'_>) -> String {
    let Options { load, every, idle, .. } = run.options;
    let mut text = format!(
        "## Everything at once, for long\n\n\
         Run of {}. {load} of load: two agents that last, one that is restarted, {idle} idle agents, {} sessions that last; \
         {} samples, one every {every:?}. The second half is judged by a fitted line.\n\n\
         | kind | good | failed | bytes seen |\n|---|---|---|---|\n",
        run.machine,
        Lasting::COUNT,
        run.samples.len(),
    );
    let kinds = JOBS.iter().map(|job| job.name).chain([LASTING_NAME, recordings::NAME]);
    for name in kinds {
        let tally = run.tallies.of(name);
        let _ = writeln!(text, "| {name} | {} | {} | {} |", tally.good, tally.failed, tally.bytes);
        for told in tally.told {
            let line: Vec<&str> = told.split_whitespace().collect();
            let cut: String = line.join(" ").replace('|', "/").chars().take(200).collect();
            let _ = writeln!(text, "| … {cut} | | | |");
        }
    }
    text.push_str("\n| what | seen | grown by | at most | |\n|---|---|---|---|---|\n");
    for line in &run.verdict.0 {
        let verdict = if line.good() { "good" } else { "**not good**" };
        let (unit, grown) = (line.unit, signed(line.grown));
        let at_most = short(line.at_most);
        let _ = writeln!(
            text,
            "| {} | {} | {grown}{unit} | {at_most}{unit} | {verdict} |",
            line.what, line.seen
        );
    }
    text.push_str("\n```\n");
    for (title, value) in [
        (
            "relay, memory in MB",
            (|sample| sample.relay.memory as f64 / 1e3) as fn(&Sample) -> f64,
        ),
        ("both agents, memory in MB", |sample| sample.agents.memory as f64 / 1e3),
        ("holders of the lasting sessions, memory in MB", |sample| {
            sample.lasting.memory as f64 / 1e3
        }),
        ("relay and agents, descriptors", |sample| {
            (sample.relay.descriptors + sample.agents.descriptors) as f64
        }),
        ("relay and agents, tasks", |sample| {
            (sample.relay.tasks + sample.agents.tasks) as f64
        }),
    ] {
        let points: Vec<(f64, f64)> = run.samples.iter().map(|sample| (sample.at, value(sample))).collect();
        text.push_str(&curve(title, &points));
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text.push_str("\n```\n");
    text
}

fn signed(number: f64) -> String {
    // A zero has no sign.
    let number = if number.abs() < 0.005 { 0.0 } else { number };
    short(number)
}
