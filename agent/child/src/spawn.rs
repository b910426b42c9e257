//! The holder's side: start the program again and hand it its orders.
//!
//! ```text
//! spawn:    exec of our own program; its descriptor 0 is a socket to us
//!       ──> length, then the encoded Spec, with the three standard descriptors attached
//! Running: <── Failure   the child says where it stopped and what it saw
//!          <── EOF       the socket closed itself on exec: the command runs
//! ```
//!
//! No code of ours runs between a fork and an exec, and no descriptor is made inheritable, so nothing can leak into the
//! child (or into another one that starts at the same time).

use std::ffi::{OsStr, OsString};
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio as Process};
use std::time::Duration;

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};

use crate::spec::MAX_SPEC;
use crate::{SpawnError, Spec, Stage};

/// What the child's standard descriptors will be.
#[derive(Debug)]
pub enum Stdio {
    /// The terminal side of a pty, three times.
    Terminal(OwnedFd),
    /// One pipe each.
    Pipes {
        /// Read end.
        stdin: OwnedFd,
        /// Write end.
        stdout: OwnedFd,
        /// Write end.
        stderr: OwnedFd,
    },
}

/// A child that has its orders. It may not run the command yet: see [`Running::started`].
#[derive(Debug)]
pub struct Running {
    pid: u32,
    report: UnixStream,
}

/// Largest report of a child.
pub(crate) const MAX_REPORT: usize = 4096;

/// Starts `exe` with `words` (which must lead it to [`child_main`](crate::child_main)) and hands it `spec`.
///
/// The caller's ends of `stdio` are consumed: when this returns, only the child has them.
pub fn spawn(exe: &Path, words: &[impl AsRef<OsStr>], spec: &Spec, stdio: Stdio) -> Result<Running, SpawnError> {
    let launch = |source| SpawnError::Launch {
        program: exe.display().to_string(),
        source,
    };
    let orders = spec.encode();
    if orders.len() > MAX_SPEC {
        return Err(SpawnError::Handover(io::Error::other(
            "arguments and environment are too long",
        )));
    }
    let (ours, theirs) = UnixStream::pair().map_err(launch)?;
    let child = Command::new(exe)
        .args(words)
        .env_clear()
        .stdin(Process::from(OwnedFd::from(theirs)))
        .stdout(Process::null())
        .spawn()
        .map_err(launch)?;
    hand_over(&ours, &orders, &stdio).map_err(SpawnError::Handover)?;
    Ok(Running {
        pid: child.id(),
        report: ours,
    })
}

impl Running {
    /// The process id, which is also the id of its session and of its first process group.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits, blocking, until the command runs or the child says why not.
    pub fn started(self, within: Duration) -> Result<u32, SpawnError> {
        self.report
            .set_read_timeout(Some(within))
            .map_err(SpawnError::Handover)?;
        let mut said = Vec::new();
        match (&self.report).take(MAX_REPORT as u64).read_to_end(&mut said) {
            Ok(_) => verdict(&said).map(|()| self.pid),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(SpawnError::TimedOut(within)),
            // A child that is killed with unread orders resets the socket: the process' own end tells more.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => verdict(&said).map(|()| self.pid),
            Err(error) => Err(SpawnError::Handover(error)),
        }
    }

    /// The process id and the socket, for a caller that waits in its own way: read to the end of file, at most
    /// [`MAX_REPORT`](Self::MAX_REPORT) bytes, and give them to [`Running::verdict`].
    pub fn into_parts(self) -> (u32, UnixStream) {
        (self.pid, self.report)
    }

    /// Most that a child says.
    pub const MAX_REPORT: usize = MAX_REPORT;

    /// What the bytes say that came before the end of file: nothing means that the command runs.
    pub fn verdict(said: &[u8]) -> Result<(), SpawnError> {
        verdict(said)
    }
}

fn hand_over(socket: &UnixStream, orders: &[u8], stdio: &Stdio) -> io::Result<()> {
    let descriptors = match stdio {
        Stdio::Terminal(slave) => [slave, slave, slave].map(AsRawFd::as_raw_fd),
        Stdio::Pipes { stdin, stdout, stderr } => [stdin, stdout, stderr].map(AsRawFd::as_raw_fd),
    };
    let length = u32::try_from(orders.len()).map_err(io::Error::other)?.to_le_bytes();
    let parts = [IoSlice::new(&length)];
    let attached = [ControlMessage::ScmRights(&descriptors)];
    let sent = sendmsg::<()>(socket.as_raw_fd(), &parts, &attached, MsgFlags::MSG_NOSIGNAL, None)?;
    if sent != length.len() {
        return Err(io::ErrorKind::WriteZero.into());
    }
    let mut socket = socket;
    socket.write_all(orders)?;
    // The child waits for exactly this much; closing our writing half says that no more comes.
    socket.shutdown(std::net::Shutdown::Write)
}

fn verdict(said: &[u8]) -> Result<(), SpawnError> {
    let Some((stage, text)) = said.split_first() else {
        return Ok(());
    };
    let seen = String::from_utf8_lossy(text).into_owned();
    match Stage::from_number(*stage) {
        Some(Stage::Shell) => Err(SpawnError::NoShell { tried: seen }),
        Some(stage) => Err(SpawnError::Failed { stage, seen }),
        None => Err(SpawnError::Handover(io::Error::other("the report is not one of ours"))),
    }
}

/// What a child writes to say that it stopped.
pub(crate) fn report(stage: Stage, seen: &str) -> Vec<u8> {
    let mut said = vec![stage as u8];
    said.extend(
        OsString::from(seen)
            .into_encoded_bytes()
            .into_iter()
            .take(MAX_REPORT - 1),
    );
    said
}
