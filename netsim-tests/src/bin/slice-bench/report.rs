//! What was measured, as a section of the document of benchmarks.

use std::io::Write as _;

use netsim_tests::document::Machine;
use netsim_tests::{plot, stats};

use crate::options::Rounds;
use crate::ssh;

/// What an exponent may be off by: memory comes in pages and in steps of an allocator.
const GROWTH_NOISE: f64 = 0.05;

/// What a run is about: its heading, and the name of its section in the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// Everything, on whatever processors there are.
    Session,
    /// One measurement with every process on one processor: the work alone, without hand-overs between processors.
    OneProcessor,
    /// Many sessions at once.
    Crowd,
    /// What more agents and more sessions take.
    Growth,
    /// The relay alone, under load, on a path with such frames.
    Relay(Frames),
}

/// What an interface sends at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frames {
    /// 1,500 bytes.
    Usual,
    /// 9,000 bytes, as many clouds have inside.
    Large,
}

impl Subject {
    fn section(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::OneProcessor => "one-processor",
            Self::Crowd => "crowd",
            Self::Growth => "growth",
            Self::Relay(Frames::Usual) => "relay",
            Self::Relay(Frames::Large) => "relay-9000",
        }
    }

    fn heading(self) -> &'static str {
        match self {
            Self::Session => "One session through one relay",
            Self::OneProcessor => "A keystroke with every process on one processor",
            Self::Crowd => "Many sessions at once",
            Self::Growth => "How it grows",
            Self::Relay(Frames::Usual) => "The relay under load",
            Self::Relay(Frames::Large) => "The relay under load, frames of 9,000 bytes",
        }
    }

    /// The name of its section's marks in the document.
    pub(crate) fn mark(self) -> String {
        format!("slice-bench {}", self.section())
    }
}

/// One line of the table.
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) ours: String,
    pub(crate) beside: String,
    pub(crate) goal: Option<Goal>,
}

/// A figure that has a bound. Without one (`at_most` infinite) it is stated only.
pub(crate) struct Goal {
    pub(crate) seen: f64,
    pub(crate) at_most: f64,
    /// What the measurement itself may add.
    pub(crate) noise: f64,
    pub(crate) unit: &'static str,
}

impl Goal {
    fn met(&self) -> bool {
        self.seen <= self.at_most + self.noise
    }
}

/// All rows and where they come from.
pub(crate) struct Report {
    subject: Subject,
    machine: Machine,
    rounds: Rounds,
    rows: Vec<Row>,
    plots: Vec<String>,
}

impl Report {
    pub(crate) fn new(subject: Subject, machine: Machine, rounds: Rounds) -> Report {
        Report {
            subject,
            machine,
            rounds,
            rows: Vec::new(),
            plots: Vec::new(),
        }
    }

    /// How something grows with a number: a plot, and the exponent, which is judged. 1 is in proportion.
    pub(crate) fn growth(&mut self, what: &str, unit: &str, points: &[(f64, f64)]) {
        self.plots.push(plot::growth(what, unit, points));
        let Some(seen) = stats::exponent(points) else { return };
        let last = points
            .len()
            .checked_sub(2)
            .and_then(|from| stats::exponent(points.get(from..)?));
        self.row(Row {
            what: format!("growth: {what}"),
            ours: format!("exponent {seen:.2}; of the last step {:.2}", last.unwrap_or(seen)),
            beside: String::new(),
            goal: Some(Goal {
                // Neither the whole nor where it is largest may be worse than in proportion.
                seen: seen.max(last.unwrap_or(seen)),
                at_most: 1.0,
                noise: GROWTH_NOISE,
                unit: "",
            }),
        });
    }

    pub(crate) fn row(&mut self, row: Row) {
        self.rows.push(row);
    }

    pub(crate) fn all_met(&self) -> bool {
        self.rows.iter().filter_map(|row| row.goal.as_ref()).all(Goal::met)
    }

    pub(crate) fn markdown(&self) -> String {
        let Rounds {
            cold,
            commands,
            echo_turns,
            echoes,
            bulk_turns,
            bulk,
            agents: _,
            sessions: _,
            paced,
        } = self.rounds;
        let how = match self.subject {
            Subject::Session | Subject::OneProcessor => format!(
                "Medians of {cold} cold starts for each RTT, {commands} commands, {} echoed bytes.",
                echo_turns * echoes
            ),
            Subject::Crowd => format!("{echoes} bytes typed into one session, {paced} into each of a crowd."),
            Subject::Growth => "Bars are on a logarithmic scale and begin at a tenth of the width; `|` is where growth in proportion to \
                                the first would end."
                .to_owned(),
            Subject::Relay(_) => format!("Medians of {bulk_turns} turns of {bulk} MiB each."),
        };
        let mut text = format!(
            "## {}\n\n\
             Run of {}, {}. {how}\n\n\
             | what | noderelay | beside it | against the goal | goal | |\n|---|---|---|---|---|---|\n",
            self.subject.heading(),
            self.machine,
            ssh::version(),
        );
        for row in &self.rows {
            let (seen, goal, verdict) = match &row.goal {
                None => (String::new(), String::new(), ""),
                Some(goal) if goal.at_most.is_infinite() => {
                    (format!("{:.2}{}", goal.seen, goal.unit), "stated".to_owned(), "")
                }
                Some(goal) => (
                    format!("{:.2}{}", goal.seen, goal.unit),
                    format!("≤ {}{}", goal.at_most, goal.unit),
                    if goal.met() { "met" } else { "**missed**" },
                ),
            };
            text.push_str(&format!(
                "| {} | {} | {} | {seen} | {goal} | {verdict} |\n",
                row.what, row.ours, row.beside
            ));
        }
        if !self.plots.is_empty() {
            text.push_str(&format!("\n```\n{}```\n", self.plots.join("\n")));
        }
        text
    }
}

/// One line to standard output.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// One message to standard error.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "slice-bench: {text}");
}
