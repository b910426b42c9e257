//! The project's own documents as tests, and tests of the checker on small invented projects.

use std::path::Path;

use super::*;

/// An invented project in a folder of its own, removed at the end.
struct Project(tempfile::TempDir);

impl Project {
    fn of(files: &[(&str, &str)]) -> Project {
        let project = Project(tempfile::tempdir().unwrap());
        for (path, text) in files {
            let path = project.root().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        project
    }

    fn root(&self) -> &Path {
        self.0.path()
    }

    fn findings(&self) -> Vec<String> {
        findings(self.root()).unwrap()
    }
}

const GOOD: &str = "# Promises\n\n| promise | test |\n|---|---|\n| It works | `relay/a.rs::it_works` |\n";
const SOURCE: &str = "//! For nothing.\n\n#[test]\nfn it_works() {}\n\n#[test]\n#[ignore = \"slow\"]\nfn ignored() {}\n\nfn plain() {}\n";

#[track_caller]
fn one(findings: &[String], part: &str) {
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].contains(part), "{findings:?}");
}

#[test]
fn links_paths_openings_sizes_and_promises_of_this_project_hold() {
    let found = findings(&root()).unwrap();
    assert!(found.is_empty(), "\n  {}", found.join("\n  "));
}

#[test]
fn a_good_project_has_no_findings() {
    let readme =
        "[s](SPECIFICATION.md#promises) [out](https://example.org/x) `relay/a.rs`\n\n```\n[no](gone.md)\n```\n";
    let project = Project::of(&[
        ("README.md", readme),
        ("SPECIFICATION.md", GOOD),
        ("relay/a.rs", SOURCE),
    ]);
    assert!(project.findings().is_empty(), "{:?}", project.findings());
}

#[test]
fn a_link_to_nothing_is_found() {
    let files = [
        ("SPECIFICATION.md", GOOD),
        ("relay/a.rs", SOURCE),
        ("docs/a.md", "see [b](b.md)\n"),
    ];
    one(&Project::of(&files).findings(), "docs/a.md:1: links to b.md");
    let files = [
        ("SPECIFICATION.md", GOOD),
        ("relay/a.rs", SOURCE),
        ("docs/a.md", "[b](../SPECIFICATION.md#rows)\n"),
    ];
    one(&Project::of(&files).findings(), "no such heading");
}

#[test]
fn a_file_that_is_named_but_missing_is_found_in_documents_and_in_opening_comments() {
    let files = [
        ("SPECIFICATION.md", GOOD),
        ("relay/a.rs", SOURCE),
        ("docs/a.md", "look at `relay/gone.rs`\n"),
    ];
    one(&Project::of(&files).findings(), "docs/a.md: names `relay/gone.rs`");
    let files = [
        ("SPECIFICATION.md", GOOD),
        ("relay/a.rs", SOURCE),
        ("relay/b.rs", "//! See `docs/gone.md`.\n"),
    ];
    one(&Project::of(&files).findings(), "relay/b.rs: names `docs/gone.md`");
}

#[test]
fn a_source_without_opening_comment_or_too_long_is_found() {
    let files = [
        ("SPECIFICATION.md", GOOD),
        ("relay/a.rs", SOURCE),
        ("relay/b.rs", "fn silent() {}\n"),
    ];
    one(&Project::of(&files).findings(), "relay/b.rs: must open with //!");
    let files = [
        ("SPECIFICATION.md", GOOD),
        ("relay/a.rs", SOURCE),
        ("relay/src/b/tests.rs", "fn silent() {}\n"),
    ];
    assert!(
        Project::of(&files).findings().is_empty(),
        "the tests of a file stand under its comment"
    );
    let long = format!("//! Long.\n{}", "\n".repeat(sources::MOST_LINES));
    let files = [
        ("SPECIFICATION.md", GOOD),
        ("relay/a.rs", SOURCE),
        ("relay/b.rs", long.as_str()),
    ];
    one(&Project::of(&files).findings(), "split it");
}

#[test]
fn only_the_target_folder_at_the_top_is_passed_over() {
    let files = [
        ("SPECIFICATION.md", GOOD),
        ("relay/a.rs", SOURCE),
        ("target/release/build/x.rs", "fn silent() {}\n"),
        ("client/src/target/resolve.rs", "fn silent() {}\n"),
    ];
    one(
        &Project::of(&files).findings(),
        "client/src/target/resolve.rs: must open with //!",
    );
}

#[test]
fn a_promise_needs_a_test_that_exists_and_runs() {
    let cases = [
        ("| It works | |", "names no test"),
        ("| It works | `it_works` |", "not of the form"),
        (
            "| It works | `relay/gone.rs::it_works` |",
            "`relay/gone.rs` does not exist",
        ),
        ("| It works | `relay/a.rs::other` |", "has no test `other`"),
        ("| It works | `relay/a.rs::ignored` |", "is ignored"),
        ("| It works | `relay/a.rs::plain` |", "no test"),
    ];
    for (row, part) in cases {
        let text = format!("| promise | test |\n|---|---|\n{row}\n");
        let document = Text {
            path: promises::FILE.to_owned(),
            text,
        };
        let sources = [Text {
            path: "relay/a.rs".to_owned(),
            text: SOURCE.to_owned(),
        }];
        one(&promises::findings(&document, &sources), part);
    }
}

#[test]
fn a_promise_stands_once() {
    let twice = format!("{GOOD}| It works | `relay/a.rs::it_works` |\n");
    let files = [("SPECIFICATION.md", twice.as_str()), ("relay/a.rs", SOURCE)];
    one(&Project::of(&files).findings(), "same promise as in line 5");
}
