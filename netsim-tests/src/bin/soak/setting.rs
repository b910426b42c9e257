//! What the load runs against: relay, two agents that last, one that is started again and again, and idle ones.
//!
//! The second agent is there so that the relay has to choose. The restless one is not started here: whoever restarts it does.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};

use anyhow::{Context as _, Result};
use netsim_tests::attached;
use netsim_tests::fleet::{Fleet, Node, edit};
use netsim_tests::process::processes_in;
use noderelay_pki::ca::{CERTIFICATE_FILE, CertificateAuthority, KEY_FILE};
use noderelay_pki::name::NodeName;
use quinn::Connection;
use tokio::runtime::Runtime;

use crate::options::Options;

/// The second node.
pub(crate) const SECOND: &str = "second";
/// The node whose agent is restarted.
pub(crate) const RESTLESS: &str = "restless";
/// Nodes whose agents run from the beginning to the end.
pub(crate) const STEADY: [&str; 2] = ["local", SECOND];
/// Room for everything that runs at once, and for holders of sessions that are just ending.
const LIMITS: &str = "sessions: 128";

/// Everything that runs before there is load.
pub(crate) struct Setting {
    pub(crate) fleet: Fleet,
    /// Where a relay and the steady agents answer.
    pub(crate) relay_admin: PathBuf,
    pub(crate) agents_admin: [PathBuf; 2],
    pub(crate) restless: Mutex<Node>,
    second: Node,
    idle: Vec<Connection>,
    _runtime: Runtime,
}

impl Setting {
    pub(crate) fn serving(options: &Options) -> Result<Setting> {
        let mut fleet = Fleet::files(LIMITS);
        // Tests look for changes far more often than anybody else.
        edit(&fleet.layout.agent(), |text| {
            text.replace("reload: 200ms", "reload: 5s")
        });
        let [relay_admin, first_admin] = fleet.with_admin();
        fleet.start_relay();
        fleet.start_agent();
        let (mut second, restless) = (fleet.node(SECOND), fleet.node(RESTLESS));
        second.start();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let idle = runtime
            .block_on(idle(&fleet, options.idle))
            .context("the idle agents")?;
        Ok(Setting {
            relay_admin,
            agents_admin: [first_admin, second.folder.join("admin.sock")],
            restless: Mutex::new(restless),
            second,
            idle,
            _runtime: runtime,
            fleet,
        })
    }

    pub(crate) fn relay(&self) -> Result<u32> {
        Ok(self.fleet.relay.as_ref().context("the relay runs")?.0.id())
    }

    /// The steady agents.
    pub(crate) fn agents(&self) -> Result<[u32; 2]> {
        let first = self.fleet.agent.as_ref().context("the agent runs")?.0.id();
        let second = self.second.agent.as_ref().context("the second agent runs")?.0.id();
        Ok([first, second])
    }

    /// The states of the steady agents.
    pub(crate) fn states(&self) -> [PathBuf; 2] {
        [
            self.fleet.layout.agent().with_file_name("state"),
            self.second.folder.join("state"),
        ]
    }

    /// Holders of the steady agents. The others' come and go with their agent.
    pub(crate) fn holders(&self) -> Vec<u32> {
        let is_holder = |pid: &u32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.ends_with(b"\0holder\0")
        };
        let mut all: Vec<u32> = self.states().iter().flat_map(|state| processes_in(state)).collect();
        all.sort_unstable();
        all.dedup();
        all.into_iter().filter(is_holder).collect()
    }

    /// A client with these options, about to reach a node.
    pub(crate) fn client(&self, options: &[&str], node: &str, argv: &[&str]) -> Command {
        let mut command = self.fleet.client();
        command.args(options).arg(node).arg("--").args(argv);
        command
    }

    /// Idle agents whose connection did not last.
    pub(crate) fn lost_idle(&self) -> usize {
        self.idle.iter().filter(|agent| agent.close_reason().is_some()).count()
    }

    /// Leaves the logs for a look.
    pub(crate) fn keep(&self) {
        let to = std::env::temp_dir().join(format!("soak-{}", std::process::id()));
        let kept = std::fs::create_dir(&to).and_then(|()| {
            for entry in std::fs::read_dir(self.fleet.layout.root.join("logs"))?.flatten() {
                std::fs::copy(entry.path(), to.join(entry.file_name()))?;
            }
            Ok(())
        });
        match kept {
            Ok(()) => crate::say(&format!("the logs are in {}", to.display())),
            Err(error) => crate::say(&format!("the logs could not be kept: {error}")),
        }
    }
}

async fn idle(fleet: &Fleet, count: usize) -> Result<Vec<Connection>> {
    let folder = fleet.layout.ca();
    let ca = CertificateAuthority::load(&folder.join(CERTIFICATE_FILE), &folder.join(KEY_FILE))?;
    let ca = Arc::new(ca);
    let relay: SocketAddr = fleet.address().parse()?;
    let socket = noderelay_link::client_endpoint(relay)?;
    attached::crowd(0..count, |number| {
        let (ca, socket) = (ca.clone(), socket.clone());
        async move { attached::idle(&ca, NodeName::parse(&format!("idle-{number}"))?, relay, &socket).await }
    })
    .await
}
