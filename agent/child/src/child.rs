//! The child's side: from our own program to the shell, in one fixed order.
//!
//! ```text
//! orders ─> descriptors ─> signals ─> session + terminal ─> ids (verified) ─> directory ─> exec
//! ```
//!
//! * Descriptors first, so that nothing of the holder is reachable by anything later.
//! * Ids after the terminal and before the directory and the search for a program, so that both are judged by what the
//!   *account* may see.
//! * A command that can't be started ends as a shell would end it: a line on its stderr, 127 when it does not exist, 126
//!   when it can't be executed. Everything else that fails is reported to the holder and no command runs.
//!
//! It never asks a directory service, never writes to standard output, and starts no thread.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use nix::cmsg_space;
use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, getsockopt, recvmsg};
use nix::unistd::{Gid, Uid, execve, setgroups, setresgid, setresuid, setsid};

use crate::spawn::report;
use crate::spec::MAX_SPEC;
use crate::{Account, Spec, Stage, What, environment};

/// A shell's code for a command that does not exist.
const NOT_FOUND: i32 = 127;
/// A shell's code for a command that can't be executed.
const NOT_EXECUTABLE: i32 = 126;
/// Our own code; the holder has the reason already.
const FAILED: i32 = 255;
/// Descriptors are moved above this while the standard ones are put in place.
const OUT_OF_THE_WAY: RawFd = 10;
/// Where the socket to the holder lies until exec closes it.
const REPORT: RawFd = 3;

/// Becomes the shell or command that the holder orders over descriptor 0. Must be called first thing in `main`, before
/// any thread is started.
pub fn child_main() -> ! {
    // At its final place at once, so that a report gets through at every later step.
    if duplicate(0, REPORT, libc::O_CLOEXEC).is_err() {
        std::process::exit(FAILED);
    }
    // SAFETY: the descriptor was made by the line above; nothing else in this process uses this number.
    let holder = UnixStream::from(unsafe { OwnedFd::from_raw_fd(REPORT) });
    let code = match enter(&holder) {
        Ok(never) => match never {},
        Err(Stop::Ended(code)) => code,
        Err(Stop::Report(stage, seen)) => {
            let _ = (&holder).write_all(&report(stage, &seen));
            FAILED
        }
    };
    std::process::exit(code)
}

/// Why the child did not become the command.
enum Stop {
    /// Tell the holder; no command runs.
    Report(Stage, String),
    /// The command could not be started and its user knows: end with this code.
    Ended(i32),
}

/// Success is to be somebody else.
enum Never {}

trait At<T> {
    fn at(self, stage: Stage, what: &str) -> Result<T, Stop>;
}

impl<T, E: std::fmt::Display> At<T> for Result<T, E> {
    fn at(self, stage: Stage, what: &str) -> Result<T, Stop> {
        self.map_err(|error| Stop::Report(stage, format!("{what}: {error}")))
    }
}

fn enter(holder: &UnixStream) -> Result<Never, Stop> {
    let (spec, stdio) = receive(holder).at(Stage::Spec, "orders")?;
    place(stdio).at(Stage::Descriptors, "descriptors")?;
    quiet();
    take_session(spec.terminal)?;
    if let Some(account) = &spec.account {
        become_account(account)?;
    }
    die_with(holder)?;
    enter_directory(&spec.directories);
    Err(start(spec))
}

