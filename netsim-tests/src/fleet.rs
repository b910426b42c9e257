//! A fleet of one node in a temporary folder, with the real programs as processes.
//!
//! ```text
//! files (the demo's) → noderelay-relay → noderelay-agent → "ready" on its stdout → client commands
//! ```
//!
//! Ports are picked free, readiness is read and never slept for, and every process is ended by its own id when the fleet is
//! dropped. Holders end by themselves: tests that care look for them.

use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use jiff::Timestamp;
use noderelay_client::setup::{self, Layout, Spec};

use crate::process::{Bounded as _, Lines, Process, eventually, program, read_within};

/// The agent's waits, short enough for tests.
const SHORT: &str = "resume_window: 2s, hup_grace: 1s, reload: 200ms";

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
        Self::with("")
    }

    /// A fleet with short waits and these further limits of the agent (`sessions: 3`).
    pub fn with(limits: &str) -> Self {
        let mut fleet = Self::files(limits);
        fleet.start_relay();
        fleet.start_agent();
        fleet
    }

    /// The files alone; nothing runs.
    pub fn files(limits: &str) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("fleet")
            .tempdir()
            .expect("a temporary folder");
        let address = UdpSocket::bind("127.0.0.1:0")
            .and_then(|s| s.local_addr())
            .expect("a free port");
        let mut spec = Spec::demo(address.to_string(), "tester").expect("names");
        spec.agent_extra = format!("limits: {{{SHORT}, {limits}}}\n");
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
        self.start_relay_as(Command::new(program("noderelay-relay")));
    }

    /// Starts the relay by a command that becomes it, given its arguments.
    pub fn start_relay_as(&mut self, mut command: Command) {
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
        self.start_agent_as(Command::new(program("noderelay-agent")));
    }

    /// Starts the agent by a command that becomes it, given its arguments.
    pub fn start_agent_as(&mut self, command: Command) {
        self.agent = Some(start_agent(command, &self.layout.agent(), self.log("agent")));
    }

    /// A further node of this fleet, with the configuration of the first one; its agent does not run yet.
    pub fn node(&self, name: &str) -> Node {
        use noderelay_pki::ca::{CERTIFICATE_FILE, CertificateAuthority, KEY_FILE};
        let ca = self.layout.ca();
        let ca = CertificateAuthority::load(&ca.join(CERTIFICATE_FILE), &ca.join(KEY_FILE)).expect("the CA");
        let folder = self.layout.root.join(name);
        fs::create_dir(&folder).expect("a folder");
        let role = noderelay_pki::identity::Role::Node(noderelay_pki::name::NodeName::parse(name).expect("a name"));
        setup::issue(&ca, role, Vec::new(), &folder.join("node"), Timestamp::now()).expect("a certificate");
        fs::copy(self.layout.agent(), folder.join("agent.yaml")).expect("its configuration");
        let log = self.layout.log(name);
        Node {
            folder,
            log,
            agent: None,
        }
    }

    /// Has relay and agent answer questions once they are started, at these sockets.
    pub fn with_admin(&self) -> [PathBuf; 2] {
        [self.layout.relay(), self.layout.agent()].map(|config| {
            edit(&config, |text| text + "admin: admin.sock\n");
            config.with_file_name("admin.sock")
        })
    }

    /// The address of the relay, as it stands in the bundle.
    pub fn address(&self) -> String {
        let file = fs::read_to_string(self.layout.policy().join("fleet.yaml")).expect("the fleet file");
        let word = |line: &str| line.trim_matches(|c: char| !c.is_ascii_digit()).to_owned();
        file.lines()
            .map(word)
            .find(|word| word.parse::<std::net::SocketAddr>().is_ok())
            .expect("an address")
    }

    /// Makes the client notice within seconds that nobody answers any more.
    pub fn impatient(&self) {
        let config = self.layout.client();
        let text = fs::read_to_string(&config).expect("the client's configuration");
        fs::write(&config, text + "keepalive: 1s\npatience: 5s\n").expect("the client's configuration");
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

    /// Runs a line that says `begun` first, waits for that word, and gives the client while the line goes on; `options` are
    /// the client's.
    pub fn begin(&self, options: &[&str], line: &str, input: Stdio) -> Child {
        let mut client = self.client();
        client
            .args(options)
            .args(["local", "--", "sh", "-c", line])
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = client.spawn().expect("the client starts");
        let mut first = [0; 6];
        read_within(child.stdout.as_mut().expect("its output"), &mut first);
        // On a terminal a line ends otherwise.
        assert!(matches!(&first, b"begun\n" | b"begun\r"), "{first:?}");
        child
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
        self.republish_by(&[&self.layout.signing_key()], edit);
    }

    /// As [`Self::republish`], signed by these keys. The pipeline's key is the demo's.
    fn republish_by(&self, signers: &[&Path], edit: impl FnOnce(&Path)) {
        let policy = self.layout.policy();
        edit(&policy);
        let run = |words: &[&str], key: &Path, to: Option<&Path>| {
            let mut command = Command::new(program("noderelay"));
            command.args(words).arg(&policy).arg("--key").arg(key);
            if let Some(to) = to {
                command.arg("--to").arg(to);
            }
            let output = command.bounded();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{words:?}: {said}");
        };
        if signers.len() > 1 {
            run(&["policy", "sign", "--role", "root"], &self.layout.signing_key(), None);
        }
        for key in signers {
            run(&["policy", "sign"], key, None);
        }
        run(
            &["policy", "publish"],
            &self.layout.signing_key(),
            Some(&self.layout.published()),
        );
    }

    /// As [`Self::republish`] by these keys (a second one first signs a root that names it), and waits until it is in
    /// force on the node.
    pub fn repolicy_by(&self, signers: &[&Path], edit: impl FnOnce(&Path)) {
        let taken = || self.logs().matches("a new publication is in force").count();
        let before = taken();
        self.republish_by(signers, edit);
        eventually("the new policy is in force", || taken() > before);
    }

    /// Publishes the demo's policy with a text replaced in it, and waits until it is in force on the node.
    pub fn repolicy(&self, from: &str, to: &str) {
        self.repolicy_by(&[&self.layout.signing_key()], |policy| {
            let file = policy.join("policies/demo.cedar");
            let text = fs::read_to_string(&file).expect("the policy");
            assert!(text.contains(from), "{from:?} is not in the policy");
            fs::write(&file, text.replace(from, to)).expect("the policy");
        });
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
        appended(&self.layout.log(of))
    }
}

