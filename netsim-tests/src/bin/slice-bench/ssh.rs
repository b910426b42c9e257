//! The rival: OpenSSH, a target behind a jump host, both on loopback with throw-away keys.
//!
//! Two `sshd` in the foreground as our own children, with configuration, host keys and one user key in the bench's
//! temporary folder. Nothing of the system's or the user's ssh configuration is read, no agent is asked, no connection
//! is shared: each measurement starts cold, as ours does.

use std::fs::{DirBuilder, File, Permissions};
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use netsim_tests::running::{Running, eventually, shown};
use nix::unistd::{Uid, User};

/// `sshd` starts itself again for each connection, so it wants its absolute path.
const SSHD: [&str; 3] = ["/usr/sbin/sshd", "/usr/local/sbin/sshd", "/usr/bin/sshd"];
/// Where an `sshd` that runs as root locks up its unprivileged half.
const SEPARATION: &str = "/run/sshd";
/// A port is chosen by the kernel and may be taken by another before `sshd` binds it; then the next.
const ATTEMPTS: usize = 5;

/// Both servers, and the client's configuration.
pub(crate) struct Rival {
    folder: PathBuf,
    jump_port: u16,
    _jump: Running,
    _target: Running,
    _separation: Option<Separation>,
}

impl Rival {
    pub(crate) fn start(parent: &Path) -> Result<Rival> {
        let folder = parent.join("ssh");
        DirBuilder::new().mode(0o700).create(&folder)?;
        let separation = Separation::ensure()?;
        generate(&folder.join("user"))?;
        generate(&folder.join("host"))?;
        std::fs::copy(folder.join("user.pub"), folder.join("authorized"))?;
        let (jump, jump_port) = server(&folder, "jump")?;
        let (target, target_port) = server(&folder, "target")?;
        let host_key = std::fs::read_to_string(folder.join("host.pub"))?;
        std::fs::write(folder.join("known"), format!("jump {host_key}target {host_key}"))?;
        std::fs::write(folder.join("config"), client_config(&folder, jump_port, target_port)?)?;
        Ok(Rival {
            folder,
            jump_port,
            _jump: jump,
            _target: target,
            _separation: separation,
        })
    }

    /// Where the jump host listens.
    pub(crate) fn jump(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.jump_port))
    }

    /// Makes the jump host known under one more name, behind another port.
    pub(crate) fn name_jump(&self, name: &str, port: u16) -> Result<()> {
        let mut config = File::options().append(true).open(self.folder.join("config"))?;
        Ok(config.write_all(host(name, "jump", port).as_bytes())?)
    }

    /// `ssh -J JUMP target WORDS`, without a terminal.
    pub(crate) fn command(&self, jump: &str, words: &[&str]) -> Command {
        let mut command = self.client();
        command.args(["-T", "-J", jump, "target"]).args(words);
        command
    }

    /// The same with a terminal.
    pub(crate) fn terminal(&self, words: &[&str]) -> Command {
        let mut command = self.client();
        command.args(["-tt", "-J", "jump", "target"]).args(words);
        command
    }

    fn client(&self) -> Command {
        let mut command = Command::new("ssh");
        command
            .arg("-F")
            .arg(self.folder.join("config"))
            .env_remove("SSH_AUTH_SOCK");
        command
    }
}

/// The client's version, for the report.
pub(crate) fn version() -> String {
    let output = Command::new("ssh").arg("-V").output();
    let said = output.map(|output| String::from_utf8_lossy(&output.stderr).trim().to_owned());
    said.unwrap_or_else(|_| "no ssh".to_owned())
}

fn client_config(folder: &Path, jump: u16, target: u16) -> Result<String> {
    let user = User::from_uid(Uid::current())?
        .context("the current user has no account")?
        .name;
    let folder = folder.display();
    Ok(format!(
        "{}{}Host *\n  User {user}\n  IdentityFile {folder}/user\n  IdentitiesOnly yes\n  IdentityAgent none\n  \
         UserKnownHostsFile {folder}/known\n  GlobalKnownHostsFile none\n  StrictHostKeyChecking yes\n  \
         BatchMode yes\n  LogLevel ERROR\n  EscapeChar none\n  ControlMaster no\n",
        host("jump", "jump", jump),
        host("target", "target", target)
    ))
}

/// A host of the client's configuration: its name, whose key it shows, and its port on loopback.
fn host(name: &str, key: &str, port: u16) -> String {
    format!("Host {name}\n  HostName 127.0.0.1\n  HostKeyAlias {key}\n  Port {port}\n")
}

fn server_config(folder: &Path, port: u16) -> String {
    let folder = folder.display();
    format!(
        "Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized\n\
         PidFile none\nUsePAM no\nStrictModes no\nPermitRootLogin prohibit-password\nPasswordAuthentication no\n\
         KbdInteractiveAuthentication no\nPrintMotd no\nPrintLastLog no\nUseDNS no\nLogLevel INFO\n"
    )
}

/// Starts one server and waits until it says that it listens.
fn server(folder: &Path, name: &str) -> Result<(Running, u16)> {
    let Some(sshd) = SSHD.iter().find(|path| Path::new(path).exists()) else {
        bail!("sshd is not installed; on Debian: apt-get install openssh-server");
    };
    let mut last = None;
    for _ in 0..ATTEMPTS {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let (config, log) = (
            folder.join(format!("{name}.config")),
            folder.join(format!("{name}.log")),
        );
        std::fs::write(&config, server_config(folder, port))?;
        let mut command = Command::new(sshd);
        command.args(["-D", "-e", "-f"]).arg(&config);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?);
        let mut running = Running::start(&mut command)?;
        let listens = eventually("sshd listens", Duration::from_secs(10), || {
            running.still_serves(&log)?;
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            Ok(said.contains("Server listening").then_some(()))
        });
        match listens {
            Ok(()) => return Ok((running, port)),
            Err(error) => last = Some(error.context(shown(&command))),
        }
    }
    Err(last.context("sshd was never started")?)
}

fn generate(path: &Path) -> Result<()> {
    let mut command = Command::new("ssh-keygen");
    command
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "bench", "-f"])
        .arg(path);
    let output = command.output().context("cannot start ssh-keygen")?;
    if !output.status.success() {
        bail!("ssh-keygen failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// The folder that `sshd` wants as root; the service's unit normally makes it. Removed again if we made it.
struct Separation;

impl Separation {
    fn ensure() -> Result<Option<Separation>> {
        if !Uid::current().is_root() || Path::new(SEPARATION).exists() {
            return Ok(None);
        }
        std::fs::create_dir(SEPARATION).with_context(|| format!("sshd as root needs {SEPARATION}"))?;
        std::fs::set_permissions(SEPARATION, Permissions::from_mode(0o755))?;
        Ok(Some(Separation))
    }
}

impl Drop for Separation {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(SEPARATION);
    }
}