/// Reads length, orders and the three descriptors.
fn receive(holder: &UnixStream) -> io::Result<(Spec, [OwnedFd; 3])> {
    let mut length = [0; 4];
    let mut space = cmsg_space!([RawFd; 3]);
    let mut received: Vec<OwnedFd> = Vec::new();
    {
        let mut parts = [io::IoSliceMut::new(&mut length)];
        let message = recvmsg::<()>(
            holder.as_raw_fd(),
            &mut parts,
            Some(&mut space),
            MsgFlags::MSG_CMSG_CLOEXEC,
        )?;
        for control in message.cmsgs()? {
            if let ControlMessageOwned::ScmRights(descriptors) = control {
                for descriptor in descriptors {
                    // SAFETY: the kernel has just made this descriptor for us; nobody else knows its number.
                    received.push(unsafe { OwnedFd::from_raw_fd(descriptor) });
                }
            }
        }
        if message.bytes != 4 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let stdio = received
        .try_into()
        .map_err(|_| io::Error::other("three descriptors were expected"))?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_SPEC {
        return Err(io::Error::other("orders are too long"));
    }
    let mut bytes = vec![0; length];
    let mut holder = holder;
    holder.read_exact(&mut bytes)?;
    Ok((Spec::decode(&bytes).map_err(io::Error::other)?, stdio))
}

/// Puts the three descriptors at 0, 1 and 2 and closes everything after the holder's socket.
fn place(stdio: [OwnedFd; 3]) -> io::Result<()> {
    let moved = stdio
        .iter()
        .map(|fd| above(fd.as_raw_fd()))
        .collect::<io::Result<Vec<_>>>()?;
    for (from, to) in moved.iter().zip(0..) {
        duplicate(from.as_raw_fd(), to, 0)?;
    }
    close_from(REPORT as u32 + 1)?;
    // Closed already; dropping would close numbers that are no longer ours.
    std::mem::forget((stdio, moved));
    Ok(())
}

/// Default action for every signal and none blocked: an ignored one (our runtime ignores SIGPIPE) would survive exec.
fn quiet() {
    // A zeroed kernel `sigaction` (handler, flags, restorer, mask): the default action, no flags, nothing masked.
    let default = [0_u64; 4];
    for signal in 1..=64 {
        // SAFETY: rt_sigaction reads one sigaction through the pointer, which is valid for the length of the call, and
        // installs no code. The C library's wrapper would leave out two of its own signals; KILL and STOP fail, harmlessly.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                std::ptr::null::<u64>(),
                8_usize,
            )
        };
    }
    let _ = SigSet::empty().thread_set_mask();
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o022));
    // The agent may be protected from the kernel's out-of-memory killer; what a user starts must not be.
    if std::fs::read("/proc/self/oom_score_adj").is_ok_and(|value| value.starts_with(b"-")) {
        let _ = std::fs::write("/proc/self/oom_score_adj", "0");
    }
}

fn take_session(terminal: bool) -> Result<(), Stop> {
    setsid().at(Stage::Session, "new session")?;
    if terminal {
        // SAFETY: TIOCSCTTY takes an integer, no pointer; descriptor 0 is open.
        let taken = unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) };
        Errno::result(taken).at(Stage::Session, "controlling terminal")?;
    }
    Ok(())
}

/// Groups, then group id, then user id: each step needs the rights that the next one gives up. Then looks whether it is so.
fn become_account(account: &Account) -> Result<(), Stop> {
    let (uid, gid) = (Uid::from_raw(account.uid), Gid::from_raw(account.gid));
    if !Uid::effective().is_root() {
        // An agent without root serves its own account only, as it is.
        if Uid::current() == uid && Uid::effective() == uid {
            return Ok(());
        }
        let seen = format!(
            "the agent runs as uid {} and cannot become {} ({uid})",
            Uid::effective(),
            account.name
        );
        return Err(Stop::Report(Stage::Identity, seen));
    }
    let mut groups: Vec<Gid> = account.groups.iter().copied().map(Gid::from_raw).collect();
    groups.push(gid);
    groups.sort_unstable_by_key(|gid| gid.as_raw());
    groups.dedup();
    setgroups(&groups).at(Stage::Identity, "groups")?;
    setresgid(gid, gid, gid).at(Stage::Identity, "group id")?;
    setresuid(uid, uid, uid).at(Stage::Identity, "user id")?;

    let users = nix::unistd::getresuid().at(Stage::Identity, "user id")?;
    let group = nix::unistd::getresgid().at(Stage::Identity, "group id")?;
    let mut seen = nix::unistd::getgroups().at(Stage::Identity, "groups")?;
    seen.sort_unstable_by_key(|gid| gid.as_raw());
    let as_asked = [users.real, users.effective, users.saved] == [uid; 3]
        && [group.real, group.effective, group.saved] == [gid; 3]
        && seen == groups;
    let root_again = !uid.is_root() && setresuid(Uid::from_raw(0), Uid::from_raw(0), Uid::from_raw(0)).is_ok();
    if !as_asked || root_again {
        return Err(Stop::Report(
            Stage::Identity,
            "the ids are not the ones that were asked for".into(),
        ));
    }
    Ok(())
}

