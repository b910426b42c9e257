//! Kills while a session starts: wherever between register, authorize, record and start it hits, nothing is left that works, holds
//! a place or lacks its recording.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};

use netsim_tests::chance::Chance;
use netsim_tests::fleet::Fleet;
use netsim_tests::process::{Bounded as _, eventually, processes_in, processes_with};
use tokio::time::Instant;

/// Kills of each party.
const KILLS: usize = 5;
/// Sessions that the node has places for.
const PLACES: usize = 3;

#[derive(Clone, Copy, Debug)]
enum Victim {
    Client,
    Agent,
    Relay,
}

/// A client that begins a session whose command notes that it ran and goes on.
fn begin(fleet: &Fleet, mark: &str, ran: &Path) -> Child {
    let line = format!("echo > {}; sleep 300; echo {mark}", ran.display());
    let mut client = fleet.client();
    client
        .args(["local", "--", "sh", "-c", &line])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    client.spawn().unwrap()
}

fn killed_while_sessions_start(victim: Victim) {
    let mut fleet = Fleet::with(&format!("sessions: {PLACES}, sweep: 200ms"));
    let since = Instant::now();
    assert!(fleet.run(&["true"]).status.success());
    // Until a moment after the shell runs.
    let span = since.elapsed() * 2;
    let mut chance = Chance::new();
    let mut marks = Vec::new();
    for n in 0..KILLS {
        let mark = format!("mark-{}-{victim:?}-{n}", std::process::id());
        let ran = fleet.layout.root.join(format!("ran-{n}"));
        let mut client = begin(&fleet, &mark, &ran);
        std::thread::sleep(chance.within(span));
        match victim {
            Victim::Client => {}
            Victim::Agent => {
                fleet.agent.take().unwrap().kill();
                fleet.start_agent();
            }
            Victim::Relay => {
                fleet.relay.take().unwrap().kill();
                fleet.start_relay();
            }
        }
        client.kill().unwrap();
        client.wait().unwrap();
        marks.push((mark, ran));
    }
    for (mark, _) in &marks {
        eventually("no shell runs", || processes_with(mark).is_empty());
    }
    let [relay, agent] = [&fleet.relay, &fleet.agent].map(|of| of.as_ref().unwrap().0.id());
    eventually("no holder is left", || {
        let left = processes_in(&fleet.layout.root);
        left.iter().all(|pid| [relay, agent].contains(pid))
    });
    let sessions = fleet.layout.recordings().with_file_name("sessions");
    eventually("every folder is swept", || {
        fs::read_dir(&sessions).unwrap().count() == 0
    });
    // Every place is free: as many sessions as there may be run at once.
    eventually("the agent serves", || fleet.run(&["true"]).status.success());
    let open: Vec<Child> = (0..PLACES)
        .map(|_| fleet.begin(&[], "echo begun; cat > /dev/null", Stdio::piped()))
        .collect();
    for child in open {
        assert_eq!(child.bounded().status.code(), Some(0));
    }
    let recordings = fleet.recordings();
    let texts: Vec<String> = recordings.iter().map(|r| fs::read_to_string(r).unwrap()).collect();
    let mut ran_of_all = 0;
    for (mark, ran) in &marks {
        if ran.exists() {
            ran_of_all += 1;
            assert!(
                texts.iter().any(|text| text.contains(mark)),
                "{mark} ran without a recording"
            );
        }
    }
    println!(
        "{victim:?}: {ran_of_all} of {KILLS} ran within {span:?}, {} recordings",
        recordings.len()
    );
    for recording in &recordings {
        let mut replay = fleet.plain();
        let output = replay.args(["replay", "--speed", "1000"]).arg(recording).bounded();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{}: {said}", recording.display());
        let text = fs::read_to_string(recording).unwrap();
        assert!(text.contains("\\\"code\\\""), "no end: {text}");
    }
}

#[test]
fn a_client_that_is_killed_while_its_session_starts_leaves_nothing() {
    killed_while_sessions_start(Victim::Client);
}

#[test]
fn an_agent_that_is_killed_while_sessions_start_leaves_nothing() {
    killed_while_sessions_start(Victim::Agent);
}

#[test]
fn a_relay_that_is_killed_while_sessions_start_leaves_nothing() {
    killed_while_sessions_start(Victim::Relay);
}
