//! When a session ends by itself, on times that are made up: deadline, idle limit, window, and the warnings before them.

use super::*;

const SEC: Duration = Duration::from_secs(1);

fn start(terminal: bool, deadline: Option<i64>, idle: Option<u32>) -> Start {
    Start {
        terminal: terminal.then(Default::default),
        deadline_unix: deadline,
        idle_secs: idle,
        window_secs: 30,
        ..Start::default()
    }
}

fn code(limits: &Limits, now: Duration) -> Option<Code> {
    limits.over(now).map(|(code, _)| code)
}

#[test]
fn b016_with_a_terminal_only_the_user_counts() {
    let mut limits = Limits::new(&start(true, None, Some(60)), 10 * SEC, 0);
    limits.command_wrote(60 * SEC);
    limits.accompanied(true, 60 * SEC);
    assert_eq!(code(&limits, 69 * SEC), None);
    assert_eq!(code(&limits, 70 * SEC), Some(Code::SessionIdle));
    limits.user_acted(69 * SEC);
    assert_eq!(code(&limits, 128 * SEC), None);
    assert_eq!(limits.over(129 * SEC).unwrap().1, "no input for 60 s");
}

#[test]
fn b016_without_a_terminal_either_direction_counts() {
    let mut limits = Limits::new(&start(false, None, Some(60)), 10 * SEC, 0);
    limits.command_wrote(60 * SEC);
    assert_eq!(code(&limits, 119 * SEC), None);
    assert_eq!(code(&limits, 120 * SEC), Some(Code::SessionIdle));
}

#[test]
fn a_deadline_is_boot_time_from_the_first_moment_and_may_be_set_anew() {
    let mut limits = Limits::new(&start(true, Some(1_000_100), None), 10 * SEC, 1_000_000);
    assert_eq!(code(&limits, 109 * SEC), None);
    assert_eq!(code(&limits, 110 * SEC), Some(Code::SessionDeadline));
    // A day later on the wall clock, no time later since boot.
    limits.set(
        Terms {
            deadline_unix: Some(1_086_500),
            idle_secs: None,
        },
        20 * SEC,
        1_086_400,
    );
    assert_eq!(code(&limits, 119 * SEC), None);
    assert_eq!(code(&limits, 120 * SEC), Some(Code::SessionDeadline));
    for (at, over) in [(i64::MIN, true), (i64::MAX, false)] {
        limits.set(
            Terms {
                deadline_unix: Some(at),
                idle_secs: None,
            },
            20 * SEC,
            5,
        );
        assert_eq!(code(&limits, 20 * SEC).is_some(), over, "{at}");
    }
}

#[test]
fn the_window_runs_only_without_an_agent() {
    let mut limits = Limits::new(&start(true, None, None), SEC, 0);
    assert!(!limits.window_over(1000 * SEC) && limits.next(SEC).is_none());
    limits.accompanied(false, 1000 * SEC);
    limits.accompanied(false, 1020 * SEC);
    assert_eq!(limits.next(1000 * SEC), Some(1030 * SEC));
    assert_eq!(code(&limits, 1030 * SEC), Some(Code::SessionWindow));
    limits.accompanied(true, 1030 * SEC);
    assert_eq!(code(&limits, 9999 * SEC), None);
}

#[test]
fn warnings_come_once_before_each_end() {
    let mut limits = Limits::new(&start(true, Some(1000), Some(600)), Duration::ZERO, 0);
    assert_eq!(limits.next(Duration::ZERO), Some(300 * SEC));
    assert!(limits.warning(299 * SEC).is_none());
    let warning = limits.warning(301 * SEC).unwrap();
    assert_eq!((warning.code, warning.seconds_left), (Code::SessionIdle.number(), 299));
    assert!(limits.warning(302 * SEC).is_none());
    limits.user_acted(500 * SEC);
    assert!(limits.warning(501 * SEC).is_none());
    assert_eq!(limits.warning(700 * SEC).unwrap().code, Code::SessionDeadline.number());
    assert!(limits.warning(701 * SEC).is_none());
    assert_eq!(limits.warning(941 * SEC).unwrap().seconds_left, 59);
    assert!(limits.warning(942 * SEC).is_none());
}
