//! When the relay is asked, and when it counts as gone.

use super::*;

const LIMIT: Duration = Duration::from_secs(20);
const SECOND: Duration = Duration::from_secs(1);

/// Lets the time pass up to `until`, in steps of `look_at`, with the answers of `answer`; gives when it was dead.
fn run(alive: &mut Alive, busy: bool, start: Instant, until: Instant, answer: impl Fn(u64) -> bool) -> Option<Instant> {
    let mut now = start;
    while now <= until {
        match alive.due(busy, now) {
            Due::Ask(number) if answer(number) => alive.heard(number, now),
            Due::Ask(_) | Due::Nothing => {}
            Due::Dead(_) => return Some(now),
        }
        let next = alive.look_at(busy);
        assert!(next > now, "it would spin");
        now = next;
    }
    None
}

#[test]
fn b075_a_relay_that_does_not_answer_is_given_up_within_the_limit_whether_something_runs_or_not() {
    for busy in [false, true] {
        let start = Instant::now();
        let mut alive = Alive::new(LIMIT, start);
        assert_eq!(
            run(&mut alive, busy, start, start + LIMIT * 100, |_| false),
            Some(start + LIMIT)
        );
    }
}

#[test]
fn a_relay_that_answers_is_kept_and_asked_seldom_while_nothing_runs() {
    for (busy, most) in [(false, 20), (true, 801)] {
        let start = Instant::now();
        let mut alive = Alive::new(LIMIT, start);
        assert_eq!(run(&mut alive, busy, start, start + LIMIT * 10, |_| true), None);
        assert!((most - 1..=most).contains(&alive.number), "{busy} {}", alive.number);
    }
    // One answer of many, now and then, is enough.
    let start = Instant::now();
    let mut alive = Alive::new(LIMIT, start);
    assert_eq!(
        run(&mut alive, true, start, start + LIMIT * 10, |number| number % 60 == 0),
        None
    );
}

#[test]
fn answers_to_what_was_not_asked_keep_nothing_alive() {
    let start = Instant::now();
    let mut alive = Alive::new(LIMIT, start);
    alive.heard(0, start + SECOND);
    alive.heard(7, start + SECOND);
    assert_eq!(alive.due(true, start + SECOND), Due::Ask(1));
    alive.heard(u64::MAX, start + SECOND * 2);
    assert_eq!(alive.due(false, start + LIMIT), Due::Dead(LIMIT));
}

#[test]
fn what_begins_to_run_is_watched_at_once() {
    let start = Instant::now();
    let mut alive = Alive::new(LIMIT, start);
    assert_eq!(alive.due(false, start + SECOND), Due::Nothing);
    assert_eq!(alive.due(true, start + SECOND), Due::Ask(1));
}
