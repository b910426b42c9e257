//! Who holds a node, through every order of coming and going.

use proptest::prelude::*;

use super::*;

fn key(node: &str) -> NodeKey {
    NodeKey {
        cluster: ClusterName::parse("demo").unwrap(),
        node: NodeName::parse(node).unwrap(),
    }
}

fn id(n: u8) -> InstanceId {
    InstanceId::new([n; 16])
}

fn clock() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

type Reg = Registry<u32>;

fn attach(registry: &Reg, node: &str, instance: u8, handle: u32) -> (Guard<u32>, Placement<u32>) {
    registry.attach(key(node), id(instance), handle, clock).unwrap()
}

fn active(registry: &Reg, node: &str) -> Option<u32> {
    registry.find(&key(node)).map(|attachment| attachment.handle)
}

#[test]
fn first_come_holds_the_node_and_leaves_a_trace() {
    let registry = Reg::new();
    assert_eq!(active(&registry, "a"), None);
    assert_eq!(registry.departed(&key("a")), None);
    let (guard, placement) = attach(&registry, "a", 1, 10);
    assert!(matches!(placement, Placement::First));
    assert_eq!(guard.standing(), Standing::Active);
    assert_eq!(active(&registry, "a"), Some(10));
    assert_eq!(registry.counts(), Counts { attached: 1, parked: 0 });
    drop(guard);
    assert_eq!(active(&registry, "a"), None);
    assert_eq!(registry.departed(&key("a")), Some(clock()));
    let (_guard, _) = attach(&registry, "a", 2, 11);
    assert_eq!(registry.departed(&key("a")), None);
}

#[test]
fn the_same_instance_takes_over_at_once_and_the_old_link_runs_out() {
    let registry = Reg::new();
    let (first, _) = attach(&registry, "a", 1, 10);
    let (second, placement) = attach(&registry, "a", 1, 11);
    assert!(matches!(placement, Placement::Reconnected { surplus: None }));
    assert_eq!(
        (first.standing(), second.standing()),
        (Standing::Replaced, Standing::Active)
    );
    assert_eq!(active(&registry, "a"), Some(11));
    // A third one closes the first: no agent piles up connections.
    let (third, placement) = attach(&registry, "a", 1, 12);
    assert!(matches!(placement, Placement::Reconnected { surplus: Some(10) }));
    drop(first);
    drop(second);
    assert_eq!(active(&registry, "a"), Some(12));
    drop(third);
    assert_eq!(registry.counts(), Counts::default());
}

#[test]
fn when_the_newer_link_goes_first_the_older_one_of_the_same_instance_serves_again() {
    let registry = Reg::new();
    let (first, _) = attach(&registry, "a", 1, 10);
    let (second, _) = attach(&registry, "a", 1, 11);
    drop(second);
    assert_eq!(active(&registry, "a"), Some(10));
    assert_eq!(first.standing(), Standing::Active);
}

#[tokio::test]
async fn b083_another_instance_waits_and_both_are_listed() {
    let registry = Reg::new();
    let (incumbent, _) = attach(&registry, "a", 1, 10);
    let (mut newcomer, placement) = attach(&registry, "a", 2, 20);
    let Placement::Parked { incumbent: seen } = placement else {
        panic!("{placement:?}")
    };
    assert_eq!((seen.instance, seen.handle), (id(1), 10));
    assert_eq!(newcomer.standing(), Standing::Parked);
    assert_eq!(active(&registry, "a"), Some(10), "sessions never cross to the newcomer");
    let rows: Vec<_> = registry
        .list()
        .into_iter()
        .map(|row| (row.instance, row.parked))
        .collect();
    assert_eq!(rows, [(id(1), false), (id(2), true)]);
    assert_eq!(registry.counts(), Counts { attached: 1, parked: 1 });
    // The newcomer coming again takes its own place and pushes nobody out.
    let (again, _) = attach(&registry, "a", 2, 21);
    assert_eq!(newcomer.changed().await, Standing::Replaced);
    assert_eq!(registry.counts().parked, 1);
    drop(newcomer);
    let mut again = again;
    drop(incumbent);
    assert_eq!(again.changed().await, Standing::Active);
    assert_eq!(active(&registry, "a"), Some(21));
    assert_eq!(registry.counts(), Counts { attached: 1, parked: 0 });
}

