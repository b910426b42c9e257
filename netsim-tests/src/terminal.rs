//! A real pseudo-terminal with a program on it, as a person would sit before it.
//!
//! A reader thread collects everything that the program shows; tests wait for text in it and type.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};

use nix::pty::{OpenptyResult, Winsize, openpty};
use nix::sys::termios::{LocalFlags, Termios, tcgetattr};
use nix::unistd::Pid;

use crate::process::{PATIENCE, Process};

/// The terminal and its program.
pub struct Terminal {
    /// The program.
    pub process: Process,
    master: File,
    slave: OwnedFd,
    before: Termios,
    shown: Arc<(Mutex<Vec<u8>>, Condvar)>,
}

impl Terminal {
    /// Starts `command` on a new terminal of this size.
    pub fn start(mut command: Command, cols: u16, rows: u16) -> Self {
        let size = Winsize {
            ws_row: rows,
            ws_col: cols,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let OpenptyResult { master, slave } = openpty(&size, None).expect("a pty");
        let before = tcgetattr(&slave).expect("the settings");
        let end = || Stdio::from(slave.try_clone().expect("a descriptor"));
        // `setsid --ctty` makes the terminal the controlling one, as a login would. A login also starts with no signal ignored;
        // whoever runs the tests under `nohup` passes that on, and the client rightly keeps to it.
        let mut wrapped = Command::new("env");
        wrapped
            .args(["--default-signal=HUP,INT,QUIT,TERM", "setsid", "--ctty"])
            .arg("--wait")
            .arg(command.get_program())
            .args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => wrapped.env(name, value),
                None => wrapped.env_remove(name),
            };
        }
        wrapped
            .env("TERM", "xterm-256color")
            .stdin(end())
            .stdout(end())
            .stderr(end());
        command = wrapped;
        let child = command.spawn().expect("the program starts");
        let shown: Arc<(Mutex<Vec<u8>>, Condvar)> = Arc::default();
        let (mut reader, seen) = (
            File::from(master.try_clone().expect("a descriptor")),
            Arc::clone(&shown),
        );
        std::thread::spawn(move || {
            let mut buffer = [0; 65536];
            while let Ok(n) = reader.read(&mut buffer) {
                if n == 0 {
                    break;
                }
                seen.0.lock().unwrap().extend_from_slice(&buffer[..n]);
                seen.1.notify_all();
            }
        });
        Self {
            process: Process(child),
            master: master.into(),
            slave,
            before,
            shown,
        }
    }

    /// Starts a client that opens a shell, waits for the shell, and takes echo and prompt from it.
    pub fn shell(client: Command, cols: u16, rows: u16) -> Self {
        let mut terminal = Self::start(client, cols, rows);
        terminal.quiet();
        terminal
    }

    /// Waits for the shell and takes echo and prompt from it.
    pub fn quiet(&mut self) {
        // Typed text is echoed; only the result shows the word whole.
        self.type_in("PS1=; stty -echo; echo ready-$((0+1))\n");
        self.wait_for("ready-1");
    }

    /// Types; panics when the terminal does not take it all within [`PATIENCE`].
    pub fn type_in(&mut self, text: impl AsRef<[u8]>) {
        let (mut master, text) = (self.master.try_clone().expect("a descriptor"), text.as_ref().to_vec());
        let (send, receive) = std::sync::mpsc::channel();
        std::thread::spawn(move || send.send(master.write_all(&text)));
        let typed = receive
            .recv_timeout(PATIENCE)
            .expect("the terminal takes input in time");
        typed.expect("the terminal takes input");
    }

    /// What was shown so far.
    pub fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.0.lock().unwrap()).into_owned()
    }

    /// Waits until `text` was shown; gives all that was shown.
    pub fn wait_for(&self, text: &str) -> String {
        let (lock, changed) = &*self.shown;
        let holds = |all: &mut Vec<u8>| all.windows(text.len()).any(|w| w == text.as_bytes());
        let (all, _) = changed
            .wait_timeout_while(lock.lock().unwrap(), PATIENCE, |all| !holds(all))
            .unwrap();
        let all = String::from_utf8_lossy(&all).into_owned();
        assert!(
            all.contains(text),
            "{text:?} was not shown within {PATIENCE:?}; shown:\n{all}"
        );
        all
    }

    /// Changes the size; the kernel tells the program.
    pub fn resize(&self, cols: u16, rows: u16) {
        let size = rustix::termios::Winsize {
            ws_row: rows,
            ws_col: cols,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        rustix::termios::tcsetwinsize(&self.master, size).expect("the size can be set");
    }

    /// Whether keys reach the program one by one and unseen.
    pub fn is_raw(&self) -> bool {
        let flags = tcgetattr(self.slave.as_fd()).expect("the settings").local_flags;
        !flags.intersects(LocalFlags::ICANON | LocalFlags::ECHO | LocalFlags::ISIG)
    }

    /// Fails unless every setting is what it was before the program started, and no mode that the program showed is left on.
    #[track_caller]
    pub fn assert_as_before(&self, what: &str) {
        let after = tcgetattr(self.slave.as_fd()).expect("the settings");
        assert_eq!(after, self.before, "{what}: the terminal's settings");
        let shown = self.shown();
        assert_eq!(
            modes_left_on(&shown),
            Vec::<String>::new(),
            "{what}: modes left on after\n{shown:?}"
        );
    }

    /// The id of the program: `setsid` became it.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.process.0.id()).expect("a process id"))
    }

    /// Waits for the program's end.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.process.wait_within(PATIENCE)));
        ended.unwrap_or_else(|_| panic!("the program did not end; it showed:\n{}", self.shown()))
    }
}

/// The private modes that a text switched from their usual state and did not switch back, and the keyboard protocol.
fn modes_left_on(shown: &str) -> Vec<String> {
    let mut left = std::collections::BTreeMap::new();
    for piece in shown.split("\u{1b}[").skip(1) {
        let end = piece.find(|c: char| c.is_ascii_alphabetic());
        let Some((numbers, rest)) = end.map(|at| piece.split_at(at)) else {
            continue;
        };
        let last = rest.chars().next().unwrap_or_default();
        if let (Some(numbers), 'h' | 'l') = (numbers.strip_prefix('?'), last) {
            for number in numbers.split(';') {
                // Wrapping and the cursor are on as a rule, everything else is off.
                let usual = if matches!(number, "7" | "25") { 'h' } else { 'l' };
                left.insert(number.to_owned(), last != usual);
            }
        }
        if last == 'u' && numbers.starts_with(['>', '<']) {
            left.insert("keyboard".to_owned(), numbers.starts_with('>'));
        }
    }
    left.into_iter().filter(|(_, on)| *on).map(|(mode, _)| mode).collect()
}
