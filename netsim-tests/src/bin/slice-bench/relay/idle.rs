//! Agents that are attached and do nothing: what each costs the relay in memory and time, and what its handshake cost.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use netsim_tests::attached;
use netsim_tests::burden::{on_processor, resident};
use quinn::{Connection, Endpoint};
use tokio::time::sleep;

use super::ours::{Fleet, Ours};
use crate::options::Rounds;
use crate::report::{Goal, Report, Row};

/// How long the relay is watched while nothing happens: two keepalives of each agent.
const WATCH: Duration = Duration::from_secs(10);
const GOAL: f64 = 32.0;

pub(crate) async fn measure(ours: &Ours, rounds: &Rounds, report: &mut Report) -> Result<()> {
    let mut agents: Vec<Connection> = Vec::new();
    let mut already = 0;
    let socket = noderelay_link::client_endpoint(ours.fleet.address()?)?;
    let bare = resident(ours.pid())?;
    let (mut memory, mut processor) = (Vec::new(), Vec::new());
    for total in rounds.agents.iter().copied() {
        let spent = on_processor(ours.pid())?;
        agents.extend(
            attached::crowd(already..total, |number| {
                idle(ours.fleet.clone(), number, socket.clone())
            })
            .await?,
        );
        let added = total - already;
        let spent = on_processor(ours.pid())?.saturating_sub(spent);
        already = total;
        sleep(Duration::from_secs(2)).await;
        let whole = resident(ours.pid())?;
        let grown = whole.saturating_sub(bare) as f64 / total as f64;
        let before = on_processor(ours.pid())?;
        sleep(WATCH).await;
        let idle = on_processor(ours.pid())?.saturating_sub(before).as_secs_f64() / WATCH.as_secs_f64();
        memory.push((total as f64, whole as f64 / 1e3));
        processor.push((total as f64, idle * 100.0));
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
    report.growth("memory of the relay with idle agents", "MB", &memory);
    report.growth("the relay's processor with idle agents", "%", &processor);
    Ok(())
}

async fn idle(fleet: Arc<Fleet>, number: usize, socket: Endpoint) -> Result<Connection> {
    fleet.agent(number + 1, &socket).await
}