/// A holder that dies without a word records nothing any more, so nothing may go on: KILL, since whoever ignores a hang-up
/// would live on. After the change of ids, which would clear it.
fn die_with(holder: &UnixStream) -> Result<(), Stop> {
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).at(Stage::Session, "death signal")?;
    // It may have died before that line: then somebody else is our parent.
    let parent = getsockopt(holder, PeerCredentials)
        .at(Stage::Session, "the holder")?
        .pid();
    if nix::unistd::getppid().as_raw() != parent {
        return Err(Stop::Report(Stage::Session, "the holder is gone".into()));
    }
    Ok(())
}

/// The first directory that can be entered, else `/` with a line that says so.
fn enter_directory(directories: &[PathBuf]) {
    for directory in directories {
        match std::env::set_current_dir(directory) {
            Ok(()) => return,
            Err(error) => complain(&format!(
                "cannot enter {}: {error}; starting in /",
                shown(directory.as_os_str())
            )),
        }
    }
    let _ = std::env::set_current_dir("/");
}

/// Executes what was asked for; returns only when that was impossible.
fn start(spec: Spec) -> Stop {
    let Spec {
        what,
        mut environment,
        shells,
        ..
    } = spec;
    match what {
        What::Command(argv) => {
            if let Some(shell) = shells.first() {
                environment.push(("SHELL".into(), shell.into()));
            }
            command(&argv, &strings(&environment))
        }
        What::Shell { login } => shell(&shells, environment, login, None),
        What::Line(line) => shell(&shells, environment, false, Some(line)),
    }
}

fn shell(shells: &[PathBuf], environment: Vec<(OsString, OsString)>, login: bool, line: Option<OsString>) -> Stop {
    let mut tried = Vec::new();
    for shell in shells {
        let mut environment = environment.clone();
        environment.push(("SHELL".into(), shell.into()));
        let name = shell.file_name().unwrap_or(shell.as_os_str());
        // busybox decides by its name what it is.
        let name = if name == "busybox" { OsStr::new("sh") } else { name };
        let mut argv = vec![if login { joined("-", name) } else { name.to_owned() }];
        argv.extend(line.iter().flat_map(|line| ["-c".into(), line.clone()]));
        let error = exec(shell, &argv, &strings(&environment));
        tried.push(format!("{} ({})", shown(shell.as_os_str()), error.desc()));
    }
    Stop::Report(Stage::Shell, tried.join(", "))
}

fn command(argv: &[OsString], environment: &[CString]) -> Stop {
    let Some(name) = argv.first().filter(|name| !name.is_empty()) else {
        complain("empty command");
        return Stop::Ended(NOT_FOUND);
    };
    let error = if name.as_bytes().contains(&b'/') {
        exec(Path::new(name), argv, environment)
    } else {
        // As a shell does: a directory without the program is passed over, one where it can't be executed is remembered.
        let mut worst = Errno::ENOENT;
        for directory in environment::PATH.split(':') {
            match exec(&Path::new(directory).join(name), argv, environment) {
                Errno::ENOENT | Errno::ENOTDIR => {}
                error => worst = error,
            }
        }
        worst
    };
    if error == Errno::ENOENT || error == Errno::ENOTDIR {
        let what = if name.as_bytes().contains(&b'/') {
            "no such file"
        } else {
            "command not found"
        };
        complain(&format!("{}: {what}", shown(name)));
        Stop::Ended(NOT_FOUND)
    } else {
        complain(&format!("{}: {}", shown(name), error.desc()));
        Stop::Ended(NOT_EXECUTABLE)
    }
}

