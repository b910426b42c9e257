//! The agent's side: start a holder, or find one again.
//!
//! ```text
//! launch ── exec of our own program: socket, recording, log; working directory = the session's ── START ──> HolderHandle
//! find   ── connect to the directory's socket ── ADOPT ──> HolderHandle, whose first message is ADOPTED
//! ```
//!
//! A holder is a process of its own session that outlives the agent. What follows on the stream are
//! [`FromHolder`](noderelay_proto::FromHolder) messages, STARTED or START_FAILED first. Closing the stream, or the half
//! to the holder, lets the window run; with the other half open the agent hears how it ends. TERMINATE ends the session at
//! once.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File, TryLockError};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream as StdStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use bytes::BytesMut;
use noderelay_proto::ToHolder;
use noderelay_proto::control::{Adopt, Start};
use tokio::net::UnixStream;
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, Command};

use crate::adopt::SOCKET;
use crate::processes::Known;
use crate::socket::{ToHolderHalf, watched};

/// Name of the holder's log in the session's directory.
pub const LOG: &str = "holder.log";
/// How long a holder may take to read START, when START is larger than a socket's buffer.
const READING: Duration = Duration::from_secs(10);

/// A holder and the stream to it.
#[derive(Debug)]
pub struct HolderHandle {
    /// Frames: `ToHolder` out, `FromHolder` in.
    pub stream: UnixStream,
    /// The holder's process id; `None` when it was found again.
    pub pid: Option<u32>,
    /// The same, not to be mistaken for a later process of that number.
    pub process: Option<Known>,
    /// Kept so that the runtime takes the process away when it has ended.
    _process: Option<Child>,
}

impl HolderHandle {
    /// The two halves of the stream, each woken only for what it waits for. Needs a tokio runtime.
    ///
    /// # Errors
    /// Out of descriptors.
    pub fn into_split(self) -> io::Result<(Receiver, ToHolderHalf)> {
        let stream = self.stream.into_std()?;
        Ok((watched(&stream)?, ToHolderHalf::new(stream)))
    }
}

/// Why there is no holder.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The session's directory can't be made, or is open to others.
    #[error("the session's directory {} cannot be used: {cause}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What was seen.
        cause: String,
    },
    /// The program could not be started again.
    #[error("cannot start {} as a holder: {source}", program.display())]
    Program {
        /// The program.
        program: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The holder did not take START or ADOPT.
    #[error("the holder does not take its orders: {0}")]
    Orders(#[source] io::Error),
    /// No holder listens there.
    #[error("no holder listens in {}: {source}", path.display())]
    NoHolder {
        /// The session's directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Starts a holder: `exe` with `words` must lead to [`holder_main`](crate::holder_main). `directory` is the session's own
/// and is made if it is not there; `recording` is the open file of the session's recording. Needs a tokio runtime.
pub fn launch(
    exe: &Path,
    words: &[impl AsRef<OsStr>],
    directory: &Path,
    start: Start,
    recording: File,
) -> Result<HolderHandle, LaunchError> {
    own_directory(directory)?;
    let failed = |source| LaunchError::Program {
        program: exe.to_owned(),
        source,
    };
    let log = File::options()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(directory.join(LOG))
        .map_err(failed)?;
    // Says for as long as the holder lives that it does (see `remains`). A file system without locks is used without.
    if let Err(TryLockError::WouldBlock) = log.try_lock() {
        return Err(LaunchError::Directory {
            path: directory.to_owned(),
            cause: "a holder works there already".into(),
        });
    }
    let (ours, theirs) = StdStream::pair().map_err(failed)?;
    let process = Command::new(exe)
        .args(words)
        .env_clear()
        .current_dir(directory)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::from(recording))
        .stderr(Stdio::from(log))
        .spawn()
        .map_err(failed)?;
    let stream = send(ours, ToHolder::Start(start)).map_err(LaunchError::Orders)?;
    Ok(HolderHandle {
        stream,
        pid: process.id(),
        // It has not been waited for yet, so the number is still its own.
        process: process.id().and_then(Known::now),
        _process: Some(process),
    })
}

/// Finds the holder of a session again. What it keeps of the session comes after ADOPTED. Needs a tokio runtime.
pub fn find(directory: &Path, adopt: Adopt) -> Result<HolderHandle, LaunchError> {
    let no_holder = |source| LaunchError::NoHolder {
        path: directory.to_owned(),
        source,
    };
    // Through a descriptor of the directory: a socket's path may have only 107 bytes.
    let opened = File::open(directory).map_err(no_holder)?;
    let path = format!("/proc/self/fd/{}/{SOCKET}", std::os::fd::AsRawFd::as_raw_fd(&opened));
    let ours = StdStream::connect(path).map_err(no_holder)?;
    let stream = send(ours, ToHolder::Adopt(adopt)).map_err(LaunchError::Orders)?;
    Ok(HolderHandle {
        stream,
        pid: None,
        process: None,
        _process: None,
    })
}

fn send(mut socket: StdStream, message: ToHolder) -> io::Result<UnixStream> {
    let mut bytes = BytesMut::new();
    message.encode(&mut bytes);
    socket.set_write_timeout(Some(READING))?;
    socket.write_all(&bytes)?;
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
}

/// Makes it, or checks that it is ours alone.
fn own_directory(path: &Path) -> Result<(), LaunchError> {
    let failed = |cause: String| LaunchError::Directory {
        path: path.to_owned(),
        cause,
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| failed(error.to_string()))?;
    let facts = std::fs::symlink_metadata(path).map_err(|error| failed(error.to_string()))?;
    if !facts.is_dir() {
        return Err(failed("it is not a directory".into()));
    }
    if facts.mode() & 0o077 != 0 || facts.uid() != nix::unistd::geteuid().as_raw() {
        return Err(failed(format!(
            "it is open to others (mode {:o}, owner {})",
            facts.mode() & 0o7777,
            facts.uid()
        )));
    }
    Ok(())
}
