//! Agents that are attached and do nothing: what each costs the relay in memory and time, and what its handshake cost.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use quinn::Endpoint;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::ours::{Fleet, Ours};
use super::seen::{on_processor, resident};
use crate::options::Rounds;
use crate::report::{Goal, Report, Row};

/// Handshakes under way at once.
const AT_ONCE: usize = 24;
/// How long the relay is watched while nothing happens: two keepalives of each agent.
const WATCH: Duration = Duration::from_secs(10);
const GOAL: f64 = 32.0;

pub(crate) async fn measure(ours: &Ours, rounds: &Rounds, report: &mut Report) -> Result<()> {
    let mut agents = JoinSet::new();
    let mut attached = 0;
    let socket = noderelay_link::client_endpoint(ours.fleet.address()?)?;
    let bare = resident(ours.pid())?;
    for total in rounds.agents.iter().copied() {
        let spent = on_processor(ours.pid())?;
        attach(&ours.fleet, &socket, attached..total, &mut agents).await?;
        let added = total - attached;
        let spent = on_processor(ours.pid())?.saturating_sub(spent);
        attached = total;
        sleep(Duration::from_secs(2)).await;
        let grown = resident(ours.pid())?.saturating_sub(bare) as f64 / total as f64;
        let before = on_processor(ours.pid())?;
        sleep(WATCH).await;
        let idle = on_processor(ours.pid())?.saturating_sub(before).as_secs_f64() / WATCH.as_secs_f64();
        report.row(Row {
            what: format!("{total} idle agents: memory of the relay for each"),
            ours: format!("{grown:.1} kB"),
            beside: String::new(),
            goal: Some(Goal {
                seen: grown,
                at_most: GOAL,
                noise: 0.0,
                unit: " kB",
            }),
        });
        report.row(Row {
            what: format!("{total} idle agents: the relay's processor"),
            ours: format!(
                "{:.2} % of one, {:.1} µs a second for each",
                idle * 100.0,
                idle * 1e6 / total as f64
            ),
            beside: String::new(),
            goal: None,
        });
        let each = spent.as_secs_f64() / added as f64;
        report.row(Row {
            what: format!("handshake and registration of {added} agents"),
            ours: format!(
                "{:.2} ms of a processor each, {:.0} a second and processor",
                each * 1e3,
                1.0 / each
            ),
            beside: String::new(),
            goal: None,
        });
    }
    agents.shutdown().await;
    Ok(())
}

/// Attaches these agents; each stays attached until its task ends.
async fn attach(
    fleet: &Arc<Fleet>,
    socket: &Endpoint,
    numbers: std::ops::Range<usize>,
    agents: &mut JoinSet<()>,
) -> Result<()> {
    let mut joining = JoinSet::new();
    let mut numbers = numbers.into_iter();
    loop {
        while joining.len() < AT_ONCE
            && let Some(number) = numbers.next()
        {
            let (fleet, socket) = (fleet.clone(), socket.clone());
            joining.spawn(async move { fleet.agent(number + 1, &socket).await });
        }
        let Some(joined) = joining.join_next().await else {
            return Ok(());
        };
        let connection = joined?.context("an agent was not attached")?;
        agents.spawn(async move {
            connection.closed().await;
        });
    }
}
