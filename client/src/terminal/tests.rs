//! The real thing: a client process on a real pseudo-terminal, ended in every way that can be caught.
//!
//! The process is this test binary itself, started again with one test as its whole work ([`helper`]).

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::pty::openpty;
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{LocalFlags, Termios, tcgetattr};
use nix::unistd::Pid;
use tokio::io::{AsyncWriteExt, duplex};

use super::{Raw, size};
use crate::escape::Keys;
use crate::inner;
use crate::modes::{Modes, Tracker};
use crate::pump::{self, Facts, Liveness, Local};
use crate::screen::Screen;
use crate::signals::Signals;
use crate::stdio::{Input, Output};
use crate::testing::{Fleet, Node};

const ROLE: &str = "NODERELAY_TEST_ROLE";
/// What a full-screen program switches on.
const FULL_SCREEN: &[u8] = b"\x1b[?1049h\x1b[?2004h\x1b[?1002h\x1b[?1006h\x1b[?25l\x1b[>1u";

/// A client on a pseudo-terminal.
struct Client {
    child: Child,
    master: File,
    slave: OwnedFd,
    before: Termios,
    shown: Vec<u8>,
}

impl Client {
    fn start(role: &str) -> Self {
        let pty = openpty(None, None).unwrap();
        let before = tcgetattr(&pty.slave).unwrap();
        assert!(before.local_flags.contains(LocalFlags::ECHO | LocalFlags::ICANON));
        let stdio = || Stdio::from(pty.slave.try_clone().unwrap());
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "terminal::tests::helper", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .stdin(stdio())
            .stdout(stdio())
            .stderr(stdio())
            .spawn()
            .unwrap();
        Self {
            child,
            master: pty.master.into(),
            slave: pty.slave,
            before,
            shown: Vec::new(),
        }
    }

    /// Reads what the terminal shows until `text` was there.
    fn until(&mut self, text: &[u8]) {
        let mut buffer = [0; 4096];
        while !self.shown.windows(text.len()).any(|window| window == text) {
            let count = self.master.read(&mut buffer).unwrap();
            self.shown.extend_from_slice(&buffer[..count]);
        }
    }

    fn is_raw(&self) -> bool {
        let now = tcgetattr(&self.slave).unwrap();
        !now.local_flags.intersects(LocalFlags::ECHO | LocalFlags::ICANON)
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }

    /// Waits for the end and checks that the terminal is as it was.
    fn restored(mut self) -> (ExitStatus, Vec<u8>) {
        let mut master = self.master.try_clone().unwrap();
        let (done, ended) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            let mut shown = Vec::new();
            let mut buffer = [0; 4096];
            // The slave stays open here, so the end is told by the channel.
            loop {
                let mut wanted = [nix::poll::PollFd::new(master.as_fd(), nix::poll::PollFlags::POLLIN)];
                if nix::poll::poll(&mut wanted, 20u16).unwrap() > 0 {
                    let count = master.read(&mut buffer).unwrap();
                    shown.extend_from_slice(&buffer[..count]);
                } else if ended.try_recv().is_ok() {
                    return shown;
                }
            }
        });
        let status = self.child.wait().unwrap();
        done.send(()).unwrap();
        self.shown.extend(reader.join().unwrap());
        let after = tcgetattr(&self.slave).unwrap();
        assert_eq!(after.local_flags, self.before.local_flags);
        assert_eq!(after.input_flags, self.before.input_flags);
        assert_eq!(after.output_flags, self.before.output_flags);
        assert_eq!(after.control_flags, self.before.control_flags);
        (status, self.shown)
    }
}

fn position(shown: &[u8], text: &[u8]) -> usize {
    shown
        .windows(text.len())
        .position(|window| window == text)
        .unwrap_or_else(|| {
            panic!(
                "{:?} is not in {:?}",
                String::from_utf8_lossy(text),
                String::from_utf8_lossy(shown)
            );
        })
}

fn modes_are_off(shown: &[u8]) {
    for off in [
        &b"\x1b[?1049l"[..],
        b"\x1b[?2004l",
        b"\x1b[?1002l",
        b"\x1b[?1006l",
        b"\x1b[?25h",
        b"\x1b[<99u",
    ] {
        position(shown, off);
    }
}

#[test]
fn b003_restored_after_signals_during_a_full_screen_program() {
    for signal in [Signal::SIGTERM, Signal::SIGHUP] {
        let mut client = Client::start("shell");
        client.until(b"full screen");
        assert!(client.is_raw());
        client.signal(signal);
        let (status, shown) = client.restored();
        assert!(!status.success());
        modes_are_off(&shown);
    }
}

#[test]
fn b003_restored_after_a_panic_also_under_abort() {
    for role in ["panic", "abort"] {
        let mut client = Client::start(role);
        client.until(b"full screen");
        client.master.write_all(b"p").unwrap();
        let (status, shown) = client.restored();
        assert!(!status.success());
        modes_are_off(&shown);
        // The panic's own message comes after the terminal is in order.
        assert!(position(&shown, b"\x1b[?1049l") < position(&shown, b"on purpose"));
    }
}

