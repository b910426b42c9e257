//! Which tests are found, and how their run is asked for.

use super::*;

#[test]
fn tests_are_found_by_their_mark() {
    let source = format!(
        "{MARK}two windows of true length\"]\n#[test]\nfn a_long_one() {{}}\n#[ignore = \"slow\"]\nfn another() {{}}\n    {MARK}x\"]\n    \
         async fn inner() {{}}\n"
    );
    assert_eq!(names(&source), ["a_long_one", "inner"]);
    assert!(names("fn none() {}").is_empty());
    assert!(!marked(&root()).unwrap().is_empty());
}

#[test]
fn unknown_words_are_named() {
    for words in [&["--fast"][..], &["--for"]] {
        let error = run_all(words).unwrap_err().to_string();
        assert!(error.contains("does not know"), "{error}");
    }
}
