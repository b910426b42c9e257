//! How long output is read after the command's end: time in which nobody could take it does not count, stragglers are cut off.

use super::*;

const MS: Duration = Duration::from_millis(1);

fn started() -> Drain {
    let mut drain = Drain::new(Duration::ZERO);
    assert!(!drain.is_over(10_000 * MS));
    drain.start(10_000 * MS);
    drain
}

#[test]
fn the_end_of_all_output_ends_it_at_once() {
    let mut drain = started();
    assert!(!drain.is_over(10_000 * MS));
    drain.end();
    assert!(drain.is_over(10_000 * MS));
}

#[test]
fn stragglers_are_heard_until_they_are_silent() {
    let mut drain = started();
    assert!(!drain.is_over(10_499 * MS));
    assert_eq!(drain.next(10_499 * MS), Some(10_500 * MS));
    drain.heard();
    assert!(!drain.is_over(10_998 * MS));
    assert!(drain.is_over(10_999 * MS));
}

#[test]
fn stragglers_that_never_stop_are_cut_off() {
    let mut drain = started();
    let mut at = 10_000 * MS;
    while !drain.is_over(at) {
        drain.heard();
        at += 100 * MS;
    }
    assert_eq!(at, 15_000 * MS);
}

#[test]
fn b009_time_in_which_nobody_took_anything_does_not_count() {
    let mut drain = started();
    assert!(!drain.is_over(10_001 * MS));
    drain.blocked(true);
    assert_eq!(drain.next(10_001 * MS), None);
    assert!(!drain.is_over(3_600_000 * MS));
    drain.blocked(false);
    assert!(!drain.is_over(3_600_498 * MS));
    assert!(drain.is_over(3_600_499 * MS));
}
