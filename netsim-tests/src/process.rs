//! Processes of tests: found, waited for with a bound, read on threads of their own, ended by their own id.

use std::fs;
use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use tokio::time::Instant;

/// Longest wait for anything that should take moments, on a machine that is busy with other tests.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// How long the output of a process that was killed may take to end.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// One of the product's programs, built beside the tests.
///
/// # Panics
/// When it was not built.
pub fn program(name: &str) -> PathBuf {
    let tests = std::env::current_exe().expect("the test's own file");
    let built = tests
        .ancestors()
        .map(|folder| folder.join(name))
        .find(|path| path.is_file());
    built.unwrap_or_else(|| panic!("{name} is not built; `cargo xtask test` builds every program first"))
}

/// A process that is killed and waited for on drop.
pub struct Process(pub Child);

impl Process {
    /// Waits for its end; panics when it lives longer than this.
    pub fn wait_within(&mut self, bound: Duration) -> ExitStatus {
        wait_within(&mut self.0, bound)
    }

    /// Kills it with SIGKILL and waits.
    pub fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits with a bound, so that a hang fails its test instead of holding all of them up.
pub trait Bounded {
    /// Waits for the end and collects what was written, within [`PATIENCE`]. A command that is not yet running has no input.
    fn bounded(self) -> Output;
}

impl Bounded for Child {
    fn bounded(mut self) -> Output {
        drop(self.stdin.take());
        let (stdout, stderr) = (collect(self.stdout.take()), collect(self.stderr.take()));
        let Some(status) = ended_within(&mut self, PATIENCE) else {
            let text = |of: mpsc::Receiver<Vec<u8>>| {
                String::from_utf8_lossy(&of.recv_timeout(LAST_WORDS).unwrap_or_default()).into_owned()
            };
            panic!(
                "process {} did not end within {PATIENCE:?}\nstdout: {}\nstderr: {}",
                self.id(),
                text(stdout),
                text(stderr)
            );
        };
        Output {
            status,
            stdout: stdout.recv_timeout(PATIENCE).expect("its stdout ends"),
            stderr: stderr.recv_timeout(PATIENCE).expect("its stderr ends"),
        }
    }
}

impl Bounded for &mut Command {
    fn bounded(self) -> Output {
        let child = self
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        child.expect("the program starts").bounded()
    }
}

/// Waits for a child's end; kills it and panics when it lives longer than this.
pub fn wait_within(child: &mut Child, bound: Duration) -> ExitStatus {
    ended_within(child, bound).unwrap_or_else(|| panic!("process {} did not end within {bound:?}", child.id()))
}

/// Waits for a child's end; kills it and gives nothing when it lives longer than this.
fn ended_within(child: &mut Child, bound: Duration) -> Option<ExitStatus> {
    let until = Instant::now() + bound;
    loop {
        if let Some(status) = child.try_wait().expect("its status") {
            return Some(status);
        }
        if Instant::now() >= until {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Reads everything on a thread of its own.
fn collect(source: Option<impl Read + Send + 'static>) -> mpsc::Receiver<Vec<u8>> {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        let mut all = Vec::new();
        if let Some(mut source) = source {
            source.read_to_end(&mut all).expect("its output can be read");
        }
        let _ = send.send(all);
    });
    receive
}

/// Fills `buffer` from a pipe; panics when nothing comes for [`PATIENCE`] or the pipe ends first.
pub fn read_within(source: &mut (impl Read + std::os::fd::AsFd), buffer: &mut [u8]) {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    let mut filled = 0;
    while filled < buffer.len() {
        let mut wait = [PollFd::new(source.as_fd(), PollFlags::POLLIN)];
        let patience = PollTimeout::try_from(PATIENCE).expect("a time");
        assert_ne!(
            poll(&mut wait, patience).expect("poll"),
            0,
            "nothing came within {PATIENCE:?}"
        );
        let n = source.read(&mut buffer[filled..]).expect("a readable pipe");
        assert_ne!(n, 0, "the pipe ended after {filled} bytes");
        filled += n;
    }
}

/// The lines of a process's output, read on a thread of their own, so that the writer never blocks.
pub struct Lines {
    lines: mpsc::Receiver<String>,
    seen: String,
}

impl Lines {
    /// The lines of this pipe.
    pub fn of(output: impl Read + Send + 'static) -> Self {
        let (send, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                // Nobody may want the rest; it is read all the same.
                let _ = send.send(line);
            }
        });
        Self {
            lines,
            seen: String::new(),
        }
    }

    /// The next line, nothing at the end of the output.
    pub fn line(&mut self) -> Option<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => {
                self.seen.push_str(&line);
                self.seen.push('\n');
                Some(line)
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("no line within {PATIENCE:?}; until then:\n{}", self.seen),
        }
    }

    /// Reads on until a line holds `text`; panics with everything that came when the output ends first.
    pub fn until(&mut self, text: &str) -> String {
        loop {
            match self.line() {
                Some(line) if line.contains(text) => return line,
                Some(_) => {}
                None => panic!("the output ended before {text:?}; it was:\n{}", self.seen),
            }
        }
    }

    /// What came so far.
    pub fn seen(&self) -> &str {
        &self.seen
    }
}

/// Waits until `check` holds, looking often; panics with `what` after [`PATIENCE`].
#[track_caller]
pub fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !check() {
        assert!(Instant::now() < until, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Ids of live processes whose environment or command line holds `mark`.
pub fn processes_with(mark: &str) -> Vec<u32> {
    processes(|process| {
        ["cmdline", "environ"].iter().any(|file| {
            fs::read(process.join(file)).is_ok_and(|bytes| bytes.windows(mark.len()).any(|w| w == mark.as_bytes()))
        })
    })
}

/// Ids of live processes that stand in, or have open, something below `folder`.
pub fn processes_in(folder: &Path) -> Vec<u32> {
    let below = |link: PathBuf| fs::read_link(link).is_ok_and(|to| to.starts_with(folder));
    processes(|process| {
        let open = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        below(process.join("cwd")) || open.map(|entry| entry.path()).any(below)
    })
}

fn processes(wanted: impl Fn(&Path) -> bool) -> Vec<u32> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
        .filter(|(pid, path): &(u32, PathBuf)| *pid != std::process::id() && wanted(path))
        .map(|(pid, _)| pid)
        .collect()
}
