//! Parts that die under a session: what the client says, what is left on the node.

use std::os::unix::fs::MetadataExt as _;
use std::process::{Child, Stdio};

use netsim_tests::fleet::Fleet;
use netsim_tests::process::{Bounded as _, eventually, processes_in, processes_with};
use netsim_tests::terminal::Terminal;

/// A command that shows `begun` and goes on; `options` are the client's.
fn begun(fleet: &Fleet, options: &[&str], line: &str) -> Child {
    fleet.begin(options, line, Stdio::null())
}

/// One without a terminal.
fn long(fleet: &Fleet, line: &str) -> Child {
    begun(fleet, &[], line)
}

/// The relay dies under a running command: a message that names what was lost, 255, no hang. Never 0.
#[test]
fn b006_network_loss_is_never_exit_0() {
    let mut fleet = Fleet::serving();
    fleet.impatient();
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
    fleet.impatient();
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

/// Fifty clients that are killed leave no shell, no terminal and no loop behind once the window is over, also where HUP
/// is ignored, and the recordings say why they ended.
#[test]
fn b013_no_shell_outlives_the_window() {
    const CLIENTS: usize = 50;
    let fleet = Fleet::serving();
    let mark = format!("mark-{}-client", std::process::id());
    let file = |name: String| fleet.layout.root.join(name);
    let mut clients: Vec<Child> = (0..CLIENTS)
        .map(|n| {
            let (tty, ticks) = (file(format!("tty-{n}")), file(format!("ticks-{n}")));
            let loops = format!("while :; do date >> {}; sleep 1; done # {mark}", ticks.display());
            match n % 3 {
                0 => begun(&fleet, &[], &format!("echo begun; {loops}")),
                1 => begun(&fleet, &[], &format!("trap '' HUP; echo begun; {loops}")),
                _ => {
                    // When the terminal was made tells it from a later one of the same number.
                    let made = format!("stat -c '%n %.9Z' \"$(tty)\" > {}", tty.display());
                    begun(&fleet, &["-t"], &format!("{made}; trap '' HUP; echo begun; {loops}"))
                }
            }
        })
        .collect();
    eventually("every loop writes", || {
        (0..CLIENTS).all(|n| std::fs::metadata(file(format!("ticks-{n}"))).is_ok_and(|m| m.len() > 0))
    });
    for client in &mut clients {
        client.kill().unwrap();
        client.wait().unwrap();
    }
    eventually("no shell and no loop runs", || processes_with(&mark).is_empty());
    let [relay, agent] = [&fleet.relay, &fleet.agent].map(|of| of.as_ref().unwrap().0.id());
    eventually("no holder is left", || {
        let left = processes_in(&fleet.layout.root);
        left.iter().all(|pid| [relay, agent].contains(pid))
    });
    for n in (0..CLIENTS).filter(|n| n % 3 == 2) {
        let made = std::fs::read_to_string(file(format!("tty-{n}"))).unwrap();
        let (name, made) = made.trim().split_once(' ').unwrap();
        let there = std::fs::metadata(name).map(|m| format!("{}.{:09}", m.ctime(), m.ctime_nsec()));
        assert_ne!(there.ok().as_deref(), Some(made), "{name} is still there");
    }
    eventually("every recording says why it ended", || {
        let recordings = fleet.recordings();
        recordings.len() == CLIENTS
            && recordings
                .iter()
                .all(|r| std::fs::read_to_string(r).unwrap().contains("session.window"))
    });
    // The window is the one that was set: not none at all, and not another one.
    for recording in fleet.recordings() {
        let events = std::fs::read_to_string(recording).unwrap();
        let at = |what: &str| {
            let line = events.lines().find(|line| line.contains(what)).expect(what);
            let event: serde_json::Value = serde_json::from_str(line).unwrap();
            event[0].as_f64().unwrap()
        };
        let window = at("ended by the node: session.window") - at("the client is gone");
        assert!((WINDOW..WINDOW + BUSY).contains(&window), "{window} s: {events}");
    }
}

/// The resume window of these fleets, in seconds.
const WINDOW: f64 = 2.0;
/// What a busy machine may take beyond it; the window that is not set is longer.
const BUSY: f64 = 5.0;

/// A relay that was killed and is back is noticed by a session in which nothing happens, not only by the idle limit.
#[test]
fn a_session_over_a_restarted_relay_ends_at_once_and_says_why() {
    let mut fleet = Fleet::serving();
    let child = long(&fleet, "echo begun; exec sleep 600");
    fleet.relay.take().unwrap().kill();
    fleet.start_relay();
    let output = child.bounded();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(255), "{said}");
    assert!(said.contains("restarted"), "{said}");
    eventually("the agent is back", || fleet.run(&["true"]).status.success());
    assert!(
        fleet
            .logs()
            .contains("the link was lost: the peer does not know the connection"),
        "{}",
        fleet.logs()
    );
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

/// Three shells see their own terminal and nothing else, and each gets its hang-up when the agent is killed.
#[test]
fn b015_shells_see_their_terminal_alone_and_hang_up_with_the_agent() {
    let mut fleet = Fleet::serving();
    fleet.impatient();
    let file = |name: String| fleet.layout.root.join(name);
    let mut shells: Vec<Terminal> = (0..3)
        .map(|_| {
            let mut client = fleet.client();
            client.arg("local");
            Terminal::shell(client, 80, 24)
        })
        .collect();
    for (n, shell) in shells.iter_mut().enumerate() {
        let [fds, tty, hup] = ["fds", "tty", "hup"].map(|name| file(format!("{name}-{n}")));
        let (fds_to, tty_to, hup_to) = (fds.display(), tty.display(), hup.display());
        shell.type_in(format!(
            "ls -l /proc/$$/fd > {fds_to}; tty > {tty_to}; trap 'echo > {hup_to}; exit' HUP; echo listed-$((1)); \
             while :; do sleep 0.2; done\n"
        ));
        shell.wait_for("listed-1");
        let own = std::fs::read_to_string(&tty).unwrap();
        let listed = std::fs::read_to_string(&fds).unwrap();
        let open: Vec<&str> = listed
            .lines()
            .filter_map(|line| Some(line.split_once(" -> ")?.1))
            .collect();
        assert!(open.len() >= 3, "{listed}");
        // No socket, no other master, no key, token or recording.
        assert!(open.iter().all(|to| *to == own.trim()), "own terminal {own}\n{listed}");
    }
    // Without a terminal the three standard descriptors and the folder that `ls` itself reads.
    let listed = fleet.run(&["ls", "-l", "/proc/self/fd"]).stdout;
    let listed = String::from_utf8_lossy(&listed).into_owned();
    assert_eq!(listed.lines().filter(|l| l.contains(" -> ")).count(), 4, "{listed}");
    assert!(!listed.contains("cast") && !listed.contains(".key"), "{listed}");

    fleet.agent.take().unwrap().kill();
    eventually("every shell got HUP", || {
        (0..3).all(|n| fleet.layout.root.join(format!("hup-{n}")).exists())
    });
    for shell in &mut shells {
        assert_eq!(shell.wait().code(), Some(255));
    }
}