/// Executes `program`, or a script without `#!` by `/bin/sh` as every shell does. Returns why it could not.
fn exec(program: &Path, argv: &[OsString], environment: &[CString]) -> Errno {
    let Ok(path) = CString::new(program.as_os_str().as_bytes()) else {
        return Errno::EINVAL;
    };
    let args: Vec<CString> = argv
        .iter()
        .filter_map(|arg| CString::new(arg.as_bytes()).ok())
        .collect();
    if args.len() != argv.len() {
        return Errno::EINVAL;
    }
    let Err(error) = execve(&path, &args, environment);
    // A directory is "permission denied" to the kernel; a file that is no program may be a script.
    if error == Errno::ENOEXEC && is_text(program) {
        const SH: &CStr = c"/bin/sh";
        let mut script = vec![SH.to_owned(), path];
        script.extend(args.into_iter().skip(1));
        let Err(error) = execve(SH, &script, environment);
        return error;
    }
    error
}

/// As bash decides: no zero byte in the first line's worth of bytes.
fn is_text(program: &Path) -> bool {
    let mut start = [0; 80];
    let read = std::fs::File::open(program).and_then(|mut file| file.read(&mut start));
    read.is_ok_and(|length| !start.iter().take(length).any(|byte| *byte == 0))
}

fn strings(environment: &[(OsString, OsString)]) -> Vec<CString> {
    environment
        .iter()
        .filter_map(|(name, value)| {
            let mut all = name.as_bytes().to_vec();
            all.push(b'=');
            all.extend_from_slice(value.as_bytes());
            CString::new(all).ok()
        })
        .collect()
}

fn joined(front: &str, back: &OsStr) -> OsString {
    let mut all = front.as_bytes().to_vec();
    all.extend_from_slice(back.as_bytes());
    OsString::from_vec(all)
}

/// A line on the session's stderr.
fn complain(text: &str) {
    let _ = io::stderr().write_all(format!("noderelay: {text}\n").as_bytes());
}

/// A name for people: control bytes escaped, not too long.
fn shown(name: &OsStr) -> String {
    name.as_bytes()
        .iter()
        .take(128)
        .flat_map(|byte| std::ascii::escape_default(*byte))
        .map(char::from)
        .collect()
}

/// A copy of `fd` that is in nobody's way.
fn above(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: fcntl with F_DUPFD_CLOEXEC takes an integer, no pointer; a number that is not open only makes it fail.
    let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, OUT_OF_THE_WAY) };
    let copy = Errno::result(copy)?;
    // SAFETY: the kernel has just made this descriptor for us; nobody else knows its number.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

fn duplicate(from: RawFd, to: RawFd, flags: i32) -> io::Result<()> {
    // SAFETY: dup3 takes integers. What was open at `to` (0 to 3) is replaced; nothing in this process owns those numbers.
    let made = unsafe { libc::dup3(from, to, flags) };
    Errno::result(made)?;
    Ok(())
}

/// Closes every descriptor from `first` on.
fn close_from(first: u32) -> io::Result<()> {
    // SAFETY: close_range takes integers. Whoever owns one of these descriptors in this process does not use it again:
    // what follows is only exec or exit.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) };
    if closed == 0 {
        return Ok(());
    }
    // Before Linux 5.9.
    let listed: Vec<RawFd> = std::fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|fd: &RawFd| u32::try_from(*fd).is_ok_and(|fd| fd >= first))
        .collect();
    for fd in listed {
        // SAFETY: as above; the one that listed the directory is closed already and fails.
        unsafe { libc::close(fd) };
    }
    Ok(())
}
