//! The fuzz bodies over the committed corpora: good frames, and bytes that once hurt or were made to hurt.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail loudly"
)]

use std::path::PathBuf;

use noderelay_proto::fuzz;

/// Name and bytes of every file of a corpus.
fn corpus(name: &str, at_least: usize) -> Vec<(String, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            (
                entry.file_name().to_string_lossy().into_owned(),
                std::fs::read(entry.path()).unwrap(),
            )
        })
        .collect();
    assert!(
        files.len() >= at_least,
        "{} has {} files",
        folder.display(),
        files.len()
    );
    files
}

#[test]
fn streams() {
    for (name, bytes) in corpus("streams", 30) {
        eprintln!("{name}");
        fuzz::streams(&bytes);
        fuzz::session(&bytes);
        for cut in 0..bytes.len() {
            fuzz::streams(&bytes[..cut]);
        }
    }
}

#[test]
fn payloads() {
    for (name, bytes) in corpus("payloads", 10) {
        eprintln!("{name}");
        fuzz::payloads(&bytes);
        fuzz::number(&bytes);
    }
}
