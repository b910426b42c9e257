//! Standard input and output without blocking the session and without changing them for anybody else.
//!
//! Whether a descriptor blocks is a flag of the open file, which the local shell and our neighbours in a pipeline share:
//! it must not be set. So a terminal or pipe is opened a second time by its own name in `/proc`, which gives an open
//! file that is ours alone, and that one is set non-blocking. Where this is not possible (sockets, another owner, no
//! `/proc`) and for files, which have no readiness, a thread of its own does the blocking call.
//!
//! [`Input::read`] and [`Output::write`] may be dropped at any await: no byte is lost or doubled.
//!
//! Nothing here buffers more than one piece, interprets bytes, or reads ahead of what the session can take.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};

use bytes::{BufMut, Bytes, BytesMut};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

use crate::terminal::is_terminal;

#[cfg(test)]
mod tests;

/// Most bytes taken from standard input at once: one data frame.
const PIECE: usize = 64 * 1024;
/// The same for a terminal, which never hands out more.
const TYPED: usize = 4 * 1024;
/// Room that a read must find; below it the buffer is replaced.
const ROOM: usize = 4 * 1024;

/// Where typed or piped bytes come from.
#[derive(Debug)]
pub struct Input {
    source: Source,
    buffer: BytesMut,
    piece: usize,
    /// Read by the thread, and more than was wanted.
    held: Bytes,
}

#[derive(Debug)]
enum Source {
    /// tokio calls it a pipe; all it does is to wait for readiness and read, which is as good for a terminal.
    Ready(pipe::Receiver),
    Thread(mpsc::Receiver<io::Result<Bytes>>),
}

impl Input {
    /// Standard input of this process.
    ///
    /// # Errors
    /// The descriptor cannot be duplicated.
    pub fn stdin() -> io::Result<Self> {
        Ok(Self::new(io::stdin().as_fd().try_clone_to_owned()?))
    }

    /// Input from any descriptor. Needs a running tokio runtime.
    pub fn new(descriptor: OwnedFd) -> Self {
        let piece = if is_terminal(&descriptor) { TYPED } else { PIECE };
        let own =
            reopened(&descriptor, OFlag::O_RDONLY).and_then(|own| pipe::Receiver::from_owned_fd_unchecked(own).ok());
        let source = match own {
            Some(own) => Source::Ready(own),
            None => Source::Thread(reader(descriptor)),
        };
        Self {
            source,
            buffer: BytesMut::new(),
            piece,
            held: Bytes::new(),
        }
    }

    /// The next piece of at most `most` bytes; empty at the end of input.
    ///
    /// # Errors
    /// As the descriptor says.
    pub async fn read(&mut self, most: usize) -> io::Result<Bytes> {
        match &mut self.source {
            Source::Ready(descriptor) => loop {
                descriptor.readable().await?;
                if self.buffer.capacity() < ROOM {
                    self.buffer.reserve(PIECE);
                }
                let most = self.piece.min(most);
                match descriptor.try_read_buf(&mut (&mut self.buffer).limit(most)) {
                    Ok(_) => return Ok(self.buffer.split().freeze()),
                    // A terminal whose other side went away.
                    Err(error) if error.raw_os_error() == Some(nix::errno::Errno::EIO as i32) => {
                        return Ok(Bytes::new());
                    }
                    Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                    Err(error) => return Err(error),
                }
            },
            Source::Thread(pieces) => {
                if self.held.is_empty() {
                    self.held = pieces.recv().await.unwrap_or_else(|| Ok(Bytes::new()))?;
                }
                Ok(self.held.split_to(self.held.len().min(most)))
            }
        }
    }
}

/// Where output goes.
#[derive(Debug)]
pub struct Output {
    target: Target,
}

#[derive(Debug)]
enum Target {
    /// A terminal or pipe, non-blocking.
    Ready(File),
    Thread {
        work: mpsc::Sender<Bytes>,
        done: mpsc::Receiver<io::Result<usize>>,
        busy: bool,
    },
}

impl Output {
    /// Standard output of this process.
    ///
    /// # Errors
    /// The descriptor cannot be duplicated.
    pub fn stdout() -> io::Result<Self> {
        Ok(Self::new(io::stdout().as_fd().try_clone_to_owned()?))
    }

