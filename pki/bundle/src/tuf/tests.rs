//! What is left in places that others use as well.

use super::*;
use std::fs::File;
use std::time::SystemTime;

#[test]
fn what_a_killed_process_left_elsewhere_is_removed_and_nothing_else() {
    let place = tempfile::tempdir().unwrap();
    let make = |name: &str, age: Duration| {
        let directory = place.path().join(name);
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join("root.json"), "{}").unwrap();
        let when = SystemTime::now().checked_sub(age).unwrap();
        File::open(&directory).unwrap().set_modified(when).unwrap();
    };
    let old = LEFT + Duration::from_secs(1);
    make("noderelay-tuf-old", old);
    make("noderelay-tuf-new", Duration::ZERO);
    make("other-old", old);
    std::os::unix::fs::symlink(place.path().join("other-old"), place.path().join("noderelay-tuf-link")).unwrap();
    sweep(place.path());
    let left = std::fs::read_dir(place.path())
        .unwrap()
        .flatten()
        .map(|e| e.file_name().into_string().unwrap());
    let mut left: Vec<_> = left.collect();
    left.sort();
    assert_eq!(left, ["noderelay-tuf-link", "noderelay-tuf-new", "other-old"]);
}
