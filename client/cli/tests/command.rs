//! The program as it is called: exit codes, what stands on which stream, and the demo.
//!
//! Everything is below a temporary folder, on loopback, and ended by the test that started it.

#![cfg(feature = "demo")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test of processes, in their time"
)]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The program with a home of its own.
fn noderelay(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_noderelay"));
    command
        .env("HOME", home)
        .env("XDG_STATE_HOME", home.join("state"))
        .env("XDG_CONFIG_HOME", home.join("config"))
        .env_remove("NODERELAY_CONFIG")
        .env_remove("RUST_LOG")
        .current_dir(home)
        .stdin(Stdio::null());
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool, limit: Duration) {
    let until = Instant::now() + limit;
    while !holds() {
        assert!(Instant::now() < until, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_session_that_fails_before_it_begins_is_255_and_writes_its_status() {
    let home = tempfile::tempdir().unwrap();
    let status = home.path().join("status.json");
    let cases: [(&[&str], &str); 3] = [
        (&["--via-relay", "--cluster", "No_Name", "gpu-7"], "client.usage"),
        (&["--via-relay", "--config", "nowhere.yaml", "gpu-7"], "client.config"),
        (&["--via-relay", "gpu-7", "--", "true"], "client.config"),
    ];
    for (words, code) in cases {
        let _ = fs::remove_file(&status);
        let output = noderelay(home.path())
            .arg("--status")
            .arg(&status)
            .args(words)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(255), "{words:?}: {}", said(&output));
        assert!(
            said(&output).starts_with(&format!("noderelay: {code}: ")),
            "{}",
            said(&output)
        );
        let written = fs::read_to_string(&status).unwrap();
        for part in [
            format!("\"code\":\"{code}\""),
            "\"exit_code\":255".into(),
            "\"node\":\"gpu-7\"".into(),
        ] {
            assert!(written.contains(&part), "{part} in {written}");
        }
    }
    // Other commands: 1; usage: 2.
    for (words, code) in [
        (&["--config", "nowhere.yaml", "check-config"][..], 1),
        (&["--config", "nowhere.yaml", "whoami"], 1),
        (&["--via-relay"], 2),
        (&["whoami", "--nonsense"], 2),
    ] {
        assert_eq!(
            noderelay(home.path()).args(words).output().unwrap().status.code(),
            Some(code),
            "{words:?}"
        );
    }
}

#[test]
fn a_demo_that_cannot_begin_is_255_and_one_to_stay_is_1() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("file"), "").unwrap();
    let nowhere = home.path().join("file/state");
    let output = noderelay(home.path())
        .env("XDG_STATE_HOME", &nowhere)
        .args(["demo", "--", "true"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(255), "{}", said(&output));
    let output = noderelay(home.path())
        .args(["demo", "--up"])
        .arg(nowhere)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
}

#[test]
fn a_status_that_could_not_be_written_is_known_before_anything_starts() {
    let home = tempfile::tempdir().unwrap();
    let nowhere = home.path().join("none/status.json");
    let output = noderelay(home.path())
        .arg("--status")
        .arg(&nowhere)
        .args(["--via-relay", "gpu-7", "--", "true"])
        .output()
        .unwrap();
    let said = said(&output);
    assert_eq!(output.status.code(), Some(255), "{said}");
    // Before the configuration, which is missing, too.
    assert!(said.starts_with("noderelay: client.usage: --status "), "{said}");
    assert!(said.contains("none") && said.contains("nothing was started"), "{said}");
}

/// Every command that answers on standard output, run where that is full and where nobody reads it.
#[test]
fn an_answer_that_is_not_written_is_no_success() {
    let home = tempfile::tempdir().unwrap();
    let made = noderelay(home.path())
        .args(["demo", "--", "echo", "hello"])
        .output()
        .unwrap();
    assert_eq!(made.status.code(), Some(0), "{}", said(&made));
    let demos = home.path().join("state/noderelay/demo");
    let demo = fs::read_dir(demos).unwrap().next().unwrap().unwrap().path();
    let recording = fs::read_dir(demo.join("agent/state/recordings"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|ending| ending == "cast"))
        .unwrap();
    let config = demo.join("client/config.yaml");
    let init = "policy init NEW --trust-domain demo.noderelay --root-key PUB --signer PUB --pipeline PIPELINE \
                --cluster demo=CERTIFICATE";
    let commands = [
        "--version",
        "--help",
        "shell --help",
        "completion bash",
        "completion zsh",
        "completion fish",
        "key create NEW",
        "key show SIGNER",
        "pki init NEW --trust-domain example.org --cluster lab",
        "pki issue --ca CA --user kim --out NEW",
        "pki inspect CERTIFICATE",
        "pki inspect CERTIFICATE -o json",
        init,
        "policy sign POLICY --key SIGNER",
        "policy publish POLICY --key SIGNER --to NEW",
        "policy verify PUBLISHED",
        "policy verify PUBLISHED -o json",
        "check-config",
        "whoami",
        "whoami -o json",
        "doctor",
        "doctor -o json",
        "replay --quiet --no-wait RECORDING",
        "replay --quiet RECORDING",
    ];
    let mut number = 0;
    let mut run = |line: &str, stdout: Stdio| {
        number += 1;
        let word = |word: &str| {
            let place = |path: &str| demo.join(path).display().to_string();
            word.replace("NEW", &place(&format!("new-{number}")))
                .replace("PUBLISHED", &place("published"))
                .replace("PUB", &place("keys/signer.pub"))
                .replace("PIPELINE", &place("keys/pipeline.pub"))
                .replace("SIGNER", &place("keys/signer"))
                .replace("CERTIFICATE", &place("ca/ca.pem"))
                .replace("POLICY", &place("policy"))
                .replace("RECORDING", &recording.display().to_string())
        };
        let words = line.split_whitespace().map(|w| {
            if w == "CA" {
                demo.join("ca").display().to_string()
            } else {
                word(w)
            }
        });
        let mut command = noderelay(home.path());
        command.env("NODERELAY_CONFIG", &config).args(words);
        command.stdout(stdout).stderr(Stdio::piped()).output().unwrap()
    };
    let public = run("key show SIGNER", Stdio::piped()).stdout;
    let public = String::from_utf8(public).unwrap();
    fs::write(demo.join("keys/signer.pub"), public.lines().next().unwrap()).unwrap();
    let pipeline = demo.join("keys/pipeline").display().to_string();
    run(&format!("key create {pipeline}"), Stdio::piped());
    for line in commands {
        let good = run(line, Stdio::piped());
        assert_eq!(good.status.code(), Some(0), "{line}: {}", said(&good));
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let full = run(line, full.into());
        assert_eq!(full.status.code(), Some(1), "{line}: {}", said(&full));
        assert!(said(&full).contains("standard output"), "{line}: {}", said(&full));
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let unread = run(line, writer.into());
        assert_eq!(
            (unread.status.code(), said(&unread).as_str()),
            (Some(141), ""),
            "{line}"
        );
    }
}

/// A cause stands in the message once, however many errors it went through.
#[test]
fn no_cause_is_told_twice() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("text"), "not what is expected\n").unwrap();
    fs::write(
        home.path().join("bad.yaml"),
        "identity: {certificate: no-such-file, key: no-such-file}\nbundle: b\nstate: s\n",
    )
    .unwrap();
    for line in [
        "key show no-such-file",
        "key show text",
        "key create text/key",
        "pki issue --ca no-such-file --user kim --out x",
        "pki issue --ca text --user kim --out x",
        "pki inspect no-such-file",
        "pki inspect text",
        "pki init text --trust-domain example.org --cluster lab",
        "policy sign no-such-file --key no-such-file",
        "policy publish no-such-file --key no-such-file --to x",
        "policy verify no-such-file",
        "policy init x --trust-domain example.org --root-key no-such-file --signer no-such-file --pipeline no-such-file --cluster lab=no-such-file",
        "check-config",
        "--config bad.yaml whoami",
        "--config text whoami",
        "--config bad.yaml --via-relay gpu-7",
        "replay no-such-file",
        "replay text",
        "demo --up text",
    ] {
        let output = noderelay(home.path()).args(line.split(' ')).output().unwrap();
        let said = said(&output);
        assert_ne!(output.status.code(), Some(0), "{line}");
        for causes in [": ", " ("] {
            let parts: Vec<_> = said
                .trim_end()
                .split(causes)
                .map(|part| part.trim_end_matches(')'))
                .collect();
            for (at, part) in parts.iter().enumerate() {
                assert!(!parts[..at].contains(part), "{line}: {part:?} twice: {said}");
            }
        }
        for once in ["os error", "no-such-file"] {
            assert!(said.matches(once).count() <= 1, "{line}: {said}");
        }
    }
}

