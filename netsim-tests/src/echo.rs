//! One byte to `cat` on a terminal and back, in one session or in many at once.
//!
//! The client gets a terminal of its own, already in raw mode so that nothing local can echo; the far side says
//! `READY` when its terminal is raw as well. Each next byte is sent when the last one is back.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::openpty;
use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};
use tokio::time::Instant;

use crate::running::{Running, readable, shown};

/// What runs at the far end.
pub const FAR: [&str; 3] = ["sh", "-c", "stty raw -echo; printf READY; exec cat"];
const READY: &[u8] = b"READY";
const PATIENCE: Duration = Duration::from_secs(20);

/// How often the sessions of a crowd have a byte typed, each.
pub const PACE: Duration = Duration::from_millis(100);

/// An open terminal session with `cat` at its far end.
pub struct Session {
    name: String,
    terminal: File,
    _client: Running,
}

impl Session {
    pub fn open(command: &mut Command) -> Result<Session> {
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
    pub fn once(&mut self, byte: u8) -> Result<Duration> {
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

/// Types a byte into each session every [`PACE`], spread over it, so many times; gives the time of each until it is back, counted
/// from when it was due where the one before it was still on its way.
pub fn paced(sessions: &mut [Session], times: usize) -> Result<Vec<Duration>> {
    let apart = PACE / u32::try_from(sessions.len().max(1))?;
    let mut due: Vec<Instant> = (0u32..)
        .zip(&*sessions)
        .map(|(n, _)| Instant::now() + apart * n)
        .collect();
    let mut under_way: Vec<Option<Instant>> = vec![None; sessions.len()];
    let (mut left, mut seen) = (vec![times; sessions.len()], Vec::new());
    let hangs = Instant::now() + PATIENCE + PACE * u32::try_from(times)?;
    while seen.len() < times * sessions.len() {
        let now = Instant::now();
        if now > hangs {
            bail!("{} of {} bytes came back", seen.len(), times * sessions.len());
        }
        for (((session, due), under_way), left) in sessions.iter_mut().zip(&mut due).zip(&mut under_way).zip(&mut left)
        {
            if *due <= now && under_way.is_none() && *left > 0 {
                // A driver that is late itself measures nothing of itself.
                let late = *due + PACE <= now;
                *under_way = Some(if late { *due } else { Instant::now() });
                session.terminal.write_all(b"x")?;
                (*due, *left) = (*due + PACE, *left - 1);
            }
        }
        let next = due
            .iter()
            .zip(&under_way)
            .zip(&left)
            .filter(|((_, busy), left)| busy.is_none() && **left > 0);
        let next = next.map(|((due, _), _)| *due).min().unwrap_or(hangs);
        let pause = next.saturating_duration_since(Instant::now());
        let pause = PollTimeout::try_from(pause).unwrap_or(PollTimeout::MAX);
        let ready = {
            let terminals = sessions.iter().map(|session| session.terminal.as_fd());
            let mut all: Vec<_> = terminals.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
            poll(&mut all, pause)?;
            all.iter().map(|one| one.any().unwrap_or(true)).collect::<Vec<_>>()
        };
        for ((session, under_way), ready) in sessions.iter_mut().zip(&mut under_way).zip(ready) {
            if ready {
                session.byte()?;
                let started = under_way
                    .take()
                    .with_context(|| format!("{}: a byte that nobody typed", session.name))?;
                seen.push(started.elapsed());
            }
        }
    }
    Ok(seen)
}
