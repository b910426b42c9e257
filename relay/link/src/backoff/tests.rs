//! Waits double to their bound, use the whole span below it, and start anew after a steady link.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn the_bound_doubles_and_a_steady_link_sets_it_back() {
    let mut backoff = Backoff::new(SECOND, SECOND * 5);
    let waits: Vec<_> = (0..4).map(|_| backoff.pause(Duration::ZERO, 1.0)).collect();
    assert_eq!(waits, [SECOND, SECOND * 2, SECOND * 4, SECOND * 5]);
    assert_eq!(backoff.pause(STEADY - SECOND, 1.0), SECOND * 5);
    assert_eq!(backoff.pause(STEADY, 1.0), SECOND);
    assert_eq!(backoff.pause(Duration::ZERO, 1.0), SECOND * 2);
}

#[test]
fn the_whole_span_is_used() {
    let mut backoff = Backoff::new(SECOND * 8, SECOND * 8);
    assert_eq!(backoff.pause(Duration::ZERO, 0.0), Duration::ZERO);
    assert_eq!(backoff.pause(Duration::ZERO, 0.25), SECOND * 2);
    assert_eq!(backoff.pause(Duration::ZERO, 1.0), SECOND * 8);
    // Agents that lost a relay together come back apart, in every quarter of the time.
    let waits: Vec<_> = (0..400).map(|_| backoff.pause(Duration::ZERO, random())).collect();
    for quarter in 0..4 {
        let span = SECOND * 2 * quarter..=SECOND * 2 * (quarter + 1);
        let count = waits.iter().filter(|wait| span.contains(*wait)).count();
        assert!(count >= 50, "{count} of 400 in {span:?}");
    }
}

#[test]
fn a_drain_is_followed_within_its_spread_and_no_relay_keeps_us_for_long() {
    assert_eq!(leave_after(SECOND * 30, 0.5), SECOND * 15);
    assert_eq!(leave_after(Duration::ZERO, 1.0), Duration::ZERO);
    assert_eq!(
        leave_after(Duration::from_millis(u64::from(u32::MAX)), 1.0),
        LONGEST_SPREAD
    );
}

#[test]
fn b088_nobody_comes_back_before_the_announced_time_and_all_come_apart() {
    assert_eq!(come_back_after(SECOND * 8, 0.0), SECOND * 8);
    assert_eq!(come_back_after(SECOND * 8, 1.0), SECOND * 12);
    // A thousand agents that were refused in the same moment.
    let waits: Vec<_> = (0..1000).map(|_| come_back_after(SECOND * 8, random())).collect();
    for second in 8..12 {
        let span = SECOND * second..=SECOND * (second + 1);
        let count = waits.iter().filter(|wait| span.contains(*wait)).count();
        assert!(count >= 150, "{count} of 1000 in {span:?}");
    }
    // A relay's word is worth five minutes: it could say twelve days.
    let most = come_back_after(Duration::from_secs(12 * 86_400), 1.0);
    assert_eq!(most, LONGEST_SPREAD + LONGEST_SPREAD / 2);
}
