//! Publications that a node must not take: on a running agent and on one that starts again, sessions go on being decided by
//! the last good one, and the log says what is wrong with the new one.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use netsim_tests::fleet::Fleet;
use netsim_tests::forge::Forge;
use netsim_tests::process::{Bounded as _, eventually, program};
use netsim_tests::told::Told;
use noderelay_bundle::signing::SigningKey;

const STAYS: &str = "the last good one stays in force";
const IS: &str = "the last good one is in force";

fn noderelay(words: &[&str], paths: &[&Path]) -> String {
    let output = Command::new(program("noderelay")).args(words).args(paths).bounded();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A serving fleet whose policies need the signatures of two persons, with their keys.
fn of_two_signers() -> (Fleet, [SigningKey; 2]) {
    let fleet = Fleet::serving();
    let (policy, first) = (fleet.layout.policy(), fleet.layout.signing_key());
    let second = first.with_file_name("second");
    let shown = noderelay(&["key", "create"], &[&second]);
    let public = shown.lines().next().unwrap();
    let roles = policy.join("roles.yaml");
    let text = fs::read_to_string(&roles).unwrap();
    let (before, after) = text
        .split_once("targets:\n  threshold: 1\n  keys:\n")
        .expect("the signers of the policy");
    fs::write(
        &roles,
        format!("{before}targets:\n  threshold: 2\n  keys:\n  - {public}\n{after}"),
    )
    .unwrap();
    fleet.repolicy_by(&[&first, &second], |policy| {
        let nodes = policy.join("nodes.yaml");
        let text = fs::read_to_string(&nodes).unwrap();
        fs::write(&nodes, text + "# Two signers from here on.\n").unwrap();
    });
    let keys = [first, second].map(|file| SigningKey::load(&file).unwrap());
    (fleet, keys)
}

/// A session that is open already.
fn open(fleet: &Fleet) -> Child {
    fleet.begin(&[], "echo begun; cat > /dev/null", Stdio::piped())
}

/// The agent's log from here on.
fn log_after(fleet: &Fleet, at: usize) -> String {
    fs::read_to_string(fleet.layout.log("agent")).unwrap().split_off(at)
}

/// Each kind of bad publication, offered to a running agent and to a restarted one.
#[test]
fn a_bad_publication_leaves_the_last_good_one_in_force() {
    let (mut fleet, [first, second]) = of_two_signers();
    let in_force = Told::of(fleet.client(), &["true"]);
    in_force.assert_exit(0);
    let version = in_force.status["policy_version"].as_u64().unwrap();
    let forge = Forge::new(&fleet.layout.published(), &fleet.layout.signing_key());
    let stranger = fleet.layout.signing_key().with_file_name("stranger");
    noderelay(&["key", "create"], &[&stranger]);
    let stranger = SigningKey::load(&stranger).unwrap();
    let timestamp = fleet.layout.published().join("metadata/timestamp.json");
    let good = fs::read(&timestamp).unwrap();

    type Kind<'a> = (&'a str, &'a dyn Fn(), &'a [&'a str]);
    let both = [&first, &second];
    let kinds: &[Kind<'_>] = &[
        (
            "unsigned",
            &|| forge.next(|_| (), &[]),
            &["targets document", "not signed by any key"],
        ),
        (
            "by a stranger",
            &|| forge.next(|_| (), &[&stranger]),
            &["targets document", "not signed by any key"],
        ),
        (
            "below the threshold",
            &|| forge.next(|_| (), &[&first]),
            &["signed by 1 of the 2 keys"],
        ),
        (
            "by one person twice",
            &|| forge.next(|_| (), &[&first, &first]),
            &["lists one signing key twice"],
        ),
        (
            "expired",
            &|| {
                forge.next(
                    |targets| {
                        targets["issued"] = "2026-01-01T00:00:00Z".into();
                        targets["expires"] = "2026-01-02T00:00:00Z".into();
                    },
                    &both,
                );
            },
            &["targets document expired at 2026-01-02T00:00:00Z"],
        ),
        (
            "a policy that does not parse",
            &|| {
                forge.next(
                    |targets| forge.put(targets, "policies/demo.cedar", b"permit (principal, action"),
                    &both,
                )
            },
            &["demo.cedar"],
        ),
        (
            "changed after it was signed",
            &|| {
                let text = String::from_utf8(good.clone()).unwrap();
                let (head, tail) = text.rsplit_once("\"version\":").unwrap();
                fs::write(&timestamp, format!("{head}\"version\":9{tail}")).unwrap();
            },
            &["timestamp document", "not signed by any key"],
        ),
    ];
    for (kind, offer, words) in kinds {
        let from = fs::metadata(fleet.layout.log("agent")).unwrap().len() as usize;
        let before = open(&fleet);
        offer();
        // It may look while the files are being written, and say that first.
        eventually(&format!("{kind}: the running agent says {words:?}"), || {
            let log = log_after(&fleet, from);
            log.contains(STAYS) && words.iter().all(|word| log.contains(word))
        });
        let decided = Told::of(fleet.client(), &["true"]);
        decided.assert_exit(0);
        assert_eq!(decided.status["policy_version"], version, "{kind}");
        assert_eq!(
            before.bounded().status.code(),
            Some(0),
            "{kind}: the open session went on"
        );

        let from = fs::metadata(fleet.layout.log("agent")).unwrap().len() as usize;
        fleet.agent.take().unwrap().kill();
        fleet.start_agent();
        let log = log_after(&fleet, from);
        assert!(log.contains(IS), "{kind}: the restarted agent says\n{log}");
        assert!(
            words.iter().all(|word| log.contains(word)),
            "{kind}: {words:?} are not in\n{log}"
        );
        eventually("the restarted agent is reached", || {
            fleet.run(&["true"]).status.success()
        });
        let decided = Told::of(fleet.client(), &["true"]);
        assert_eq!(decided.status["policy_version"], version, "{kind}, restarted");
        fs::write(&timestamp, &good).unwrap();
    }
}

/// A publication that expires while it is in force permits nothing new, also after a restart; what is open goes on.
#[test]
fn a_publication_that_expires_permits_nothing_new() {
    let mut fleet = Fleet::serving();
    let roles = fleet.layout.policy().join("roles.yaml");
    let text = fs::read_to_string(&roles).unwrap();
    assert!(text.contains("targets: 90d"), "{text}");
    fs::write(&roles, text.replace("targets: 90d", "targets: 4s")).unwrap();
    fleet.repolicy("shells and run commands", "shells and commands");
    let before = open(&fleet);
    eventually("the publication has expired", || {
        Told::of(fleet.client(), &["true"]).status["code"] == "bundle.expired"
    });
    let recorded = fleet.recordings().len();
    Told::of(fleet.client(), &["true"]).assert_refused("bundle.expired");
    assert_eq!(before.bounded().status.code(), Some(0), "the open session went on");
    fleet.agent.take().unwrap().kill();
    fleet.start_agent();
    eventually("the restarted agent is reached", || {
        Told::of(fleet.client(), &["true"]).status["code"] == "bundle.expired"
    });
    assert_eq!(fleet.recordings().len(), recorded, "nothing was started");
    // A newer one opens the node again.
    let text = fs::read_to_string(&roles).unwrap();
    fs::write(&roles, text.replace("targets: 4s", "targets: 90d")).unwrap();
    fleet.repolicy("shells and commands", "shells and run commands");
    Told::of(fleet.client(), &["true"]).assert_exit(0);
}
