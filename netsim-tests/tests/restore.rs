//! The local terminal after a session, however that ended: its settings as before, no mode of a remote program left on.

use std::process::Command;

use netsim_tests::fleet::Fleet;
use netsim_tests::process::{eventually, processes_with, program};
use netsim_tests::terminal::Terminal;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// What a full-screen program switches on: other screen, bracketed paste, mouse with its reports, focus, hidden cursor,
/// keyboard protocol.
const MODES: &str = r"\033[?1049h\033[?2004h\033[?1000h\033[?1002;1006h\033[?1004h\033[?25l\033[>1u";

/// A session with a full-screen program in front.
fn full_screen(client: Command) -> Terminal {
    let mut terminal = Terminal::start(client, 80, 24);
    terminal.type_in(format!("printf '{MODES}'; echo full-$((1)); sleep 600\n"));
    let shown = terminal.wait_for("full-1");
    assert!(shown.contains("\u{1b}[?1049h"), "{shown:?}");
    assert!(terminal.is_raw(), "raw during the session");
    terminal
}

fn shell_of(fleet: &Fleet) -> Command {
    let mut client = fleet.client();
    client.arg("local");
    client
}

/// `~.` leaves at once.
#[test]
fn b003_the_terminal_is_restored_after_leaving() {
    let fleet = Fleet::serving();
    let mut terminal = full_screen(shell_of(&fleet));
    terminal.type_in("\r~.");
    assert_eq!(terminal.wait().code(), Some(255));
    terminal.assert_as_before("~.");
}

/// A client that is told to end restores the terminal first, and so does one that panics where panics abort.
#[test]
fn b003_the_terminal_is_restored_after_signals_and_a_panic() {
    let fleet = Fleet::serving();
    for signal in [Signal::SIGTERM, Signal::SIGHUP] {
        let mut terminal = full_screen(shell_of(&fleet));
        kill(terminal.pid(), signal).unwrap();
        assert_eq!(terminal.wait().code(), Some(255), "{signal}");
        terminal.assert_as_before(signal.as_str());
    }
    let cue = fleet.layout.root.join("panic-now");
    let mut client = Command::new(program("panicking-client"));
    client.arg(fleet.layout.client()).arg(&cue);
    let mut terminal = full_screen(client);
    std::fs::write(&cue, "").unwrap();
    use std::os::unix::process::ExitStatusExt as _;
    assert_eq!(terminal.wait().signal(), Some(Signal::SIGABRT as i32));
    terminal.assert_as_before("panic");
    // What the panic says is readable: it comes when the terminal is in order.
    let shown = terminal.shown();
    assert!(shown.find("\u{1b}[?1049l") < shown.find("panicked on cue"), "{shown:?}");
}

/// A relay or an agent that dies under a full-screen program.
#[test]
fn b003_the_terminal_is_restored_after_a_loss() {
    for lost in ["relay", "agent"] {
        let mut fleet = Fleet::serving();
        fleet.impatient();
        let mut terminal = full_screen(shell_of(&fleet));
        match lost {
            "relay" => fleet.relay.take().unwrap().kill(),
            _ => fleet.agent.take().unwrap().kill(),
        }
        assert_eq!(terminal.wait().code(), Some(255), "{lost}");
        terminal.assert_as_before(lost);
    }
}

/// A session that is refused, or whose command ends by itself, leaves nothing to restore.
#[test]
fn b003_the_terminal_is_as_before_after_an_end_and_a_refusal() {
    let fleet = Fleet::serving();
    let mut ended = Terminal::start(shell_of(&fleet), 80, 24);
    ended.type_in("exit 7\n");
    assert_eq!(ended.wait().code(), Some(7));
    ended.assert_as_before("an end");
    let mut nowhere = fleet.client();
    nowhere.arg("no-such-node");
    let mut refused = Terminal::start(nowhere, 80, 24);
    assert_eq!(refused.wait().code(), Some(255));
    refused.assert_as_before("a refusal");
    assert!(!refused.shown().contains('\u{1b}'), "{:?}", refused.shown());
}

/// A client that the local shell stopped, continued in the background and put in front later: nothing tells it of the latter, and a
/// terminal that is not raw would show a password.
#[test]
fn a_client_that_is_put_in_front_later_has_a_raw_terminal_again() {
    let fleet = Fleet::serving();
    let client = shell_of(&fleet);
    let words = std::iter::once(client.get_program()).chain(client.get_args());
    let line: Vec<_> = words.map(|word| format!("'{}'", word.display())).collect();
    let mut local = Command::new("bash");
    local.args(["--norc", "--noprofile", "--noediting", "-i"]);
    let mut terminal = Terminal::start(local, 80, 24);
    terminal.type_in(format!("{}\n", line.join(" ")));
    terminal.type_in("echo far-$((1))\n");
    terminal.wait_for("far-1");
    let config = fleet.layout.client();
    let clients = processes_with(&config.display().to_string());
    let [client] = clients.as_slice() else {
        panic!("{clients:?}")
    };
    kill(Pid::from_raw((*client).try_into().unwrap()), Signal::SIGTSTP).unwrap();
    terminal.wait_for("Stopped");
    terminal.type_in("bg; echo behind-$((1))\n");
    terminal.wait_for("behind-1");
    terminal.type_in("fg\n");
    eventually("raw again", || terminal.is_raw());
    terminal.type_in("echo again-$((1)); exit\n");
    terminal.wait_for("again-1");
    // What is typed before is thrown away with what the session had not read.
    eventually("the local shell's terminal", || !terminal.is_raw());
    terminal.type_in("exit\n");
    terminal.wait();
}
