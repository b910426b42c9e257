//! The program `noderelay-relay` as a process.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Output, Stdio};

use super::common::*;

const PROGRAM: &str = env!("CARGO_BIN_EXE_noderelay-relay");

fn program(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).output().unwrap()
}

/// Ends the process when the test fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn version_names_commit_and_protocol() {
    let output = program(&["--version"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success() && text.starts_with("noderelay-relay 0."),
        "{text}"
    );
    assert!(text.contains("commit ") && text.contains("noderelay/1"), "{text}");
    // Told to the build or not, a build from a repository knows its commit.
    let git = Command::new("git").args(["rev-parse", "--short", "HEAD"]).output();
    if git.is_ok_and(|git| git.status.success()) {
        assert!(!text.contains("commit unknown"), "{text}");
    }
}

#[test]
fn help_says_what_goes_to_stdout() {
    let text = String::from_utf8(program(&["--help"]).stdout).unwrap();
    assert!(text.contains("ready ADDRESS"), "{text}");
}

#[tokio::test]
async fn check_config_prints_what_is_in_effect_and_says_what_is_wrong() {
    let fleet = Fleet::new();
    let path = fleet.path("relay.yaml");
    let text = serde_saphyr::to_string(&fleet.config("")).unwrap();
    std::fs::write(&path, &text).unwrap();
    let path = path.to_str().unwrap();
    let output = program(&["check-config", "--config", path]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), text);
    std::fs::write(path, text + "surprise: true\n").unwrap();
    let output = program(&["check-config", "--config", path]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        errors.starts_with("noderelay-relay: ") && errors.contains("surprise") && errors.contains(path),
        "{errors}"
    );
    assert_eq!(program(&["--surprise"]).status.code(), Some(2));
}

#[tokio::test]
async fn without_identity_bundle_or_the_right_role_it_does_not_start_and_says_why() {
    let fleet = Fleet::new();
    let path = fleet.path("relay.yaml");
    std::fs::write(&path, serde_saphyr::to_string(&fleet.config("")).unwrap()).unwrap();
    let path = path.to_str().unwrap();
    let fails = || {
        let output = program(&["--config", path]);
        assert_eq!(output.status.code(), Some(1));
        let errors = String::from_utf8(output.stderr).unwrap();
        errors.lines().last().unwrap().to_owned()
    };
    let text = fails();
    assert!(
        text.starts_with("noderelay-relay: identity: ") && text.contains("relay.key"),
        "{text}"
    );
    fleet.write_identity("home", node("worker-1"));
    let text = fails();
    assert!(
        text.contains("spiffe://fleet.example/cluster/home/node/worker-1 is no relay"),
        "{text}"
    );
    fleet.write_identity("home", relay_role("relay-1"));
    let text = fails();
    assert!(text.starts_with("noderelay-relay: bundle: "), "{text}");
    let other = Fleet::in_domain("other.example");
    fleet.publisher.publish(&other.file()).await;
    let text = fails();
    assert!(text.contains("it is for trust domain other.example"), "{text}");
}

#[tokio::test]
async fn it_serves_until_sigterm_and_then_drains() {
    let fleet = Fleet::new();
    fleet.write_identity("home", relay_role("relay-1"));
    fleet.publish().await;
    let config = serde_saphyr::to_string(&fleet.config("timing: { drain: 10s }\n")).unwrap();
    std::fs::write(fleet.path("relay.yaml"), config).unwrap();
    let child = Command::new(PROGRAM)
        .args(["--log-format", "json", "--config"])
        .arg(fleet.path("relay.yaml"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut running = Running(child);
    let mut log = BufReader::new(running.0.stderr.take().unwrap());
    let (mut effective, mut line) = (false, String::new());
    let address: std::net::SocketAddr = loop {
        line.clear();
        assert!(log.read_line(&mut line).unwrap() > 0, "the relay ended");
        let event: serde_json::Value = serde_json::from_str(&line).unwrap();
        effective |= event["message"] == "effective configuration";
        if event["message"] == "relay ready" {
            break event["address"].as_str().unwrap().parse().unwrap();
        }
    };
    assert!(effective, "the configuration in effect is logged at the start");
    let mut said = BufReader::new(running.0.stdout.take().unwrap());
    line.clear();
    said.read_line(&mut line).unwrap();
    assert_eq!(line, format!("ready {address}\n"));
    let relay = fleet.path("admin.sock");
    assert!(ask(&relay, "/readyz").await.starts_with("HTTP/1.1 200"));
    let client = Client {
        link: dial(fleet.party("home", user("ann")), address, false).await,
    };
    assert_eq!(
        client.refusal(&header("home", "worker-1")).await,
        noderelay_proto::Code::RelayNoSuchNode
    );
    let pid = running.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(
        close_code(&client.link.connection).await,
        noderelay_proto::Code::RelayDraining
    );
    let mut rest = String::new();
    tokio::task::spawn_blocking(move || log.read_to_string(&mut rest).map(|_| rest))
        .await
        .unwrap()
        .unwrap();
    assert!(running.0.wait().unwrap().success());
    assert!(!relay.exists(), "the admin socket goes with the process");
}

/// One end of a connection that takes no byte more, with the other end.
fn full() -> (UnixStream, UnixStream) {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    while ours.write(&[0; 4096]).is_ok() {}
    while ours.write(&[0]).is_ok() {}
    ours.set_nonblocking(false).unwrap();
    (ours, theirs)
}

#[tokio::test]
async fn a_stdout_that_is_full_or_closed_holds_nothing_up() {
    let fleet = Fleet::new();
    fleet.write_identity("home", relay_role("relay-1"));
    fleet.publish().await;
    let config = serde_saphyr::to_string(&fleet.config("")).unwrap();
    std::fs::write(fleet.path("relay.yaml"), config).unwrap();
    let (stuck, reader) = full();
    let (closed, other) = UnixStream::pair().unwrap();
    drop(other);
    for stdout in [stuck, closed] {
        let child = Command::new(PROGRAM)
            .args(["--log-format", "json", "--config"])
            .arg(fleet.path("relay.yaml"))
            .stdout(OwnedFd::from(stdout))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut running = Running(child);
        let mut log = BufReader::new(running.0.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("relay ready") {
            line.clear();
            assert!(log.read_line(&mut line).unwrap() > 0, "the relay ended");
        }
        let admin = fleet.path("admin.sock");
        let answer = soon("an answer", ask(&admin, "/readyz")).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let pid = running.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        let ended = tokio::task::spawn_blocking(move || {
            std::io::copy(&mut log, &mut std::io::sink()).unwrap();
            running.0.wait().unwrap()
        });
        assert!(soon("its end", ended).await.unwrap().success());
    }
    drop(reader);
}
