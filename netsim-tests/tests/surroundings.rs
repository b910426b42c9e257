//! Programs in bad surroundings: a log that takes nothing, a disk of theirs that is full or read-only, words and files that
//! would deceive whoever reads what is said about them.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use netsim_tests::fleet::Fleet;
use netsim_tests::process::{Bounded as _, PATIENCE, eventually, program, wait_within};
use netsim_tests::told::Told;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const PROGRAMS: [&str; 3] = ["noderelay", "noderelay-relay", "noderelay-agent"];

/// A command that becomes `name` once `before` was done in a mount namespace of its own; `$0` there is `folder`.
fn after(before: &str, folder: &Path, name: &str) -> Command {
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--propagation", "private", "sh", "-c"])
        .arg(format!("{before} && exec \"$@\""))
        .arg(folder)
        .arg(program(name));
    command
}

#[test]
fn a_log_that_cannot_be_written_ends_no_program() {
    let mut fleet = Fleet::files("");
    let deaf = |name: &str| {
        let mut command = Command::new("sh");
        command
            .args(["-c", "exec \"$0\" \"$@\" 2>/dev/full"])
            .arg(program(name));
        command
    };
    fleet.start_relay_as(deaf("noderelay-relay"));
    fleet.start_agent_as(deaf("noderelay-agent"));
    let mut client = fleet.plain();
    client
        .args(["-v", "-v", "--via-relay", "local", "--", "echo", "served"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(fs::File::options().write(true).open("/dev/full").unwrap());
    let output = client.spawn().unwrap().bounded();
    assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b"served\n"[..]));
    for mut process in [fleet.relay.take().unwrap(), fleet.agent.take().unwrap()] {
        assert!(process.0.try_wait().unwrap().is_none(), "it ended");
    }
}

/// Error output of a command is its output: it is not lost without a word.
#[test]
fn error_output_that_cannot_be_written_is_no_success() {
    let fleet = Fleet::serving();
    let status = fleet.layout.root.join("status");
    let client = |line: &str| {
        let mut client = fleet.client();
        client
            .arg("--status")
            .arg(&status)
            .args(["local", "--", "sh", "-c", line])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(fs::File::options().write(true).open("/dev/full").unwrap());
        let code = client.spawn().unwrap().bounded().status.code();
        (code, fs::read_to_string(&status).unwrap())
    };
    assert_eq!(client("exit 0").0, Some(0));
    let (code, said) = client("echo lost >&2");
    assert_eq!(code, Some(255), "{said}");
    assert!(said.contains("client.local_io"), "{said}");
}

