//! Our side: `noderelay demo --up`, and the client's command line against it.

use std::fs::{DirBuilder, File};
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use netsim_tests::running::{Running, eventually};

/// Relay, agent and throw-away keys, kept up by the demo.
pub(crate) struct Product {
    program: PathBuf,
    config: PathBuf,
    relay: SocketAddr,
    _demo: Running,
}

impl Product {
    /// Starts the demo in a folder of its own and waits until it serves: then it has written `config.yaml`.
    pub(crate) fn start(binaries: &Path, parent: &Path) -> Result<Product> {
        let program = binaries.join("noderelay");
        if !program.exists() {
            bail!("{} does not exist; `cargo xtask bench` builds it", program.display());
        }
        let folder = parent.join("demo");
        DirBuilder::new().mode(0o700).create(&folder)?;
        let log = parent.join("demo.log");
        let mut command = Command::new(&program);
        command.args(["demo", "--up"]).arg(&folder).stdin(Stdio::null());
        command
            .stdout(File::create(&log)?)
            .stderr(File::options().append(true).open(&log)?);
        let mut demo = Running::start(&mut command)?;
        let config = folder.join("config.yaml");
        let relay = eventually(
            "the demo serves and states its relay's address",
            Duration::from_secs(30),
            || {
                demo.still_serves(&log)?;
                Ok(if config.exists() { relay_address(&folder)? } else { None })
            },
        )?;
        Ok(Product {
            program,
            config,
            relay,
            _demo: demo,
        })
    }

    /// Where the relay listens.
    pub(crate) fn relay(&self) -> SocketAddr {
        self.relay
    }

    /// The program.
    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// The client's configuration, as of any other folder, with this folder for its state.
    pub(crate) fn settings(&self, state: &Path) -> Result<String> {
        let folder = self.config.parent().context("the demo's folder")?;
        let text = std::fs::read_to_string(&self.config)?;
        settings_elsewhere(&text, folder, state)
            .with_context(|| format!("{} is not as expected", self.config.display()))
    }

    /// `noderelay --via-relay local -- WORDS`, without a terminal; through another address when one is given.
    pub(crate) fn command(&self, through: Option<SocketAddr>, words: &[&str]) -> Command {
        self.client("-T", through, words)
    }

    /// The same with a terminal.
    pub(crate) fn terminal(&self, words: &[&str]) -> Command {
        self.client("-t", None, words)
    }

    fn client(&self, terminal: &str, through: Option<SocketAddr>, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg("--config")
            .arg(&self.config)
            .args(["--via-relay", "-q", terminal]);
        if let Some(address) = through {
            command.arg("--relay").arg(address.to_string());
        }
        command.args(["local", "--"]).args(words);
        command
    }
}

/// The lines of a configuration with its paths made whole and its state elsewhere. None when a setting is not one that is known here.
pub(crate) fn settings_elsewhere(text: &str, folder: &Path, state: &Path) -> Option<String> {
    let whole = |path: &str| folder.join(path.trim()).display().to_string();
    let mut lines = String::new();
    for line in text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#') && !line.is_empty())
    {
        let line = match line.split_once(": ")? {
            ("state", _) => format!("state: {}", state.display()),
            (key @ ("bundle" | "root"), path) => format!("{key}: {}", whole(path)),
            ("identity", files) => {
                let (certificate, key) = files
                    .strip_prefix("{certificate: ")?
                    .strip_suffix('}')?
                    .split_once(", key: ")?;
                format!("identity: {{certificate: {}, key: {}}}", whole(certificate), whole(key))
            }
            _ => return None,
        };
        lines.push_str(&line);
        lines.push('\n');
    }
    Some(lines)
}

/// The relay's address as the demo's files state it: in the client's configuration, else in the fleet file.
fn relay_address(folder: &Path) -> Result<Option<SocketAddr>> {
    let mut files = vec![folder.join("config.yaml")];
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)?.flatten() {
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else if entry.file_name().to_string_lossy().ends_with("fleet.yaml") {
                files.push(path);
            }
        }
    }
    Ok(files
        .iter()
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .find_map(|text| address_in(&text)))
}

/// The first address with a port on loopback in a text.
pub(crate) fn address_in(text: &str) -> Option<SocketAddr> {
    text.split(|c: char| !(c.is_ascii_hexdigit() || ".:[]".contains(c)))
        .flat_map(|word| [word, word.trim_start_matches('[').trim_end_matches(']')])
        .filter_map(|word| word.parse::<SocketAddr>().ok())
        .find(|address| address.ip().is_loopback() && address.port() != 0)
}
