//! What each end of a session gives: exit code, status, words.

use std::time::Duration;

use noderelay_proto::code::{Code, Origin};
use noderelay_proto::control::Opened;

use super::ending::{ended, message_lines};
use super::{Outcome, PathChoice, SessionOptions, banner, run_session};
use crate::exit::Remote;
use crate::faults::Fault;
use crate::pump::Ended;
use crate::signals::Caught;
use crate::status::Status;
use crate::testing::terms;

fn opened() -> Opened {
    terms("gpu-7", "demo")
}

fn outcome(end: &Ended) -> (Status, String) {
    let options = SessionOptions::shell("gpu-7");
    let mut status = Status::new("gpu-7");
    let message = ended(end, Duration::from_secs(30 * 60), &options, &mut status);
    let lines = message
        .map(|message| message_lines(&message, &status))
        .unwrap_or_default();
    (status, lines)
}

#[test]
fn b006_only_an_exit_of_the_remote_command_can_be_0() {
    let (status, lines) = outcome(&Ended::Exit(Remote::Code(0)));
    assert_eq!(
        (status.exit_code, status.origin, status.code, lines.as_str()),
        (0, "remote", "ok", "")
    );
    let lost = Fault::on_the_way(Code::TransportLost, "the relay was not heard any more");
    let final_fault = Fault::new(Code::SessionRevoked, Origin::Agent, "revoked");
    for end in [
        Ended::Fault(lost),
        Ended::Closed(final_fault),
        Ended::Left,
        Ended::Signalled(Caught::Term),
        Ended::OutputClosed,
        Ended::Fault(Fault::new(Code::ProtocolMalformed, Origin::Client, "x")),
        Ended::Closed(Fault::new(Code::Ok, Origin::Agent, "")),
    ] {
        let (status, _) = outcome(&end);
        assert_eq!(status.exit_code, 255, "{end:?}");
        assert_ne!(status.origin, "remote");
    }
}

#[test]
fn b006_a_lost_path_is_told_with_what_becomes_of_the_command() {
    let (status, lines) = outcome(&Ended::Fault(Fault::on_the_way(
        Code::TransportTimeout,
        "the relay was not heard any more.",
    )));
    assert_eq!(status.code, "transport.timeout");
    assert!(
        lines.starts_with(
            "noderelay: transport.timeout: the relay was not heard any more; the node hangs the \
        command up after 30 min\n"
        ),
        "{lines}"
    );
}

#[test]
fn b008_a_signal_is_noted_and_a_remote_255_is_told_from_ours() {
    let (status, lines) = outcome(&Ended::Exit(Remote::Signal {
        number: 11,
        core: false,
    }));
    assert_eq!(
        (status.exit_code, status.signal, status.origin),
        (139, Some(11), "remote")
    );
    assert_eq!(lines, "noderelay: the command was ended by signal 11 (SEGV)\n");
    let (remote, lines) = outcome(&Ended::Exit(Remote::Code(255)));
    assert_eq!((remote.exit_code, remote.origin, lines.as_str()), (255, "remote", ""));
    let (ours, lines) = outcome(&Ended::Fault(Fault::on_the_way(Code::TransportLost, "x")));
    assert_eq!((ours.exit_code, ours.origin), (255, "client"));
    assert!(!lines.is_empty());
}

#[test]
fn the_banner_says_where_by_which_way_and_until_when() {
    let mut opened = opened();
    opened.deadline_unix = Some(1_000 + 3600);
    opened.idle_secs = Some(600);
    opened.demo = true;
    opened.account = "\x1b[31mroot".into();
    let line = banner::line(&opened, "r1", jiff::Timestamp::from_second(1_000).unwrap());
    for part in [
        "node gpu-7 (cluster demo)",
        "through relay r1",
        "policy version 3",
        "recorded",
        "60 min left",
        "after 10 min without use",
        "DEMO OR ONE SIGNER",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert!(!line.contains('\x1b') && line.ends_with('\n') && line.lines().count() == 1);
}

async fn run(change: impl FnOnce(&mut SessionOptions, &std::path::Path)) -> (Outcome, serde_json::Value) {
    let folder = tempfile::tempdir().unwrap();
    let mut options = SessionOptions::shell("gpu-7");
    let status = folder.path().join("status.json");
    options.status = Some(status.clone());
    options.config = Some(folder.path().join("config.yaml")).into();
    change(&mut options, folder.path());
    let outcome = run_session(options).await;
    let text = std::fs::read_to_string(&status).unwrap();
    (outcome, serde_json::from_str(&text).unwrap())
}

fn small_config(folder: &std::path::Path) {
    std::fs::write(
        folder.join("config.yaml"),
        "identity: {certificate: c.pem, key: k.pem}\nbundle: b\nstate: s\n",
    )
    .unwrap();
}

#[tokio::test]
async fn without_a_configuration_the_status_says_so() {
    let (outcome, status) = run(|_, _| ()).await;
    assert_eq!(outcome.exit_code(), 255);
    assert_eq!(
        (status["code"].as_str(), status["origin"].as_str()),
        (Some("client.config"), Some("client"))
    );
    assert_eq!(status["node"], "gpu-7");
}

#[tokio::test]
async fn without_a_certificate_the_status_says_so() {
    let (outcome, status) = run(|_, folder| small_config(folder)).await;
    assert_eq!(status["code"], "client.identity");
    assert!(outcome.message.unwrap().fix.contains("noderelay pki issue"));
}

#[tokio::test]
async fn the_path_that_is_not_built_in_names_the_one_that_is() {
    for path in [PathChoice::Api, PathChoice::Auto, PathChoice::Direct] {
        let (outcome, status) = run(|options, folder| {
            small_config(folder);
            options.path = path;
        })
        .await;
        assert_eq!(status["code"], "client.unsupported");
        assert!(outcome.message.unwrap().lines("\n").contains("--via-relay"));
    }
}
