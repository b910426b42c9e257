//! An agent that is stopped or killed while it has sessions, and started again: they end as they should, and it serves again.

use std::process::Stdio;
use std::sync::PoisonError;
use std::time::Duration;

use netsim_tests::chance::Chance;
use netsim_tests::process::{Bounded as _, PATIENCE, eventually, processes_in, processes_with};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::jobs::{Outcome, begun, command, must};
use crate::setting::{RESTLESS, Setting};

pub(crate) fn restarted(setting: &Setting, chance: &mut Chance) -> Outcome {
    // A failure half way leaves an agent that runs; one after the other is what is wanted.
    let mut node = setting.restless.lock().unwrap_or_else(PoisonError::into_inner);
    node.agent = None;
    node.start();
    let mut seen = 0;
    for _ in 0..3 {
        seen += command(setting.client(&[], RESTLESS, &[]), chance)?;
    }
    let mark = format!("mark-{}-{}", std::process::id(), chance.number());
    let line = format!("trap '' HUP; echo begun; sleep 3000; echo {mark}");
    let mut open = setting
        .client(&["-T"], RESTLESS, &["sh", "-c", &line])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    begun(&mut open)?;
    std::thread::sleep(chance.within(Duration::from_millis(500)));
    let mut agent = node.agent.take().ok_or("the agent does not run")?;
    let killed = chance.below(2) == 0;
    if killed {
        agent.kill();
    } else {
        let pid = Pid::from_raw(i32::try_from(agent.0.id()).map_err(|error| error.to_string())?);
        kill(pid, Signal::SIGTERM).map_err(|error| error.to_string())?;
        let status = agent.wait_within(PATIENCE);
        must(status.success(), || {
            format!("told to stop, the agent ended with {status}")
        })?;
    }
    let output = open.bounded();
    let said = String::from_utf8_lossy(&output.stderr);
    must(output.status.code() == Some(255), || {
        format!("killed: {killed}; its client ended with {}: {said}", output.status)
    })?;
    eventually("nothing of the session runs", || processes_with(&mark).is_empty());
    eventually("no holder is left", || processes_in(&node.folder).is_empty());
    Ok(seen)
}
