//! The first refusals of a minute are whole, the rest is one number, and no key pays for another.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn ten_a_minute_are_whole_and_the_rest_is_one_number() {
    let (mut limiter, begun) = (Limiter::default(), Instant::now());
    let whole = (0..1000).filter(|_| limiter.admits(&"kim", begun)).count();
    assert_eq!(whole, 10);
    // Not before the minute is over, and then once.
    assert_eq!(limiter.counted(begun + SPAN - SECOND), []);
    assert_eq!(limiter.counted(begun + SPAN), [("kim", 990)]);
    assert_eq!(limiter.counted(begun + SPAN * 2), []);
    assert!(limiter.open.is_empty(), "a key that is quiet takes no room");
}

#[test]
fn a_new_minute_begins_anew_and_forgets_no_count() {
    let (mut limiter, begun) = (Limiter::default(), Instant::now());
    (0..12).for_each(|_| {
        limiter.admits(&"kim", begun);
    });
    assert!(limiter.admits(&"kim", begun + SPAN), "a new minute");
    assert_eq!(limiter.counted(begun + SPAN), [("kim", 2)]);
}

#[test]
fn one_key_does_not_hide_another() {
    let (mut limiter, begun) = (Limiter::default(), Instant::now());
    (0..100).for_each(|_| {
        limiter.admits(&"kim", begun);
    });
    assert!(limiter.admits(&"lee", begun));
    // Ten or fewer leave no line behind.
    assert_eq!(limiter.counted(begun + SPAN), [("kim", 90)]);
}
