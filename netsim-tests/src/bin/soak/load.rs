//! The load: workers that run jobs one after the other until the time is over, and sessions that last from the beginning to the end.
//!
//! A failure is counted, told at once, and ends nothing: what comes after it is to be seen as well.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use netsim_tests::chance::Chance;
use netsim_tests::echo::{FAR, Session};
use tokio::time::Instant;

use crate::jobs::{JOBS, Job, Outcome};
use crate::options::Options;
use crate::say;
use crate::setting::{STEADY, Setting};
use crate::watch::{self, Sample};

/// Between two bytes that are typed into each of them.
const PACE: Duration = Duration::from_secs(1);
/// How often a pause looks whether the time is over.
const LOOK: Duration = Duration::from_millis(100);
/// Failures of one kind whose text is kept.
const TOLD: usize = 5;

/// How one kind of session has fared.
#[derive(Debug, Default, Clone)]
pub(crate) struct Tally {
    pub(crate) good: u64,
    pub(crate) failed: u64,
    pub(crate) bytes: u64,
    /// What went wrong, the first few times.
    pub(crate) told: Vec<String>,
}

/// How all kinds have fared.
#[derive(Default)]
pub(crate) struct Tallies(Mutex<BTreeMap<&'static str, Tally>>);

impl Tallies {
    pub(crate) fn count(&self, name: &'static str, outcome: Outcome) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let tally = all.entry(name).or_default();
        match outcome {
            Ok(bytes) => {
                tally.good += 1;
                tally.bytes += bytes;
            }
            Err(what) => {
                say(&format!("FAILED, {name}: {what}"));
                tally.failed += 1;
                if tally.told.len() < TOLD {
                    tally.told.push(what);
                }
            }
        }
    }

    pub(crate) fn of(&self, name: &str) -> Tally {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(name).cloned().unwrap_or_default()
    }

    pub(crate) fn failures(&self) -> u64 {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.values().map(|tally| tally.failed).sum()
    }

    pub(crate) fn total(&self) -> u64 {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.values().map(|tally| tally.good + tally.failed).sum()
    }
}

/// Sessions with a terminal that last as long as the load: whatever grows in one session grows here.
pub(crate) struct Lasting(Mutex<Vec<Session>>);

/// The lasting sessions among the tallies: each typed byte counts.
pub(crate) const LASTING_NAME: &str = "a keystroke in a session that lasts";

impl Lasting {
    /// How many there are.
    pub(crate) const COUNT: usize = 8;

    pub(crate) fn open(setting: &Setting) -> Result<Lasting> {
        let open = |n: usize| Session::open(&mut setting.client(&["-q", "-t"], STEADY[n % STEADY.len()], &FAR));
        let sessions = (0..Self::COUNT).map(open).collect::<Result<_>>()?;
        Ok(Lasting(Mutex::new(sessions)))
    }

    /// Types into each until the time is over. One that fails is left aside from then on.
    fn typed_into(&self, over: &AtomicBool, tallies: &Tallies) {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !over.load(Ordering::Relaxed) {
            sessions.retain_mut(|session| {
                let outcome = session.once(b'x').map(|_| 1).map_err(|error| format!("{error:#}"));
                let good = outcome.is_ok();
                tallies.count(LASTING_NAME, outcome);
                good
            });
            pause(PACE, over);
        }
    }
}

/// Everything at once, until the time is over; gives what was seen meanwhile.
pub(crate) fn run(setting: &Setting, options: &Options, lasting: &Lasting, tallies: &Tallies) -> Result<Vec<Sample>> {
    let over = AtomicBool::new(false);
    let samples = std::thread::scope(|scope| {
        for job in JOBS {
            for _ in 0..job.workers {
                scope.spawn(|| work(setting, job, &over, tallies));
            }
        }
        scope.spawn(|| lasting.typed_into(&over, tallies));
        let samples = watch::until(setting, options, tallies);
        over.store(true, Ordering::Relaxed);
        samples
    });
    // One that failed half way may have left its agent.
    setting.restless.lock().unwrap_or_else(PoisonError::into_inner).agent = None;
    samples
}

fn work(setting: &Setting, job: &Job, over: &AtomicBool, tallies: &Tallies) {
    let mut chance = Chance::new();
    while !over.load(Ordering::Relaxed) {
        let once = catch_unwind(AssertUnwindSafe(|| (job.once)(setting, &mut chance)));
        tallies.count(job.name, once.unwrap_or_else(|cause| Err(panic_text(&*cause))));
        pause(chance.within(job.pause), over);
    }
}

/// What a panic said.
fn panic_text(cause: &(dyn std::any::Any + Send)) -> String {
    let text = cause.downcast_ref::<String>().cloned();
    let text = text.or_else(|| cause.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    text.unwrap_or_else(|| "it panicked".to_owned())
}

fn pause(time: Duration, over: &AtomicBool) {
    let until = Instant::now() + time;
    while !over.load(Ordering::Relaxed) && Instant::now() < until {
        std::thread::sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
    }
}
