//! The warm process of a test: started as a person starts it, asked what it keeps, and ended by the test.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::fleet::Fleet;
use crate::process::{Bounded as _, eventually, program};

/// A warm process of one configuration; ended on drop.
pub struct Warm {
    config: PathBuf,
}

impl Warm {
    /// That of the fleet's own client, with these further settings of its configuration, connected to the relay.
    pub fn of(fleet: &Fleet, settings: &str) -> Self {
        let config = fleet.layout.client();
        let text = std::fs::read_to_string(&config).expect("the client's configuration");
        std::fs::write(&config, format!("{text}{settings}\n")).expect("the client's configuration");
        let warm = Self { config };
        warm.started(&[]);
        warm.until_connected();
        warm
    }

    /// That of a configuration; nothing runs yet.
    pub fn with(config: &Path) -> Self {
        Self {
            config: config.to_owned(),
        }
    }

    /// `noderelay warm` with these words.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(program("noderelay"));
        command
            .env_remove("RUST_LOG")
            .arg("--config")
            .arg(&self.config)
            .arg("warm")
            .args(words);
        command
    }

    /// Starts it.
    pub fn started(&self, words: &[&str]) -> Output {
        let output = self.command(words).bounded();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        output
    }

    /// What it keeps, while it runs.
    pub fn status(&self) -> Option<Value> {
        let output = self.command(&["status", "-o", "json"]).bounded();
        serde_json::from_slice(&output.stdout)
            .ok()
            .filter(|_| output.status.success())
    }

    /// A number of its status.
    pub fn count(&self, name: &str) -> u64 {
        let status = self.status().expect("it runs");
        status[name].as_u64().unwrap_or_else(|| panic!("{name}: {status}"))
    }

    /// Its process.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.count("pid")).expect("a process id"))
    }

    /// Waits until a relay is connected.
    pub fn until_connected(&self) {
        eventually("a relay is connected", || {
            self.status()
                .is_some_and(|status| !status["relays"][0]["up_seconds"].is_null())
        });
    }

    /// Waits until the node stands by.
    pub fn until_standby(&self) {
        eventually("the node stands by", || {
            self.status()
                .is_some_and(|status| status["nodes"][0]["standby"] == true)
        });
    }

    /// Its folder.
    pub fn folder(&self) -> PathBuf {
        let text = std::fs::read_to_string(&self.config).expect("a configuration");
        let state = text
            .lines()
            .find_map(|line| line.strip_prefix("state: "))
            .expect("a state folder");
        self.config.parent().expect("a folder").join(state).join("warm")
    }

    /// What it logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder().join("log")).unwrap_or_default()
    }

    /// Kills it.
    pub fn kill(&self) {
        let pid = self.pid();
        kill(pid, Signal::SIGKILL).expect("it is ours");
        gone(pid);
    }
}

/// Waits until a process is gone (a zombie that nobody waits for is, too).
pub fn gone(pid: Pid) {
    eventually("the warm process is gone", || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        state.is_none_or(|state| state == 'Z')
    });
}

impl Drop for Warm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- warm\n{}", self.log());
        }
        let Some(status) = self.status() else { return };
        let _ = self.command(&["stop"]).bounded();
        if let Some(pid) = status["pid"].as_u64().and_then(|pid| i32::try_from(pid).ok()) {
            // What it carries is the test's, and is over.
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
    }
}
