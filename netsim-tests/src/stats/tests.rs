//! Quantiles and exponents of known series.

use super::*;

#[test]
fn an_exponent_is_one_in_proportion_and_two_in_the_square() {
    let of = |power: f64| exponent(&[100.0, 1_000.0, 10_000.0].map(|x: f64| (x, 3.0 * x.powf(power)))).unwrap();
    assert!((of(1.0) - 1.0).abs() < 1e-9 && (of(2.0) - 2.0).abs() < 1e-9 && of(0.0).abs() < 1e-9);
    assert!(exponent(&[(10.0, 1.0)]).is_none() && exponent(&[(0.0, 1.0), (10.0, 1.0)]).is_none());
}
