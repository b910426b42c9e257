//! The agent's configuration file, YAML, unknown fields refused.
//!
//! ```yaml
//! identity: {certificate: node.crt, key: node.key}   # the node certificate; cluster and node name come from it
//! bundle: published                                  # the publication: a directory that GitOps keeps current
//! state: state                                       # 0700; pinned root, last good bundle, sessions, recordings
//! profiles:
//!   diagnostic: {run_as: {account: nobody}}
//!   login: {run_as: agent}                           # the agent's own account
//! ```
//!
//! Relative paths are relative to the file. It never reads the environment and never asks a server for settings.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use noderelay_link::Times;
use noderelay_pki::name::ProfileName;
use noderelay_pki::text::{Period, escape_lines};
use noderelay_service::IdentityFiles;
use serde::{Deserialize, Serialize};

/// Largest configuration file that is read: far above any real one, small enough to hold.
const MAX_CONFIG: usize = 256 * 1024;

/// The whole file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The node certificate and its key (PEM).
    pub identity: IdentityFiles,
    /// Directory of the publication (TUF repository).
    pub bundle: PathBuf,
    /// The agent's own directory, made with mode 0700.
    pub state: PathBuf,
    /// Where recordings are written; default `STATE/recordings`.
    #[serde(default)]
    pub recordings: Option<PathBuf>,
    /// Unix socket for health, readiness, metrics and the log's filter; none if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admin: Option<PathBuf>,
    /// Relay addresses (`host:port`) that stand in for those of the fleet file.
    #[serde(default)]
    pub relays: Vec<String>,
    /// What each profile that a policy can name runs as.
    pub profiles: BTreeMap<ProfileName, Profile>,
    /// The profile of a session that asks for none.
    #[serde(default = "default_profile")]
    pub default_profile: ProfileName,
    /// Limits and waits.
    #[serde(default)]
    pub limits: Limits,
    /// Times of the connections to relays.
    #[serde(default)]
    pub quic: Times,
}

/// How sessions of one profile run on this node.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The host account.
    pub run_as: RunAs,
}

/// The host account of a profile.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RunAs {
    /// The account that the agent itself runs under.
    Agent,
    /// A named account of `/etc/passwd`; needs an agent that runs as root.
    Account(String),
}

/// Waits and bounds; every one can be set, so that tests can shorten it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// A stream must have finished inner TLS and sent `Open` within this time: a relay or stranger can't hold it for longer.
    pub handshake: Period,
    /// Streams that are in that state at once; further ones wait in the relay's flow control.
    pub handshakes: usize,
    /// A relay must have answered our registration within this time, or the next one is tried.
    pub registration: Period,
    /// A client that takes nothing for this long is gone: an honest one always reads on.
    pub stalled: Period,
    /// Sessions at once on this node.
    pub sessions: usize,
    /// Clients that wait with a connection made ahead of time and without a session; 0: none.
    pub standbys: usize,
    /// The same for one person: a laptop and a jump host, each with a spare.
    pub standbys_per_person: usize,
    /// How long one of them may wait.
    pub standby: Period,
    /// How long a session whose client vanished may wait before it is ended. Short, since coming back to a session is
    /// not possible yet.
    pub resume_window: Period,
    /// Between HUP and KILL when a session is ended.
    pub hup_grace: Period,
    /// How often certificate, key and publication are looked at for changes.
    pub reload: Period,
    /// How often is looked for sessions whose holder died while this agent was not theirs, and noted which processes the
    /// others have.
    pub sweep: Period,
    /// Relays that the agent keeps a link to at once.
    pub relays: usize,
    /// Longest wait before a lost relay is dialled again the first time; doubles up to `redial_max`. The wait itself is random
    /// below that, so that agents that lost a relay together come back apart.
    pub redial_min: Period,
    /// Longest wait before a lost relay is dialled again, however often that failed.
    pub redial_max: Period,
}

