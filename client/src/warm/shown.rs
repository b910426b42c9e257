//! `noderelay warm status`: what the warm process keeps, for people and for programs.

use std::fmt;
use std::time::Duration;

use noderelay_pki::text::escape;
use noderelay_proto::control::Report;
use serde::Serialize;

use crate::pump::words;

/// What is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// Process id of the warm process.
    pub pid: u32,
    /// Seconds until it ends at the latest.
    pub seconds_left: u32,
    /// Seconds until it ends if nobody uses it.
    pub idle_seconds_left: u32,
    /// Sessions that it carries now.
    pub carrying: u32,
    /// Sessions that began on a connection that stood.
    pub streams: u64,
    /// Sessions that began on an inner leg that stood.
    pub standbys: u64,
    /// It ends as soon as it carries nothing.
    pub stopping: bool,
    /// The relays.
    pub relays: Vec<Relay>,
    /// The nodes that were asked for lately.
    pub nodes: Vec<Node>,
}

/// A relay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Relay {
    /// Its cluster.
    pub cluster: String,
    /// Its name, or its address.
    pub relay: String,
    /// For how long the connection has stood.
    pub up_seconds: Option<u32>,
    /// The round trip, in microseconds.
    pub rtt_us: u32,
    /// Why there is no connection.
    pub seen: Option<String>,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Node {
    /// Its cluster.
    pub cluster: String,
    /// Its name.
    pub node: String,
    /// Whether an inner leg to it stands by.
    pub standby: bool,
    /// Seconds since it last proved to the process who it is.
    pub proof_age_seconds: Option<u32>,
    /// How often it was asked for.
    pub uses: u32,
    /// Why nothing stands by.
    pub seen: Option<String>,
}

impl From<Report> for Shown {
    fn from(report: Report) -> Self {
        let seen = |text: String| (!text.is_empty()).then_some(text);
        let relay = |relay: noderelay_proto::control::WarmRelay| Relay {
            cluster: relay.cluster,
            relay: relay.relay,
            up_seconds: relay.up_secs,
            rtt_us: relay.rtt_us,
            seen: seen(relay.seen),
        };
        let node = |node: noderelay_proto::control::WarmNode| Node {
            cluster: node.cluster,
            node: node.node,
            standby: node.standby,
            proof_age_seconds: node.proof_secs,
            uses: node.uses,
            seen: seen(node.seen),
        };
        Self {
            pid: report.pid,
            seconds_left: report.left_secs,
            idle_seconds_left: report.idle_left_secs,
            carrying: report.carrying,
            streams: report.streams,
            standbys: report.standbys,
            stopping: report.stopping,
            relays: report.relays.into_iter().map(relay).collect(),
            nodes: report.nodes.into_iter().map(node).collect(),
        }
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let span = |seconds: u32| words(Duration::from_secs(seconds.into()));
        let age = |seconds: Option<u32>| {
            seconds.map_or_else(|| "never".to_owned(), |seconds| format!("{} ago", span(seconds)))
        };
        let seen = |seen: &Option<String>| {
            seen.as_ref()
                .map_or_else(String::new, |seen| format!("  {}", escape(seen, 300)))
        };
        let idle = self.idle_seconds_left.min(self.seconds_left);
        writeln!(
            f,
            "process {}, {} left, {} without use; carries {}; gave {} streams and {} standbys",
            self.pid,
            span(self.seconds_left),
            span(idle),
            self.carrying,
            self.streams,
            self.standbys
        )?;
        for relay in &self.relays {
            let state = match relay.up_seconds {
                Some(up) => format!(
                    "up for {}, round trip {:.1} ms",
                    span(up),
                    f64::from(relay.rtt_us) / 1000.0
                ),
                None => "down".to_owned(),
            };
            let (name, cluster) = (escape(&relay.relay, 253), escape(&relay.cluster, 253));
            writeln!(f, "relay {name} (cluster {cluster})  {state}{}", seen(&relay.seen))?;
        }
        for node in &self.nodes {
            let state = if node.standby { "stands by" } else { "no standby" };
            let (name, cluster) = (escape(&node.node, 253), escape(&node.cluster, 253));
            writeln!(
                f,
                "node {name} (cluster {cluster})  {state}, proved itself {}, asked for {} times{}",
                age(node.proof_age_seconds),
                node.uses,
                seen(&node.seen)
            )?;
        }
        Ok(())
    }
}
