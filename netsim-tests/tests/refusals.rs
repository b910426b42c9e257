//! What is refused, by whom, and what the operator is told.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use netsim_tests::fleet::{Fleet, edit};
use netsim_tests::process::{Bounded as _, eventually, program};

const HOUR: Duration = Duration::from_secs(3600);

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn id_of(mut client: Command) -> Output {
    client.args(["local", "--", "id"]).bounded()
}

#[track_caller]
fn assert_refused(output: &Output, words: &[&str]) {
    assert_eq!(output.status.code(), Some(255), "{}", said(output));
    assert!(output.stdout.is_empty());
    for word in words {
        assert!(said(output).contains(word), "{word:?} is not said:\n{}", said(output));
    }
}

/// A person without a rule is denied, and told which part is missing and what was seen.
#[test]
fn default_deny_names_the_missing_part() {
    let fleet = Fleet::serving();
    let outsider = fleet.client_as(&fleet.layout.ca(), "outsider", &[], HOUR);
    assert_refused(&id_of(outsider), &["policy.denied", "outsider", "no rule permits it"]);
    let mut other_profile = fleet.client();
    other_profile.args(["--profile", "root"]);
    assert_refused(&id_of(other_profile), &["policy.profile", "login"]);
    let mut other_account = fleet.client();
    other_account.args(["-l", "somebody-else"]);
    assert_refused(&id_of(other_account), &["shell.no_account", "somebody-else"]);
    assert!(fleet.recordings().is_empty(), "nothing was started");
}

/// A node that is not the one that was asked for can't stand in for it: an agent whose certificate names another node is
/// not routed to, and nothing falls back to it.
#[test]
fn only_the_node_that_was_asked_for_answers() {
    let fleet = Fleet::serving();
    let output = fleet.client().args(["other-node", "--", "id"]).bounded();
    assert_refused(&output, &["relay.no_such_node"]);
}

/// A client that was refused leaves no connection behind at the relay, which would count it among those of its person: trying again
/// and again, as one does while a node is away, is never answered with a quota.
#[test]
fn who_is_refused_leaves_nothing_behind() {
    let mut fleet = Fleet::files("");
    edit(&fleet.layout.relay(), |text| {
        text + "limits: {connections_per_person: 2}\n"
    });
    fleet.start_relay();
    eventually("the relay answers", || {
        said(&id_of(fleet.client())).contains("relay.no_such_node")
    });
    for _ in 0..4 {
        assert_refused(&id_of(fleet.client()), &["relay.no_such_node"]);
        let doctor = fleet.plain().args(["doctor", "local"]).bounded();
        let findings = String::from_utf8_lossy(&doctor.stdout);
        assert!(findings.contains("relay.no_such_node"), "{findings}");
    }
}

/// A policy that does not parse is refused where it is signed, and would be refused on the node.
#[test]
fn a_policy_that_does_not_parse_is_not_signed() {
    let fleet = Fleet::files("");
    std::fs::write(
        fleet.layout.policy().join("policies/demo.cedar"),
        "permit (principal, action",
    )
    .unwrap();
    let output = Command::new(program("noderelay"))
        .args(["policy", "sign"])
        .arg(fleet.layout.policy())
        .arg("--key")
        .arg(fleet.layout.signing_key())
        .bounded();
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("demo.cedar"), "{}", said(&output));
}

/// A new policy ends what it no longer permits, with a code of its own, and the next attempt is denied.
#[test]
fn a_policy_that_takes_the_right_away_ends_the_session() {
    let fleet = Fleet::serving();
    let mut open = fleet.client();
    open.args(["local", "--", "sh", "-c", "echo begun; sleep 600"])
        .stdin(Stdio::null());
    let mut open = open.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 6];
    netsim_tests::process::read_within(open.stdout.as_mut().unwrap(), &mut first);
    fleet.republish(|policy| {
        let file = policy.join("policies/demo.cedar");
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace("demo-operators", "nobody-at-all")).unwrap();
    });
    let ended = open.bounded();
    assert_eq!(ended.status.code(), Some(255), "{}", said(&ended));
    assert!(said(&ended).contains("session.policy"), "{}", said(&ended));
    assert_refused(&id_of(fleet.client()), &["policy.denied"]);
}
