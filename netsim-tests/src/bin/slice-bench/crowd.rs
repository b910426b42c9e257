//! Many sessions at once, of one relay and one agent: how long a keystroke takes among them.
//!
//! ```text
//! a byte every 100 ms in each of 100, each a client process with `cat` at its far end ──> until it is back; the same with `ssh -J`
//! a byte in one beside another that carries as much as it can
//! ```
//!
//! Relay and agent are the shipped programs, not the demo's; their own limits are raised to the number of sessions.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use netsim_tests::echo::{FAR, Session, paced};
use netsim_tests::fleet::Fleet;
use netsim_tests::running::Running;
use netsim_tests::stats::{Sample, ms, us};

use crate::options::Rounds;
use crate::report::{Goal, Report, Row, say};
use crate::ssh::Rival;

/// Sessions that are opened at the same time.
const AT_ONCE: usize = 8;
/// The crowd among which a keystroke is timed.
const CROWD: usize = 100;
const CROWD_GOAL_MS: f64 = 2.0;
const NEIGHBOUR_GOAL_US: f64 = 500.0;

pub(crate) fn measure(folder: &Path, rounds: &Rounds, report: &mut Report) -> Result<()> {
    let rival = Rival::start(folder).context("the rival does not start")?;
    let fleet = fleet(CROWD)?;
    let ours = || {
        let mut command = fleet.client();
        command.args(["-q", "-t", "local", "--"]).args(FAR);
        command
    };
    let [shell, flag, line] = FAR;
    // ssh joins its words by spaces and gives them to a shell, so the line is quoted for it.
    let theirs = || rival.terminal(&[shell, flag, &format!("'{line}'")]);

    say("a keystroke beside a neighbour at full speed");
    let alone = keystrokes(&mut ours(), None, rounds)?;
    let mut neighbour = fleet.client();
    neighbour.args(["-q", "-T", "local", "--", "cat", "/dev/zero"]);
    let beside = keystrokes(&mut ours(), Some(&mut neighbour), rounds)?;
    let other = keystrokes(
        &mut theirs(),
        Some(&mut rival.command("jump", &["cat", "/dev/zero"])),
        rounds,
    )?;
    report.row(Row {
        what: "one-byte echo beside a session at full speed on the same agent, p50 (p99)".to_owned(),
        ours: format!("{} (alone {})", spread(&beside), spread(&alone)),
        beside: format!("{}, `ssh -J`", spread(&other)),
        goal: Some(Goal {
            seen: us(beside.median()),
            at_most: NEIGHBOUR_GOAL_US,
            noise: 0.0,
            unit: " µs",
        }),
    });

    say("many sessions");
    let mut sessions = Vec::new();
    open(&mut sessions, CROWD, &ours)?;
    let mine = sample(paced(&mut sessions, rounds.paced)?)?;
    let mut others = Vec::new();
    open(&mut others, CROWD, &theirs)?;
    let other = sample(paced(&mut others, rounds.paced)?)?;
    report.row(Row {
        what: format!("{CROWD} sessions, a byte every 100 ms in each: echo p50 (p99)"),
        ours: spread(&mine),
        beside: format!("{}, `ssh -J`", spread(&other)),
        goal: Some(Goal {
            seen: ms(mine.percentile(99)),
            at_most: CROWD_GOAL_MS,
            noise: 0.0,
            unit: " ms",
        }),
    });
    Ok(())
}

/// Relay and agent with room for so many sessions of one person.
pub(crate) fn fleet(sessions: usize) -> Result<Fleet> {
    let mut fleet = Fleet::files(&format!("sessions: {}", sessions + 8));
    let edit = |file: std::path::PathBuf, change: &dyn Fn(String) -> String| -> Result<()> {
        let text = std::fs::read_to_string(&file)?;
        Ok(std::fs::write(&file, change(text))?)
    };
    // Tests look for changes far more often than anybody else.
    edit(fleet.layout.agent(), &|text| {
        text.replace("reload: 200ms", "reload: 5s")
    })?;
    let most = sessions + 8;
    let limits = format!(
        "limits: {{connections_per_person: {most}, streams_per_person: {most}, opens_at_once: {most}, opens_per_second: {most}}}\n"
    );
    edit(fleet.layout.relay(), &|text| text + &limits)?;
    fleet.start_relay();
    fleet.start_agent();
    Ok(fleet)
}

/// Opens sessions until there are so many.
pub(crate) fn open(sessions: &mut Vec<Session>, count: usize, command: &(impl Fn() -> Command + Sync)) -> Result<()> {
    while sessions.len() < count {
        let some = AT_ONCE.min(count - sessions.len());
        let opened: Vec<Result<Session>> = std::thread::scope(|scope| {
            let begun: Vec<_> = (0..some)
                .map(|_| scope.spawn(|| Session::open(&mut command())))
                .collect();
            let ended = |thread: std::thread::ScopedJoinHandle<'_, Result<Session>>| {
                thread
                    .join()
                    .unwrap_or_else(|_| Err(anyhow!("a thread of the benchmark failed")))
            };
            begun.into_iter().map(ended).collect()
        });
        for session in opened {
            sessions.push(session?);
        }
    }
    Ok(())
}

/// One session after the other types, beside a neighbour or alone.
fn keystrokes(command: &mut Command, neighbour: Option<&mut Command>, rounds: &Rounds) -> Result<Sample> {
    let mut session = Session::open(command)?;
    let quiet = |command: &mut Command| {
        Running::start(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()))
    };
    let _neighbour = neighbour.map(quiet).transpose()?;
    // The neighbour is to be at full speed.
    let warm = rounds.echoes / 5;
    let mut times = Vec::new();
    for number in 0..rounds.echoes + warm {
        let time = session.once(b'x')?;
        if number >= warm {
            times.push(time);
        }
    }
    sample(times)
}

fn sample(times: Vec<Duration>) -> Result<Sample> {
    Sample::of(times).context("nothing measured")
}

fn spread(sample: &Sample) -> String {
    format!("{:.0} µs ({:.0} µs)", us(sample.median()), us(sample.percentile(99)))
}