#[test]
fn b003_restored_when_the_node_vanishes_or_refuses_and_keys_of_that_moment_are_not_typed_here() {
    for role in ["vanish", "close"] {
        let mut client = Client::start(role);
        client.until(b"full screen");
        client.master.write_all(b"x").unwrap();
        let (_, shown) = client.restored();
        modes_are_off(&shown);
    }
}

#[test]
fn b003_an_orderly_exit_writes_no_resets() {
    let mut client = Client::start("orderly");
    client.until(b"no modes");
    client.master.write_all(b"x").unwrap();
    let (status, shown) = client.restored();
    assert!(status.success());
    assert!(!shown.windows(8).any(|window| window == b"\x1b[?1049l"));
}

#[test]
fn a14_the_escape_key_leaves_a_frozen_session() {
    let mut client = Client::start("frozen");
    client.until(b"full screen");
    client.master.write_all(b"\r~.").unwrap();
    let (_, shown) = client.restored();
    modes_are_off(&shown);
    position(&shown, b"Left");
}

#[test]
fn b014_stopped_and_continued_it_is_raw_again() {
    let mut client = Client::start("shell");
    client.until(b"full screen");
    client.signal(Signal::SIGSTOP);
    // What a shell with job control does meanwhile.
    nix::sys::termios::tcsetattr(&client.slave, nix::sys::termios::SetArg::TCSANOW, &client.before).unwrap();
    assert!(!client.is_raw());
    client.signal(Signal::SIGCONT);
    let until = std::time::Duration::from_secs(10);
    let mut waited = Duration::ZERO;
    while !client.is_raw() {
        std::thread::sleep(Duration::from_millis(5));
        waited += Duration::from_millis(5);
        assert!(waited < until, "not raw again");
    }
    client.signal(Signal::SIGTERM);
    client.restored();
}

#[test]
fn a_terminal_of_0_by_0_has_no_size() {
    let pty = openpty(None, None).unwrap();
    assert_eq!(size(&pty.slave), None);
    assert_eq!(size(File::open("/dev/null").unwrap()), None);
}

/// The client process. As a test of its own it does nothing.
#[test]
fn helper() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let code = runtime.block_on(session(&role));
    std::process::exit(code);
}

/// A session with an in-memory node over real inner TLS, on this process's terminal.
async fn session(role: &str) -> i32 {
    let fleet = Fleet::new();
    let (ours, theirs) = duplex(64 * 1024);
    let (user, node_party) = (fleet.party(fleet.user()), fleet.party(fleet.node("gpu-7")));
    let role = role.to_owned();
    let here = role.clone();
    tokio::spawn(async move {
        let mut node = Node::accept_usual(theirs, &node_party).await.unwrap();
        node.opened().await;
        if role == "orderly" {
            node.output(b"no modes").await;
        } else {
            node.output(FULL_SCREEN).await;
            node.output(b"full screen").await;
        }
        match role.as_str() {
            "frozen" | "shell" => std::future::pending().await,
            _ => {}
        }
        node.next().await;
        match role.as_str() {
            "vanish" => drop(node),
            "close" => {
                let code = noderelay_proto::Code::SessionRevoked.number();
                node.send(noderelay_proto::control::Closed {
                    code,
                    seen: String::new(),
                })
                .await;
                let _ = node.stream.shutdown().await;
            }
            "orderly" => {
                node.send(noderelay_proto::ToClient::End).await;
                node.send(noderelay_proto::control::Exit {
                    code: Some(0),
                    ..Default::default()
                })
                .await;
                while node.next().await.is_some() {}
            }
            _ => std::future::pending().await,
        }
    });
    let session = inner::open(ours, &user, &fleet.node("gpu-7"), fleet.wish("gpu-7"))
        .await
        .unwrap();
    let modes = Modes::default();
    let raw = Raw::enter(std::io::stdin(), modes.clone()).unwrap();
    let mut local = Local {
        input: Input::stdin().unwrap(),
        screen: Screen::new(
            Output::stdout().unwrap(),
            Output::stderr().unwrap(),
            Some(Tracker::new(modes)),
        ),
        signals: Signals::install().unwrap(),
        keys: Keys::new(Some(b'~')),
        raw: Some(raw),
        window: None,
        terminal: true,
        quiet: false,
    };
    let liveness = Liveness {
        keepalive: Duration::from_secs(60),
        patience: Duration::from_secs(60),
    };
    let run = pump::run(
        session.stream,
        session.frames,
        session.opened.window,
        &mut local,
        Facts::default(),
        liveness,
    );
    let finished = match here.as_str() {
        "panic" | "abort" => {
            // Break off in the middle of a session, one second at the latest after a key could be typed.
            let _ = tokio::time::timeout(Duration::from_millis(600), run).await;
            if here == "abort" {
                abort_on_panic();
            }
            panic!("on purpose");
        }
        _ => run.await,
    };
    drop(local);
    eprintln!("{:?}", finished.ended);
    i32::from(finished.ended != pump::Ended::Exit(crate::exit::Remote::Code(0)))
}

/// What `panic = "abort"` does: hooks run, destructors do not.
fn abort_on_panic() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        hook(info);
        std::process::abort();
    }));
}
