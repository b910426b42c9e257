//! Which addresses are dialled, and when again.

use std::time::Duration;

use super::*;
use crate::testing::Fleet;

const SECOND: Duration = Duration::from_secs(1);

fn named(fleet: &Fleet, doors: &[(&str, &str)]) -> Doors {
    let this = |name: &str| Expect::ThisRelay {
        identity: fleet.relay(name),
        key: None,
    };
    Doors::new(doors.iter().map(|(at, name)| ((*at).to_owned(), this(name))).collect())
}

fn by_hand(doors: &[&str]) -> Doors {
    let any = Expect::Relay { cluster: None };
    Doors::new(doors.iter().map(|at| ((*at).to_owned(), any.clone())).collect())
}

fn open(doors: &Doors, now: Instant) -> Vec<String> {
    doors.open(now).into_iter().map(|(address, _)| address).collect()
}

#[test]
fn a_relay_that_was_lost_is_not_the_first_to_be_tried_again() {
    let (fleet, now) = (Fleet::new(), Instant::now());
    let mut doors = named(&fleet, &[("a:1", "r1"), ("b:1", "r1"), ("c:1", "r2")]);
    doors.last("a:1", &fleet.relay("r1"));
    assert_eq!(open(&doors, now), ["c:1", "a:1", "b:1"]);
    doors.last("c:1", &fleet.relay("r2"));
    assert_eq!(open(&doors, now), ["a:1", "b:1", "c:1"]);
    // Addresses that were given by hand say nothing about who is there.
    let mut doors = by_hand(&["a:1", "b:1", "c:1"]);
    doors.last("b:1", &fleet.relay("r1"));
    assert_eq!(open(&doors, now), ["a:1", "c:1", "b:1"]);
    // The only one there is stays.
    let mut doors = named(&fleet, &[("a:1", "r1")]);
    doors.last("a:1", &fleet.relay("r1"));
    assert_eq!(open(&doors, now), ["a:1"]);
}

#[test]
fn b088_a_relay_that_said_when_to_come_back_is_left_alone_until_then_and_no_other_is() {
    let (fleet, now) = (Fleet::new(), Instant::now());
    let mut doors = named(&fleet, &[("a:1", "r1"), ("b:1", "r1"), ("c:1", "r2")]);
    doors.close("a:1", Some(&fleet.relay("r1")), now + SECOND * 5);
    assert_eq!(open(&doors, now + SECOND * 4), ["c:1"]);
    assert_eq!(doors.opens(now + SECOND * 4), None);
    doors.close("c:1", Some(&fleet.relay("r2")), now + SECOND * 9);
    assert!(open(&doors, now + SECOND * 4).is_empty());
    assert_eq!(doors.opens(now + SECOND * 4), Some(now + SECOND * 5));
    assert_eq!(open(&doors, now + SECOND * 5), ["a:1", "b:1"]);
    assert_eq!(doors.opens(now + SECOND * 5), None);
    assert_eq!(open(&doors, now + SECOND * 9).len(), 3);
    // Given by hand, and refused before anybody knew by whom.
    for relay in [None, Some(fleet.relay("r1"))] {
        let mut doors = by_hand(&["a:1", "b:1"]);
        doors.close("a:1", relay.as_ref(), now + SECOND);
        assert_eq!(open(&doors, now), ["b:1"]);
    }
}
