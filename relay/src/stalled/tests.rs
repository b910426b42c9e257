//! Who gives way, and that everything is given back.

use tokio::time::timeout;

use super::*;

fn who(name: &str) -> Identity {
    Identity::parse(&format!("spiffe://fleet.example/cluster/east/{name}")).unwrap()
}

fn stalled(most: usize) -> Stalled {
    Stalled::new(most, PATIENCE)
}

fn was_told(place: &mut Place) -> bool {
    matches!(place.told.try_recv(), Err(oneshot::error::TryRecvError::Closed))
}

#[test]
fn while_there_is_room_nobody_gives_way() {
    let stalled = stalled(3);
    let mut places: Vec<_> = (0..3).map(|_| stalled.place(&who("user/alice"))).collect();
    assert!(!places.iter_mut().any(was_told));
    assert_eq!(stalled.counts(), (3, 0));
    drop(places);
    assert_eq!(stalled.counts(), (0, 0));
}

#[test]
fn the_person_with_the_most_loses_the_one_that_waits_longest() {
    let stalled = stalled(3);
    let mut bob = stalled.place(&who("user/bob"));
    let mut alice: Vec<_> = (0..2).map(|_| stalled.place(&who("user/alice"))).collect();
    let mut carol = stalled.place(&who("user/carol"));
    let told: Vec<_> = alice.iter_mut().map(was_told).collect();
    assert_eq!(told, [true, false]);
    assert!(!was_told(&mut bob) && !was_told(&mut carol));
    // The one that was told counts no more, whether it has gone or not.
    assert_eq!(stalled.counts(), (3, 1));
    drop(alice);
    assert_eq!(stalled.counts(), (2, 1));
}

#[test]
fn among_equals_the_one_that_waits_longest_gives_way() {
    let stalled = stalled(2);
    let mut places: Vec<_> = ["a", "b", "c"]
        .map(|name| stalled.place(&who(&format!("user/{name}"))))
        .into();
    let told: Vec<_> = places.iter_mut().map(was_told).collect();
    assert_eq!(told, [true, false, false]);
}

#[test]
fn break_glass_comes_last() {
    let stalled = stalled(2);
    let mut glass: Vec<_> = (0..2).map(|_| stalled.place(&who("break-glass/fire"))).collect();
    let mut alice = stalled.place(&who("user/alice"));
    assert!(was_told(&mut alice) && !glass.iter_mut().any(was_told));
    let mut more = stalled.place(&who("break-glass/fire"));
    assert!(was_told(&mut glass[0]) && !was_told(&mut more));
}

#[tokio::test]
async fn only_who_takes_nothing_for_long_needs_a_place() {
    let alice = who("user/alice");
    let hour = Stalled::new(0, Duration::from_secs(3600));
    let mut patience = Patience::new(&hour, &alice);
    for _ in 0..3 {
        patience.again();
        assert!(timeout(Duration::ZERO, patience.gives_way()).await.is_err());
    }
    assert_eq!(hour.counts(), (0, 0));
    let moment = Stalled::new(0, Duration::from_millis(1));
    Patience::new(&moment, &alice).gives_way().await;
    assert_eq!(moment.counts(), (0, 1));
}