impl Default for Limits {
    fn default() -> Self {
        let secs = |s| Period::from_secs(s);
        Self {
            handshake: secs(10),
            handshakes: 64,
            registration: secs(10),
            stalled: secs(60),
            sessions: 256,
            standbys: 256,
            standbys_per_person: 4,
            standby: secs(300),
            resume_window: secs(10),
            hup_grace: secs(5),
            reload: secs(5),
            sweep: secs(20),
            relays: 2,
            redial_min: Period::from_millis(200),
            redial_max: secs(15),
        }
    }
}

impl Limits {
    /// Streams that one relay may have open here: whoever was let in, and whoever is being looked at.
    pub fn streams(&self) -> usize {
        self.sessions
            .saturating_add(self.standbys)
            .saturating_add(self.handshakes)
    }

    /// Refuses what would keep the agent from working.
    fn check(&self) -> Result<(), String> {
        let counts = [
            ("handshakes", self.handshakes),
            ("sessions", self.sessions),
            ("relays", self.relays),
        ];
        let periods = [
            ("handshake", self.handshake),
            ("registration", self.registration),
            ("stalled", self.stalled),
            ("standby", self.standby),
            ("hup_grace", self.hup_grace),
            ("reload", self.reload),
            ("sweep", self.sweep),
            ("redial_min", self.redial_min),
            ("redial_max", self.redial_max),
        ];
        if let Some((name, _)) = counts.iter().find(|(_, count)| *count == 0) {
            return Err(format!("limits.{name} is 0; at least 1 is needed"));
        }
        if let Some((name, _)) = periods.iter().find(|(_, period)| period.duration().is_zero()) {
            return Err(format!("limits.{name} is no time at all"));
        }
        if self.redial_min.duration() > self.redial_max.duration() {
            return Err("limits.redial_min is longer than limits.redial_max".to_owned());
        }
        Ok(())
    }
}

fn default_profile() -> ProfileName {
    // A literal that the parser accepts; a test holds it to that.
    ProfileName::parse("diagnostic").unwrap_or_else(|_| unreachable!("a valid name"))
}

/// Why a configuration can't be used: the operator's to mend.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file can't be read.
    #[error("configuration: {0}")]
    Read(#[from] noderelay_pki::files::FileError),
    /// The file isn't what `docs/by-hand.md` shows.
    #[error("configuration {path}: {seen}", path = .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where and what.
        seen: String,
    },
}

impl Config {
    /// Reads and checks the file; relative paths become relative to its folder.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        Self::parse(&noderelay_pki::files::read_bounded(path, MAX_CONFIG)?, path)
    }

    /// Checks the text of a file; `path` is where it came from.
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Self, ConfigError> {
        let malformed = |seen: String| ConfigError::Malformed {
            path: path.into(),
            seen: escape_lines(&seen, 400),
        };
        let text = std::str::from_utf8(bytes).map_err(|e| malformed(format!("not UTF-8: {e}")))?;
        let mut config: Self = serde_saphyr::from_str(text).map_err(|e| malformed(e.to_string()))?;
        // Whole paths: holders work in folders of their own.
        let whole = std::path::absolute(path).map_err(|e| malformed(format!("its folder can't be found: {e}")))?;
        let base = whole.parent().unwrap_or(Path::new("/"));
        config.rebase(base);
        if !config.profiles.contains_key(&config.default_profile) {
            return Err(malformed(format!(
                "default_profile {} is not among profiles; name one of them",
                config.default_profile
            )));
        }
        config.limits.check().map_err(malformed)?;
        config.quic.check().map_err(malformed)?;
        Ok(config)
    }

    /// Where recordings go.
    pub fn recordings(&self) -> PathBuf {
        self.recordings.clone().unwrap_or_else(|| self.state.join("recordings"))
    }

    fn rebase(&mut self, base: &Path) {
        let at = |p: &mut PathBuf| *p = base.join(&*p);
        at(&mut self.identity.certificate);
        at(&mut self.identity.key);
        at(&mut self.bundle);
        at(&mut self.state);
        for path in [&mut self.recordings, &mut self.admin].into_iter().flatten() {
            at(path);
        }
    }
}

#[cfg(test)]
mod tests;
