//! Shells on a real terminal through a real relay: size, keys, paste, restore.

use netsim_tests::fleet::{Bounded as _, Fleet};
use netsim_tests::terminal::Terminal;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const PROMPT: &str = "ready-1";

/// A shell whose prompt was seen.
fn shell(fleet: &Fleet, cols: u16, rows: u16) -> Terminal {
    let mut client = fleet.client();
    client.arg("local");
    let mut terminal = Terminal::start(client, cols, rows);
    // Typed text is echoed; only the result shows the word whole.
    terminal.type_in("PS1=; stty -echo; echo ready-$((0+1))\n");
    terminal.wait_for(PROMPT);
    terminal
}

/// The first size is the client's, changes follow, absurd ones end nothing.
#[test]
fn b002_the_terminal_has_the_clients_size() {
    let fleet = Fleet::serving();
    let mut terminal = shell(&fleet, 101, 37);
    terminal.type_in("stty size; echo first-$((1))\n");
    assert!(terminal.wait_for("first-1").contains("37 101"));
    for n in 1..200 {
        terminal.resize(n, 200 - n);
    }
    terminal.resize(0, 0);
    terminal.resize(u16::MAX, u16::MAX);
    terminal.resize(132, 43);
    netsim_tests::fleet::eventually("the last size arrives", || {
        terminal.type_in("stty size\n");
        terminal.shown().contains("43 132")
    });
    terminal.type_in("exit 4\n");
    assert_eq!(terminal.wait().code(), Some(4));
}

/// A paste of a mebibyte arrives whole, while its echo comes back.
#[test]
fn b001_a_large_paste_arrives_whole() {
    let fleet = Fleet::serving();
    let target = fleet.layout.root.join("pasted");
    let mut terminal = shell(&fleet, 80, 24);
    let line = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde\n";
    let paste = line.repeat(1024 * 1024 / line.len());
    terminal.type_in(format!("stty echo; cat > {}; echo pasted-$((1))\n", target.display()));
    terminal.type_in(&paste);
    terminal.type_in("\x04");
    terminal.wait_for("pasted-1");
    assert!(
        std::fs::read_to_string(&target).unwrap() == paste,
        "the file differs from the paste"
    );
}

/// Ends the spinners, whatever happens.
struct Stop<'a>(&'a std::sync::atomic::AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

/// The last line is there every time, with all cores busy.
#[test]
fn b010_the_last_line_is_always_shown() {
    let fleet = Fleet::serving();
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::spin_loop()
                }
            });
        }
        // Also when a run panics: the scope waits for the spinners.
        let _guard = Stop(&stop);
        let mut failed = 0;
        for _ in 0..40 {
            let output = fleet
                .client()
                .args(["-q", "-t", "local", "--", "seq", "1", "20000"])
                .bounded();
            let whole = String::from_utf8_lossy(&output.stdout).trim_end().ends_with("\n20000");
            failed += usize::from(!whole || !output.status.success());
        }
        assert_eq!(failed, 0, "of 40 runs");
    });
}

/// `~.` leaves at once, and the local terminal is as it was.
#[test]
fn b003_the_terminal_is_restored_after_leaving() {
    let fleet = Fleet::serving();
    let mut client = fleet.client();
    client.arg("local");
    let probe = Terminal::start(std::process::Command::new("true"), 80, 24);
    let before = probe.settings();
    let mut terminal = Terminal::start(client, 80, 24);
    terminal.type_in("echo ready-$((0+1))\n");
    terminal.wait_for(PROMPT);
    assert_ne!(
        terminal.settings().local_flags,
        before.local_flags,
        "the terminal is raw during the session"
    );
    terminal.type_in("\r~.");
    assert_eq!(terminal.wait().code(), Some(255));
    assert_eq!(terminal.settings().local_flags, before.local_flags);
    assert_eq!(terminal.settings().input_flags, before.input_flags);
}

/// A client that is told to end restores the terminal first.
#[test]
fn b003_the_terminal_is_restored_after_signals() {
    let fleet = Fleet::serving();
    let before = Terminal::start(std::process::Command::new("true"), 80, 24).settings();
    for signal in [Signal::SIGTERM, Signal::SIGHUP] {
        let mut terminal = shell(&fleet, 80, 24);
        let raw = terminal.settings();
        // `setsid` became the client.
        let client = terminal.process.0.id() as i32;
        kill(Pid::from_raw(client), signal).unwrap();
        terminal.wait();
        let after = terminal.settings();
        assert_ne!(
            raw.local_flags, before.local_flags,
            "the terminal is raw during the session"
        );
        assert_eq!(after.local_flags, before.local_flags, "{signal}");
        assert_eq!(after.input_flags, before.input_flags, "{signal}");
        assert_eq!(after.output_flags, before.output_flags, "{signal}");
    }
}

/// A relay or an agent that dies under a full-screen program leaves neither its settings nor its modes behind.
#[test]
fn b003_the_terminal_is_restored_after_a_loss() {
    let before = Terminal::start(std::process::Command::new("true"), 80, 24).settings();
    for lost in ["relay", "agent"] {
        let mut fleet = Fleet::serving();
        let mut terminal = shell(&fleet, 80, 24);
        terminal.type_in("printf '\\033[?1049h\\033[?2004h'; echo full-$((1)); sleep 600\n");
        assert!(terminal.wait_for("full-1").contains("\u{1b}[?1049h"));
        match lost {
            "relay" => fleet.relay.take().unwrap().kill(),
            _ => fleet.agent.take().unwrap().kill(),
        }
        assert_eq!(terminal.wait().code(), Some(255), "{lost}");
        for off in ["\u{1b}[?1049l", "\u{1b}[?2004l"] {
            terminal.wait_for(off);
        }
        let after = terminal.settings();
        assert_eq!(after.local_flags, before.local_flags, "{lost}");
        assert_eq!(after.input_flags, before.input_flags, "{lost}");
    }
}
