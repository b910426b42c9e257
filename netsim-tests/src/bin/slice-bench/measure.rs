//! The measurements. Rivals take turns, so that a busy moment of the machine hits each of them.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use netsim_tests::echo::{FAR, Session};
use netsim_tests::running::timed;
use netsim_tests::stats::{Sample, fit, ms, us};

use crate::delay::Forwarder;
use crate::delay::tcp::TcpForwarder;
use crate::options::Rounds;
use crate::product::Product;
use crate::report::{Goal, Report, Row, say};
use crate::ssh::Rival;

/// The round-trip times at which a cold start is measured.
pub(crate) const ROUND_TRIPS: [Duration; 3] = [Duration::ZERO, Duration::from_millis(50), Duration::from_millis(150)];

/// QUIC handshake, inner handshake, request with output.
const ROUND_TRIPS_GOAL: f64 = 3.0;
/// Fewer than this are impossible for anything that asks and is answered.
const FEWEST_ROUND_TRIPS: f64 = 0.9;
/// The rival's cold starts take long and serve only as the figure beside ours.
const RIVAL_EVERY: usize = 3;
/// What a fit may add to it by noise alone.
pub(crate) const ROUND_TRIPS_NOISE: f64 = 0.05;
const FIXED_GOAL_MS: f64 = 30.0;
const COMMAND_GOAL: f64 = 0.3;
const ECHO_GOAL: f64 = 1.2;

/// Cold start to the first output byte at several round-trip times, fitted by a line. The delay lies between the
/// operator and relay or jump host.
pub(crate) fn cold(product: &Product, rival: &Rival, rounds: &Rounds, report: &mut Report) -> Result<()> {
    say("cold start to the first output byte");
    let mut legs = Vec::new();
    for rtt in ROUND_TRIPS {
        let jump = format!("jump-{}", rtt.as_millis());
        let (udp, tcp) = (
            Forwarder::start(product.relay(), rtt)?,
            TcpForwarder::start(rival.jump(), rtt)?,
        );
        rival.name_jump(&jump, tcp.port())?;
        legs.push(Leg {
            rtt,
            udp,
            _tcp: tcp,
            jump,
            ours: Vec::new(),
            theirs: Vec::new(),
        });
    }
    let mut alone = Vec::new();
    for round in 0..rounds.cold {
        alone.push(first_byte(Command::new("echo").arg("x"))?);
        for leg in &mut legs {
            leg.ours.push(first_byte(
                &mut product.command(Some(leg.udp.address()), &["echo", "x"]),
            )?);
            if round % RIVAL_EVERY == 0 {
                leg.theirs
                    .push(first_byte(&mut rival.command(&leg.jump, &["echo", "x"]))?);
            }
        }
    }
    let alone = Sample::of(alone).context("nothing measured")?.median();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for leg in legs {
        let (mine, other) = both(leg.ours, leg.theirs)?;
        let (low, high) = mine.quartiles();
        ours.push((ms(leg.rtt), ms(mine.median())));
        theirs.push((ms(leg.rtt), ms(other.median())));
        report.row(Row {
            what: format!("cold start to first output byte, RTT {:.0} ms", ms(leg.rtt)),
            ours: format!(
                "{:.1} ms (middle half {:.1} to {:.1})",
                ms(mine.median()),
                ms(low),
                ms(high)
            ),
            beside: format!("{:.0} ms, `ssh -J`", ms(other.median())),
            goal: None,
        });
    }
    let (ours, theirs) = fit(&ours).zip(fit(&theirs)).context("no line fits")?;
    if ours.slope < FEWEST_ROUND_TRIPS {
        bail!(
            "{:.2} round trips: the sessions went around the delay forwarder, so nothing was measured",
            ours.slope
        );
    }
    report.row(Row {
        what: "… of it round trips".to_owned(),
        ours: format!("{:.2}", ours.slope),
        beside: format!("{:.1}, `ssh -J`", theirs.slope),
        goal: Some(Goal {
            seen: ours.slope,
            at_most: ROUND_TRIPS_GOAL,
            noise: ROUND_TRIPS_NOISE,
            unit: "",
        }),
    });
    report.row(Row {
        what: "… and a fixed part".to_owned(),
        ours: format!("{:.1} ms", ours.fixed),
        beside: format!("{:.1} ms, the command alone", ms(alone)),
        goal: Some(Goal {
            seen: ours.fixed - ms(alone),
            at_most: FIXED_GOAL_MS,
            noise: 0.0,
            unit: " ms above it",
        }),
    });
    Ok(())
}

