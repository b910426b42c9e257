//! The way into the process: descriptors, START, recording, command, session.
//!
//! ```text
//! descriptor 0: socket to the agent     1: the recording     2: the log     working directory: the session's own
//! ```
//!
//! The process makes a session of its own, so that nothing that happens to the agent's reaches it, and adopts the
//! descendants that lose their parents.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use noderelay_audit::{End, Recording};
use noderelay_proto::control::{Start, StartFailed, Started};
use noderelay_proto::{Code, FromHolder, ToHolder};

use crate::adopt::Door;
use crate::launch::LOG;
use crate::link::Link;
use crate::record::{NEW, RECORD, Record};
use crate::serve::Session;
use crate::shell::Shell;

/// How long the agent may take to say START.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs a holder to the end of its session. `exe` with the words `child` is what leads to
/// [`child_main`](noderelay_child::child_main).
pub fn holder_main(exe: &Path, child: &[&str]) -> ExitCode {
    let (socket, recording) = match prepare() {
        Ok(both) => both,
        Err(error) => {
            log(&format!("cannot prepare: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            log(&format!("cannot start: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let words: Vec<String> = child.iter().map(|word| (*word).to_owned()).collect();
    match runtime.block_on(hold(socket, recording, exe, &words)) {
        Ok(()) => {
            tidy();
            ExitCode::SUCCESS
        }
        Err(why) => {
            log(&why);
            ExitCode::FAILURE
        }
    }
}

/// Leaves nothing behind but what somebody wrote into the log.
fn tidy() {
    if std::fs::metadata(LOG).is_ok_and(|log| log.len() == 0) {
        let _ = std::fs::remove_file(LOG);
    }
    for name in [RECORD, NEW] {
        let _ = std::fs::remove_file(name);
    }
    // Only if it is empty.
    let _ = std::env::current_dir().and_then(std::fs::remove_dir);
}

/// A line in the holder's log.
pub(crate) fn log(text: &str) {
    let _ = writeln!(std::io::stderr(), "{} holder: {text}", jiff::Timestamp::now());
}

fn prepare() -> std::io::Result<(OwnedFd, File)> {
    // Fails when it leads one already, which is as good.
    let _ = nix::unistd::setsid();
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o077));
    nix::sys::prctl::set_child_subreaper(true)?;
    let socket = std::io::stdin().as_fd().try_clone_to_owned()?;
    let recording = std::io::stdout().as_fd().try_clone_to_owned()?;
    // The numbers 0 and 1 are not closed on exec; the copies are.
    let null = File::open("/dev/null")?;
    nix::unistd::dup2_stdin(&null)?;
    nix::unistd::dup2_stdout(&null)?;
    Ok((socket, recording.into()))
}

async fn hold(socket: OwnedFd, recording: File, exe: &Path, words: &[String]) -> Result<(), String> {
    let link = Link::new(UnixStream::from(socket));
    let mut link = link.map_err(|error| format!("descriptor 0 is no socket: {error}"))?;
    let start = match tokio::time::timeout(PATIENCE, link.wait()).await {
        Ok(Ok(ToHolder::Start(start))) => start,
        Ok(Ok(_)) => return Err("the agent's first message was not START".into()),
        Ok(Err(gone)) => return Err(format!("no START: {gone}")),
        Err(_) => return Err(format!("no START within {} s", PATIENCE.as_secs())),
    };
    let disk = recording.try_clone().ok();
    let recording = match adopt_recording(recording, &start) {
        Ok(recording) => recording,
        Err(seen) => return refuse(link, Code::RecordingUnavailable, seen).await,
    };
    match Shell::start(&start, recording, disk, exe, words).await {
        Ok(shell) => {
            // Before STARTED: whoever knows that the session has begun may come by it.
            let door = Door::open()
                .inspect_err(|error| log(&format!("no agent can take over: {error}")))
                .ok();
            if let Err(error) = Record::of(shell.pid()).and_then(|record| record.write(Path::new("."))) {
                log(&format!("the session's processes are not noted: {error}"));
            }
            link.send(&FromHolder::Started(Started { pid: shell.pid() }));
            let _ = link.flush();
            let unix = jiff::Timestamp::now().as_second();
            Session::new(start, shell, link, door, unix).run().await;
            Ok(())
        }
        Err((error, mut recording)) => {
            let end = End {
                code: error.code().name().to_owned(),
                ..End::default()
            };
            if let Err(error) = recording.end(Duration::ZERO, &end) {
                log(&error.to_string());
            }
            refuse(link, error.code(), error.to_string()).await
        }
    }
}

/// The recording must be this session's: a mix-up would put one person's work into another's record.
fn adopt_recording(file: File, start: &Start) -> Result<Recording, String> {
    let recording = Recording::reopen(file).map_err(|error| error.to_string())?;
    let session = recording.header().session.session;
    if session.0.as_slice() != start.session.as_ref() {
        return Err(format!("the recording is of session {session}"));
    }
    Ok(recording)
}

async fn refuse(mut link: Link, code: Code, seen: String) -> Result<(), String> {
    let seen: String = seen.chars().take(noderelay_proto::limits::MAX_TEXT / 4).collect();
    link.send(&FromHolder::StartFailed(StartFailed {
        code: code.number(),
        seen,
    }));
    // A socket that takes nothing for so long has nobody behind it.
    let _ = tokio::time::timeout(PATIENCE, link.drain()).await;
    Ok(())
}
