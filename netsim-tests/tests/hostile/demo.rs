//! A demo that is killed, told to end, or loses its terminal, at any moment: nothing stays running, and the next one works.

use std::fs;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use netsim_tests::chance::Chance;
use netsim_tests::process::{
    Bounded as _, Lines, Process, eventually, processes_in, processes_with, program, wait_within,
};
use nix::fcntl::OFlag;
use nix::pty::{PtyMaster, grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Signal(Signal),
    TerminalClosed,
}

const ENDS: [End; 4] = [
    End::Signal(Signal::SIGKILL),
    End::Signal(Signal::SIGTERM),
    End::Signal(Signal::SIGHUP),
    End::TerminalClosed,
];

/// Moments for each way to end.
const MOMENTS: usize = 3;

/// A demo on a terminal of its own.
struct Demo {
    process: Process,
    terminal: Option<PtyMaster>,
}

fn command(home: &Path) -> Command {
    let mut command = Command::new("env");
    command
        .args(["--default-signal=HUP,INT,QUIT,TERM", "setsid", "--ctty"])
        .arg(program("noderelay"))
        .arg("demo")
        .env("HOME", home)
        .env("XDG_STATE_HOME", home.join("state"))
        .env_remove("NODERELAY_CONFIG");
    command
}

fn start(mut command: Command) -> Demo {
    // No other process may hold it: closed here is closed.
    let master = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let mut slave = fs::File::options();
    slave.read(true).write(true).custom_flags(OFlag::O_NOCTTY.bits());
    let slave = slave.open(ptsname_r(&master).unwrap()).unwrap();
    let end = || Stdio::from(slave.try_clone().unwrap());
    let child: Child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
    Demo {
        process: Process(child),
        terminal: Some(master),
    }
}

impl Demo {
    fn end(&mut self, end: End) {
        match end {
            End::Signal(signal) => {
                // Ended already: as good.
                let _ = kill(Pid::from_raw(self.process.0.id() as i32), signal);
            }
            End::TerminalClosed => drop(self.terminal.take()),
        }
        wait_within(&mut self.process.0, Duration::from_secs(20));
    }
}

/// Nothing that belongs to a demo below `home` runs any more.
fn gone(home: &Path, what: &str) {
    let home_text = home.display().to_string();
    eventually(&format!("nothing of the demo runs: {what}"), || {
        processes_with(&home_text).is_empty() && processes_in(home).is_empty()
    });
}

/// Every recording of the demos below `home` can be read to its end; there is one at least.
fn readable(home: &Path) {
    let mut found = 0;
    for demo in fs::read_dir(home.join("state/noderelay/demo")).unwrap().flatten() {
        // A demo that ended early has not come that far.
        for cast in fs::read_dir(demo.path().join("agent/state/recordings"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let mut replay = Command::new(program("noderelay"));
            let output = replay.args(["replay", "--speed", "1000"]).arg(cast.path()).bounded();
            assert!(output.status.success(), "{output:?}");
            let text = fs::read_to_string(cast.path()).unwrap();
            assert!(text.contains("\\\"code\\\""), "no end: {text}");
            found += 1;
        }
    }
    assert!(found > 0);
}

#[test]
fn a_demo_that_ends_at_any_moment_leaves_nothing_running_and_the_next_one_works() {
    std::thread::scope(|scope| {
        for end in ENDS {
            scope.spawn(move || {
                let home = tempfile::tempdir().unwrap();
                let mut chance = Chance::new();
                for moment in 0..MOMENTS {
                    let ran = home.path().join(format!("ran-{moment}"));
                    let line = format!("echo > '{}'; sleep 300", ran.display());
                    let mut demo = command(home.path());
                    demo.args(["--", "sh", "-c", &line]);
                    let mut demo = start(demo);
                    if moment == 0 {
                        eventually("the command runs", || ran.exists());
                    } else {
                        std::thread::sleep(chance.within(Duration::from_millis(400)));
                    }
                    demo.end(end);
                }
                gone(home.path(), &format!("{end:?}"));
                readable(home.path());
                let mut again = Command::new(program("noderelay"));
                again
                    .env("HOME", home.path())
                    .env("XDG_STATE_HOME", home.path().join("state"));
                let output = again.args(["demo", "--", "true"]).bounded();
                assert!(output.status.success(), "{end:?}: {output:?}");
                gone(home.path(), "the next one");
            });
        }
    });
}

#[test]
fn a_demo_that_serves_and_ends_at_any_moment_leaves_nothing_running_and_its_folder_serves_again() {
    std::thread::scope(|scope| {
        for end in ENDS {
            scope.spawn(move || {
                let home = tempfile::tempdir().unwrap();
                let dir = home.path().join("up");
                let config = dir.join("config.yaml");
                let up = || {
                    let mut up = command(home.path());
                    up.arg("--up").arg(&dir);
                    up
                };
                let mut chance = Chance::new();
                for moment in 0..=MOMENTS {
                    let ran = home.path().join(format!("ran-{moment}"));
                    let _ = fs::remove_file(&config);
                    let mut demo = start(up());
                    let mut client = None;
                    if moment == 0 {
                        eventually("it serves", || config.exists());
                        let line = format!("echo > '{}'; sleep 300", ran.display());
                        let mut session = Command::new(program("noderelay"));
                        session
                            .arg("--config")
                            .arg(&config)
                            .args(["--via-relay", "local", "--", "sh", "-c", &line])
                            .stdin(Stdio::null())
                            .stderr(Stdio::null());
                        client = Some(Process(session.spawn().unwrap()));
                        eventually("the command runs", || ran.exists());
                    } else {
                        std::thread::sleep(chance.within(Duration::from_millis(400)));
                    }
                    demo.end(end);
                    drop(client);
                }
                gone(home.path(), &format!("{end:?}"));
                let mut child = Command::new(program("noderelay"))
                    .args(["demo", "--up"])
                    .arg(&dir)
                    .env("HOME", home.path())
                    .stdin(Stdio::null())
                    .stderr(Stdio::piped())
                    .spawn()
                    .unwrap();
                let mut said = Lines::of(child.stderr.take().unwrap());
                let again = Process(child);
                said.until("serve");
                let mut client = Command::new(program("noderelay"));
                let output = client
                    .arg("--config")
                    .arg(&config)
                    .args(["--via-relay", "local", "--", "echo", "again"])
                    .bounded();
                assert_eq!(output.stdout, b"again\n", "{end:?}: {output:?}");
                kill(Pid::from_raw(again.0.id() as i32), Signal::SIGINT).unwrap();
                gone(home.path(), "the next one");
            });
        }
    });
}