#[tokio::test]
async fn b079_a_dead_incumbent_is_replaced_once() {
    let registry = Reg::new();
    let (mut dead, _) = attach(&registry, "a", 1, 10);
    let (mut newcomer, placement) = attach(&registry, "a", 2, 20);
    let Placement::Parked { incumbent } = placement else {
        panic!("{placement:?}")
    };
    assert_eq!(registry.replace(&incumbent, &newcomer), Some(10));
    assert_eq!(newcomer.changed().await, Standing::Active);
    assert_eq!(dead.changed().await, Standing::Replaced);
    assert_eq!(active(&registry, "a"), Some(20));
    assert_eq!(
        registry.replace(&incumbent, &newcomer),
        None,
        "the verdict was about one that is gone"
    );
    drop(dead);
    assert_eq!(
        active(&registry, "a"),
        Some(20),
        "the dead one's guard takes nothing with it"
    );
}

#[test]
fn a_verdict_about_an_earlier_incumbent_changes_nothing() {
    let registry = Reg::new();
    let (first, _) = attach(&registry, "a", 1, 10);
    let (newcomer, placement) = attach(&registry, "a", 2, 20);
    let Placement::Parked { incumbent } = placement else {
        panic!("{placement:?}")
    };
    // The incumbent comes back on a new path while it is probed on the old one.
    let (_back, _) = attach(&registry, "a", 1, 11);
    assert_eq!(registry.replace(&incumbent, &newcomer), None);
    assert_eq!(active(&registry, "a"), Some(11));
    drop(first);
}

#[test]
fn waiting_is_bounded() {
    let registry = Reg::new();
    let (_incumbent, _) = attach(&registry, "a", 0, 0);
    let waiting: Vec<_> = (1..=MAX_PARKED)
        .map(|n| attach(&registry, "a", n as u8, n as u32))
        .collect();
    assert_eq!(registry.attach(key("a"), id(200), 200, clock).unwrap_err(), Crowded);
    assert_eq!(registry.counts().parked, MAX_PARKED);
    drop(waiting);
    assert_eq!(registry.counts().parked, 0);
}

#[test]
fn what_is_remembered_is_bounded() {
    let registry = Reg::new();
    for n in 0..=MAX_DEPARTED {
        drop(attach(&registry, &format!("n{n}"), 1, 0));
    }
    assert_eq!(registry.departed(&key("n0")), None);
    assert_eq!(registry.departed(&key("n1")), Some(clock()));
    let inner = lock(&registry.inner);
    assert_eq!(
        (inner.departed.len(), inner.departures.len()),
        (MAX_DEPARTED, MAX_DEPARTED)
    );
}

#[derive(Debug, Clone)]
enum Step {
    Attach { node: u8, instance: u8 },
    Drop { at: usize },
    Replace { at: usize },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0u8..3, 0u8..4).prop_map(|(node, instance)| Step::Attach { node, instance }),
        2 => any::<usize>().prop_map(|at| Step::Drop { at }),
        1 => any::<usize>().prop_map(|at| Step::Replace { at }),
    ]
}

proptest! {
    #[test]
    fn any_order_of_coming_and_going_leaves_no_trace_and_one_holder(steps in prop::collection::vec(step(), 1..60)) {
        let registry = Reg::new();
        let mut held: Vec<(u8, Guard<u32>, Option<Attachment<u32>>)> = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Attach { node, instance } => {
                    let name = format!("n{node}");
                    if let Ok((guard, placement)) = registry.attach(key(&name), id(instance), number as u32, clock) {
                        let incumbent = match placement {
                            Placement::Parked { incumbent } => Some(incumbent),
                            _ => None,
                        };
                        held.push((node, guard, incumbent));
                    }
                }
                Step::Drop { at } if !held.is_empty() => {
                    held.remove(at % held.len());
                }
                Step::Replace { at } if !held.is_empty() => {
                    let at = at % held.len();
                    if let (_, guard, Some(incumbent)) = &held[at] {
                        registry.replace(incumbent, guard);
                    }
                }
                _ => {}
            }
            // Each node that has an active holder has exactly one, and it is one that still stands.
            let counts = registry.counts();
            let parked = held.iter().filter(|(_, guard, _)| guard.standing() == Standing::Parked).count();
            prop_assert_eq!(counts.parked, parked);
            for node in 0u8..3 {
                let actives = held.iter().filter(|(n, guard, _)| *n == node && guard.standing() == Standing::Active).count();
                prop_assert_eq!(actives, usize::from(active(&registry, &format!("n{node}")).is_some()));
            }
        }
        drop(held);
        prop_assert_eq!(registry.counts(), Counts::default());
        prop_assert!(registry.list().is_empty());
    }
}
