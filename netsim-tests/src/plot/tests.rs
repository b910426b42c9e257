//! The curve as it is drawn.

use super::*;

#[test]
fn a_curve_stands_on_zero_and_shows_a_rise() {
    let flat: Vec<_> = (0..=600).map(|s| (f64::from(s), 20.0)).collect();
    let text = curve("flat", &flat);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[1], format!("    20.0 │{}", "•".repeat(WIDTH)));
    assert!(lines[2..=HEIGHT].iter().all(|line| line.ends_with('│')), "{text}");
    assert!(lines[HEIGHT + 1].starts_with("       0 └─"), "{text}");
    assert!(lines[HEIGHT + 2].trim_end().ends_with("10.0 min"), "{text}");

    let rising: Vec<_> = (0..=600).map(|s| (f64::from(s), f64::from(s))).collect();
    let text = curve("rising", &rising);
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[1].trim_end().ends_with('•') && lines[1].contains("│   "),
        "{text}"
    );
    assert!(lines[HEIGHT].contains("│•"), "{text}");
    assert_eq!(curve("nothing", &[]), "");
}

#[test]
fn growth_in_proportion_ends_at_its_mark_and_more_than_that_passes_it() {
    let linear = growth("linear", "MB", &[(100.0, 3.0), (1000.0, 30.0), (10000.0, 300.0)]);
    for line in linear.lines().skip(1) {
        assert!(line.ends_with("█|"), "{linear}");
    }
    assert!(linear.contains("   10000       300 MB ███"), "{linear}");
    let worse = growth("worse", "MB", &[(100.0, 3.0), (1000.0, 90.0)]);
    assert!(worse.lines().nth(2).unwrap().ends_with("█"), "{worse}");
    let better = growth("better", "MB", &[(100.0, 3.0), (1000.0, 9.0)]);
    assert!(better.lines().nth(2).unwrap().ends_with(" |"), "{better}");
    assert_eq!(growth("nothing", "MB", &[(0.0, 1.0), (1.0, 0.0)]), "");
}
