//! Whose folder a demo takes, and what it leaves in it.

use std::fs;
use std::path::Path;

use super::{Folder, MARKER, quoted};

fn root() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn a_running_demo_keeps_its_folder_and_everything_in_it() {
    let root = root();
    let dir = root.path().join("with spaces");
    let first = Folder::take(&dir).unwrap();
    fs::create_dir(dir.join("ca")).unwrap();
    fs::write(dir.join("ca/ca.key"), "x").unwrap();
    let refused = Folder::take(&dir).unwrap_err().to_string();
    assert!(
        refused.contains("a demo runs in") && refused.contains("with spaces"),
        "{refused}"
    );
    assert!(dir.join("ca/ca.key").exists());
    drop(first);
    // The next one begins anew, but for the recordings.
    fs::create_dir_all(dir.join("agent/state/recordings/1")).unwrap();
    fs::create_dir_all(dir.join("agent/state/bundle")).unwrap();
    let second = Folder::take(&dir).unwrap();
    assert!(second.path.is_absolute());
    assert!(!dir.join("ca").exists() && !dir.join("agent/state/bundle").exists());
    assert!(dir.join("agent/state/recordings/1").exists());
}

#[test]
fn a_folder_without_the_marker_is_never_cleaned() {
    let root = root();
    let dir = root.path().join("other");
    noderelay_pki::files::private_directory(&dir).unwrap();
    // As if a fleet of one had been made by hand.
    for folder in ["ca", "agent", "client"] {
        fs::create_dir(dir.join(folder)).unwrap();
    }
    fs::write(dir.join("ca/ca.key"), "x").unwrap();
    fs::write(dir.join("agent/agent.yaml"), "x").unwrap();
    let refused = Folder::take(&dir).unwrap_err().to_string();
    assert!(refused.contains("holds something else"), "{refused}");
    assert!(dir.join("ca/ca.key").exists() && dir.join("agent/agent.yaml").exists() && !dir.join(MARKER).exists());
}

#[test]
fn links_in_the_folder_are_removed_and_not_followed() {
    let root = root();
    let (dir, elsewhere) = (root.path().join("up"), root.path().join("elsewhere"));
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("file"), "x").unwrap();
    drop(Folder::take(&dir).unwrap());
    std::os::unix::fs::symlink(&elsewhere, dir.join("ca")).unwrap();
    Folder::take(&dir).unwrap();
    assert!(elsewhere.join("file").exists() && dir.join("ca").symlink_metadata().is_err());
}

#[test]
fn a_path_is_one_word_of_a_shell() {
    for (path, word) in [
        ("/home/kim/up", "/home/kim/up"),
        ("/home/kim/my demo", "'/home/kim/my demo'"),
        ("/a'b", "'/a'\\''b'"),
        ("/a$b", "'/a$b'"),
    ] {
        assert_eq!(quoted(Path::new(path)), word);
    }
}
