//! Which nodes are remembered, and when a leg is made: pure, with the time as an argument.

use std::time::Duration;

use noderelay_proto::code::{Code, Origin};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{NODES, PAUSE_MAX, PAUSE_MIN, RECENT, REFUSED, Standbys, Target};
use crate::faults::Fault;
use crate::testing::Fleet;

fn target(fleet: &Fleet, name: &str) -> Target {
    Target {
        node: name.parse().unwrap(),
        cluster: fleet.cluster.clone(),
        identity: fleet.node(name),
    }
}

fn names(targets: &[Target]) -> Vec<&str> {
    targets.iter().map(|target| target.node.as_str()).collect()
}

#[test]
fn few_nodes_are_remembered_and_the_one_used_last_stays() {
    let (fleet, now) = (Fleet::new(), Instant::now());
    let mut standbys = Standbys::default();
    for number in 0..NODES {
        standbys.used(&target(&fleet, &format!("n{number}")), now);
    }
    standbys.used(&target(&fleet, "n0"), now);
    standbys.used(&target(&fleet, "another"), now);
    let known: Vec<&str> = standbys.nodes.iter().map(|node| node.target.node.as_str()).collect();
    assert_eq!(known.len(), NODES);
    assert!(known.contains(&"n0") && !known.contains(&"n1"), "{known:?}");
    assert_eq!(standbys.nodes[NODES - 2].uses, 2);
}

/// The longest wait that the random number allows.
const LONGEST: f64 = 1.0;

fn longest() -> f64 {
    LONGEST
}

#[test]
fn a_leg_is_made_once_while_the_node_is_recent_and_given_once() {
    let (fleet, now) = (Fleet::new(), Instant::now());
    let node = target(&fleet, "gpu-7");
    let mut standbys = Standbys::default();
    assert!(standbys.due(now, longest).is_empty());
    standbys.used(&node, now);
    assert_eq!(names(&standbys.due(now, longest)), ["gpu-7"]);
    assert!(standbys.due(now, longest).is_empty(), "it is being made");
    let (held, mut taken) = oneshot::channel();
    standbys.made(&node, Ok((held, "r1".into())), now, LONGEST);
    assert!(standbys.nodes[0].stands_by() && standbys.due(now, longest).is_empty());
    assert_eq!(standbys.relay(&node).as_deref(), Some("r1"));
    assert!(standbys.take(&node, now).is_some() && taken.try_recv().is_ok());
    assert!(standbys.take(&node, now).is_none());
    assert_eq!(names(&standbys.due(now, longest)), ["gpu-7"], "the next one, at once");
    // One that ended is no leg any more.
    let (held, taken) = oneshot::channel();
    standbys.made(&node, Ok((held, "r1".into())), now, LONGEST);
    drop(taken);
    assert!(!standbys.nodes[0].stands_by());
    assert!(standbys.take(&node, now).is_none());
    assert!(standbys.due(now + RECENT, longest).is_empty(), "not asked for any more");
}

#[test]
fn a_leg_that_ends_by_itself_is_made_again_after_a_pause_that_grows_and_varies() {
    let (fleet, mut now) = (Fleet::new(), Instant::now());
    let node = target(&fleet, "gpu-7");
    let mut standbys = Standbys::default();
    standbys.used(&node, now);
    assert_eq!(standbys.due(now, longest).len(), 1);
    let mut end_after = |lived: Duration, random: f64| {
        standbys.used(&node, now);
        let (held, taken) = oneshot::channel();
        standbys.made(&node, Ok((held, "r1".into())), now, random);
        drop(taken);
        now += lived;
        let begun = now;
        while standbys.due(now, || random).is_empty() {
            now += Duration::from_millis(100);
            assert!(now - begun <= PAUSE_MAX, "never");
        }
        now - begun
    };
    let moment = Duration::from_millis(10);
    assert_eq!(end_after(moment, LONGEST), PAUSE_MIN);
    assert_eq!(end_after(moment, LONGEST), PAUSE_MIN * 2);
    assert_eq!(end_after(moment, 0.5), PAUSE_MIN * 2, "half of what it could be");
    for _ in 0..4 {
        end_after(moment, LONGEST);
    }
    assert_eq!(end_after(moment, LONGEST), PAUSE_MAX);
    // One that lived for long is no sign of trouble.
    assert_eq!(end_after(Duration::from_secs(60), LONGEST), PAUSE_MIN);
}

#[test]
fn after_a_failure_the_node_is_left_alone_for_a_while() {
    let (fleet, now) = (Fleet::new(), Instant::now());
    let node = target(&fleet, "gpu-7");
    let lost = Fault::on_the_way(Code::TransportLost, "lost");
    for (fault, rest) in [
        (lost, Duration::ZERO),
        (Fault::new(Code::AgentStandby, Origin::Agent, "full"), REFUSED),
        (Fault::new(Code::IdentityUnknownCa, Origin::Agent, "who?"), REFUSED),
    ] {
        let mut standbys = Standbys::default();
        standbys.used(&node, now);
        standbys.due(now, longest);
        standbys.made(&node, Err(fault), now, LONGEST);
        assert!(!standbys.nodes[0].seen.is_empty());
        let again = now + rest + PAUSE_MIN;
        assert!(standbys.due(again - Duration::from_millis(1), longest).is_empty());
        assert_eq!(names(&standbys.due(again, longest)), ["gpu-7"]);
    }
    // Nothing leads there: that is no failure of the node's.
    let mut standbys = Standbys::default();
    standbys.used(&node, now);
    standbys.due(now, longest);
    standbys.not_now(&node, "no relay", now);
    assert_eq!(standbys.nodes[0].seen, "no relay");
    assert_eq!(names(&standbys.due(now, longest)), ["gpu-7"]);
}
