//! Bulk through one stream: what a gigabyte costs the relay's processors, and how fast it goes.

use std::time::Duration;

use anyhow::{Context as _, Result};
use netsim_tests::burden::on_processor;
use tokio::io::join;
use tokio::time::Instant;

use super::ends::{self, Way};
use super::ours::Ours;
use super::plain::Plain;
use crate::options::Rounds;
use crate::report::{Frames, Goal, Report, Row};

const MIB: u64 = 1024 * 1024;

/// What one turn gave.
struct Turn {
    /// Seconds on a processor for each GB (10⁹ bytes).
    cost: f64,
    /// Seconds for each GB.
    time: f64,
}

/// Who carries.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Carrier {
    Plain,
    Ours,
    /// Ours, with TLS inside the stream.
    Inner,
}

pub(crate) async fn measure(
    ours: &Ours,
    plain: &Plain,
    frames: Frames,
    rounds: &Rounds,
    report: &mut Report,
) -> Result<()> {
    for (way, name) in [(Way::ToNode, "client → node"), (Way::ToClient, "node → client")] {
        let mut turns = [Carrier::Plain, Carrier::Ours, Carrier::Inner].map(|carrier| (carrier, Vec::new()));
        for _ in 0..rounds.bulk_turns {
            for (carrier, seen) in &mut turns {
                seen.push(turn(*carrier, ours, plain, way, rounds.bulk * MIB).await?);
            }
        }
        let [theirs, bare, inner] = turns.map(|(_, seen)| seen);
        let (cost, beside) = (median(&bare, |t| t.cost)?, median(&theirs, |t| t.cost)?);
        report.row(Row {
            what: format!("relay's processor time for a GB, {name}"),
            ours: format!("{cost:.2} s"),
            beside: format!("{beside:.2} s, bare quinn relay"),
            goal: Some(goal(
                cost / beside,
                match (way, frames) {
                    (Way::ToNode, Frames::Usual) => 0.8,
                    (Way::ToNode, Frames::Large) => 0.35,
                    (Way::ToClient, _) => f64::INFINITY,
                },
            )),
        });
        let (time, beside) = (median(&inner, |t| t.time)?, median(&theirs, |t| t.time)?);
        report.row(Row {
            what: format!("time for a GB through one stream with TLS inside, {name}"),
            ours: format!(
                "{time:.2} s, {:.2} Gbit/s ({:.2} Gbit/s without)",
                8.0 / time,
                8.0 / median(&bare, |t| t.time)?
            ),
            beside: format!(
                "{beside:.2} s, {:.2} Gbit/s, bare quinn relay without TLS inside",
                8.0 / beside
            ),
            goal: Some(goal(
                time / beside,
                match way {
                    // 1.2 times as fast.
                    Way::ToNode => 0.83,
                    Way::ToClient => f64::INFINITY,
                },
            )),
        });
    }
    Ok(())
}

async fn turn(carrier: Carrier, ours: &Ours, plain: &Plain, way: Way, total: u64) -> Result<Turn> {
    let pid = match carrier {
        Carrier::Plain => plain.pid(),
        Carrier::Ours | Carrier::Inner => ours.pid(),
    };
    let before = on_processor(pid)?;
    let started = Instant::now();
    match carrier {
        Carrier::Plain => {
            let (send, recv) = plain.open().await?;
            ends::client(join(recv, send), way, total).await?;
        }
        Carrier::Ours => ends::client(ours.open().await?, way, total).await?,
        Carrier::Inner => ends::client(ours.open_inner().await?, way, total).await?,
    }
    let took: Duration = started.elapsed();
    let spent = on_processor(pid)?.saturating_sub(before);
    let bytes = total as f64;
    Ok(Turn {
        cost: spent.as_secs_f64() * 1e9 / bytes,
        time: took.as_secs_f64() * 1e9 / bytes,
    })
}

fn median(turns: &[Turn], of: impl Fn(&Turn) -> f64) -> Result<f64> {
    let mut values: Vec<f64> = turns.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().context("nothing measured")
}

fn goal(seen: f64, at_most: f64) -> Goal {
    Goal {
        seen,
        at_most,
        noise: 0.0,
        unit: " ×",
    }
}
