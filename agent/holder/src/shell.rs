//! The command with its descriptors and its recording: nothing is read from it that is not recorded first.
//!
//! ```text
//! Shell::start(START, Recording) ── pty or three pipes, child started, verdict awaited ──> Shell
//! read ──> recorded ──> bytes for the user
//! ```
//!
//! [`Shell::start`] takes the recording by value: without one no command is started. A terminal carries stdout and stderr as
//! one stream, pipes keep them apart. Reading gives what there is, up to one frame, and never waits.

mod begin;

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use nix::errno::Errno;
use noderelay_audit::{End, Outcome, RecordError, Recording, Stream};
use noderelay_child::pty::{self, Master};
use noderelay_child::{SpawnError, Stage};
use noderelay_proto::Code;
use noderelay_proto::control::Start;
use tokio::net::unix::pipe::Receiver;
use tokio::task::JoinHandle;

use crate::input::Sink;
use crate::socket::writable;
use crate::time::now;
pub(crate) use begin::size;
use begin::{Begun, copy, verdict};

/// How long a terminal without another end is left alone.
const DEAF: Duration = Duration::from_millis(100);
/// A running command.
#[derive(Debug)]
pub(crate) struct Shell {
    pid: u32,
    terminal: Option<Master>,
    stdin: Option<File>,
    outputs: Vec<Output>,
    recording: Recording,
    /// The recording's file once more, to be synced beside the work.
    disk: Option<File>,
    /// Time since boot at which the recording's clock was zero.
    zero: Duration,
    scratch: Box<[u8]>,
}

#[derive(Debug)]
struct Output {
    /// A pipe's end, or a terminal's: the type only reads, and waits for, a descriptor.
    fd: Receiver,
    stream: Stream,
    /// Set when a terminal has no other end for the moment: when to look again.
    deaf_until: Option<Duration>,
}

/// What a read gave.
#[derive(Debug)]
pub(crate) enum Took {
    /// Recorded bytes.
    Bytes(Stream, Bytes),
    /// The recording is broken and must not be: these bytes are seen by nobody.
    Unrecorded(RecordError),
    /// There is nothing now.
    Nothing,
    /// Nothing will come any more.
    End,
}

