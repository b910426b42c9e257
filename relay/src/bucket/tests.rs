//! What a bucket gives, and when it gives again.

use proptest::prelude::*;

use super::*;

const RATE: Rate = Rate {
    burst: 3,
    per_second: 2.0,
};

#[test]
fn a_burst_then_a_steady_flow_with_the_time_to_come_back() {
    let start = Instant::now();
    let mut bucket = Bucket::full(RATE, start);
    assert!(bucket.is_full(RATE, start));
    for _ in 0..3 {
        assert_eq!(bucket.take(RATE, start), Ok(()));
    }
    let wait = bucket.take(RATE, start).unwrap_err();
    assert_eq!(wait, Duration::from_millis(500));
    assert!(bucket.take(RATE, start + wait - Duration::from_millis(1)).is_err());
    assert_eq!(bucket.take(RATE, start + wait), Ok(()));
    assert!(!bucket.is_full(RATE, start + wait));
    assert!(bucket.is_full(RATE, start + Duration::from_secs(60)));
}

proptest! {
    /// Whatever the times, no more is given than the burst and what came back since; a clock that stands or steps back gives nothing.
    #[test]
    fn never_more_than_burst_and_flow(steps in prop::collection::vec(-200_i64..2_000, 0..200)) {
        let start = Instant::now() + Duration::from_secs(3_600);
        let (mut now, mut latest, mut given) = (start, start, 0.0);
        let mut bucket = Bucket::full(RATE, start);
        for step in steps {
            let by = Duration::from_millis(step.unsigned_abs());
            now = if step < 0 { now - by } else { now + by };
            latest = latest.max(now);
            given += f64::from(u8::from(bucket.take(RATE, now).is_ok()));
            let most = 3.0 + 2.0 * latest.duration_since(start).as_secs_f64();
            prop_assert!(given <= most + 1e-6, "{given} > {most}");
        }
    }
}
