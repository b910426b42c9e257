//! What was measured, as a section of the document of benchmarks.

use std::fmt;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::options::Rounds;
use crate::ssh;

/// What a run is about: its heading, and the name of its section in the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// Everything, on whatever processors there are.
    Session,
    /// One measurement with every process on one processor: the work alone, without hand-overs between processors.
    OneProcessor,
    /// Many sessions at once.
    Crowd,
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
            Self::Relay(Frames::Usual) => "relay",
            Self::Relay(Frames::Large) => "relay-9000",
        }
    }

    fn heading(self) -> &'static str {
        match self {
            Self::Session => "One session through one relay",
            Self::OneProcessor => "A keystroke with every process on one processor",
            Self::Crowd => "Many sessions at once",
            Self::Relay(Frames::Usual) => "The relay under load",
            Self::Relay(Frames::Large) => "The relay under load, frames of 9,000 bytes",
        }
    }

    fn marks(self) -> (String, String) {
        let mark = |which| format!("<!-- slice-bench {}: {which} -->", self.section());
        (mark("begin"), mark("end"))
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
}

impl Report {
    pub(crate) fn new(subject: Subject, machine: Machine, rounds: Rounds) -> Report {
        Report {
            subject,
            machine,
            rounds,
            rows: Vec::new(),
        }
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
            Subject::Relay(_) => format!("Medians of {bulk_turns} turns of {bulk} MiB each."),
        };
        let mut text = format!(
            "## {}\n\n\
             Run of {}. {how}\n\n\
             | what | noderelay | beside it | against the goal | goal | |\n|---|---|---|---|---|---|\n",
            self.subject.heading(),
            self.machine,
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
        text
    }
}

/// Where the figures come from.
pub(crate) struct Machine {
    day: String,
    commit: String,
    processors: String,
    kernel: String,
    load: String,
}

impl Machine {
    pub(crate) fn look() -> Machine {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let cpu = read("/proc/cpuinfo");
        let model = cpu
            .lines()
            .find_map(|line| line.strip_prefix("model name"))
            .unwrap_or("unknown processor");
        let count = std::thread::available_parallelism().map_or(0, usize::from);
        Machine {
            day: jiff::Timestamp::now().strftime("%F").to_string(),
            commit: git(&["rev-parse", "--short", "HEAD"]),
            processors: format!("{count} × {}", model.trim_start_matches([' ', '\t', ':'])),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            load: read("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned(),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine {
            day,
            commit,
            processors,
            kernel,
            load,
        } = self;
        let ssh = ssh::version();
        write!(
            out,
            "{day}, commit {commit}, {processors}, Linux {kernel}, load at the start {load}, {ssh}"
        )
    }
}

/// Puts the text between the two marks of the document.
pub(crate) fn replace_section(path: &Path, subject: Subject, text: &str) -> Result<()> {
    let document = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let replaced = replaced(&document, subject, text)
        .with_context(|| format!("{} has no section between {:?}", path.display(), subject.marks()))?;
    std::fs::write(path, replaced).with_context(|| format!("cannot write {}", path.display()))
}

/// The document with another text between the marks.
pub(crate) fn replaced(document: &str, subject: Subject, text: &str) -> Option<String> {
    let (begin, end) = subject.marks();
    let (before, rest) = document.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}\n\n{}\n\n{end}{after}", text.trim()))
}

/// One line to standard output.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// One message to standard error.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "slice-bench: {text}");
}

fn git(words: &[&str]) -> String {
    let output = Command::new("git")
        .args(words)
        .output()
        .ok()
        .filter(|output| output.status.success());
    output.map_or_else(
        || "unknown".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}
