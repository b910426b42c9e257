//! `cargo xtask bench`: builds the binaries, sees that the rival is there, and runs the bench binary.
//!
//! The rival is OpenSSH, started by the bench binary on loopback with throw-away keys. It is needed for benchmarks
//! only, never for a build or a test.

use std::path::Path;
use std::process::Command;

use crate::dist;
use crate::stage::{Stages, cargo, root, run};
use anyhow::{Result, bail};

/// Where `sshd` lives on the systems that we know; it must be started by its absolute path.
const SSHD: [&str; 3] = ["/usr/sbin/sshd", "/usr/local/sbin/sshd", "/usr/bin/sshd"];

/// Runs a command where the only interface has frames of this size. The file system of interfaces is mounted anew: it shows
/// those of whoever mounted it.
const ON_A_PATH: &str = "mount -t sysfs none /sys && ip link set lo mtu \"$0\" up && exec \"$@\"";

/// Options that the bench binary knows itself.
const HANDED_ON: [&str; 2] = ["--quick", "--check"];

/// Builds, then runs the bench binary from the project's root.
pub(crate) fn run_all(options: &[&str]) -> Result<()> {
    if let Some(unknown) = options
        .iter()
        .find(|option| **option != "--dry-run" && !HANDED_ON.contains(option))
    {
        bail!("bench does not know {unknown}; it knows --quick, --check and --dry-run");
    }
    rival_is_there()?;
    let mut stages = Stages::default();
    stages.add("build", || {
        run(cargo().args(["build", "--release", "--locked", "--workspace", "--all-targets"]))
    });
    stages.finish()?;
    let shipped = dist::build(None)?;
    // The rival of the relay lives in it: both are built alike.
    let bench = shipped.join("slice-bench");
    let finish = |command: &mut Command| {
        command.current_dir(root()).arg("--binaries").arg(&shipped);
        command.args(options.iter().filter(|option| HANDED_ON.contains(option)));
        if !options.contains(&"--dry-run") {
            command.arg("--report").arg(root().join("docs/benchmarks.md"));
        }
        run(command)
    };
    let mut stages = Stages::default();
    stages.add("slice-bench", || finish(&mut Command::new(&bench)));
    stages.add("slice-bench on one processor", || {
        let mut command = Command::new("taskset");
        command.args(["--cpu-list", "0"]).arg(&bench);
        finish(command.args(["--only", "echo", "--one-processor"]))
    });
    stages.add("slice-bench of many sessions", || {
        finish(Command::new(&bench).arg("--crowd"))
    });
    stages.add("slice-bench of growth", || finish(Command::new(&bench).arg("--growth")));
    for (mtu, name) in [
        ("1500", "slice-bench of the relay"),
        ("9000", "slice-bench of the relay, frames of 9,000 bytes"),
    ] {
        stages.add(name, || {
            let mut command = Command::new("unshare");
            command
                .args(["--net", "--mount", "sh", "-c", ON_A_PATH, mtu])
                .arg(&bench);
            finish(command.args(["--relay", mtu]))
        });
    }
    stages.finish()
}

fn rival_is_there() -> Result<()> {
    let client = Command::new("ssh").arg("-V").output().is_ok();
    let paths = Command::new("ip").arg("-V").output().is_ok();
    if client && paths && SSHD.iter().any(|path| Path::new(path).exists()) {
        return Ok(());
    }
    bail!(
        "the benchmarks compare with OpenSSH, and make paths with iproute2; not all is there. On Debian or Ubuntu, as root:\n  \
         apt-get install -y --no-install-recommends openssh-server openssh-client iproute2\n\
         No service needs to run: the benchmark starts its own sshd on loopback and ends it"
    )
}
