//! The verdict: what may not grow, by how much at most, and what of it did. Pure; time and figures come from outside.
//!
//! The first half of the load is for warming up: caches and allocators take what they need. Over the second half a line is fitted
//! (least squares); what it rises by is what is judged, so that single peaks count for little and a leak for all.

use netsim_tests::stats::fit;

use crate::watch::{Held, Sample};

/// Memory may rise by this share of its mean, or by so many kB where that is more.
const SHARE: f64 = 0.02;
const LEAST_KB: f64 = 512.0;
/// Descriptors, threads and tasks change with each session that happens to be open, so their line is never quite flat: they may rise by
/// the same share, or by so many where that is more.
const LEAST: f64 = 3.0;

/// What was seen.
pub(crate) struct Seen<'a> {
    pub(crate) samples: &'a [Sample],
    /// At rest, before and after.
    pub(crate) rest: &'a Sample,
    pub(crate) after: &'a Sample,
    pub(crate) failures: u64,
    /// Processes and folders that belong to no session.
    pub(crate) left: Vec<String>,
    pub(crate) lost_idle: usize,
}

/// One judged figure.
pub(crate) struct Line {
    pub(crate) what: String,
    /// What it was, as text.
    pub(crate) seen: String,
    /// By how much it grew, or how many there were.
    pub(crate) grown: f64,
    pub(crate) at_most: f64,
    pub(crate) unit: &'static str,
}

impl Line {
    pub(crate) fn good(&self) -> bool {
        self.grown <= self.at_most
    }
}

/// Every judged figure.
pub(crate) struct Verdict(pub(crate) Vec<Line>);

impl Verdict {
    /// What was not good.
    pub(crate) fn missed(&self) -> Vec<String> {
        let bad = self.0.iter().filter(|line| !line.good());
        bad.map(|line| {
            format!(
                "{}: {:.1}{} of at most {:.1}",
                line.what, line.grown, line.unit, line.at_most
            )
        })
        .collect()
    }
}

/// What is judged of a party, as numbers.
type Look = (&'static str, &'static str, fn(&Sample) -> Held);

const PARTIES: [Look; 3] = [
    ("relay", "the relay", |sample| sample.relay),
    ("agents", "both agents", |sample| sample.agents),
    ("holders", "the holders of the lasting sessions", |sample| {
        sample.lasting
    }),
];

pub(crate) fn judge(seen: &Seen<'_>) -> Verdict {
    let counts = |mean| at_most(mean, LEAST);
    let mut lines = Vec::new();
    let mut figure = |what: String, value: &dyn Fn(&Sample) -> f64, at_most: &dyn Fn(f64) -> f64, unit| {
        let series: Vec<(f64, f64)> = seen.samples.iter().map(|sample| (sample.at, value(sample))).collect();
        // Nothing to fit is nothing that could be called flat.
        let (mean, grown) = rise(&series).unwrap_or((0.0, f64::INFINITY));
        lines.push(Line {
            what,
            seen: format!("{mean:.0}{unit}"),
            grown,
            at_most: at_most(mean),
            unit,
        });
    };
    for (_, name, of) in PARTIES {
        figure(
            format!("memory of {name} (PSS)"),
            &|sample| of(sample).memory as f64,
            &|mean| at_most(mean, LEAST_KB),
            " kB",
        );
        figure(
            format!("descriptors of {name}"),
            &|sample| of(sample).descriptors as f64,
            &counts,
            "",
        );
        figure(
            format!("threads of {name}"),
            &|sample| of(sample).threads as f64,
            &counts,
            "",
        );
        if name != "the holders of the lasting sessions" {
            figure(
                format!("tasks of {name}"),
                &|sample| of(sample).tasks as f64,
                &counts,
                "",
            );
        }
    }
    for (what, value) in [
        ("holders", (|sample| sample.holders as f64) as fn(&Sample) -> f64),
        ("files of the states", |sample| sample.files as f64),
    ] {
        figure(what.to_owned(), &value, &counts, "");
    }
    let mut count = |what: &str, seen: String, grown: f64| {
        lines.push(Line {
            what: what.to_owned(),
            seen,
            grown,
            at_most: 0.0,
            unit: "",
        });
    };
    for (_, name, of) in PARTIES {
        for (what, value) in [
            ("descriptors", (|held| held.descriptors) as fn(Held) -> u64),
            ("threads", |held| held.threads),
            ("tasks", |held| held.tasks),
        ] {
            let (before, after) = (value(of(seen.rest)), value(of(seen.after)));
            count(
                &format!("{what} of {name}, at rest after the load"),
                format!("{before} before, {after} after"),
                after as f64 - before as f64,
            );
        }
    }
    count(
        "processes and folders left over",
        seen.left.join("; "),
        seen.left.len() as f64,
    );
    count(
        "idle agents that were lost",
        seen.lost_idle.to_string(),
        seen.lost_idle as f64,
    );
    count(
        "sessions that did not end as they should",
        seen.failures.to_string(),
        seen.failures as f64,
    );
    Verdict(lines)
}

fn at_most(mean: f64, least: f64) -> f64 {
    (mean * SHARE).max(least)
}

/// The mean of the second half of a series of (seconds, value), and what its fitted line rises by over that half. None for too few
/// points.
pub(crate) fn rise(series: &[(f64, f64)]) -> Option<(f64, f64)> {
    let end = series.last()?.0;
    let half: Vec<(f64, f64)> = series.iter().copied().filter(|(at, _)| *at >= end / 2.0).collect();
    let line = fit(&half)?;
    let span = end - half.first()?.0;
    let mean = half.iter().map(|(_, value)| value).sum::<f64>() / half.len() as f64;
    Some((mean, line.slope * span))
}

#[cfg(test)]
mod tests;
