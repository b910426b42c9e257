//! The pace of a replay, and what is no recording.

use std::time::Duration;

use super::{ReplayOptions, pause, replay};

#[test]
fn pauses_follow_speed_and_the_longest_idle() {
    let second = Duration::from_secs(1);
    let options = |speed, idle| ReplayOptions {
        speed,
        idle,
        ..ReplayOptions::default()
    };
    assert_eq!(pause(second, options(1.0, None)), second);
    assert_eq!(pause(second, options(4.0, None)), second / 4);
    assert_eq!(pause(second * 3600, options(2.0, Some(second))), second / 2);
    for speed in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(pause(second, options(speed, None)), Duration::ZERO);
    }
    assert_eq!(pause(Duration::MAX, options(f64::MIN_POSITIVE, None)), Duration::ZERO);
}

#[tokio::test]
async fn what_is_no_recording_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.cast");
    assert!(
        replay(&file, ReplayOptions::default(), &mut Vec::new(), &mut Vec::new())
            .await
            .is_err()
    );
    std::fs::write(&file, "not a recording\n").unwrap();
    assert!(
        replay(&file, ReplayOptions::default(), &mut Vec::new(), &mut Vec::new())
            .await
            .is_err()
    );
}
