//! When a stream becomes bulk, and when it is urgent again.

use super::*;

#[test]
fn much_at_once_is_bulk_and_a_rest_makes_it_urgent_again() {
    let (mut urgency, begun) = (Urgency::default(), Instant::now());
    let at = |millis: u64| begun + Duration::from_millis(millis);
    assert_eq!(urgency.wrote(1, at(0)), None);
    assert_eq!(urgency.wrote(BURST - 1, at(900)), None);
    assert_eq!(urgency.wrote(1, at(1800)), Some(BULK));
    assert_eq!(urgency.wrote(usize::MAX, at(1900)), None);
    assert_eq!(urgency.wrote(1, at(2899)), None);
    assert_eq!(urgency.wrote(1, at(3899)), Some(URGENT));
    // Each burst is judged by itself: a person who reads page after page stays urgent.
    for page in 0..100 {
        assert_eq!(urgency.wrote(BURST, at(10_000 + page * 1000)), None);
    }
    assert_eq!(urgency.wrote(BURST + 1, at(200_000)), Some(BULK));
}
