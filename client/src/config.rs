//! The configuration file of the client.
//!
//! ```yaml
//! identity:
//!   certificate: identity/certificate.pem
//!   key: identity/key.pem          # mode 0600
//! bundle: bundle                   # a directory with a publication: metadata/ and targets/
//! root: root.json                  # the root of trust that this client pins at first use, given out of band
//! root_fingerprint: 9f86d0…        # or only its SHA-256, in hexadecimal
//! state: state                     # default: $XDG_STATE_HOME/noderelay
//! cluster: prod-eu                 # used when neither --cluster nor the fleet decides
//! relays: [198.51.100.7:443]       # instead of the addresses in the fleet file
//! escape: "~"                      # or none
//! keepalive: 15s                   # how long the node may be silent before it is asked
//! patience: 20s                    # how long it may take to answer before the path counts as lost
//! warm: standby                    # what noderelay warm keeps and sessions use: standby, connections or none
//! ```
//!
//! Unknown keys are an error. Relative paths start at the folder of the file. `NODERELAY_CONFIG` names another file;
//! else it is `$XDG_CONFIG_HOME/noderelay/config.yaml`.
//!
//! Nothing here looks into the files that are named.

use std::path::{Path, PathBuf};
use std::time::Duration;

use noderelay_pki::files::{self, FileError};
use noderelay_pki::name::ClusterName;
use noderelay_pki::text::{Period, escape};
use serde::{Deserialize, Serialize};
use thiserror::Error;

#[cfg(test)]
mod tests;

/// Largest configuration file that is read. A real one has less than 2 KiB.
const MAX_FILE: usize = 64 * 1024;
const DEFAULT_KEEPALIVE: Duration = Duration::from_secs(15);
const DEFAULT_PATIENCE: Duration = Duration::from_secs(20);

/// The configuration, complete and with absolute paths. Written as YAML, it is a configuration file again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Config {
    /// Where this came from. Not a setting: it is left out when the configuration is written.
    #[serde(skip)]
    pub file: PathBuf,
    /// Certificate and key of the person.
    pub identity: Identity,
    /// Directory of the publication.
    pub bundle: PathBuf,
    /// The root to pin on first use.
    pub root: Option<PathBuf>,
    /// The fingerprint of the root to pin on first use.
    pub root_fingerprint: Option<String>,
    /// Where the client keeps what it has to remember.
    pub state: PathBuf,
    /// The cluster that is meant when nothing else decides.
    pub cluster: Option<ClusterName>,
    /// Relay addresses instead of those in the fleet file.
    pub relays: Vec<String>,
    /// The key that starts a local key.
    #[serde(serialize_with = "key")]
    pub escape: Option<u8>,
    /// Silence after which the node is asked for a sign of life.
    #[serde(serialize_with = "period")]
    pub keepalive: Duration,
    /// How long the answer may take.
    #[serde(serialize_with = "period")]
    pub patience: Duration,
    /// What the warm process keeps, and sessions use when it runs.
    pub warm: Warm,
}

fn key<S: serde::Serializer>(key: &Option<u8>, serializer: S) -> Result<S::Ok, S::Error> {
    match key {
        Some(key) => serializer.serialize_char(char::from(*key)),
        None => serializer.serialize_str("none"),
    }
}

fn period<S: serde::Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    Period::from_millis(millis).serialize(serializer)
}

/// How much is kept from one session to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Warm {
    /// Nothing: each session dials.
    None,
    /// Connections to relays. What is said inside the inner TLS passes through the session's own process alone.
    Connections,
    /// These, and an inner leg to each node that was used lately.
    #[default]
    Standby,
}

/// The files of an identity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// Certificate chain, PEM.
    pub certificate: PathBuf,
    /// Private key, PEM, mode 0600.
    pub key: PathBuf,
}

