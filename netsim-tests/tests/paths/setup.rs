//! What these tests share: a fleet with a middleman before its agent and one before its client.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use netsim_tests::fleet::Fleet;
use netsim_tests::middleman::Middleman;

/// Adds lines to a configuration.
pub fn append(config: PathBuf, lines: &str) {
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{text}{lines}\n")).unwrap();
}

/// A fleet whose agent and whose client reach the relay through a middleman each.
pub struct Net {
    pub fleet: Fleet,
    pub agent: Middleman,
    pub client: Middleman,
}

impl Net {
    /// With these times of the connections (`idle: 1s`), and these limits of the agent.
    pub fn serving(quic: &str, limits: &str) -> Self {
        let mut fleet = Fleet::files(limits);
        let relay: SocketAddr = fleet.address().parse().unwrap();
        let (agent, client) = (Middleman::before(relay), Middleman::before(relay));
        append(fleet.layout.relay(), &format!("quic: {{{quic}}}\nadmin: admin.sock"));
        let relays = format!("quic: {{{quic}}}\nrelays: [\"{}\"]", agent.address());
        append(fleet.layout.agent(), &relays);
        fleet.start_relay();
        fleet.start_agent();
        Self { fleet, agent, client }
    }

    /// The client, through its middleman.
    pub fn client(&self) -> Command {
        let mut client = self.fleet.client();
        client.args(["--relay", &self.client.address().to_string()]);
        client
    }

    /// Where the relay can be asked.
    pub fn relay_socket(&self) -> PathBuf {
        self.fleet.layout.relay().with_file_name("admin.sock")
    }

    /// How often the agent was attached.
    pub fn attached(&self) -> usize {
        self.fleet.logs().matches("agent attached").count()
    }
}
