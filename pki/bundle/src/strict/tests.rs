//! What the strict pass refuses.

use super::*;
use proptest::prelude::*;
use serde_json::json;

const MAX: usize = 4096;

fn refused(bytes: &[u8]) -> BundleError {
    value("file", bytes, MAX).unwrap_err()
}

#[test]
fn canonical_bytes_pass_and_come_back_the_same() {
    let text = br#"{"a":[1,2,{"b":"x","c":true}],"d":{}}"#;
    assert_eq!(canonical(&value("file", text, MAX).unwrap()), text);
}

#[test]
fn b059_duplicate_keys_at_any_depth_are_refused() {
    for text in [
        r#"{"a":1,"a":1}"#,
        r#"{"a":{"b":{"c":1,"c":2}}}"#,
        r#"{"a":[{"b":1,"b":1}]}"#,
        r#"{"signatures":[],"signed":{"expires":"x","expires":"y"}}"#,
        // The same key once written as an escape.
        r#"{"allow":1,"\u0061llow":2}"#,
    ] {
        assert!(
            matches!(refused(text.as_bytes()), BundleError::DuplicateKey { .. }),
            "{text}"
        );
    }
    // Keys that differ only by their Unicode form: no metadata has anything but ASCII.
    let twins = "{\"caf\u{e9}\":1,\"cafe\u{301}\":2}";
    assert!(matches!(refused(twins.as_bytes()), BundleError::NotCanonical { .. }));
}

#[test]
fn b058_every_other_spelling_is_refused() {
    for text in [
        r#" {"a":1}"#,
        "{\"a\":1}\n",
        r#"{"a": 1}"#,
        r#"{"b":1,"a":1}"#,
        r#"{"a":"\u0041"}"#,
        r#"{"a":"x\/y"}"#,
        "{\"a\":\"\u{e9}\"}",
        r#"{"a":01}"#,
        r#"{"a":1}{"a":1}"#,
    ] {
        let code = refused(text.as_bytes()).code();
        assert!(
            ["bundle.not_canonical", "bundle.malformed"].contains(&code),
            "{text}: {code}"
        );
    }
}

#[test]
fn b057_numbers_are_whole_and_not_negative() {
    for text in ["-1", "1.0", "1e3", "18446744073709551616", "null", "-0"] {
        let text = format!("{{\"a\":{text}}}");
        assert!(
            matches!(refused(text.as_bytes()), BundleError::Malformed { .. }),
            "{text}"
        );
    }
}

#[test]
fn size_and_depth_are_bounded() {
    let long = format!("\"{}\"", "x".repeat(MAX));
    assert!(matches!(refused(long.as_bytes()), BundleError::TooLarge { .. }));
    let deep = format!("{}{}", "[".repeat(MAX_DEPTH + 1), "]".repeat(MAX_DEPTH + 1));
    assert!(matches!(refused(deep.as_bytes()), BundleError::Malformed { .. }));
}

#[test]
fn the_envelope_has_two_fields_and_each_key_id_once() {
    let id = "ab".repeat(32);
    let make = |value: Value| canonical(&value);
    let one = json!({"keyid": id, "sig": "00"});
    assert!(envelope("f", &make(json!({"signatures": [one], "signed": {}})), MAX).is_ok());
    let twice = make(json!({"signatures": [one, {"keyid": id, "sig": "01"}], "signed": {}}));
    assert!(matches!(envelope("f", &twice, MAX), Err(BundleError::KeyTwice { .. })));
    for (bad, code) in [
        (json!({"signatures": [], "signed": {}, "x": 1}), "bundle.unknown_field"),
        (
            json!({"signatures": [{"keyid": id, "sig": "00", "x": 1}], "signed": {}}),
            "bundle.unknown_field",
        ),
        (
            json!({"signatures": [{"keyid": id.to_uppercase(), "sig": "00"}], "signed": {}}),
            "bundle.malformed",
        ),
        (
            json!({"signatures": [{"keyid": id, "sig": "AB"}], "signed": {}}),
            "bundle.malformed",
        ),
        (json!({"signatures": [], "signed": []}), "bundle.malformed"),
        (json!({"signed": {}}), "bundle.malformed"),
        (json!([]), "bundle.malformed"),
    ] {
        assert_eq!(
            envelope("f", &make(bad.clone()), MAX).unwrap_err().code(),
            code,
            "{bad}"
        );
    }
}

proptest! {
    /// Whatever passes is its own canonical form: no second spelling of the same content passes.
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(value) = value("file", &bytes, MAX) {
            prop_assert_eq!(canonical(&value), bytes);
        }
    }

    #[test]
    fn mutated_text_never_panics(at in 0usize..200, byte in any::<u8>()) {
        let mut bytes = br#"{"signatures":[{"keyid":"abababababababababababababababababababababababababababababababab","sig":"00"}],"signed":{"_type":"root","version":1}}"#.to_vec();
        let at = at % bytes.len();
        bytes[at] = byte;
        let _ = envelope("file", &bytes, MAX);
    }
}
