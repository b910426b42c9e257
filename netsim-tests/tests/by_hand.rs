//! Runs `docs/by-hand.md` as it stands: separate processes, the relay's port swapped for a free one.
//!
//! Blocks marked `sh` run one after the other in one shell; blocks marked `sh background=NAME` keep running beside it.
//! As root the agent runs under the account `nobody`, so that agent and client are different users.

use std::fs;
use std::io::Write as _;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Stdio};

use netsim_tests::process::{Bounded as _, Lines, Process, program};

struct Block {
    background: Option<String>,
    text: String,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for line in page.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(info)) if info == "sh" || info.starts_with("sh ") => {
                let background = info.strip_prefix("sh background=").map(str::to_owned);
                open = Some(Block {
                    background,
                    text: String::new(),
                });
            }
            (Some(_), Some("")) => blocks.extend(open.take()),
            (Some(block), _) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            _ => {}
        }
    }
    blocks
}

/// A shell with the programs in its path, fed block by block.
struct Shell {
    process: Process,
    output: Lines,
}

impl Shell {
    fn start(folder: &Path) -> Self {
        let mut command = in_folder(
            folder,
            "exec 2>&1; set -e; while IFS= read -r line; do eval \"$(echo \"$line\" | base64 -d)\"; echo block-done; done",
        );
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let output = Lines::of(child.stdout.take().unwrap());
        Self {
            process: Process(child),
            output,
        }
    }

    /// Runs a block; gives what it printed.
    fn run(&mut self, block: &str) -> String {
        use base64::Engine as _;
        let line = base64::engine::general_purpose::STANDARD.encode(block);
        writeln!(self.process.0.stdin.as_mut().unwrap(), "{line}").unwrap();
        let mut printed = String::new();
        loop {
            match self.output.line() {
                Some(line) if line == "block-done" => return printed,
                Some(line) => {
                    printed.push_str(&line);
                    printed.push('\n');
                }
                None => panic!(
                    "the block failed:\n{block}\nit printed:\n{printed}\nbefore it:\n{}",
                    self.output.seen()
                ),
            }
        }
    }
}

/// The logs of the background blocks, shown when the test fails.
struct Logs<'a>(&'a Path);

impl Drop for Logs<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for name in ["relay", "agent"] {
                let log = fs::read_to_string(self.0.join(format!("{name}.log"))).unwrap_or_default();
                eprintln!("--- {name}\n{log}");
            }
        }
    }
}

fn in_folder(folder: &Path, line: &str) -> Command {
    let programs = program("noderelay").parent().unwrap().to_owned();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("bash");
    command
        .args(["-c", line])
        .current_dir(folder)
        .env("PATH", path)
        .env("HOME", folder)
        .env_remove("NODERELAY_CONFIG");
    command
}

#[test]
fn the_page_works_as_it_stands() {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/by-hand.md")).unwrap();
    let port = UdpSocket::bind("127.0.0.1:0")
        .and_then(|s| s.local_addr())
        .unwrap()
        .port();
    assert!(page.contains(":7443"));
    let page = page.replace(":7443", &format!(":{port}"));
    let folder = tempfile::tempdir().unwrap();
    let _logs = Logs(folder.path());
    let mut shell = Shell::start(folder.path());
    let mut background = Vec::new();
    let mut printed = String::new();
    let mut count = 0;
    for block in blocks(&page) {
        count += 1;
        match block.background.as_deref() {
            None => printed.push_str(&shell.run(&block.text)),
            Some(name) => background.push(in_the_background(folder.path(), name, block.text.trim())),
        }
    }
    assert!(count >= 13, "only {count} blocks were found");
    for word in ["hello from", "grant.required", "alice@example.org"] {
        assert!(printed.contains(word), "{word:?} was not printed:\n{printed}");
    }
    // The relay's folder holds no key that opens a session: its own and no other.
    let keys: Vec<_> = fs::read_dir(folder.path().join("relay"))
        .unwrap()
        .filter_map(|e| e.ok()?.file_name().into_string().ok())
        .collect();
    assert!(
        !keys.iter().any(|k| k.ends_with(".key") && k != "relay.key"),
        "{keys:?}"
    );
    if nix::unistd::geteuid().is_root() {
        assert!(printed.contains("hello from nobody"), "{printed}");
    }
}

/// Starts a background block; an agent is waited for until it is attached. As root it becomes `nobody`, who then owns
/// its folder.
fn in_the_background(folder: &Path, name: &str, line: &str) -> Process {
    let root = nix::unistd::geteuid().is_root() && name == "agent";
    let line = if root {
        let chown = Command::new("chown")
            .args(["-R", "nobody"])
            .arg(folder.join("agent"))
            .bounded();
        assert!(chown.status.success(), "{}", String::from_utf8_lossy(&chown.stderr));
        // The way to the folder has to be open to it.
        let open = Command::new("chmod").arg("a+x").arg(folder).bounded();
        assert!(open.status.success(), "{}", String::from_utf8_lossy(&open.stderr));
        format!("exec setpriv --reuid=nobody --regid=nogroup --clear-groups {line}")
    } else {
        format!("exec {line}")
    };
    let log = fs::File::create(folder.join(format!("{name}.log"))).unwrap();
    let mut child = in_folder(folder, &line)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .unwrap();
    let stdout = child.stdout.take().unwrap();
    let process = Process(child);
    if name == "agent" {
        let first = Lines::of(stdout).line().unwrap_or_default();
        assert!(first.starts_with("ready"), "{first:?}");
    }
    process
}