/// Why there is no configuration.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// There is no place to look in.
    #[error("neither NODERELAY_CONFIG nor XDG_CONFIG_HOME nor HOME is set; name the file with --config FILE")]
    NoPlace,
    /// The file is missing or unreadable.
    #[error(transparent)]
    Unreadable(#[from] FileError),
    /// The file does not say what it should.
    #[error("{path}: {seen}")]
    Invalid {
        /// The file.
        path: String,
        /// What is wrong in it.
        seen: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    identity: Identity,
    bundle: PathBuf,
    root: Option<PathBuf>,
    root_fingerprint: Option<String>,
    state: Option<PathBuf>,
    cluster: Option<ClusterName>,
    #[serde(default)]
    relays: Vec<String>,
    escape: Option<String>,
    keepalive: Option<Period>,
    patience: Option<Period>,
    #[serde(default)]
    warm: Warm,
}

/// The variables of the environment that matter here.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// `NODERELAY_CONFIG`
    pub config: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`
    pub config_home: Option<PathBuf>,
    /// `XDG_STATE_HOME`
    pub state_home: Option<PathBuf>,
    /// `HOME`
    pub home: Option<PathBuf>,
}

impl Places {
    /// As this process was started.
    pub fn from_environment() -> Self {
        let set = |name| {
            std::env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        // As the XDG specification has it: a relative folder would be another one in each working directory.
        let folder = |name| set(name).filter(|path| path.is_absolute());
        Self {
            config: set("NODERELAY_CONFIG"),
            config_home: folder("XDG_CONFIG_HOME"),
            state_home: folder("XDG_STATE_HOME"),
            home: folder("HOME"),
        }
    }

    /// The configuration file: `given` (from the command line) or where these places say.
    ///
    /// # Errors
    /// No place is known.
    pub fn file(&self, given: Option<&Path>) -> Result<PathBuf, ConfigError> {
        let fallback = || {
            let home = || self.home.as_ref().map(|home| home.join(".config"));
            Some(self.config_home.clone().or_else(home)?.join("noderelay/config.yaml"))
        };
        let given = given.map(Path::to_owned);
        given
            .or_else(|| self.config.clone())
            .or_else(fallback)
            .ok_or(ConfigError::NoPlace)
    }

    fn state(&self) -> Option<PathBuf> {
        let home = || self.home.as_ref().map(|home| home.join(".local/state"));
        Some(self.state_home.clone().or_else(home)?.join("noderelay"))
    }
}

/// The folder of the client's state when its configuration names none: `$XDG_STATE_HOME/noderelay`.
pub fn state_folder() -> Option<PathBuf> {
    Places::from_environment().state()
}

impl Config {
    /// Reads the file, with defaults from this process's environment.
    ///
    /// # Errors
    /// It is missing, unreadable, too large or not valid.
    pub fn load(file: &Path) -> Result<Self, ConfigError> {
        Self::load_with(file, &Places::from_environment())
    }

    /// Reads `given`, or the file at its usual place.
    ///
    /// # Errors
    /// As [`Config::load`]; no usual place is known.
    pub fn find(given: Option<&Path>) -> Result<Self, ConfigError> {
        let places = Places::from_environment();
        Self::load_with(&places.file(given)?, &places)
    }

    /// Reads the file, with defaults from `places`.
    ///
    /// # Errors
    /// It is missing, unreadable, too large or not valid.
    pub fn load_with(file: &Path, places: &Places) -> Result<Self, ConfigError> {
        let bytes = files::read_bounded(file, MAX_FILE)?;
        let folder = match file.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        let folder = std::path::absolute(&folder).unwrap_or(folder);
        Self::parse(&bytes, file, &folder, places)
    }

    /// Reads the text of a file that lies in `folder`.
    ///
    /// # Errors
    /// The text is not valid.
    pub fn parse(bytes: &[u8], file: &Path, folder: &Path, places: &Places) -> Result<Self, ConfigError> {
        let invalid = |seen: String| ConfigError::Invalid {
            path: shown(file),
            seen: escape(&crate::message::one_line(&seen), 500),
        };
        let text = std::str::from_utf8(bytes).map_err(|error| invalid(error.to_string()))?;
        let parsed: File = serde_saphyr::from_str(text).map_err(|error| invalid(error.to_string()))?;
        let escape_key = match parsed.escape.as_deref() {
            None => Some(crate::escape::DEFAULT),
            Some("none") => None,
            Some(key) => match key.as_bytes() {
                [key @ 0x21..=0x7e] => Some(*key),
                _ => {
                    return Err(invalid(format!(
                        "escape: {key:?} is not one visible ASCII character, and not none"
                    )));
                }
            },
        };
        if let Some(bad) = parsed.relays.iter().find(|address| !is_address(address)) {
            return Err(invalid(format!("relays: {bad:?} is not HOST:PORT")));
        }
        let is_hex = |text: &String| text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if let Some(bad) = parsed.root_fingerprint.as_ref().filter(|text| !is_hex(text)) {
            return Err(invalid(format!(
                "root_fingerprint: {bad:?} is not 64 lower-case hexadecimal digits"
            )));
        }
        for (name, period) in [("keepalive", parsed.keepalive), ("patience", parsed.patience)] {
            if period.is_some_and(|period| period.duration().is_zero()) {
                return Err(invalid(format!("{name} is no time at all")));
            }
        }
        let state = match parsed.state {
            Some(state) => folder.join(state),
            None => places
                .state()
                .ok_or_else(|| invalid("state is missing, and HOME is not set".into()))?,
        };
        Ok(Self {
            file: file.to_owned(),
            identity: Identity {
                certificate: folder.join(parsed.identity.certificate),
                key: folder.join(parsed.identity.key),
            },
            bundle: folder.join(parsed.bundle),
            root: parsed.root.map(|root| folder.join(root)),
            root_fingerprint: parsed.root_fingerprint,
            state,
            cluster: parsed.cluster,
            relays: parsed.relays,
            escape: escape_key,
            keepalive: parsed.keepalive.map_or(DEFAULT_KEEPALIVE, Period::duration),
            patience: parsed.patience.map_or(DEFAULT_PATIENCE, Period::duration),
            warm: parsed.warm,
        })
    }
}

/// Whether the text has the form HOST:PORT (a name, an IPv4 address, or an IPv6 address in brackets).
pub fn is_address(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else {
        return false;
    };
    let host_is_good = match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            !host.is_empty()
                && host.len() <= 253
                && host
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b == b'.' || b == b'-')
        }
    };
    host_is_good && port.parse::<u16>().is_ok_and(|port| port != 0)
}

fn shown(path: &Path) -> String {
    escape(&path.to_string_lossy(), 300)
}
