//! Which nodes are remembered, and when a leg is made: pure, with the time as an argument.

use std::time::Duration;

use noderelay_proto::code::{Code, Origin};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{NODES, PAUSE, RECENT, REFUSED, Standbys, Target};
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

#[test]
fn a_leg_is_made_once_while_the_node_is_recent_and_given_once() {
    let (fleet, now) = (Fleet::new(), Instant::now());
    let node = target(&fleet, "gpu-7");
    let mut standbys = Standbys::default();
    assert!(standbys.due(now).is_empty());
    standbys.used(&node, now);
    assert_eq!(names(&standbys.due(now)), ["gpu-7"]);
    assert!(standbys.due(now).is_empty(), "it is being made");
    let (held, mut taken) = oneshot::channel();
    standbys.made(&node, Ok((held, "r1".into())), now);
    assert!(standbys.nodes[0].stands_by() && standbys.due(now).is_empty());
    assert_eq!(standbys.relay(&node).as_deref(), Some("r1"));
    assert!(standbys.take(&node).is_some() && taken.try_recv().is_ok());
    assert!(standbys.take(&node).is_none());
    assert_eq!(names(&standbys.due(now)), ["gpu-7"], "the next one");
    // One that ended is no leg any more.
    let (held, taken) = oneshot::channel();
    standbys.made(&node, Ok((held, "r1".into())), now);
    drop(taken);
    assert!(!standbys.nodes[0].stands_by());
    assert!(standbys.take(&node).is_none());
    assert!(standbys.due(now + RECENT).is_empty(), "not asked for any more");
}

#[test]
fn after_a_failure_the_node_is_left_alone_for_a_while() {
    let (fleet, now) = (Fleet::new(), Instant::now());
    let node = target(&fleet, "gpu-7");
    let lost = Fault::on_the_way(Code::TransportLost, "lost");
    for (fault, pause) in [
        (lost, PAUSE),
        (Fault::new(Code::AgentStandby, Origin::Agent, "full"), REFUSED),
        (Fault::new(Code::IdentityUnknownCa, Origin::Agent, "who?"), REFUSED),
    ] {
        let mut standbys = Standbys::default();
        standbys.used(&node, now);
        standbys.due(now);
        standbys.made(&node, Err(fault), now);
        assert!(!standbys.nodes[0].seen.is_empty());
        assert!(standbys.due(now + pause - Duration::from_millis(1)).is_empty());
        assert_eq!(names(&standbys.due(now + pause)), ["gpu-7"]);
    }
}
