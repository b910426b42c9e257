//! Whole files, private files, and files that change under us.

use std::os::unix::fs::symlink;

use super::*;
use crate::testing::noon;

#[test]
fn a_file_is_written_whole_with_exactly_its_mode() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    for mode in [0o600, 0o644, 0o640] {
        write_atomic(&path, b"content", mode).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, mode);
        assert_eq!(read_bounded(&path, 100).unwrap(), b"content");
    }
    // Nothing is left beside it.
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    // No such directory: nothing appears, and the error names the place.
    let error = write_atomic(&directory.path().join("none/file"), b"", 0o600).unwrap_err();
    assert!(
        error.is_missing() && error.to_string().contains("none/file: "),
        "{error}"
    );
}

#[test]
fn a_link_is_replaced_not_followed_when_writing() {
    let directory = tempfile::tempdir().unwrap();
    let (target, link) = (directory.path().join("target"), directory.path().join("link"));
    fs::write(&target, "old").unwrap();
    symlink(&target, &link).unwrap();
    write_atomic(&link, b"new", 0o600).unwrap();
    assert_eq!(fs::read(&target).unwrap(), b"old");
    assert_eq!(fs::read(&link).unwrap(), b"new");
}

#[test]
fn reading_has_limits() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, vec![7; 100]).unwrap();
    assert_eq!(read_bounded(&path, 100).unwrap().len(), 100);
    assert!(matches!(
        read_bounded(&path, 99),
        Err(FileError {
            problem: Problem::TooLarge { max: 99 },
            ..
        })
    ));
    assert!(matches!(
        read_bounded(directory.path(), 99),
        Err(FileError {
            problem: Problem::NotAFile,
            ..
        })
    ));
    assert!(matches!(
        read_bounded(Path::new("/dev/zero"), 99),
        Err(FileError {
            problem: Problem::NotAFile,
            ..
        })
    ));
    assert!(
        read_bounded(&directory.path().join("none"), 99)
            .unwrap_err()
            .is_missing()
    );
    // A pipe does not make us wait for its writer.
    let pipe = directory.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(matches!(
        read_bounded(&pipe, 99),
        Err(FileError {
            problem: Problem::NotAFile,
            ..
        })
    ));
}

#[test]
fn private_directories() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a/b");
    private_directory(&path).unwrap();
    private_directory(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o700);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let error = private_directory(&path).unwrap_err();
    assert!(matches!(error.problem, Problem::TooWide { .. }), "{error}");
    // What is advised helps: a directory without x could not be entered any more.
    assert!(error.to_string().contains("chmod 0700"), "{error}");
}

#[test]
fn whether_a_file_could_be_written_is_known_before_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    could_write(&directory.path().join("new")).unwrap();
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    let missing = could_write(&directory.path().join("none/new")).unwrap_err();
    assert!(
        missing.is_missing() && missing.to_string().contains("none/new: "),
        "{missing}"
    );
}

fn number(path: &Path) -> impl Fn(Timestamp) -> Result<u32, String> + Send + Sync + 'static {
    let path = path.to_owned();
    move |_| {
        let bytes = read_bounded(&path, 100).map_err(|error| error.to_string())?;
        std::str::from_utf8(&bytes)
            .unwrap()
            .parse()
            .map_err(|_| "not a number".to_owned())
    }
}

#[test]
fn b051_a_symlink_swap_is_seen() {
    // As the kubelet does it: file -> ..data/file, ..data -> ..v1, swapped by renaming over ..data.
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    for (version, content) in [("..v1", "1"), ("..v2", "2")] {
        fs::create_dir(at(version)).unwrap();
        fs::write(at(version).join("file"), content).unwrap();
    }
    symlink("..v1", at("..data")).unwrap();
    symlink("..data/file", at("file")).unwrap();

    let mut watched = Watched::open(&[&at("file")], noon(), number(&at("file"))).unwrap();
    let live = watched.live();
    assert_eq!((*live.get(), watched.check(noon())), (1, Checked::Same));
    symlink("..v2", at("..data_tmp")).unwrap();
    fs::rename(at("..data_tmp"), at("..data")).unwrap();
    assert_eq!(watched.check(noon()), Checked::Changed);
    assert_eq!((*live.get(), watched.check(noon())), (2, Checked::Same));
}

#[test]
fn b051_an_unusable_file_keeps_the_last_good_value_and_is_reported_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, "1").unwrap();
    let mut watched = Watched::open(&[&path], noon(), number(&path)).unwrap();
    let live = watched.live();

    fs::write(&path, "half-writ").unwrap();
    assert_eq!(
        watched.check(noon()),
        Checked::Kept {
            error: "not a number".to_owned(),
            known: false
        }
    );
    assert_eq!(
        watched.check(noon()),
        Checked::Kept {
            error: "not a number".to_owned(),
            known: true
        }
    );
    assert_eq!(watched.failing(), Some("not a number"));
    fs::remove_file(&path).unwrap();
    assert!(matches!(watched.check(noon()), Checked::Kept { known: false, .. }));
    assert_eq!(*live.get(), 1);

    fs::write(&path, "3").unwrap();
    assert_eq!(watched.check(noon()), Checked::Changed);
    assert_eq!((*live.get(), watched.failing()), (3, None));

    // Broken, then back to what is live: no error is left.
    fs::write(&path, "x").unwrap();
    assert!(matches!(watched.check(noon()), Checked::Kept { .. }));
    fs::write(&path, "3").unwrap();
    assert_eq!((watched.check(noon()), watched.failing()), (Checked::Same, None));
}

#[test]
fn the_first_load_must_succeed() {
    let path = Path::new("/nonexistent/file");
    assert!(Watched::open(&[path], noon(), number(path)).is_err());
}
