//! One byte to `cat` on a terminal and back.
//!
//! The client gets a terminal of its own, already in raw mode so that nothing local can echo; the far side says
//! `READY` when its terminal is raw as well. Each next byte is sent when the last one is back.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use nix::pty::openpty;
use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};
use tokio::time::Instant;

use crate::process::{Running, readable, shown};

/// What runs at the far end.
pub(crate) const FAR: [&str; 3] = ["sh", "-c", "stty raw -echo; printf READY; exec cat"];
const READY: &[u8] = b"READY";
const PATIENCE: Duration = Duration::from_secs(20);

/// An open terminal session with `cat` at its far end.
pub(crate) struct Session {
    name: String,
    terminal: File,
    _client: Running,
}

impl Session {
    pub(crate) fn open(command: &mut Command) -> Result<Session> {
        let pty = openpty(None, None).context("cannot open a terminal")?;
        let mut modes = tcgetattr(&pty.slave)?;
        cfmakeraw(&mut modes);
        tcsetattr(&pty.slave, SetArg::TCSANOW, &modes)?;
        command
            .stdin(Stdio::from(pty.slave.try_clone()?))
            .stdout(Stdio::from(pty.slave))
            .stderr(Stdio::null());
        let client = Running::start(command)?;
        // The command still holds its copies of the terminal's far side; they must not keep it open.
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut session = Session {
            name: shown(command),
            terminal: File::from(pty.master),
            _client: client,
        };
        let mut seen = Vec::new();
        while !seen.ends_with(READY) {
            seen.push(
                session
                    .byte()
                    .with_context(|| format!("seen so far: {:?}", String::from_utf8_lossy(&seen)))?,
            );
        }
        Ok(session)
    }

    /// The time until a byte is back.
    pub(crate) fn once(&mut self, byte: u8) -> Result<Duration> {
        let started = Instant::now();
        self.terminal.write_all(&[byte])?;
        let seen = self.byte()?;
        let time = started.elapsed();
        if seen != byte {
            bail!("{}: sent {byte:#x}, got {seen:#x} back", self.name);
        }
        Ok(time)
    }

    fn byte(&mut self) -> Result<u8> {
        readable(self.terminal.as_fd(), Instant::now() + PATIENCE).with_context(|| format!("{} hangs", self.name))?;
        let mut byte = [0];
        self.terminal
            .read_exact(&mut byte)
            .with_context(|| format!("{} ended", self.name))?;
        let [byte] = byte;
        Ok(byte)
    }
}