/// Without a home the demo's folder is a new one that nobody else can enter or could have made before.
#[test]
fn without_a_home_the_demo_has_a_private_folder() {
    use std::os::unix::fs::PermissionsExt as _;
    let (home, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // What another user may have put there.
    fs::create_dir_all(temporary.path().join("noderelay/demo")).unwrap();
    let output = noderelay(home.path())
        .env_remove("HOME")
        .env_remove("XDG_STATE_HOME")
        .env("TMPDIR", temporary.path())
        .args(["demo", "--", "echo", "hello"])
        .output()
        .unwrap();
    assert_eq!(
        (output.status.code(), &output.stdout[..]),
        (Some(0), &b"hello\n"[..]),
        "{}",
        said(&output)
    );
    assert_eq!(
        fs::read_dir(temporary.path().join("noderelay/demo")).unwrap().count(),
        0
    );
    let made: Vec<_> = fs::read_dir(temporary.path())
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_name() != "noderelay")
        .collect();
    assert_eq!(made.len(), 1);
    assert!(
        said(&output).contains(&made[0].path().display().to_string()),
        "{}",
        said(&output)
    );
    assert_eq!(made[0].metadata().unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn logs_appear_when_they_are_asked_for_and_without_colours() {
    let home = tempfile::tempdir().unwrap();
    for (options, info, debug) in [(&[][..], false, false), (&["-v"], true, false), (&["-vv"], true, true)] {
        let output = noderelay(home.path())
            .args(options)
            .args(["demo", "--", "echo", "hello"])
            .output()
            .unwrap();
        let said = said(&output);
        assert_eq!(
            (output.status.code(), &output.stdout[..]),
            (Some(0), &b"hello\n"[..]),
            "{said}"
        );
        assert_eq!(said.contains(": the session is open"), info, "{said}");
        assert_eq!(said.contains("DEBUG"), debug, "{said}");
        assert!(!said.contains('\x1b'), "{said}");
    }
}

#[test]
fn the_version_names_a_commit() {
    let home = tempfile::tempdir().unwrap();
    let output = noderelay(home.path()).arg("--version").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let commit = text
        .split_once("(commit ")
        .and_then(|(_, rest)| rest.split_once(';'))
        .unwrap()
        .0;
    assert!(!commit.is_empty() && !commit.contains(char::is_whitespace), "{text}");
    let in_a_clone = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.git").exists();
    assert_eq!(commit == "unknown", !in_a_clone, "{text}");
}

/// A demo in its folder, ended with the test.
struct Up {
    child: Child,
    home: PathBuf,
    /// The line that is told for the second terminal.
    line: String,
}

impl Up {
    fn start(home: &Path, dir: &str) -> Self {
        let mut child = noderelay(home)
            .args(["demo", "--up", dir])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap())
            .lines()
            .map_while(Result::ok);
        let line = lines.by_ref().find(|line| line.contains("--via-relay local"));
        std::thread::spawn(move || lines.for_each(drop));
        Self {
            child,
            home: home.to_owned(),
            line: line.expect("the demo ended before it served"),
        }
    }

    /// Runs what was told, with more words, as a person would who copies it.
    fn client(&self, words: &str) -> Output {
        let folder = Path::new(env!("CARGO_BIN_EXE_noderelay")).parent().unwrap();
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
        Command::new("/bin/sh")
            .arg("-c")
            .arg(format!("{} {words}", self.line))
            .env("HOME", &self.home)
            .env("PATH", path)
            .current_dir("/")
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }
}

impl Up {
    /// `kill -9`: it can end nothing any more.
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        let id = nix::unistd::Pid::from_raw(self.child.id().try_into().unwrap());
        let _ = nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGINT);
        let _ = self.child.wait();
    }
}

