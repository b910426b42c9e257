//! Questions to running services: readiness, metrics, who is there, and more lines in the log for a while.

use std::path::PathBuf;
use std::process::Stdio;

use netsim_tests::admin::{ask, value};
use netsim_tests::fleet::Fleet;
use netsim_tests::process::{Bounded as _, eventually};
use netsim_tests::told::Told;

/// A fleet whose services can be asked, and their sockets.
fn asked() -> (Fleet, PathBuf, PathBuf) {
    let mut fleet = Fleet::files("");
    let sockets = fleet.with_admin();
    fleet.start_relay();
    fleet.start_agent();
    let [relay, agent] = sockets;
    (fleet, relay, agent)
}

#[test]
fn an_agent_says_whether_it_can_be_reached_who_is_there_and_what_it_refused() {
    let (mut fleet, relay, agent) = asked();
    assert_eq!(ask(&relay, "GET /readyz", "").0, 200);
    assert_eq!(
        ask(&agent, "GET /readyz", ""),
        (200, "bundle: ok\nidentity: ok\nrelay: ok\n".into())
    );
    assert_eq!(value(&agent, "noderelay_agent_relays_attached"), Some(1));
    assert_eq!(value(&relay, "noderelay_relay_agents_attached"), Some(1));
    assert!(ask(&relay, "GET /agents", "").1.contains("\"node\": \"local\""));

    let client = fleet.begin(
        &["--reason", "odd \u{202e}reason"],
        "echo begun; read x",
        Stdio::piped(),
    );
    let (_, sessions) = ask(&agent, "GET /sessions", "");
    let rows: serde_json::Value = serde_json::from_str(&sessions).unwrap();
    assert_eq!(rows[0]["reason"], "odd \u{202e}reason", "{sessions}");
    assert!(
        rows[0]["principal"].as_str().unwrap().ends_with("/user/tester"),
        "{sessions}"
    );
    assert!(!sessions.contains('\u{202e}'), "{sessions:?}");
    assert_eq!(value(&agent, "noderelay_agent_sessions_open"), Some(1));
    drop(client.bounded());
    let ended = "noderelay_agent_sessions_ended_total{code=\"ok\"}";
    eventually("its end is counted", || value(&agent, ended) == Some(1));
    assert_eq!(value(&agent, "noderelay_agent_sessions_started_total"), Some(1));
    assert_eq!(ask(&agent, "GET /sessions", "").1, "[]\n");

    let profile = ["--profile", "other", "local", "--", "true"];
    let refused = fleet.client().args(profile).bounded();
    assert_eq!(refused.status.code(), Some(255));
    let denied = value(&agent, "noderelay_agent_denied_total{code=\"policy.profile\"}");
    assert_eq!(denied, Some(1), "{}", String::from_utf8_lossy(&refused.stderr));

    fleet.relay.take().unwrap().kill();
    eventually("nobody routes to it", || ask(&agent, "GET /readyz", "").0 == 503);
    assert!(
        ask(&agent, "GET /readyz", "")
            .1
            .contains("relay: no relay routes to this node")
    );
}

#[test]
fn a_log_says_more_for_a_while_and_keeps_its_evidence() {
    let (fleet, relay, agent) = asked();
    let debug = |logs: &str| logs.lines().filter(|line| line.contains(" DEBUG ")).count();
    assert_eq!(debug(&fleet.logs()), 0);
    for socket in [&relay, &agent] {
        assert_eq!(ask(socket, "GET /log", ""), (200, "info\n".into()));
    }
    assert_eq!(
        ask(&relay, "PUT /log?for=1h", "noderelay_relay=debug"),
        (200, "noderelay_relay=debug\n".into())
    );
    Told::of(fleet.client(), &["true"]).assert_exit(0);
    eventually("the log says more", || debug(&fleet.logs()) > 0);
    // A directive for the events' own fields is the most exact one there is.
    assert_eq!(ask(&agent, "PUT /log?for=1h", "off,audit[{event}]=off").0, 200);
    let events = |logs: &str| logs.matches("\"event\":\"session.started\"").count();
    let before = events(&fleet.logs().replace("\\\"", "\""));
    Told::of(fleet.client(), &["true"]).assert_exit(0);
    eventually("the audit event is there", || {
        events(&fleet.logs().replace("\\\"", "\"")) > before
    });
    assert_eq!(ask(&agent, "DELETE /log", ""), (200, "info\n".into()));
    assert_eq!(ask(&agent, "PUT /log", "noderelay_agent=verbose").0, 400);
}
