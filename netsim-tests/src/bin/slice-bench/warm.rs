//! The first output byte over what `noderelay warm` keeps, at several round-trip times.
//!
//! Each leg has a configuration of its own: the delayed address of the relay, a state folder, a warm process. Before each start the
//! process is asked whether what is to be measured is there, and after all of them whether it was what carried them: a
//! session that had dialled by itself would be measured as something else.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use netsim_tests::running::{eventually, shown};
use netsim_tests::stats::{Sample, fit, ms};
use serde_json::Value;

use crate::delay::Forwarder;
use crate::measure::{ROUND_TRIPS, ROUND_TRIPS_NOISE, first_byte};
use crate::options::Rounds;
use crate::product::Product;
use crate::report::{Goal, Report, Row, say};

/// What is kept, as the configuration calls it, with what its sessions are counted as and how many round trips they may take.
const KINDS: [(&str, &str, &str, f64); 2] = [
    ("connections", "streams", "warm connection", 2.0),
    ("standby", "standbys", "warm standby", 1.0),
];
/// How long a warm process may take to have it.
const READY: Duration = Duration::from_secs(30);

/// Measures both kinds.
pub(crate) fn warm(product: &Product, folder: &Path, rounds: &Rounds, report: &mut Report) -> Result<()> {
    for (kind, counted, name, at_most) in KINDS {
        say(&format!("first output byte over a {name}"));
        let mut legs = Vec::new();
        for rtt in ROUND_TRIPS {
            let udp = Forwarder::start(product.relay(), rtt)?;
            let config = folder.join(format!("{kind}-{}.yaml", rtt.as_millis()));
            let process = Process::start(product, config, udp.address(), kind)?;
            legs.push((rtt, udp, process, Vec::new()));
        }
        for (_, _, process, _) in &legs {
            // The first one makes the node known; a connection is there as soon as the process has made it.
            process.until_ready("connections")?;
            first_byte(&mut process.session())?;
        }
        for _ in 0..rounds.cold {
            for (_, _, process, times) in &mut legs {
                process.until_ready(kind)?;
                times.push(first_byte(&mut process.session())?);
            }
        }
        let mut points = Vec::new();
        for (rtt, _udp, process, times) in legs {
            let expected = times.len() as u64 + u64::from(kind == "connections");
            let seen = process.status()?;
            if seen[counted].as_u64() != Some(expected) {
                bail!("{expected} sessions were to use a {name}, the warm process says {seen}");
            }
            let times = Sample::of(times).context("nothing measured")?;
            let (low, high) = times.quartiles();
            points.push((ms(rtt), ms(times.median())));
            report.row(Row {
                what: format!("{name} to first output byte, RTT {:.0} ms", ms(rtt)),
                ours: format!(
                    "{:.1} ms (middle half {:.1} to {:.1})",
                    ms(times.median()),
                    ms(low),
                    ms(high)
                ),
                beside: String::new(),
                goal: None,
            });
        }
        let line = fit(&points).context("no line fits")?;
        if line.slope < at_most - 0.1 {
            bail!(
                "{:.2} round trips: the sessions went around the delay forwarder",
                line.slope
            );
        }
        report.row(Row {
            what: "… of it round trips".to_owned(),
            ours: format!("{:.2}, and {:.1} ms", line.slope, line.fixed),
            beside: String::new(),
            goal: Some(Goal {
                seen: line.slope,
                at_most,
                noise: ROUND_TRIPS_NOISE,
                unit: "",
            }),
        });
    }
    Ok(())
}

/// A warm process with its configuration; ended on drop.
struct Process {
    program: PathBuf,
    config: PathBuf,
}

impl Process {
    fn start(product: &Product, config: PathBuf, relay: SocketAddr, kind: &str) -> Result<Process> {
        let state = config.with_extension("state");
        let text = product.settings(&state)?;
        std::fs::write(&config, format!("{text}relays: ['{relay}']\nwarm: {kind}\n"))?;
        let process = Process {
            program: product.program().to_owned(),
            config,
        };
        process.said(&["warm", "--for", "1h"])?;
        Ok(process)
    }

    /// Waits until the next session finds what it is to use.
    fn until_ready(&self, kind: &str) -> Result<()> {
        eventually("it is warm", READY, || {
            let status = self.status()?;
            let ready = match kind {
                "standby" => status["nodes"][0]["standby"] == true,
                _ => !status["relays"][0]["up_seconds"].is_null(),
            };
            Ok(ready.then_some(()))
        })
    }

    fn session(&self) -> Command {
        let mut command = self.command();
        command.args(["--via-relay", "-q", "-T", "local", "--", "echo", "x"]);
        command
    }

    fn status(&self) -> Result<Value> {
        Ok(serde_json::from_slice(&self.said(&["warm", "status", "-o", "json"])?)?)
    }

    fn said(&self, words: &[&str]) -> Result<Vec<u8>> {
        let mut command = self.command();
        command.args(words);
        let output = command.output()?;
        if !output.status.success() {
            bail!(
                "{} failed: {}",
                shown(&command),
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Ok(output.stdout)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--config").arg(&self.config);
        command
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It ends by itself, too.
        let _ = self.said(&["warm", "stop"]);
    }
}