/// A collector that stands still, and a `ready` that nobody reads: relay and agent serve, say much more than a pipe holds, and stop.
#[test]
fn a_log_that_nobody_reads_holds_no_program_up() {
    let mut fleet = Fleet::files("");
    let pipe = fleet.layout.root.join("full");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let unblocked = nix::fcntl::OFlag::O_NONBLOCK.bits();
    let mut unread = fs::File::options()
        .read(true)
        .write(true)
        .custom_flags(unblocked)
        .open(&pipe)
        .unwrap();
    while unread.write(&[b'x'; 4096]).is_ok() {}
    let deaf = |name: &str| {
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("exec \"$0\" \"$@\" 2>{}", pipe.display())])
            .arg(program(name));
        command
    };
    fleet.start_relay_as(deaf("noderelay-relay"));
    fleet.start_agent_as(deaf("noderelay-agent"));
    for _ in 0..3 {
        assert_eq!(fleet.run(&["echo", "served"]).stdout, b"served\n");
    }
    for process in [&mut fleet.agent, &mut fleet.relay].map(|process| process.as_mut().unwrap()) {
        kill(Pid::from_raw(process.0.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
        assert!(process.wait_within(PATIENCE).success());
    }
    // So do those that have a bad end to tell.
    for name in ["noderelay-relay", "noderelay-agent"] {
        let mut command = deaf(name);
        let child = command
            .arg("--config")
            .arg("/none")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        assert_eq!(wait_within(&mut child.unwrap(), PATIENCE).code(), Some(1));
    }
}

/// Relay and agent start over with what they kept, and a session runs: a full disk is when people need one. What is published
/// meanwhile is in force at once, though it cannot be kept: whoever fills the disk must not hold a revocation off.
#[test]
fn relay_and_agent_start_on_a_disk_that_is_full_or_read_only() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("not root: no small disk can be made, nothing was tested");
        return;
    }
    let mut fleet = Fleet::serving();
    let filled = "cp -a \"$0\" \"$0.kept\" && mount -t tmpfs -o size=512k,mode=700 none \"$0\" && cp -a \"$0.kept/.\" \"$0\" && \
                  rm -rf \"$0.kept\" && { cat /dev/zero > \"$0/filling\" 2>/dev/null; true; }";
    let read_only = format!("{filled} && mount -o remount,ro \"$0\"");
    for before in [filled, &read_only] {
        let place = |config: &Path| config.parent().unwrap().join("state");
        let states = [place(&fleet.layout.relay()), place(&fleet.layout.agent())];
        eventually("no session is left", || {
            fs::read_dir(states[1].join("sessions")).unwrap().count() == 0
        });
        drop((fleet.relay.take(), fleet.agent.take()));
        fleet.start_relay_as(after(before, &states[0], "noderelay-relay"));
        // An agent needs a place for its sessions: its disk is only full.
        fleet.start_agent_as(after(filled, &states[1], "noderelay-agent"));
        let output = fleet.run(&["echo", "served"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.stdout, b"served\n", "{said}");
        let (both, shells) = (r#"[Action::"shell", Action::"exec"]"#, r#"[Action::"shell"]"#);
        fleet.repolicy(both, shells);
        Told::of(fleet.client(), &["true"]).assert_refused("policy.denied");
        fleet.repolicy(shells, both);
        Told::of(fleet.client(), &["true"]).assert_exit(0);
    }
}

/// Everything that a program says: one line or more, and nothing in it acts on a terminal or hides.
#[track_caller]
fn shown(output: &Output) -> String {
    let said = [&*output.stdout, &output.stderr].concat();
    let text = String::from_utf8(said).unwrap();
    let bad = text
        .chars()
        .find(|c| *c != '\n' && noderelay_pki::text::is_invisible(*c));
    assert_eq!(bad, None, "{text:?}");
    assert!(!text.is_empty());
    text
}

#[test]
fn nothing_that_deceives_comes_out_of_a_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let bad = "\u{1b}[31m\u{202e}\u{200b}x\nnoderelay: all is well";
    let option = format!("--bo{bad}");
    let file = folder.path().join(bad).display().to_string();
    let mut cases: Vec<(&str, Vec<&str>, i32)> = Vec::new();
    for name in PROGRAMS {
        cases.push((name, vec![&option], 2));
        cases.push((name, vec!["--config", &file, "check-config"], 1));
    }
    cases.push(("noderelay", vec!["policy", bad], 2));
    cases.push(("noderelay", vec!["completion", bad], 2));
    cases.push(("noderelay", vec!["replay", "--speed", bad, "x"], 2));
    cases.push(("noderelay", vec!["pki", "inspect", &file], 1));
    cases.push(("noderelay", vec!["replay", &file], 1));
    cases.push(("noderelay", vec!["key", "show", &file], 1));
    cases.push(("noderelay", vec!["policy", "verify", &file], 1));
    cases.push(("noderelay", vec!["--config", &file, "--via-relay", bad], 255));
    let ca = ["pki", "init", &file, "--trust-domain", "a.example", "--cluster", "b"];
    cases.push(("noderelay", ca.to_vec(), 0));
    for (name, words, code) in cases {
        let output = Command::new(program(name))
            .args(&words)
            .env("HOME", folder.path())
            .bounded();
        let text = shown(&output);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {text}");
        assert!(!text.contains("\nnoderelay: all"), "{words:?}: {text}");
        assert!(text.contains("\\u{1b}"), "{words:?}: {text}");
    }
}

/// What is in effect is shown with escapes, and is still the same configuration; so is what is said about a bad one.
#[test]
fn check_config_shows_nothing_that_deceives() {
    let fleet = Fleet::files("");
    let configs = [fleet.layout.client(), fleet.layout.relay(), fleet.layout.agent()];
    for (name, config) in PROGRAMS.into_iter().zip(configs) {
        let run = |path: &Path| {
            let mut command = Command::new(program(name));
            command.arg("--config").arg(path).arg("check-config").bounded()
        };
        let text = fs::read_to_string(&config).unwrap();
        // Each has a folder called `state`.
        let odd = text.replace("state: ", "state: \u{200d}\u{e0001}");
        assert_ne!(odd, text);
        let beside = |ending: &str, text: &str| {
            let path = config.with_extension(ending);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            path
        };
        let first = run(&beside("odd", &odd));
        assert_eq!(first.status.code(), Some(0), "{}", shown(&first));
        assert!(shown(&first).contains("\\u200d\\U000e0001"), "{}", shown(&first));
        let again = run(&beside("again", &shown(&first)));
        let effective = |output: &Output| {
            let text = shown(output);
            text.lines()
                .filter(|line| !line.starts_with('#'))
                .collect::<Vec<_>>()
                .join("\n")
        };
        assert_eq!(effective(&again), effective(&first), "{name}");
        let bad = run(&beside("bad", &format!("{text}\"b\u{202e}ad\\e[31m\": 1\n")));
        assert_eq!(bad.status.code(), Some(1), "{}", shown(&bad));
    }
}
