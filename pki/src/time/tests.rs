//! Dates at both ends of the calendar.

use super::*;

#[test]
fn b046_no_arithmetic_leaves_the_calendar() {
    let forever = Duration::MAX;
    for time in [
        Timestamp::MIN,
        Timestamp::MAX,
        from_seconds(0),
        from_seconds(-1),
        from_seconds(253_402_300_799),
    ] {
        assert_eq!(after(time, forever), Timestamp::MAX);
        assert_eq!(before(time, forever), Timestamp::MIN);
        assert!(between(time, Timestamp::MIN) == Duration::ZERO);
        let _ = (format(time), to_unix(time), between(Timestamp::MIN, time));
    }
    assert_eq!(from_seconds(i64::MAX), Timestamp::MAX);
    assert_eq!(from_seconds(i64::MIN), Timestamp::MIN);
    assert_eq!(to_unix(from_seconds(-5)).as_secs(), 0);
    assert_eq!(
        from_unix(UnixTime::since_unix_epoch(Duration::from_secs(u64::MAX))),
        Timestamp::MAX
    );
}

#[test]
fn one_way_to_write_a_time() {
    for good in ["2026-11-30T20:50:00Z", "1970-01-01T00:00:00Z", "2028-02-29T23:59:59Z"] {
        assert_eq!(format(parse(good).unwrap()), good);
    }
    for bad in [
        "",
        "2026-11-30",
        "2026-11-30T20:50:00",
        "2026-11-30T20:50:00z",
        "2026-11-30t20:50:00Z",
        "2026-11-30 20:50:00Z",
        "2026-11-30T20:50:00.0Z",
        "2026-11-30T20:50:00+00:00",
        "2026-11-31T20:50:00Z",
        "2026-13-01T00:00:00Z",
        "2026-11-30T24:00:00Z",
        "2026-11-30T23:59:60Z",
        "+026-11-30T20:50:00Z",
        "9999-12-31T23:59:59Z",
    ] {
        assert!(parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_clock_set_back_does_not_count() {
    let (old, new) = (from_seconds(1_000), from_seconds(2_000));
    assert_eq!(effective(old, [new]), new);
    assert_eq!(effective(new, [old]), new);
    assert_eq!(effective(old, []), old);
}
