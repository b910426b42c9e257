//! The relay's configuration file.
//!
//! YAML, unknown keys refused, paths relative to the file's own folder. Everything has a bound, and every number with a
//! default says its reason. What the fleet is (clusters, authorities, routes) is *not* here: it comes signed, from the
//! bundle.
//!
//! Never: reads keys or certificates, opens sockets, or changes after the start.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use noderelay_link::Times;
use noderelay_pki::files::{self, FileError};
use noderelay_pki::text::{Period, escape_lines};
use noderelay_service::IdentityFiles;
use serde::{Deserialize, Serialize};

use crate::bucket::Rate;
use crate::{gate, quota};

/// A configuration is a few lines; more than this is another file.
const MAX_FILE: usize = 64 * 1024;

/// How fast an address that has failed too often may fail again.
const FAILURES_PER_SECOND: f64 = 0.5;

/// Longest time that a conflict of two agents may stay undecided: someone waits for the node.
pub const MAX_PROBE: Period = Period::from_secs(1);

/// What the configuration file says.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// UDP address to listen on.
    pub listen: SocketAddr,
    /// Who the relay is.
    pub identity: IdentityFiles,
    /// The publication of the signed bundle.
    pub bundle: PathBuf,
    /// Root document of the bundle, to pin it; if left out, the first one that is seen is pinned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<PathBuf>,
    /// What must survive a restart: pinned root, version floors, last good bundle.
    pub state: PathBuf,
    /// Unix socket for health, readiness and metrics; none if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admin: Option<PathBuf>,
    /// Bounds in time.
    #[serde(default)]
    pub timing: Timing,
    /// Bounds in number.
    #[serde(default)]
    pub limits: Limits,
    /// Times of the connections of clients and agents.
    #[serde(default)]
    pub quic: Times,
}

/// Bounds in time; each has a default.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Timing {
    /// For a handshake: three round trips of the slowest path (satellite, 700 ms) with repeats.
    pub handshake: Period,
    /// For a stream's route header or an agent's registration: it travels in the first flight, so this only bounds a
    /// peer that opens a stream and says nothing.
    pub header: Period,
    /// For an agent to take one more stream.
    pub open: Period,
    /// For an incumbent to prove that it lives when another agent claims its node; at most 1 s.
    pub probe: Period,
    /// Between two probes while a newcomer waits.
    pub probe_again: Period,
    /// How often identity and bundle are looked at for a change.
    pub reread: Period,
    /// How long open streams may go on after a request to stop.
    pub drain: Period,
}

/// Bounds in number; each has a default that suits a relay with 1 GiB of memory. Nobody meets them in ordinary work.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Handshakes under way above which a peer has to prove its address first (one more round trip).
    pub unproven_handshakes: u32,
    /// Handshakes under way at most; a first packet beyond is not answered. One costs about a millisecond of a processor.
    pub handshakes: u32,
    /// Failed handshakes that one address (IPv6: one /64 network) may have at once; one comes back every two seconds.
    pub failures_per_address: u32,
    /// Connections of agents.
    pub agents: u32,
    /// Connections of clients.
    pub clients: u32,
    /// Connections of one person, or of one node's agents: restarts overlap, and a person has several terminals.
    pub connections_per_person: u32,
    /// Streams that are spliced; the last eighth is for break-glass accounts.
    pub streams: u32,
    /// Streams of one person: one command on many nodes opens one for each.
    pub streams_per_person: u32,
    /// Streams (each direction by itself) whose receiver takes nothing for a second, before one has to give way: each may hold its window
    /// of 2 MiB here.
    pub stalled_streams: u32,
    /// Connections and streams that one person may open at once.
    pub opens_at_once: u32,
    /// Connections and streams that one person may open each second, on and on.
    pub opens_per_second: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            unproven_handshakes: 64,
            handshakes: 1_024,
            failures_per_address: 32,
            agents: 16_384,
            clients: 2_048,
            connections_per_person: 64,
            streams: 4_096,
            streams_per_person: 256,
            stalled_streams: 128,
            opens_at_once: 512,
            opens_per_second: 50,
        }
    }
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            handshake: Period::from_secs(10),
            header: Period::from_secs(10),
            open: Period::from_secs(5),
            probe: Period::from_secs(1),
            probe_again: Period::from_secs(5),
            reread: Period::from_secs(10),
            drain: Period::from_secs(30),
        }
    }
}