/// One round-trip time, the delayed ways to relay and jump host, and what was measured there.
struct Leg {
    rtt: Duration,
    udp: Forwarder,
    _tcp: TcpForwarder,
    jump: String,
    ours: Vec<Duration>,
    theirs: Vec<Duration>,
}

/// A whole command from start to end.
pub(crate) fn whole_command(product: &Product, rival: &Rival, rounds: &Rounds, report: &mut Report) -> Result<()> {
    say("a whole command");
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..rounds.commands {
        ours.push(timed(&mut product.command(None, &["true"]))?.total);
        theirs.push(timed(&mut rival.command("jump", &["true"]))?.total);
    }
    let (ours, theirs) = both(ours, theirs)?;
    report.row(Row {
        what: "`noderelay … -- true` beside `ssh -J … true`".to_owned(),
        ours: format!("{:.1} ms", ms(ours.median())),
        beside: format!("{:.1} ms", ms(theirs.median())),
        goal: Some(Goal {
            seen: ratio(&ours, &theirs, 50),
            at_most: COMMAND_GOAL,
            noise: 0.0,
            unit: " ×",
        }),
    });
    Ok(())
}

/// One byte to `cat` on a terminal and back.
pub(crate) fn echo(product: &Product, rival: &Rival, rounds: &Rounds, report: &mut Report) -> Result<()> {
    say("one-byte echo");
    let [shell, flag, line] = FAR;
    let mut mine = Session::open(&mut product.terminal(&FAR))?;
    // ssh joins its words by spaces and gives them to a shell, so the line is quoted for it.
    let mut other = Session::open(&mut rival.terminal(&[shell, flag, &format!("'{line}'")]))?;
    let mut floor = Session::open(Command::new(shell).args([flag, line]))?;
    let (mut ours, mut theirs, mut bare) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds.echo_turns {
        for (session, times) in [
            (&mut mine, &mut ours),
            (&mut other, &mut theirs),
            (&mut floor, &mut bare),
        ] {
            for number in 0..rounds.echoes {
                let time = session.once(b'a' + u8::try_from(number % 26)?)?;
                // The first bytes of a turn find caches and clocks cold, on either side.
                if number >= rounds.echoes / 10 {
                    times.push(time);
                }
            }
        }
    }
    let (ours, theirs) = both(ours, theirs)?;
    let bare = Sample::of(bare).context("nothing measured")?;
    for (percent, goal) in [(50, Some(ECHO_GOAL)), (99, None)] {
        let seen = ratio(&ours, &theirs, percent);
        report.row(Row {
            what: format!("one-byte echo, p{percent}, beside `ssh -J`"),
            ours: format!("{:.0} µs", us(ours.percentile(percent))),
            beside: format!("{:.0} µs", us(theirs.percentile(percent))),
            goal: Some(Goal {
                seen,
                at_most: goal.unwrap_or(f64::INFINITY),
                noise: 0.0,
                unit: " ×",
            }),
        });
    }
    report.row(Row {
        what: "… the terminal alone, p50".to_owned(),
        ours: String::new(),
        beside: format!("{:.0} µs", us(bare.median())),
        goal: None,
    });
    Ok(())
}

/// From the start of a command to its first output.
pub(crate) fn first_byte(command: &mut Command) -> Result<Duration> {
    timed(command)?.first_byte.context("the command printed nothing")
}

fn both(ours: Vec<Duration>, theirs: Vec<Duration>) -> Result<(Sample, Sample)> {
    Sample::of(ours).zip(Sample::of(theirs)).context("nothing measured")
}

fn ratio(ours: &Sample, theirs: &Sample, percent: usize) -> f64 {
    ms(ours.percentile(percent)) / ms(theirs.percentile(percent))
}
