//! Nobody takes a relay from the others, and everything is given back.

use super::*;

const BOUNDS: Bounds = Bounds {
    agents: 2,
    clients: 3,
    connections_per_person: 2,
    streams: 16,
    streams_per_person: 8,
    opens: Rate {
        burst: 12,
        per_second: 4.0,
    },
};

fn who(name: &str) -> Identity {
    Identity::parse(&format!("spiffe://fleet.example/cluster/east/{name}")).unwrap()
}

#[test]
fn a_person_has_its_own_bound_over_all_connections() {
    let (quotas, now) = (Quotas::new(BOUNDS), Instant::now());
    let alice = who("user/alice");
    let held: Vec<_> = (0..2).map(|_| quotas.connection(&alice, now).unwrap()).collect();
    assert_eq!(quotas.connection(&alice, now).unwrap_err(), NoSeat::Many("connections"));
    let streams: Vec<_> = (0..8).map(|_| quotas.stream(&alice, now).unwrap()).collect();
    assert_eq!(quotas.stream(&alice, now).unwrap_err(), NoSeat::Many("streams"));
    // Somebody else does not notice.
    let _bob = quotas.connection(&who("user/bob"), now).unwrap();
    let _stream = quotas.stream(&who("user/bob"), now).unwrap();
    drop((held, streams));
    let later = now + Duration::from_secs(60);
    assert!(quotas.connection(&alice, later).is_ok() && quotas.stream(&alice, later).is_ok());
}

#[test]
fn agents_have_seats_that_clients_cannot_take() {
    let (quotas, now) = (Quotas::new(BOUNDS), Instant::now());
    let clients: Vec<_> = ["a", "b", "c"]
        .iter()
        .map(|name| quotas.connection(&who(&format!("user/{name}")), now).unwrap())
        .collect();
    let full = quotas.connection(&who("user/d"), now).unwrap_err();
    assert_eq!(
        (full, full.code()),
        (NoSeat::Full("seats for clients"), Code::RelayBusy)
    );
    let _agents: Vec<_> = (0..2)
        .map(|n| quotas.connection(&who(&format!("node/n{n}")), now).unwrap())
        .collect();
    assert_eq!(
        quotas.connection(&who("node/n9"), now).unwrap_err(),
        NoSeat::Full("seats for agents")
    );
    drop(clients);
    assert!(quotas.connection(&who("user/d"), now).is_ok());
}

#[test]
fn the_last_streams_are_for_break_glass() {
    let (quotas, now) = (Quotas::new(BOUNDS), Instant::now());
    let mut held = Vec::new();
    for name in ["a", "b"] {
        for _ in 0..7 {
            held.push(quotas.stream(&who(&format!("user/{name}")), now).unwrap());
        }
    }
    assert_eq!(quotas.stream(&who("user/c"), now).unwrap_err(), NoSeat::Full("streams"));
    held.push(quotas.stream(&who("break-glass/one"), now).unwrap());
    held.push(quotas.stream(&who("break-glass/one"), now).unwrap());
    assert_eq!(
        quotas.stream(&who("break-glass/one"), now).unwrap_err(),
        NoSeat::Full("streams")
    );
}

#[test]
fn who_opens_too_fast_hears_when_to_come_back_and_going_away_does_not_help() {
    let (quotas, now) = (Quotas::new(BOUNDS), Instant::now());
    let alice = who("user/alice");
    for _ in 0..12 {
        drop(quotas.stream(&alice, now).unwrap());
    }
    let refused = quotas.stream(&alice, now).unwrap_err();
    assert_eq!(
        (refused.code(), refused.refusal().back),
        (Code::RelayQuota, Some(Duration::from_millis(250)))
    );
    assert!(quotas.connection(&alice, now).is_err());
    assert!(quotas.stream(&alice, now + Duration::from_millis(250)).is_ok());
}

#[test]
fn people_who_are_gone_do_not_fill_memory() {
    let (quotas, start) = (Quotas::new(BOUNDS), Instant::now());
    for number in 0..1_000u64 {
        let now = start + Duration::from_secs(number);
        drop(quotas.connection(&who(&format!("user/u{number}")), now).unwrap());
    }
    assert!(quotas.state().people.len() <= BOUNDS.agents + BOUNDS.clients);
    let state = quotas.state();
    assert_eq!((state.agents, state.clients, state.streams), (0, 0, 0));
}