    /// Standard error of this process.
    ///
    /// # Errors
    /// The descriptor cannot be duplicated.
    pub fn stderr() -> io::Result<Self> {
        Ok(Self::new(io::stderr().as_fd().try_clone_to_owned()?))
    }

    /// Output to any descriptor. Needs a running tokio runtime.
    pub fn new(descriptor: OwnedFd) -> Self {
        let own = reopened(&descriptor, OFlag::O_WRONLY).map(File::from);
        let target = match own {
            Some(own) => Target::Ready(own),
            None => {
                let (work, done) = writer(descriptor);
                Target::Thread {
                    work,
                    done,
                    busy: false,
                }
            }
        };
        Self { target }
    }

    /// Writes some of `data`, at least one byte, and returns how many. A call that was dropped has to be repeated with
    /// the same bytes.
    ///
    /// # Errors
    /// As the descriptor says; a pipe without reader is `BrokenPipe`.
    pub async fn write(&mut self, data: &Bytes) -> io::Result<usize> {
        match &mut self.target {
            // Tried before asking: a terminal or pipe with room is the rule, and one that is watched for room reports it each
            // time somebody reads.
            Target::Ready(file) => loop {
                match file.write(data) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        let asked = pipe::Sender::from_file_unchecked(file.try_clone()?)?;
                        asked.writable().await?;
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    other => return other,
                }
            },
            Target::Thread { work, done, busy } => {
                if !*busy {
                    work.try_send(data.clone()).map_err(|_| gone())?;
                    *busy = true;
                }
                let result = done.recv().await.unwrap_or_else(|| Err(gone()));
                *busy = false;
                result
            }
        }
    }
}

fn gone() -> io::Error {
    io::Error::other("the writing thread is gone")
}

/// A second open file for a terminal or pipe, non-blocking and ours alone.
fn reopened(descriptor: &OwnedFd, access: OFlag) -> Option<OwnedFd> {
    let kind = File::from(descriptor.try_clone().ok()?).metadata().ok()?.file_type();
    if !kind.is_fifo() && !is_terminal(descriptor) {
        return None;
    }
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let mut options = File::options();
    options.read(access == OFlag::O_RDONLY).write(access == OFlag::O_WRONLY);
    let file = options
        .custom_flags(flags.bits())
        .open(format!("/proc/self/fd/{}", descriptor.as_raw_fd()));
    file.ok().map(OwnedFd::from)
}

/// Reads in a thread that stays at most two pieces ahead of the session.
fn reader(descriptor: OwnedFd) -> mpsc::Receiver<io::Result<Bytes>> {
    let (pieces, received) = mpsc::channel(1);
    let file = File::from(descriptor);
    let work = move || {
        let mut buffer = vec![0; PIECE];
        loop {
            let piece = retry(&file, PollFlags::POLLIN, |mut file| file.read(&mut buffer))
                .map(|n| Bytes::copy_from_slice(buffer.get(..n).unwrap_or_default()));
            let last = piece.as_ref().map_or(true, Bytes::is_empty);
            if pieces.blocking_send(piece).is_err() || last {
                return;
            }
        }
    };
    // Without a thread the channel closes, which reads as the end of input.
    let _ = std::thread::Builder::new().name("stdin".into()).spawn(work);
    received
}

type Writer = (mpsc::Sender<Bytes>, mpsc::Receiver<io::Result<usize>>);

fn writer(descriptor: OwnedFd) -> Writer {
    let (work, mut pieces) = mpsc::channel::<Bytes>(1);
    let (results, done) = mpsc::channel(1);
    let file = File::from(descriptor);
    let run = move || {
        while let Some(piece) = pieces.blocking_recv() {
            if results
                .blocking_send(retry(&file, PollFlags::POLLOUT, |mut file| file.write(&piece)))
                .is_err()
            {
                return;
            }
        }
    };
    let _ = std::thread::Builder::new().name("stdout".into()).spawn(run);
    (work, done)
}

/// Until the call is done. Whoever gave us the descriptor may have it non-blocking (rsync makes such sockets): then it is waited for.
fn retry<T>(file: &File, ready: PollFlags, mut call: impl FnMut(&File) -> io::Result<T>) -> io::Result<T> {
    loop {
        match call(file) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                match poll(&mut [PollFd::new(file.as_fd(), ready)], PollTimeout::NONE) {
                    Ok(_) | Err(Errno::EINTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            other => return other,
        }
    }
}
