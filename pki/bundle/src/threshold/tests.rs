//! Counting distinct keys.

use super::*;
use crate::signing::{Algorithm, SigningKey};

fn key(algorithm: Algorithm) -> SigningKey {
    SigningKey::generate(algorithm).unwrap()
}

#[test]
fn a_key_counts_once_however_often_it_signs() {
    for algorithm in [Algorithm::Ed25519, Algorithm::P256] {
        let (a, b) = (key(algorithm), key(algorithm));
        let allowed = BTreeSet::from([a.public().clone(), b.public().clone()]);
        // P-256 signatures differ each time; they are still by one key.
        let (first, second) = (a.sign(b"text").unwrap(), a.sign(b"text").unwrap());
        let count = count(
            &allowed,
            b"text",
            [(a.public(), first.as_slice()), (a.public(), second.as_slice())],
        );
        assert_eq!((count.have(), count.others), (1, 1));
        assert!(count.reaches(1) && !count.reaches(2));
    }
}

#[test]
fn only_allowed_keys_and_exact_bytes_count() {
    let (a, b, stranger) = (key(Algorithm::Ed25519), key(Algorithm::P256), key(Algorithm::Ed25519));
    let allowed = BTreeSet::from([a.public().clone(), b.public().clone()]);
    let (good, other_text, foreign) = (
        b.sign(b"text").unwrap(),
        a.sign(b"Text").unwrap(),
        stranger.sign(b"text").unwrap(),
    );
    let signatures = [
        (b.public(), good.as_slice()),
        (a.public(), other_text.as_slice()),
        (stranger.public(), foreign.as_slice()),
    ];
    let count = count(&allowed, b"text", signatures);
    assert_eq!(count.signers, BTreeSet::from([b.public().clone()]));
    assert_eq!(count.others, 2);
}

#[test]
fn a_threshold_of_zero_is_never_reached() {
    assert!(!count(&BTreeSet::new(), b"", []).reaches(0));
}