/// The node hears that the exit has arrived: it forgets the session at once, not after its resume window (10 s).
#[test]
fn a_finished_command_leaves_nothing_on_the_node() {
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(home.path(), "up");
    let log = home.path().join("up/logs/agent.log");
    let ended = || {
        let log = fs::read_to_string(&log).unwrap();
        log.lines().filter(|line| line.contains("session.ended")).count()
    };
    for n in 1..=5 {
        let output = up.client("-- true");
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        eventually(
            "the node has ended the session",
            || ended() == n,
            Duration::from_secs(3),
        );
    }
}

#[test]
fn a_running_demo_keeps_its_folder_relative_and_with_spaces() {
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(home.path(), "my demo");
    let second = noderelay(home.path())
        .args(["demo", "--up", "my demo"])
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(1));
    assert!(said(&second).contains("a demo runs in"), "{}", said(&second));
    let output = up.client("-- echo hello");
    assert_eq!(
        (output.status.code(), &output.stdout[..]),
        (Some(0), &b"hello\n"[..]),
        "{}",
        said(&output)
    );
    // What is in effect is a configuration file again.
    let config = home.path().join("my demo/config.yaml");
    let check = |file: &Path| {
        let output = noderelay(home.path())
            .arg("--config")
            .arg(file)
            .arg("check-config")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let written = check(&config);
    assert!(written.contains("keepalive: 15s"), "{written}");
    let again = home.path().join("again.yaml");
    fs::write(&again, &written).unwrap();
    let settings = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(settings(&check(&again)), settings(&written));
    drop(up);
    // After its end the folder may be used again.
    drop(Up::start(home.path(), "my demo"));
}

