//! ALPN names, and the completeness of the change lists.

use std::collections::BTreeSet;

use super::*;

#[test]
fn alpn_names_are_what_the_document_says_and_lead_back() {
    assert_eq!(OUTER_V1, b"noderelay/1");
    assert_eq!(INNER_V1, b"noderelay-session/1");
    assert_eq!(ENROL_V1, b"noderelay-enrol/1");
    for version in Version::ALL.iter().copied() {
        assert_eq!(Version::from_outer_alpn(version.outer_alpn()), Some(version));
        assert_eq!(Version::from_inner_alpn(version.inner_alpn()), Some(version));
        assert_eq!(Version::from_number(version.number()), Some(version));
        assert_eq!(
            Version::from_outer_alpn(version.inner_alpn()),
            None,
            "a name of one leg is none of the other"
        );
    }
    assert_eq!(Version::from_outer_alpn(b"noderelay/2"), None);
    assert_eq!(Version::from_number(0), None);
}

#[test]
fn offered_names_are_all_versions_in_order_of_preference() {
    let outer: Vec<_> = Version::ALL.iter().map(|version| version.outer_alpn()).collect();
    let inner: Vec<_> = Version::ALL.iter().map(|version| version.inner_alpn()).collect();
    assert_eq!(OUTER, outer);
    assert_eq!(INNER, inner);
    assert!(Version::ALL.is_sorted_by(|a, b| a > b), "newest first");
}

#[test]
fn every_frame_and_code_came_with_exactly_one_version() {
    let mut frames = BTreeSet::new();
    let mut codes = BTreeSet::new();
    for version in Version::ALL {
        let changes = version.changes();
        assert_eq!(changes.version, *version);
        assert!(!changes.text.is_empty());
        assert!(
            changes.frames.iter().all(|frame| frames.insert(*frame)),
            "a frame came twice"
        );
        assert!(
            changes.codes.iter().all(|code| codes.insert(*code)),
            "a code came twice"
        );
    }
    assert_eq!(frames, Type::ALL.iter().copied().collect());
    assert_eq!(codes, Code::ALL.iter().copied().collect());
}
