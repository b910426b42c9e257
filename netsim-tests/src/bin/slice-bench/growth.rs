//! How a relay and a node grow: with agents that do nothing, and with sessions.
//!
//! ```text
//! so many sessions of one agent, each with `cat` on a terminal at its far end ──> memory of relay, agent and holders
//! so many agents that are attached and do nothing ──> memory and processor of a relay (`relay::idle`)
//! ```
//!
//! What is judged beside each figure is the exponent: 1 is growth in proportion, less is better. It is that of the whole, as
//! whoever sizes a machine sees it, with what the program takes by itself.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use netsim_tests::burden::{proportional, resident};
use netsim_tests::echo::FAR;
use netsim_tests::fleet::Fleet;
use netsim_tests::process::processes_in;

use crate::crowd::{fleet, open};
use crate::options::Options;
use crate::relay;
use crate::report::{Goal, Report, Row, say};

const RELAY_GOAL_KB: f64 = 200.0;
const NODE_GOAL_KB: f64 = 4096.0;

pub(crate) fn measure(options: &Options, folder: &Path, report: &mut Report) -> Result<()> {
    if options.wants("idle") {
        relay::idle_agents(options, folder, report)?;
    }
    if options.wants("sessions") {
        sessions(options.rounds.sessions, report)?;
    }
    Ok(())
}

fn sessions(counts: &[usize], report: &mut Report) -> Result<()> {
    say("many sessions");
    let fleet = fleet(counts.iter().copied().max().unwrap_or_default())?;
    let ours = || {
        let mut command = fleet.client();
        command.args(["-q", "-t", "local", "--"]).args(FAR);
        command
    };
    let [relay, agent] = [&fleet.relay, &fleet.agent].map(|process| process.as_ref().map(|process| process.0.id()));
    let (relay, agent) = relay.zip(agent).context("relay and agent run")?;
    let empty = (resident(relay)?, proportional(agent)?);
    let (mut sessions, mut relays, mut nodes) = (Vec::new(), Vec::new(), Vec::new());
    for count in counts.iter().copied() {
        open(&mut sessions, count, &ours)?;
        // What the start took for itself is given back.
        std::thread::sleep(Duration::from_secs(2));
        let held = holders(&fleet).map(proportional).sum::<Result<u64>>()?;
        let (at_relay, at_node) = (resident(relay)?, held + proportional(agent)?);
        relays.push((count as f64, at_relay as f64 / 1e3));
        nodes.push((count as f64, at_node as f64 / 1e3));
        for (what, seen, at_most) in [
            ("of the relay", at_relay.saturating_sub(empty.0), RELAY_GOAL_KB),
            (
                "of agent and holders (PSS)",
                at_node.saturating_sub(empty.1),
                NODE_GOAL_KB,
            ),
        ] {
            let seen = seen as f64 / count as f64;
            report.row(Row {
                what: format!("{count} sessions: memory {what} for each"),
                ours: format!("{seen:.0} kB"),
                beside: String::new(),
                goal: Some(Goal {
                    seen,
                    at_most,
                    noise: 0.0,
                    unit: " kB",
                }),
            });
        }
    }
    report.growth("memory of the relay with sessions", "MB", &relays);
    report.growth("memory of agent and holders with sessions", "MB", &nodes);
    Ok(())
}

fn holders(fleet: &Fleet) -> impl Iterator<Item = u32> {
    let is_holder = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.ends_with(b"\0holder\0")
    };
    processes_in(&fleet.layout.root).into_iter().filter(is_holder)
}
