//! The few words that the bench binary understands.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::report::{Frames, Subject};

/// How often each thing is measured.
#[derive(Clone, Copy)]
pub(crate) struct Rounds {
    /// Cold starts at each round-trip time.
    pub(crate) cold: usize,
    /// Whole commands of each rival.
    pub(crate) commands: usize,
    /// Turns of the echo, each with this many bytes.
    pub(crate) echo_turns: usize,
    pub(crate) echoes: usize,
    /// Turns of bulk through the relay, each with this many MiB.
    pub(crate) bulk_turns: usize,
    pub(crate) bulk: u64,
    /// Numbers of idle agents.
    pub(crate) agents: &'static [usize],
    /// Numbers of sessions at once.
    pub(crate) sessions: &'static [usize],
    /// Bytes that are typed into each session of a crowd.
    pub(crate) paced: usize,
}

impl Rounds {
    const FULL: Rounds = Rounds {
        cold: 15,
        commands: 30,
        echo_turns: 6,
        echoes: 500,
        bulk_turns: 7,
        bulk: 1024,
        agents: &[100, 1_000, 10_000],
        sessions: &[10, 30, 100],
        paced: 100,
    };
    const QUICK: Rounds = Rounds {
        cold: 3,
        commands: 5,
        echo_turns: 2,
        echoes: 100,
        bulk_turns: 2,
        bulk: 128,
        agents: &[50, 200],
        sessions: &[4, 12],
        paced: 20,
    };
    /// Far more keystrokes than packets of bulk: code that is run seldom beside what is run most counts as not run at all.
    const TRAINING: Rounds = Rounds {
        commands: 30,
        echo_turns: 20,
        bulk_turns: 1,
        bulk: 32,
        ..Rounds::FULL
    };
}

pub(crate) struct Options {
    /// Where `noderelay` is.
    pub(crate) binaries: PathBuf,
    /// The document whose section is replaced.
    pub(crate) report: Option<PathBuf>,
    /// End with an error when a goal is missed.
    pub(crate) check: bool,
    pub(crate) rounds: Rounds,
    /// What the run is about.
    pub(crate) subject: Subject,
    /// Nothing is measured: the same kinds of work, for a build that counts what it does.
    pub(crate) train: bool,
    /// The one measurement that is wanted.
    pub(crate) only: Option<String>,
}

/// The measurements, by name.
const MEASUREMENTS: [&str; 6] = ["cold", "warm", "true", "echo", "idle", "sessions"];

impl Options {
    /// Whether this measurement is to be made.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == name)
    }

    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Options> {
        let beside = std::env::current_exe()
            .ok()
            .and_then(|path| path.parent().map(Path::to_path_buf));
        let mut options = Options {
            binaries: beside.unwrap_or_default(),
            report: None,
            check: false,
            rounds: Rounds::FULL,
            subject: Subject::Session,
            train: false,
            only: None,
        };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--binaries" => options.binaries = words.next().context("--binaries needs a folder")?.into(),
                "--report" => options.report = Some(words.next().context("--report needs a file")?.into()),
                "--check" => options.check = true,
                "--only" => {
                    let name = words.next().filter(|name| MEASUREMENTS.contains(&name.as_str()));
                    options.only =
                        Some(name.with_context(|| format!("--only needs one of {}", MEASUREMENTS.join(", ")))?);
                }
                // For the heading only: whoever starts us holds us to it.
                "--one-processor" => options.subject = Subject::OneProcessor,
                "--crowd" => options.subject = Subject::Crowd,
                "--growth" => options.subject = Subject::Growth,
                "--train" => (options.train, options.rounds) = (true, Rounds::TRAINING),
                // Whoever starts us sees to it that the interfaces are such.
                "--relay" => {
                    let frames = words.next();
                    options.subject = Subject::Relay(match frames.as_deref() {
                        Some("1500") => Frames::Usual,
                        Some("9000") => Frames::Large,
                        _ => bail!("--relay needs the MTU of the path: 1500 or 9000"),
                    });
                }
                "--quick" => options.rounds = Rounds::QUICK,
                other => {
                    bail!(
                        "unknown option {other}; known: --binaries DIR, --report FILE, --only NAME, --one-processor, --crowd, --growth, --relay MTU, --train, --check, --quick"
                    )
                }
            }
        }
        Ok(options)
    }
}
