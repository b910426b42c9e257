//! What exists before the command runs: descriptors, orders, and a child that has not yet said that it became the command.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use noderelay_audit::Stream;
use noderelay_child::pty::{self, Master};
use noderelay_child::{Account, Running, SpawnError, Spec, Stdio, What, environment, passwd, spawn};
use noderelay_proto::control::Start;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;

use super::{Output, StartError};

/// How long a child may take to become the command. Its home directory may lie on a slow network file system.
const STARTING: Duration = Duration::from_secs(15);
/// The group that terminals belong to, so that programs like `write` reach them.
const TTY_GROUP: u32 = 5;

/// What exists before the child has said that it became the command.
pub(super) struct Begun {
    pub(super) pid: u32,
    pub(super) running: tokio::net::UnixStream,
    pub(super) terminal: Option<Master>,
    pub(super) stdin: Option<File>,
    pub(super) outputs: Vec<Output>,
}

impl Begun {
    pub(super) fn new(start: &Start, exe: &Path, words: &[String]) -> Result<Self, StartError> {
        let spec = orders(start)?;
        let uid = spec.account.as_ref().map(|account| account.uid);
        let (stdio, terminal, stdin, outputs) = match &start.terminal {
            Some(asked) => {
                let size = asked
                    .size()
                    .map(size)
                    .and_then(pty::Size::usable)
                    .unwrap_or(pty::Size::USUAL);
                let (master, slave) = pty::open(size).map_err(StartError::Terminal)?;
                let stdin = copy(&master).map_err(StartError::Terminal)?;
                let output = copy(&master).and_then(|file| Output::new(file, Stream::Stdout));
                let output = output.map_err(StartError::Terminal)?;
                give_away(&slave, uid, Some(TTY_GROUP));
                (Stdio::Terminal(slave), Some(master), stdin, vec![output])
            }
            None => {
                let (stdio, stdin, outputs) = pipes(uid).map_err(StartError::Pipes)?;
                (stdio, None, stdin, outputs)
            }
        };
        let (pid, running) = spawn(exe, words, &spec, stdio).map(Running::into_parts)?;
        let running = running
            .set_nonblocking(true)
            .and_then(|()| tokio::net::UnixStream::from_std(running));
        let running = running.map_err(SpawnError::Handover)?;
        Ok(Self {
            pid,
            running,
            terminal,
            stdin: Some(stdin),
            outputs,
        })
    }
}

impl Output {
    fn new(file: File, stream: Stream) -> io::Result<Self> {
        Ok(Self {
            fd: Receiver::from_file_unchecked(file)?,
            stream,
            deaf_until: None,
        })
    }
}

fn pipes(uid: Option<u32>) -> io::Result<(Stdio, File, Vec<Output>)> {
    let (stdin, our_stdin) = io::pipe()?;
    let (our_stdout, stdout) = io::pipe()?;
    let (our_stderr, stderr) = io::pipe()?;
    let (stdin, stdout, stderr) = (OwnedFd::from(stdin), OwnedFd::from(stdout), OwnedFd::from(stderr));
    let our_stdin = nonblocking(our_stdin)?;
    let outputs = vec![
        Output::new(nonblocking(our_stdout)?, Stream::Stdout)?,
        Output::new(nonblocking(our_stderr)?, Stream::Stderr)?,
    ];
    // So that the account can open /dev/stdout and the like anew.
    [&stdin, &stdout, &stderr]
        .into_iter()
        .for_each(|pipe| give_away(pipe, uid, None));
    Ok((Stdio::Pipes { stdin, stdout, stderr }, our_stdin, outputs))
}

/// What the child is told to become.
fn orders(start: &Start) -> Result<Spec, StartError> {
    let account = match &start.account {
        Some(account) => Account {
            name: account.name.clone(),
            uid: account.uid,
            gid: account.gid,
            groups: account.groups.clone(),
            home: path(&account.home),
            shell: path(&account.shell),
        },
        None => {
            let uid = nix::unistd::geteuid().as_raw();
            passwd::find_uid(Path::new("/"), uid).map_err(|_| StartError::NoAccount(uid))?
        }
    };
    let text = |bytes: &Bytes| OsString::from_vec(bytes.to_vec());
    let what = match start.argv.first() {
        None => What::Shell { login: start.login },
        Some(line) if start.line => What::Line(text(line)),
        Some(_) => What::Command(start.argv.iter().map(text).collect()),
    };
    let offered = start
        .env
        .iter()
        .map(|variable| (variable.name.as_ref(), variable.value.as_ref()));
    let term = start.terminal.as_ref().map(|terminal| terminal.term.as_ref());
    let environment = environment::build(&account, term, offered);
    Ok(Spec::new(what, account, environment, start.terminal.is_some()))
}

/// Waits until the child runs the command or says why not.
pub(super) async fn verdict(report: tokio::net::UnixStream) -> Result<(), StartError> {
    let mut said = Vec::new();
    let mut report = report.take(Running::MAX_REPORT as u64);
    match tokio::time::timeout(STARTING, report.read_to_end(&mut said)).await {
        Err(_) => Err(SpawnError::TimedOut(STARTING).into()),
        Ok(Err(error)) if error.kind() != io::ErrorKind::ConnectionReset => Err(SpawnError::Handover(error).into()),
        Ok(_) => Ok(Running::verdict(&said)?),
    }
}

/// The size in the child crate's words.
pub(crate) fn size(size: noderelay_proto::control::Size) -> pty::Size {
    pty::Size {
        cols: size.cols,
        rows: size.rows,
        xpixel: size.xpixel,
        ypixel: size.ypixel,
    }
}

fn path(bytes: &Bytes) -> PathBuf {
    OsString::from_vec(bytes.to_vec()).into()
}

/// Makes a descriptor the account's own. Only root can and needs to.
fn give_away(fd: &OwnedFd, uid: Option<u32>, gid: Option<u32>) {
    if nix::unistd::geteuid().is_root() {
        let _ = nix::unistd::fchown(
            fd,
            uid.map(nix::unistd::Uid::from_raw),
            gid.map(nix::unistd::Gid::from_raw),
        );
    }
}

fn nonblocking(pipe: impl Into<OwnedFd>) -> io::Result<File> {
    let file = File::from(pipe.into());
    let flags = OFlag::from_bits_retain(fcntl(&file, FcntlArg::F_GETFL)?);
    fcntl(&file, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(file)
}

/// Another descriptor of the same terminal, non-blocking as it is.
pub(super) fn copy(master: &Master) -> io::Result<File> {
    master.as_fd().try_clone_to_owned().map(File::from)
}
