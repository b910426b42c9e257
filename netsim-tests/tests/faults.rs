//! Parts that die under a session: what the client says, what is left on the node.

use std::process::{Child, Stdio};

use netsim_tests::fleet::Fleet;
use netsim_tests::process::{Bounded as _, eventually, processes_with, read_within};

/// A command that shows `begun` and goes on.
fn long(fleet: &Fleet, line: &str) -> Child {
    let mut client = fleet.client();
    client
        .args(["local", "--", "sh", "-c", line])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = client.spawn().unwrap();
    let mut first = [0; 6];
    read_within(child.stdout.as_mut().unwrap(), &mut first);
    assert_eq!(&first, b"begun\n");
    child
}

/// The relay dies under a running command: a message that names what was lost, 255, no hang. Never 0.
#[test]
fn b006_network_loss_is_never_exit_0() {
    let mut fleet = Fleet::serving();
    let child = long(&fleet, "echo begun; while :; do echo more; sleep 0.01; done");
    fleet.relay.take().unwrap().kill();
    let output = child.bounded();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(255), "{said}");
    assert!(said.contains("transport."), "{said}");
}

/// The agent dies: the same for the client, and the shell gets its hang-up.
#[test]
fn b015_the_shell_hangs_up_when_agent_and_window_are_gone() {
    let mut fleet = Fleet::serving();
    let mark = format!("mark-{}-agent", std::process::id());
    let child = long(
        &fleet,
        &format!(
            "echo begun; trap 'echo {mark} > {}; exit' HUP; while :; do sleep 0.05; done",
            hangup(&fleet)
        ),
    );
    fleet.agent.take().unwrap().kill();
    let output = child.bounded();
    assert_eq!(
        output.status.code(),
        Some(255),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    eventually("the shell got HUP", || std::path::Path::new(&hangup(&fleet)).exists());
    eventually("nothing of the session runs", || processes_with(&mark).is_empty());
}

fn hangup(fleet: &Fleet) -> String {
    fleet.layout.root.join("hung-up").display().to_string()
}

/// Clients that are killed leave no shell behind once the window is over, and the recordings say why they ended.
#[test]
fn b013_no_shell_outlives_the_window() {
    let fleet = Fleet::serving();
    let mark = format!("mark-{}-client", std::process::id());
    let line = format!("echo begun; # {mark}\nwhile :; do sleep 0.05; done");
    let mut clients: Vec<Child> = (0..10).map(|_| long(&fleet, &line)).collect();
    for client in &mut clients {
        client.kill().unwrap();
        client.wait().unwrap();
    }
    eventually("nothing of the sessions runs", || processes_with(&mark).is_empty());
    eventually("every recording says why it ended", || {
        let recordings = fleet.recordings();
        recordings.len() == 10
            && recordings
                .iter()
                .all(|r| std::fs::read_to_string(r).unwrap().contains("session.window"))
    });
}

/// After relay and agent came back, new sessions work without help.
#[test]
fn a_restarted_relay_is_found_again() {
    let mut fleet = Fleet::serving();
    fleet.relay.take().unwrap().kill();
    fleet.start_relay();
    eventually("the agent is back", || fleet.run(&["true"]).status.success());
    fleet.agent.take().unwrap().kill();
    fleet.start_agent();
    eventually("the new agent is reached", || fleet.run(&["true"]).status.success());
}

/// No descriptor of the agent, the holder or another session is seen in a shell.
#[test]
fn b015_no_descriptor_leaks_into_a_shell() {
    let fleet = Fleet::serving();
    let other = long(&fleet, "echo begun; sleep 600");
    let output = fleet.run(&["ls", "-l", "/proc/self/fd"]);
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    let numbers = listed.lines().filter(|l| l.contains(" -> ")).count();
    // 0, 1, 2 and the folder that `ls` itself reads.
    assert_eq!(numbers, 4, "{listed}");
    assert!(!listed.contains("cast") && !listed.contains(".key"), "{listed}");
    let mut other = other;
    other.kill().unwrap();
    other.wait().unwrap();
}