/// Why no command runs.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error("no pseudo-terminal can be opened: {0}")]
    Terminal(#[source] io::Error),
    #[error("no pipes can be opened: {0}")]
    Pipes(#[source] io::Error),
    #[error("the session names no account and uid {0} has none in /etc/passwd")]
    NoAccount(u32),
    #[error(transparent)]
    Spawn(#[from] SpawnError),
}

impl StartError {
    /// The code that the client gets.
    pub(crate) fn code(&self) -> Code {
        match self {
            Self::Terminal(_) => Code::ShellTerminal,
            Self::NoAccount(_) => Code::ShellNoAccount,
            Self::Spawn(SpawnError::NoShell { .. }) => Code::ShellNoShell,
            Self::Spawn(SpawnError::Failed {
                stage: Stage::Identity, ..
            }) => Code::ShellPrivileges,
            Self::Spawn(SpawnError::Failed {
                stage: Stage::Session, ..
            }) => Code::ShellTerminal,
            Self::Pipes(_) | Self::Spawn(_) => Code::ShellFailed,
        }
    }
}

impl Shell {
    /// Starts what `start` asks for. When nothing could be started the recording comes back, to be ended.
    pub(crate) async fn start(
        start: &Start,
        recording: Recording,
        disk: Option<File>,
        exe: &Path,
        words: &[String],
    ) -> Result<Self, (StartError, Recording)> {
        let begun = match Begun::new(start, exe, words) {
            Ok(begun) => begun,
            Err(error) => return Err((error, recording)),
        };
        if let Err(error) = verdict(begun.running).await {
            return Err((error, recording));
        }
        let elapsed = jiff::Timestamp::now().duration_since(recording.header().session.started);
        let zero = now().saturating_sub(Duration::try_from(elapsed).unwrap_or_default());
        Ok(Self {
            pid: begun.pid,
            terminal: begun.terminal,
            stdin: begun.stdin,
            outputs: begun.outputs,
            recording,
            disk,
            zero,
            scratch: vec![0; noderelay_proto::limits::MAX_DATA].into_boxed_slice(),
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// The process group that signals are for: the one in front of the terminal, else the command's own.
    pub(crate) fn front(&self) -> Option<i32> {
        match &self.terminal {
            Some(master) => master.foreground(),
            None => i32::try_from(self.pid).ok(),
        }
    }

    /// Sets the terminal's size, if there is a terminal.
    pub(crate) fn resize(&mut self, size: pty::Size) -> Result<(), RecordError> {
        if let Some(master) = &self.terminal
            && master.resize(size).is_ok()
        {
            self.recording.resize(self.at(), size.cols, size.rows)?;
        }
        Ok(())
    }

    /// Waits until there is something to read.
    pub(crate) async fn readable(&self) {
        let mut waits = self
            .outputs
            .iter()
            .filter(|output| output.deaf_until.is_none())
            .map(|output| output.fd.readable());
        match (waits.next(), waits.next()) {
            (Some(one), None) => drop(one.await),
            (Some(one), Some(other)) => {
                tokio::select! { ready = one => drop(ready), ready = other => drop(ready) }
            }
            (None, _) => std::future::pending().await,
        }
    }

    /// Waits until the command takes input.
    pub(crate) async fn writable(&self) {
        match &self.stdin {
            Some(stdin) => writable(stdin).await,
            None => std::future::pending().await,
        }
    }

    /// When a terminal whose other end was closed is to be looked at again.
    pub(crate) fn next(&self) -> Option<Duration> {
        self.outputs.iter().filter_map(|output| output.deaf_until).min()
    }

    /// Reads up to `room` bytes of one output and records them. `ended`: the command has ended, so that a terminal without
    /// another end will stay so.
    pub(crate) fn read(&mut self, room: usize, ended: bool) -> Took {
        let room = room.min(self.scratch.len());
        let Some(buffer) = self.scratch.get_mut(..room).filter(|buffer| !buffer.is_empty()) else {
            return Took::Nothing;
        };
        if let Some(master) = &self.terminal {
            self.outputs
                .iter_mut()
                .for_each(|output| output.listen_again(master, ended));
        }
        let mut index = 0;
        while let Some(output) = self.outputs.get_mut(index) {
            match output.take(buffer, ended) {
                Take::Nothing => index += 1,
                Take::End => drop(self.outputs.remove(index)),
                Take::Bytes(length) => {
                    let stream = output.stream;
                    let bytes = buffer.get(..length).unwrap_or_default();
                    let at = now().saturating_sub(self.zero);
                    if let Err(error) = self.recording.output(at, stream, bytes) {
                        return Took::Unrecorded(error);
                    }
                    let bytes = Bytes::copy_from_slice(bytes);
                    // Both streams get their turn.
                    self.outputs.rotate_left(index + 1);
                    return Took::Bytes(stream, bytes);
                }
            }
        }
        if self.outputs.is_empty() {
            Took::End
        } else {
            Took::Nothing
        }
    }

    /// Writes something worth knowing into the recording.
    pub(crate) fn note(&mut self, text: &str) -> Result<(), RecordError> {
        self.recording.notice(self.at(), text)
    }

    /// Writes a signal into the recording.
    pub(crate) fn note_signal(&mut self, name: &str) -> Result<(), RecordError> {
        self.recording.signal(self.at(), name)
    }

    /// Asks the disk, on a thread of its own, to keep what was written. What comes of it shows in [`Shell::sync`].
    pub(crate) fn begin_sync(&self) -> Option<JoinHandle<()>> {
        let disk = self.disk.as_ref()?.try_clone().ok()?;
        Some(tokio::task::spawn_blocking(move || drop(disk.sync_data())))
    }

    /// Lets the recording catch up with a disk that refused, and asks the disk to keep what was written.
    pub(crate) fn sync(&mut self) -> Result<(), RecordError> {
        let at = self.at();
        self.recording.flush(at);
        self.recording.sync(at)
    }

    /// Ends the recording and lets go of terminal and pipes: who still has the other end is hung up on.
    pub(crate) fn end(&mut self, end: &End) -> Result<Outcome, RecordError> {
        self.stdin = None;
        self.terminal = None;
        self.outputs.clear();
        self.recording.end(self.at(), end)
    }

    fn at(&self) -> Duration {
        now().saturating_sub(self.zero)
    }
}

impl Sink for Shell {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut stdin = self.stdin.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
        stdin.write(bytes)
    }

    /// On a terminal the end of input is a key that somebody presses: there is no other end. In the middle of a line it has
    /// to be pressed twice (the first only hands over what was typed). A program that reads keys gets the key.
    fn end(&mut self, mid_line: bool) -> Option<Bytes> {
        let Some(master) = &self.terminal else {
            self.stdin = None;
            return None;
        };
        let key = master.end_key()?;
        let presses = if key.lines && mid_line { 2 } else { 1 };
        Some(Bytes::from(vec![key.byte; presses]))
    }

    fn interrupt_key(&self) -> Option<u8> {
        self.terminal.as_ref().and_then(Master::interrupt_key)
    }

    fn forget(&mut self) {
        if let Some(master) = &self.terminal {
            master.forget_input();
        }
    }
}

enum Take {
    Bytes(usize),
    Nothing,
    End,
}

impl Output {
    /// Reads until the buffer is full or there is nothing more now: a terminal gives at most 4 KiB at a time.
    fn take(&mut self, buffer: &mut [u8], ended: bool) -> Take {
        if self.deaf_until.is_some() {
            return Take::Nothing;
        }
        let mut length = 0;
        while let Some(free) = buffer.get_mut(length..).filter(|free| !free.is_empty()) {
            match self.fd.try_read(free) {
                Ok(0) if length == 0 => return Take::End,
                Ok(0) => break,
                Ok(read) => length += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock || length > 0 => break,
                // Everything was read, and nobody has the other end of the terminal. While the command lives it may open
                // it again.
                Err(error) if error.raw_os_error() == Some(Errno::EIO as i32) && !ended => {
                    self.deaf_until = Some(now().saturating_add(DEAF));
                    return Take::Nothing;
                }
                Err(_) => return Take::End,
            }
        }
        if length > 0 { Take::Bytes(length) } else { Take::Nothing }
    }

    /// Listens again, on a new descriptor: the old one would for ever be reported as hung up.
    fn listen_again(&mut self, master: &Master, ended: bool) {
        if self.deaf_until.is_some_and(|at| ended || now() >= at)
            && let Ok(fd) = copy(master).and_then(Receiver::from_file_unchecked)
        {
            self.fd = fd;
            self.deaf_until = None;
        }
    }
}
