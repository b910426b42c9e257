//! Places: who gets one, and that each is given back once.

use super::Standbys;
use crate::testing::Fleet;

#[test]
fn places_are_bounded_for_all_and_for_each_person_and_given_back() {
    let fleet = Fleet::new();
    let (kim, ada, eve) = (fleet.user("kim"), fleet.user("ada"), fleet.user("eve"));
    let standbys = Standbys::new(3, 2);
    let first = standbys.enter(&kim).unwrap();
    let second = standbys.enter(&kim).unwrap();
    assert!(standbys.enter(&kim).is_none(), "two for one person");
    let third = standbys.enter(&ada).unwrap();
    assert!(standbys.enter(&eve).is_none(), "three for all");
    drop(second);
    let fourth = standbys.enter(&eve).unwrap();
    assert_eq!(standbys.count(), 3);
    drop((first, third, fourth));
    assert_eq!(standbys.count(), 0);
    assert!(Standbys::new(0, 2).enter(&kim).is_none(), "none at all");
}