/// Live processes whose command line holds `mark`.
fn processes_with(mark: &Path) -> Vec<i32> {
    let mark = mark.as_os_str().as_encoded_bytes();
    let holds = |id: &i32| {
        fs::read(format!("/proc/{id}/cmdline")).is_ok_and(|line| line.windows(mark.len()).any(|part| part == mark))
    };
    let ids = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    ids.filter(holds).collect()
}

/// Killed with SIGKILL, also while it starts one of them again, `--up` leaves neither relay nor agent, and its folder can be used again.
#[test]
fn a_killed_demo_takes_relay_and_agent_along() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("up");
    let (relay, agent) = (folder.join("relay/relay.yaml"), folder.join("agent/agent.yaml"));
    let mut up = Up::start(home.path(), "up");
    assert_eq!((processes_with(&relay).len(), processes_with(&agent).len()), (1, 1));
    up.kill();
    let nothing = || processes_with(&relay).is_empty() && processes_with(&agent).is_empty();
    eventually("relay and agent have ended", nothing, Duration::from_secs(30));
    // At once again, without waiting for anything.
    let mut up = Up::start(home.path(), "up");
    let output = up.client("-- echo hello");
    assert_eq!(
        (output.status.code(), &output.stdout[..]),
        (Some(0), &b"hello\n"[..]),
        "{}",
        said(&output)
    );
    // In the middle of a restart.
    let first = processes_with(&relay)[0];
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(first), nix::sys::signal::Signal::SIGKILL).unwrap();
    let again = || processes_with(&relay).first().is_some_and(|now| *now != first);
    eventually("the relay is started again", again, Duration::from_secs(30));
    up.kill();
    let up = Up::start(home.path(), "up");
    let output = up.client("-- echo hello");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    drop(up);
    eventually("relay and agent have ended", nothing, Duration::from_secs(30));
}

#[test]
fn a_file_that_cannot_be_used_is_named() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("no-certificate"), "nothing\n").unwrap();
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    fs::write(home.path().join("broken"), broken).unwrap();
    let cases: [&[&str]; 5] = [
        &["pki", "inspect", "no-certificate"],
        &["pki", "inspect", "broken"],
        &["pki", "inspect", "missing"],
        &["replay", "no-certificate"],
        &["replay", "missing"],
    ];
    for words in cases {
        let output = noderelay(home.path()).args(words).output().unwrap();
        let said = said(&output);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
        assert!(said.contains(words.last().unwrap()), "{words:?}: {said}");
        assert!(!said.contains(".tmp"), "{words:?}: {said}");
    }
}
