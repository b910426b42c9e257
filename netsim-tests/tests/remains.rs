//! Holders that are killed, alone or together with their agent: nothing of their sessions goes on, and every recording says
//! how it ended.

use std::path::PathBuf;
use std::process::{Child, Stdio};

use netsim_tests::fleet::Fleet;
use netsim_tests::process::{Bounded as _, eventually, processes_with};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A command that ignores hang-ups, without a terminal, with a job of its own.
fn stubborn(fleet: &Fleet, mark: &str) -> Child {
    let line =
        format!("trap '' HUP; (while :; do sleep 0.05; done; echo {mark}) & echo begun; while :; do sleep 0.05; done");
    fleet.begin(&[], &line, Stdio::null())
}

fn sessions(fleet: &Fleet) -> PathBuf {
    fleet.layout.recordings().parent().unwrap().join("sessions")
}

/// Kills the processes that work in a session's folder: holders, and nothing else.
fn kill_holders(fleet: &Fleet) {
    let sessions = sessions(fleet).canonicalize().unwrap();
    let mut killed = 0;
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let at = std::fs::read_link(entry.path().join("cwd"));
        if at.is_ok_and(|at| at.starts_with(&sessions)) {
            let pid = entry.file_name().to_str().unwrap().parse().unwrap();
            kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
            killed += 1;
        }
    }
    assert_eq!(killed, 1);
}

fn is_closed(fleet: &Fleet) -> bool {
    let recordings = fleet.recordings();
    let closed = |file: &PathBuf| {
        std::fs::read_to_string(file)
            .unwrap()
            .contains(r#"\"code\":\"session.holder_lost\""#)
    };
    !recordings.is_empty() && recordings.iter().all(closed)
}

fn no_folder(fleet: &Fleet) -> bool {
    std::fs::read_dir(sessions(fleet)).unwrap().count() == 0
}

#[test]
fn a_killed_holder_ends_its_session_wholly_and_the_client_is_told() {
    let fleet = Fleet::serving();
    let mark = format!("mark-{}-holder", std::process::id());
    let client = stubborn(&fleet, &mark);
    kill_holders(&fleet);
    let output = client.bounded();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(255), "{said}");
    assert!(said.contains("session.holder_lost"), "{said}");
    eventually("nothing of the session runs", || processes_with(&mark).is_empty());
    eventually("its recording says why", || is_closed(&fleet));
    eventually("its folder is gone", || no_folder(&fleet));
    assert_eq!(fleet.run(&["echo", "still here"]).status.code(), Some(0));
}

#[test]
fn what_died_together_with_the_agent_is_closed_at_its_next_start() {
    let mut fleet = Fleet::with("sweep: 200ms");
    let mark = format!("mark-{}-both", std::process::id());
    let mut client = stubborn(&fleet, &mark);
    eventually("the job is noted", || noted(&fleet, &mark, client.id()));
    fleet.agent.take().unwrap().kill();
    kill_holders(&fleet);
    fleet.start_agent();
    // At its start, or a moment later when the dead one had not yet let go of its files.
    eventually("its recording says why", || is_closed(&fleet));
    eventually("its folder is gone", || no_folder(&fleet));
    assert_eq!(fleet.run(&["echo", "a new session"]).status.code(), Some(0));
    let _ = client.kill();
    let _ = client.wait();
    // Its leader died with the holder; the job that ignores HUP was known by what was noted.
    eventually("nothing of the session runs", || processes_with(&mark).is_empty());
}

/// Whether the command and its job, which have that mark as the client has, stand in the one session's folder.
fn noted(fleet: &Fleet, mark: &str, client: u32) -> bool {
    let folders: Vec<PathBuf> = std::fs::read_dir(sessions(fleet))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    let [folder] = &folders[..] else { return false };
    let text = std::fs::read_to_string(folder.join("processes")).unwrap_or_default();
    let pids: Vec<&str> = text.lines().filter_map(|line| Some(line.split_once(' ')?.0)).collect();
    let mut marked = processes_with(mark);
    marked.retain(|pid| *pid != client);
    marked.len() == 2 && marked.iter().all(|pid| pids.contains(&&pid.to_string()[..]))
}
