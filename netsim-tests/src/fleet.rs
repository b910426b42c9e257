//! A fleet of one node in a temporary folder, with the real programs as processes.
//!
//! ```text
//! files (the demo's) → noderelay-relay → noderelay-agent → "ready" on its stdout → client commands
//! ```
//!
//! Ports are picked free, readiness is read and never slept for, and every process is ended by its own id when the fleet is
//! dropped. Holders end by themselves: tests that care look for them.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use jiff::Timestamp;
use noderelay_client::setup::{self, Layout, Spec};

/// Longest wait for anything that should take moments, on a machine that is busy with other tests.
pub const PATIENCE: Duration = Duration::from_secs(60);

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
        let status = wait_within(&mut self, PATIENCE);
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
    let until = std::time::SystemTime::now() + bound;
    loop {
        if let Some(status) = child.try_wait().expect("its status") {
            return status;
        }
        if std::time::SystemTime::now() >= until {
            let _ = child.kill();
            let _ = child.wait();
            panic!("process {} did not end within {bound:?}", child.id());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Reads everything on a thread of its own.
fn collect(source: Option<impl std::io::Read + Send + 'static>) -> mpsc::Receiver<Vec<u8>> {
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
pub fn read_within(source: &mut (impl std::io::Read + std::os::fd::AsFd), buffer: &mut [u8]) {
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

/// The fleet.
pub struct Fleet {
    /// Where everything lies.
    pub layout: Layout,
    /// The relay's process.
    pub relay: Option<Process>,
    /// The agent's process.
    pub agent: Option<Process>,
    _folder: tempfile::TempDir,
}

impl Fleet {
    /// A fleet with short waits that serves.
    pub fn serving() -> Self {
        Self::with("limits: {resume_window: 2s, hup_grace: 1s, reload: 200ms}\n")
    }

    /// A fleet that serves, with further settings of the agent.
    pub fn with(agent_extra: &str) -> Self {
        let mut fleet = Self::files(agent_extra);
        fleet.start_relay();
        fleet.start_agent();
        fleet
    }

    /// The files alone; nothing runs.
    pub fn files(agent_extra: &str) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("fleet")
            .tempdir()
            .expect("a temporary folder");
        let address = UdpSocket::bind("127.0.0.1:0")
            .and_then(|s| s.local_addr())
            .expect("a free port");
        let mut spec = Spec::demo(address.to_string(), "tester").expect("names");
        spec.agent_extra = agent_extra.to_owned();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let root = folder.path().join("fleet");
        let set_up = setup::fleet_of_one(&root, &spec, Timestamp::now());
        let layout = runtime.block_on(set_up).expect("a fleet");
        Self {
            layout,
            relay: None,
            agent: None,
            _folder: folder,
        }
    }

    /// Starts the relay.
    pub fn start_relay(&mut self) {
        let mut command = Command::new(program("noderelay-relay"));
        command
            .arg("--config")
            .arg(self.layout.relay())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(self.log("relay"));
        self.relay = Some(Process(command.spawn().expect("the relay starts")));
    }

    /// Starts the agent and waits until the relay routes to it.
    pub fn start_agent(&mut self) {
        let mut command = Command::new(program("noderelay-agent"));
        command
            .arg("--config")
            .arg(self.layout.agent())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(self.log("agent"));
        let mut child = command.spawn().expect("the agent starts");
        let stdout = child.stdout.take().expect("its stdout");
        self.agent = Some(Process(child));
        let line = first_line(stdout);
        assert!(
            line.starts_with("ready"),
            "the agent said {line:?}; its log:\n{}",
            self.logs()
        );
    }

    /// The client, about to reach the node through the relay; options can be added before [`to_node`].
    pub fn client(&self) -> Command {
        let mut command = self.plain();
        command.arg("--via-relay");
        command
    }

    /// Runs one command on the node, without input.
    pub fn run(&self, argv: &[&str]) -> Output {
        self.client().arg("local").arg("--").args(argv).bounded()
    }

    /// The client without a path chosen, for commands that are not sessions.
    pub fn plain(&self) -> Command {
        let mut command = Command::new(program("noderelay"));
        command.env_remove("RUST_LOG").arg("--config").arg(self.layout.client());
        command
    }

    /// The client with the identity in `PREFIX.crt` and `PREFIX.key`.
    pub fn client_of(&self, prefix: &Path) -> Command {
        let show = |ending| setup::with_ending(prefix, ending).display().to_string();
        let text = format!(
            "identity: {{certificate: {}, key: {}}}\nbundle: {published}\nroot: {published}/metadata/1.root.json\nstate: {}\n",
            show("crt"),
            show("key"),
            show("state"),
            published = self.layout.published().display(),
        );
        let config = setup::with_ending(prefix, "yaml");
        fs::write(&config, text).expect("a configuration");
        let mut command = Command::new(program("noderelay"));
        command.arg("--config").arg(config).arg("--via-relay");
        command
    }

    /// The client as another person, whom `ca` certifies with these groups for this long.
    pub fn client_as(&self, ca: &Path, user: &str, groups: &[&str], life: Duration) -> Command {
        use noderelay_pki::ca::{CERTIFICATE_FILE, CertificateAuthority, KEY_FILE, LeafSpec};
        use noderelay_pki::identity::{Identity, Role};
        let ca = CertificateAuthority::load(&ca.join(CERTIFICATE_FILE), &ca.join(KEY_FILE)).expect("the CA");
        let role = Role::User(noderelay_pki::name::UserName::parse(user).expect("a name"));
        let identity = Identity::new(ca.trust_domain().clone(), ca.cluster().clone(), role);
        let key = noderelay_pki::key::PrivateKey::generate().expect("a key");
        let mut spec = LeafSpec::new(identity, key.public_key_der(), Timestamp::now());
        spec.groups = groups
            .iter()
            .map(|g| noderelay_pki::name::GroupName::parse(g).expect("a name"))
            .collect();
        spec.not_after = noderelay_pki::time::after(Timestamp::now(), life);
        let prefix = self
            .layout
            .root
            .join("client")
            .join(format!("{user}-{}", key.fingerprint()));
        setup::issue_spec(&ca, &key, &spec, &prefix).expect("a certificate");
        self.client_of(&prefix)
    }

    /// Changes the policy's files with `edit`, signs and publishes them as the next version.
    pub fn republish(&self, edit: impl FnOnce(&Path)) {
        edit(&self.layout.policy());
        let run = |words: &[&str], to: Option<&Path>| {
            let mut command = Command::new(program("noderelay"));
            command
                .args(words)
                .arg(self.layout.policy())
                .arg("--key")
                .arg(self.layout.signing_key());
            if let Some(to) = to {
                command.arg("--to").arg(to);
            }
            let output = command.bounded();
            assert!(
                output.status.success(),
                "{words:?}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        };
        run(&["policy", "sign"], None);
        run(&["policy", "publish"], Some(&self.layout.published()));
    }

    /// The recordings, in no order.
    pub fn recordings(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.layout.recordings()) else {
            return Vec::new();
        };
        entries
            .filter_map(Result::ok)
            .map(|e| e.path())
            .filter(|p| p.extension().is_some_and(|e| e == "cast"))
            .collect()
    }

    /// All logs, for a failure's message.
    pub fn logs(&self) -> String {
        ["relay", "agent"]
            .map(|of| {
                format!(
                    "--- {of}\n{}",
                    fs::read_to_string(self.layout.log(of)).unwrap_or_default()
                )
            })
            .join("\n")
    }

    fn log(&self, of: &str) -> Stdio {
        fs::File::options()
            .create(true)
            .append(true)
            .open(self.layout.log(of))
            .expect("a log file")
            .into()
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        }
    }
}

/// The first line of a process's output, or a panic after [`PATIENCE`].
fn first_line(output: impl std::io::Read + Send + 'static) -> String {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        let mut lines = BufReader::new(output).lines();
        let _ = send.send(lines.next().and_then(Result::ok).unwrap_or_default());
        // The rest is read, so that the writer never blocks.
        lines.for_each(drop);
    });
    receive.recv_timeout(PATIENCE).expect("a first line in time")
}

/// Waits until `check` holds, looking often; panics with `what` after [`PATIENCE`].
pub fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    let until = std::time::SystemTime::now() + PATIENCE;
    while !check() {
        assert!(std::time::SystemTime::now() < until, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Ids of live processes whose environment or command line holds `mark`.
pub fn processes_with(mark: &str) -> Vec<u32> {
    let Ok(all) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let holds = |pid: &Path| {
        ["cmdline", "environ"].iter().any(|file| {
            fs::read(pid.join(file)).is_ok_and(|bytes| bytes.windows(mark.len()).any(|w| w == mark.as_bytes()))
        })
    };
    all.filter_map(Result::ok)
        .filter_map(|e| Some((e.file_name().to_str()?.parse().ok()?, e.path())))
        .filter(|(pid, path): &(u32, PathBuf)| *pid != std::process::id() && holds(path))
        .map(|(pid, _)| pid)
        .collect()
}
