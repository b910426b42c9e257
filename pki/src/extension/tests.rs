//! Golden bytes, round trips, and input that was changed.

use proptest::prelude::*;

use super::*;

fn full() -> Claims {
    let claims = Claims {
        groups: ["ops", "gpu:admins"]
            .iter()
            .map(|g| GroupName::parse(g).unwrap())
            .collect(),
        node_uid: Some("6f1b".to_owned()),
        attested_at: Some(time::from_seconds(1_700_000_000)),
        bundle_version: Some(300),
    };
    claims.checked().unwrap()
}

fn decode(encoded: &[(Vec<u64>, Vec<u8>)]) -> Result<Claims, String> {
    let encoded: Vec<(Vec<u8>, Vec<u8>)> = encoded
        .iter()
        .map(|(oid, value)| (oid_bytes(oid), value.clone()))
        .collect();
    Claims::decode(encoded.iter().map(|(oid, value)| (oid.as_slice(), value.as_slice())))
}

#[test]
fn golden_bytes() {
    let encoded = full().encode();
    let shown: Vec<String> = encoded
        .iter()
        .map(|(oid, value)| format!("{} {}", hex::encode(oid_bytes(oid)), hex::encode(value)))
        .collect();
    assert_eq!(
        shown,
        [
            "69defde1d5d4bedfdc0801 30110c0a6770753a61646d696e730c036f7073",
            "69defde1d5d4bedfdc0802 0c0436663162",
            "69defde1d5d4bedfdc0803 02046553f100",
            "69defde1d5d4bedfdc0804 0202012c",
        ]
    );
    assert_eq!(decode(&encoded).unwrap(), full());
}

#[test]
fn object_identifiers_as_the_certificate_library_writes_them() {
    for arcs in [vec![2, 25, 1], vec![2, 25, 128, 1], oid(1), vec![1, 3, 6, 1, 4, 1, 311]] {
        let theirs = x509_parser::der_parser::oid::Oid::from(&arcs).unwrap();
        assert_eq!(oid_bytes(&arcs), theirs.as_bytes());
    }
}

#[test]
fn nothing_odd_is_accepted() {
    let one = |number: u64, value: &str| decode(&[(oid(number), hex::decode(value).unwrap())]);
    assert!(one(1, "30050c036f7073").is_ok());
    for (number, value) in [
        (1, "3000"),                     // an empty list
        (1, "30060c036f707300"),         // bytes within the list
        (1, "30050c036f707300"),         // bytes behind it
        (1, "3081050c036f7073"),         // long form of a short length
        (1, "30800c036f70730000"),       // indefinite length
        (1, "300513036f7073"),           // another kind of string
        (1, "30050c03ffffff"),           // not UTF-8
        (1, "30050c036f0a73"),           // a control character
        (1, "300a0c036f70730c036f7073"), // doubled
        (1, "30060c01620c0161"),         // not sorted
        (2, "0c00"),
        (2, "0c0120"),
        (3, "0201ff"),                 // negative
        (3, "02020001"),               // not shortest
        (3, "02087fffffffffffffff"),   // outside the calendar
        (4, "0209010000000000000000"), // above 64 bits
        (4, "0200"),
        (5, "020101"), // unknown
    ] {
        assert!(one(number, value).is_err(), "{number} {value}");
    }
    let twice = [(oid(4), integer(1)), (oid(4), integer(1))];
    assert!(decode(&twice).unwrap_err().contains("twice"));
    let longer = [([oid(1), vec![7]].concat(), integer(1))];
    assert!(decode(&longer).is_err());
}

#[test]
fn limits_on_both_sides() {
    let groups = |count: usize, length: usize| Claims {
        groups: (0..count)
            .map(|n| GroupName::parse(&format!("{n:0length$}")).unwrap())
            .collect(),
        ..Claims::default()
    };
    assert!(groups(MAX_GROUPS, 10).checked().is_ok());
    assert!(groups(MAX_GROUPS + 1, 10).checked().is_err());
    assert!(groups(16, 1024).checked().is_ok());
    assert!(groups(17, 1024).checked().is_err());
    assert!(decode(&groups(MAX_GROUPS + 1, 10).encode()).is_err());
    assert!(decode(&groups(17, 1024).encode()).is_err());
    for uid in ["", " ", "a b", &"u".repeat(129)] {
        assert!(
            Claims {
                node_uid: Some(uid.to_owned()),
                ..Claims::default()
            }
            .checked()
            .is_err()
        );
    }
    assert!(
        Claims {
            attested_at: Some(time::from_seconds(-1)),
            ..Claims::default()
        }
        .checked()
        .is_err()
    );
}

proptest! {
    #[test]
    fn numbers_round_trip(number in any::<u64>()) {
        prop_assert_eq!(number_of(&integer(number)), Some(number));
    }

    #[test]
    fn changed_input_never_panics_and_stays_exact(at in 0usize..64, byte in any::<u8>(), which in 0usize..4, cut in 0usize..64) {
        let mut encoded = full().encode();
        let value = &mut encoded[which].1;
        let length = value.len();
        value[at % length] = byte;
        value.truncate(cut.max(1));
        if let Ok(claims) = decode(&encoded) {
            prop_assert_eq!(claims.encode(), encoded);
        }
    }

    #[test]
    fn any_bytes_never_panic(value in any::<Vec<u8>>(), number in 0u64..6) {
        let encoded = vec![(oid(number), value)];
        if let Ok(claims) = decode(&encoded) {
            prop_assert_eq!(claims.encode(), encoded);
        }
    }
}