/// Why a configuration was not taken.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file can't be read.
    #[error("{0}; give the relay's configuration with --config FILE")]
    Read(#[from] FileError),
    /// It is not what it should be.
    #[error("{}: {seen}; see `noderelay-relay --help` for the keys", path.display())]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// What was seen, escaped.
        seen: String,
    },
    /// A number is outside its bounds.
    #[error("{}: limits.{key} is {seen}, it has to be from 1 to {most}", path.display())]
    Number {
        /// Which file.
        path: PathBuf,
        /// Which key.
        key: &'static str,
        /// What it says.
        seen: u32,
        /// The most.
        most: u32,
    },
    /// A value is outside its bounds.
    #[error("{}: timing.{key} is {seen}, it has to be from {least} to {most}", path.display())]
    OutOfBounds {
        /// Which file.
        path: PathBuf,
        /// Which key.
        key: &'static str,
        /// What it says.
        seen: Period,
        /// The least.
        least: Period,
        /// The most.
        most: Period,
    },
}

impl Config {
    /// Reads and checks a file.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        Self::parse(&files::read_bounded(path, MAX_FILE)?, path)
    }

    /// Checks the text of a file; `path` is where it came from.
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Self, ConfigError> {
        let malformed = |seen: String| ConfigError::Malformed {
            path: path.to_owned(),
            seen: escape_lines(&seen, 400),
        };
        let text = std::str::from_utf8(bytes).map_err(|e| malformed(e.to_string()))?;
        let mut config: Self = serde_saphyr::from_str(text).map_err(|e| malformed(e.to_string()))?;
        config.timing.check(path)?;
        config.limits.check(path)?;
        config.quic.check().map_err(malformed)?;
        let folder = path.parent().unwrap_or(Path::new("."));
        for file in [
            &mut config.identity.certificate,
            &mut config.identity.key,
            &mut config.bundle,
            &mut config.state,
        ]
        .into_iter()
        .chain(config.admin.as_mut())
        .chain(config.root.as_mut())
        {
            *file = folder.join(&*file);
        }
        Ok(config)
    }
}

impl Limits {
    /// The bounds of the gate.
    pub(crate) fn gate(&self) -> gate::Bounds {
        gate::Bounds {
            unproven: self.unproven_handshakes as usize,
            handshakes: self.handshakes as usize,
            failures: Rate {
                burst: self.failures_per_address,
                per_second: FAILURES_PER_SECOND,
            },
        }
    }

    /// The bounds of peers and people.
    pub(crate) fn quotas(&self) -> quota::Bounds {
        quota::Bounds {
            agents: self.agents as usize,
            clients: self.clients as usize,
            connections_per_person: self.connections_per_person as usize,
            streams: self.streams as usize,
            streams_per_person: self.streams_per_person as usize,
            opens: Rate {
                burst: self.opens_at_once,
                per_second: f64::from(self.opens_per_second),
            },
        }
    }

    fn check(&self, path: &Path) -> Result<(), ConfigError> {
        for (key, seen, most) in [
            ("unproven_handshakes", self.unproven_handshakes, 4_096),
            // What QUIC keeps for connections that were not looked at yet.
            ("handshakes", self.handshakes, 4_096),
            ("failures_per_address", self.failures_per_address, 100_000),
            ("agents", self.agents, 1_000_000),
            ("clients", self.clients, 1_000_000),
            ("connections_per_person", self.connections_per_person, 100_000),
            ("streams", self.streams, 1_000_000),
            ("streams_per_person", self.streams_per_person, 100_000),
            ("stalled_streams", self.stalled_streams, 1_000_000),
            ("opens_at_once", self.opens_at_once, 1_000_000),
            ("opens_per_second", self.opens_per_second, 100_000),
        ] {
            if !(1..=most).contains(&seen) {
                let path = path.to_owned();
                return Err(ConfigError::Number { path, key, seen, most });
            }
        }
        Ok(())
    }
}

impl Timing {
    fn check(&self, path: &Path) -> Result<(), ConfigError> {
        const SHORTEST: Period = Period::from_millis(50);
        const MINUTE: Period = Period::from_secs(60);
        for (key, seen, least, most) in [
            ("handshake", self.handshake, SHORTEST, MINUTE),
            ("header", self.header, SHORTEST, MINUTE),
            ("open", self.open, SHORTEST, MINUTE),
            ("probe", self.probe, SHORTEST, MAX_PROBE),
            ("probe_again", self.probe_again, SHORTEST, MINUTE),
            ("reread", self.reread, SHORTEST, Period::from_secs(600)),
            ("drain", self.drain, Period::from_secs(0), Period::from_secs(3600)),
        ] {
            if !(least..=most).contains(&seen) {
                return Err(ConfigError::OutOfBounds {
                    path: path.to_owned(),
                    key,
                    seen,
                    least,
                    most,
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