/// A further node of a fleet.
pub struct Node {
    /// Where its files lie: `agent.yaml`, `state`.
    pub folder: PathBuf,
    /// Its agent's process.
    pub agent: Option<Process>,
    log: PathBuf,
}

impl Node {
    /// Starts its agent and waits until the relay routes to it.
    pub fn start(&mut self) {
        let command = Command::new(program("noderelay-agent"));
        self.agent = Some(start_agent(
            command,
            &self.folder.join("agent.yaml"),
            appended(&self.log),
        ));
    }
}

/// Changes a text file.
pub fn edit(file: &Path, change: impl FnOnce(String) -> String) {
    let text = fs::read_to_string(file).expect("a file");
    fs::write(file, change(text)).expect("a file");
}

fn start_agent(mut command: Command, config: &Path, log: Stdio) -> Process {
    command
        .arg("--config")
        .arg(config)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log);
    let mut child = command.spawn().expect("the agent starts");
    let mut stdout = Lines::of(child.stdout.take().expect("its stdout"));
    let process = Process(child);
    let line = stdout.line().unwrap_or_default();
    assert!(line.starts_with("ready"), "the agent said {line:?}");
    process
}

fn appended(file: &Path) -> Stdio {
    let file = fs::File::options().create(true).append(true).open(file);
    file.expect("a log file").into()
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        }
    }
}
