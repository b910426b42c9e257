//! `cargo xtask dist`: the programs as they are shipped, optimised for what a session does.
//!
//! ```text
//! build that counts ─> training (commands, keystrokes, bulk) ─> counts merged ─> build that uses them ─> TARGET/dist
//!                                                                       └──────────────────────────────> TARGET/dist/noderelay.profdata
//! ```
//!
//! A keystroke finds the code of each process cold; laid out by what is run, it is a fraction of it that has to be fetched
//! (docs/adr/0012-profile-guided-builds.md). With `--profile FILE` the counts of an earlier build are used, and the result is that
//! build's again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::stage::{Stages, binaries, cargo, output, root, run};

/// What is built; the last one is the training and, later, the benchmarks, with the rival that has to be built alike.
const PROGRAMS: [&str; 4] = ["noderelay", "noderelay-relay", "noderelay-agent", "slice-bench"];
/// The merged counts, beside the programs.
const COUNTS: &str = "noderelay.profdata";

/// The command line of the task.
pub(crate) fn run_all(words: &[&str]) -> Result<()> {
    match words {
        [] => build(None).map(|_| ()),
        ["--profile", file] => build(Some(Path::new(file))).map(|_| ()),
        _ => bail!("dist does not know {}; it knows --profile FILE", words.join(" ")),
    }
}

/// Builds what is shipped, with the counts of an earlier build or new ones; returns the folder of the programs.
pub(crate) fn build(counts: Option<&Path>) -> Result<PathBuf> {
    let target = binaries()
        .parent()
        .map_or_else(|| root().join("target"), Path::to_path_buf);
    let tools = Toolchain::ask()?;
    let shipped = target.join("dist");
    let merged = shipped.join(COUNTS);
    fs::create_dir_all(&shipped).with_context(|| format!("cannot make {}", shipped.display()))?;
    let mut stages = Stages::default();
    if let Some(file) = counts {
        if fs::canonicalize(file).ok() != fs::canonicalize(&merged).ok() {
            fs::copy(file, &merged).with_context(|| format!("cannot take the counts of {}", file.display()))?;
        }
    } else {
        let counting = target.join("counting");
        let raw = counting.join("counts");
        let programs = tools.programs(&counting);
        stages.add("build that counts", || {
            tools.build(&counting, &format!("-Cprofile-generate={}", raw.display()))
        });
        stages.finish()?;
        stages = Stages::default();
        stages.add("training", || {
            // What an earlier build counted does not fit this one.
            let _ = fs::remove_dir_all(&raw);
            run(Command::new(programs.join("slice-bench")).arg("--train"))?;
            run(Command::new(&tools.profdata)
                .arg("merge")
                .arg("-o")
                .arg(&merged)
                .arg(&raw))
        });
        stages.finish()?;
        stages = Stages::default();
    }
    let built = target.join("trained");
    stages.add("build what is shipped", || {
        tools.build(&built, &format!("-Cprofile-use={}", merged.display()))?;
        for program in PROGRAMS {
            let from = tools.programs(&built).join(program);
            // Under a running program of the same name a file is not overwritten, but replaced.
            let to = shipped.join(program);
            let new = shipped.join(format!("{program}.new"));
            fs::copy(&from, &new)
                .and_then(|_| fs::rename(&new, &to))
                .with_context(|| format!("cannot put {} there", to.display()))?;
        }
        Ok(())
    });
    stages.finish()?;
    Ok(shipped)
}

/// What the compiler says of itself.
struct Toolchain {
    host: String,
    profdata: PathBuf,
}

impl Toolchain {
    fn ask() -> Result<Self> {
        let said = output(Command::new("rustc").current_dir(root()).arg("-vV"))?;
        let host = said.lines().find_map(|line| line.strip_prefix("host: "));
        let host = host.context("rustc -vV names no host")?.to_owned();
        let sysroot = output(Command::new("rustc").current_dir(root()).args(["--print", "sysroot"]))?;
        let profdata = Path::new(sysroot.trim())
            .join("lib/rustlib")
            .join(&host)
            .join("bin/llvm-profdata");
        if !profdata.exists() {
            bail!(
                "{} is missing, which merges what a training counted; install it with\n  rustup component add llvm-tools",
                profdata.display()
            );
        }
        Ok(Self { host, profdata })
    }

    /// With a target named, the flags are those of the programs alone, and not of what helps to build them.
    fn build(&self, target: &Path, flags: &str) -> Result<()> {
        let mut command = cargo();
        command.env("RUSTFLAGS", flags);
        command.args(["build", "--profile", "dist", "--locked", "--workspace"]);
        command.args(["--target", &self.host]).arg("--target-dir").arg(target);
        for program in PROGRAMS {
            command.args(["--bin", program]);
        }
        run(&mut command)
    }

    fn programs(&self, target: &Path) -> PathBuf {
        target.join(&self.host).join("dist")
    }
}
