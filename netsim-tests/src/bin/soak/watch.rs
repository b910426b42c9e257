//! What the programs hold, from outside: every few seconds while there is load, and at rest before and after it.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use netsim_tests::admin;
use netsim_tests::burden::{descriptors, proportional, threads};
use netsim_tests::process::{Bounded as _, PATIENCE, processes_in};
use tokio::time::Instant;

use crate::load::{Lasting, Tallies};
use crate::options::Options;
use crate::setting::{STEADY, Setting};
use crate::{recordings, say};

/// How often is told how it goes.
const TELL: Duration = Duration::from_secs(60);
/// Between two looks whether everything is at rest.
const LOOK: Duration = Duration::from_millis(500);
/// So many equal looks are rest: longer than the window of a vanished client.
const EQUAL: usize = 6;

/// What one party holds: a process, or several taken together.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(crate) struct Held {
    /// kB, with what is shared counted in part.
    pub(crate) memory: u64,
    pub(crate) descriptors: u64,
    pub(crate) threads: u64,
    /// Of its runtime, as it says itself.
    pub(crate) tasks: u64,
}

impl Held {
    fn of(pid: u32) -> Result<Held> {
        Ok(Held {
            memory: proportional(pid)?,
            descriptors: descriptors(pid)?,
            threads: threads(pid)?,
            tasks: 0,
        })
    }

    fn and(self, other: Held) -> Held {
        Held {
            memory: self.memory + other.memory,
            descriptors: self.descriptors + other.descriptors,
            threads: self.threads + other.threads,
            tasks: self.tasks + other.tasks,
        }
    }
}

/// Everything at one moment.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(crate) struct Sample {
    /// Seconds since there is load.
    pub(crate) at: f64,
    pub(crate) relay: Held,
    /// The steady agents.
    pub(crate) agents: Held,
    /// The holders of the sessions that last.
    pub(crate) lasting: Held,
    /// All holders of the steady agents.
    pub(crate) holders: u64,
    /// Files of the steady agents' and the relay's state, without recordings.
    pub(crate) files: u64,
}

impl Sample {
    fn take(setting: &Setting, at: f64, lasting: &[u32]) -> Result<Sample> {
        let tasks = |socket: &Path, series| -> Result<u64> {
            let tasks = admin::value(socket, series).context("it says how many tasks it has")?;
            Ok(u64::try_from(tasks)?)
        };
        let mut relay = Held::of(setting.relay()?).context("the relay")?;
        relay.tasks = tasks(&setting.relay_admin, "noderelay_relay_tasks")?;
        let mut agents = Held::default();
        for (pid, socket) in setting.agents()?.into_iter().zip(&setting.agents_admin) {
            let mut held = Held::of(pid).context("an agent")?;
            held.tasks = tasks(socket, "noderelay_agent_tasks")?;
            agents = agents.and(held);
        }
        // One that has ended is told by its session.
        let lasting = lasting.iter().filter_map(|pid| Held::of(*pid).ok());
        Ok(Sample {
            at,
            relay,
            agents,
            lasting: lasting.fold(Held::default(), Held::and),
            holders: setting.holders().len() as u64,
            files: files(setting),
        })
    }

    /// Everything but memory and files: an allocator keeps what it likes, and a publication has as many files as it has.
    fn counts(&self) -> Vec<u64> {
        let of = |held: Held| [held.descriptors, held.threads, held.tasks];
        let held = [self.relay, self.agents, self.lasting].map(of);
        held.into_iter().flatten().chain([self.holders]).collect()
    }

    fn holds_no_more_than(&self, other: &Sample) -> bool {
        self.counts()
            .iter()
            .zip(other.counts())
            .all(|(mine, theirs)| *mine <= theirs)
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, held) in [
            ("relay", self.relay),
            ("agents", self.agents),
            ("lasting holders", self.lasting),
        ] {
            let Held {
                memory,
                descriptors,
                threads,
                tasks,
            } = held;
            write!(
                out,
                "{name} {memory} kB {descriptors} fds {threads} threads {tasks} tasks, "
            )?;
        }
        write!(out, "{} holders, {} files", self.holders, self.files)
    }
}

/// Files below the states, without recordings.
fn files(setting: &Setting) -> u64 {
    let relay = setting.fleet.layout.relay().with_file_name("state");
    let mut folders: Vec<_> = setting.states().into_iter().chain([relay]).collect();
    let mut count = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && entry.file_name() != "recordings" => folders.push(entry.path()),
                Ok(kind) if !kind.is_dir() => count += 1,
                _ => {}
            }
        }
    }
    count
}

/// Has every program do once what it does for a first session, so that this is not taken for a leak.
pub(crate) fn first(setting: &Setting) -> Result<()> {
    for node in STEADY {
        let output = setting.client(&[], node, &["true"]).bounded();
        if !output.status.success() {
            bail!(
                "the first session on {node}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }
    Ok(())
}

/// What is held at rest, with the lasting sessions alone open. Waits until nothing changes any more, and where there was rest
/// before until no more is held than then; gives up after a while: what is held then is judged.
pub(crate) fn settled(setting: &Setting, before: Option<&Sample>) -> Result<Sample> {
    let deadline = Instant::now() + PATIENCE;
    let (mut last, mut equal) = (Sample::default(), 0);
    loop {
        let now = Sample::take(setting, 0.0, &setting.holders())?;
        equal = if now.counts() == last.counts() { equal + 1 } else { 0 };
        last = now;
        let done = now.holders == Lasting::COUNT as u64 && before.is_none_or(|before| now.holds_no_more_than(before));
        if (done && equal >= EQUAL) || Instant::now() > deadline {
            return Ok(now);
        }
        std::thread::sleep(LOOK);
    }
}

/// What is left once every session has ended: processes and files that belong to none.
pub(crate) fn left(setting: &Setting) -> Result<Vec<String>> {
    let deadline = Instant::now() + PATIENCE;
    let [first, second] = setting.agents()?;
    let serving = [setting.relay()?, first, second];
    loop {
        let mut left: Vec<String> = processes_in(&setting.fleet.layout.root)
            .into_iter()
            .filter(|pid| !serving.contains(pid))
            .map(|pid| {
                let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                format!("process {pid}: {}", String::from_utf8_lossy(&line).replace('\0', " "))
            })
            .collect();
        for state in setting.states() {
            let entries = std::fs::read_dir(state.join("sessions"))
                .into_iter()
                .flatten()
                .flatten();
            left.extend(entries.map(|entry| format!("folder {}", entry.path().display())));
        }
        if left.is_empty() || Instant::now() > deadline {
            return Ok(left);
        }
        std::thread::sleep(LOOK);
    }
}

/// Samples until the time is over.
pub(crate) fn until(setting: &Setting, options: &Options, tallies: &Tallies) -> Result<Vec<Sample>> {
    let lasting = setting.holders();
    let begun = Instant::now();
    let end = begun + options.load.duration();
    let (mut samples, mut due, mut tell) = (Vec::new(), begun + options.every, begun + TELL);
    while due <= end {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        due += options.every;
        let sample = Sample::take(setting, begun.elapsed().as_secs_f64(), &lasting)?;
        samples.push(sample);
        recordings::collect(setting, tallies);
        if Instant::now() >= tell {
            tell += TELL;
            let (total, failed) = (tallies.total(), tallies.failures());
            say(&format!("{:.0} s, {total} done, {failed} failed: {sample}", sample.at));
        }
    }
    Ok(samples)
}
