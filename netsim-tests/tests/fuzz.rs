//! Every fuzz body over its corpus and over mutants of it, and the lists that have to agree.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail loudly")]

use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use netsim_tests::chance::Chance;
use netsim_tests::fuzz::mutate::Mutants;
use netsim_tests::fuzz::{BODIES, Body, root};

/// Enough that a body which fails easily fails here; `cargo xtask fuzz` goes on for longer.
const MUTANTS: usize = 300;

/// What a body does not take is shown in a form that can be put into the corpus.
fn run(body: &Body, name: &str, bytes: &[u8]) {
    let run = body.run;
    if catch_unwind(|| run(bytes)).is_err() {
        panic!("{} fails on {name}: {}", body.name, bytes.escape_ascii());
    }
}

#[test]
fn every_body_takes_its_corpus() {
    for body in BODIES {
        for (name, bytes) in body.corpus() {
            run(body, &name, &bytes);
        }
    }
}

#[test]
fn every_body_takes_mutants_of_its_corpus() {
    for body in BODIES {
        let corpus = body.corpus();
        let chance = Chance::new();
        println!("{} with that seed", body.name);
        let mut mutants = Mutants::of(&corpus, chance);
        for _ in 0..MUTANTS {
            run(body, "a mutant", mutants.mutant());
        }
    }
}

#[test]
fn a_row_of_mutants_follows_from_its_seed() {
    let corpus = [("a".to_owned(), b"one: two\n".to_vec()), ("b".to_owned(), vec![0; 40])];
    let row = |seed| {
        let mut mutants = Mutants::of(&corpus, Chance::of(seed));
        (0..200).map(|_| mutants.mutant().to_vec()).collect::<Vec<_>>()
    };
    assert_eq!(row(7), row(7));
    assert_ne!(row(7), row(8));
    assert!(row(7).iter().collect::<BTreeSet<_>>().len() > 150, "mutants differ");
}

#[test]
fn corpora_are_small_and_none_is_left_out() {
    let mut used = BTreeSet::new();
    for body in BODIES {
        let corpus = body.corpus();
        assert!(
            (5..=80).contains(&corpus.len()),
            "{} has {} files",
            body.corpus,
            corpus.len()
        );
        for (name, bytes) in corpus {
            assert!(
                bytes.len() <= 64 * 1024,
                "{}/{name} has {} bytes",
                body.corpus,
                bytes.len()
            );
        }
        used.insert(root().join(body.corpus));
    }
    let there: BTreeSet<PathBuf> = folders(&root())
        .into_iter()
        .filter(|folder| folder.ends_with("corpus"))
        .flat_map(|corpus| children(&corpus))
        .filter(|path| path.is_dir())
        .collect();
    assert_eq!(there, used);
}

/// Whoever writes a body and forgets the list is told here.
#[test]
fn every_body_that_is_written_is_in_the_list() {
    let mut written = BTreeSet::new();
    for folder in folders(&root()) {
        let Ok(text) = fs::read_to_string(folder.join("src/fuzz.rs")) else {
            continue;
        };
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let name = manifest
            .lines()
            .find_map(|line| line.strip_prefix("name = \""))
            .unwrap();
        let name = name.trim_end_matches('"').replace('-', "_");
        let bodies = text
            .lines()
            .filter_map(|line| line.strip_prefix("pub fn ")?.strip_suffix("(bytes: &[u8]) {"))
            // A generic one is a part of another body.
            .filter(|body| !body.contains('<'));
        written.extend(bodies.map(|body| format!("{name}::fuzz::{body}")));
    }
    let listed: BTreeSet<String> = BODIES.iter().map(|body| body.path.replace(' ', "")).collect();
    assert_eq!(written, listed);
}

#[test]
fn every_body_has_a_fuzz_target() {
    let manifest = fs::read_to_string(root().join("fuzz/Cargo.toml")).unwrap();
    let targets: Vec<&str> = manifest
        .split("[[bin]]")
        .skip(1)
        .map(|target| {
            assert!(target.contains("\npath = \"target.rs\"\n"), "{target}");
            target
                .trim()
                .strip_prefix("name = \"")
                .unwrap()
                .split('"')
                .next()
                .unwrap()
        })
        .collect();
    let bodies: Vec<&str> = BODIES.iter().map(|body| body.name).collect();
    assert_eq!(targets, bodies);
}

/// Every folder of the project, without what was built and what is hidden.
fn folders(root: &Path) -> Vec<PathBuf> {
    let mut found = vec![root.to_owned()];
    let mut at = 0;
    while let Some(folder) = found.get(at) {
        let inside: Vec<_> = children(folder)
            .into_iter()
            .filter(|path| path.is_dir() && !path.ends_with("target"))
            .filter(|path| !path.file_name().unwrap().to_string_lossy().starts_with('.'))
            .collect();
        found.extend(inside);
        at += 1;
    }
    found
}

fn children(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}
