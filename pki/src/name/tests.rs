//! Names that are accepted and names that are not.

use proptest::prelude::*;

use super::*;

#[test]
fn machine_names_are_rfc_1123_subdomains() {
    for good in [
        "a",
        "0",
        "a-b",
        "ip-10-0-0-1.eu-west-1.compute.internal",
        &"n".repeat(253),
    ] {
        assert_eq!(NodeName::parse(good).unwrap().as_str(), good);
    }
    for bad in [
        "",
        ".",
        "a.",
        ".a",
        "a..b",
        "-a",
        "a-",
        "A",
        "a_b",
        "a b",
        "a\n",
        "ä",
        "a/b",
        "a\u{200b}",
        &"n".repeat(254),
    ] {
        assert!(NodeName::parse(bad).is_err(), "{bad:?}");
        assert!(ClusterName::parse(bad).is_err(), "{bad:?}");
        assert!(TrustDomain::parse(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn user_names_are_exact() {
    for good in [
        "a",
        "Alice",
        "oidc:alice@example.com",
        "arn:aws:sts::1:assumed-role/x/y",
        "日本, CN=x+y/CN=z",
        " a ",
    ] {
        assert_eq!(UserName::parse(good).unwrap().as_str(), good);
    }
    // Not folded, not normalised: these are different people.
    assert_ne!(UserName::parse("Alice").unwrap(), UserName::parse("alice").unwrap());
    assert_ne!(UserName::parse("\u{e9}").unwrap(), UserName::parse("e\u{301}").unwrap());
    assert!(UserName::parse(&"x".repeat(1024)).is_ok());
    for bad in [
        "",
        &"x".repeat(1025),
        "a\0b",
        "a\nb",
        "a\u{7f}",
        "a\u{85}",
        "\u{202e}a",
        "a\u{2066}",
        "a\u{200d}b",
        "\u{feff}a",
    ] {
        assert!(UserName::parse(bad).is_err(), "{bad:?}");
        assert!(GroupName::parse(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn refusals_say_what_was_seen_without_showing_it_raw() {
    let error = NodeName::parse("Node\u{202e}\u{1b}[31m").unwrap_err().to_string();
    assert!(error.starts_with("node name"), "{error}");
    assert!(!error.contains('\u{202e}') && !error.contains('\u{1b}'), "{error}");
    assert!(error.contains("lower-case"), "{error}");
    let error = NodeName::parse(&"n".repeat(5000)).unwrap_err().to_string();
    assert!(error.len() < 300 && error.contains("5000 bytes"), "{error}");
}

#[test]
fn names_are_checked_when_they_come_out_of_a_file() {
    assert!(serde_json::from_str::<ClusterName>("\"east\"").is_ok());
    assert!(serde_json::from_str::<ClusterName>("\"East\"").is_err());
    assert_eq!(
        serde_json::to_string(&ClusterName::parse("east").unwrap()).unwrap(),
        "\"east\""
    );
}

proptest! {
    #[test]
    fn what_is_accepted_is_kept_exactly(text in ".{0,40}") {
        if let Ok(name) = UserName::parse(&text) {
            prop_assert_eq!(name.as_str(), &text);
            prop_assert!(!text.chars().any(crate::text::is_invisible));
        }
        if let Ok(name) = NodeName::parse(&text) {
            prop_assert_eq!(name.as_str(), text.to_ascii_lowercase());
        }
    }
}
