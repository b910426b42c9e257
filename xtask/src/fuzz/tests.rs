//! The words of the command, and where it finds bodies and corpora.

use super::*;

const MANIFEST: &str =
    "[package]\nname = \"x\"\n\n[[bin]]\nname = \"one\"\npath = \"target.rs\"\n\n[[bin]]\nname = \"two\"\n";

#[test]
fn without_words_all_bodies_are_meant() {
    let all = targets(MANIFEST);
    assert_eq!(all, ["one", "two"]);
    let wish = parse(&[], &all).unwrap();
    assert_eq!(
        (wish.bodies, wish.seconds, wish.mutate),
        (vec!["one", "two"], 60, false)
    );
    let wish = parse(&["--mutate", "two", "--seconds", "5", "--seed", "9"], &all).unwrap();
    assert_eq!((wish.bodies, wish.seconds, wish.seed), (vec!["two"], 5, Some(9)));
}

#[test]
fn what_it_does_not_know_is_refused_with_what_it_knows() {
    let said = |words: &[&str]| parse(words, &["one"]).unwrap_err().to_string();
    assert!(said(&["three"]).contains("the bodies one"));
    assert!(said(&["--seconds"]).contains("needs a number"));
    assert!(said(&["--seconds", "x"]).contains("not x"));
    assert!(said(&["--seed", "1"]).contains("--mutate"));
}

#[test]
fn every_target_has_its_corpus_in_the_list() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    let (manifest, list) = (read("fuzz/Cargo.toml"), read("netsim-tests/src/fuzz.rs"));
    let all = targets(&manifest);
    assert!(all.len() > 30);
    for body in all {
        let corpus = corpus(&list, body).unwrap_or_else(|| panic!("{body}"));
        assert!(root().join(corpus).is_dir(), "{corpus}");
    }
    assert_eq!(corpus(&list, "no_body"), None);
}
