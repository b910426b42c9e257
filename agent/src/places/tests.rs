//! Folders that are replaced, opened to others or gone while the agent runs are noticed, each with what was seen.

use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, symlink};

use super::*;

fn places(root: &Path) -> Places {
    for folder in ["state", "state/sessions", "state/recordings", "elsewhere"] {
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(root.join(folder))
            .unwrap();
    }
    let at = |name: &str| root.join(name);
    Places::of(&at("state"), &at("state/sessions"), &at("state/recordings")).unwrap()
}

fn refused(change: impl FnOnce(&Path)) -> String {
    let folder = tempfile::tempdir().unwrap();
    let places = places(folder.path());
    places.check().unwrap();
    change(folder.path());
    places.check().unwrap_err().to_string()
}

#[test]
fn a_folder_that_was_replaced_is_noticed() {
    let seen = refused(|root| {
        std::fs::rename(root.join("state/recordings"), root.join("state/old")).unwrap();
        symlink(root.join("elsewhere"), root.join("state/recordings")).unwrap();
    });
    assert!(seen.contains("recordings"), "{seen}");
    // The same content under the same name, through a link one level up.
    let seen = refused(|root| {
        std::fs::rename(root.join("state"), root.join("old")).unwrap();
        symlink(root.join("elsewhere"), root.join("state")).unwrap();
    });
    assert!(seen.contains("state"), "{seen}");
    let seen = refused(|root| {
        std::fs::rename(root.join("state/recordings"), root.join("state/old")).unwrap();
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(root.join("state/recordings"))
            .unwrap();
    });
    assert!(seen.contains("not the folder that it was"), "{seen}");
    let seen = refused(|root| std::fs::remove_dir(root.join("state/recordings")).unwrap());
    assert!(seen.contains("recordings: No such file"), "{seen}");
}

#[test]
fn a_folder_that_was_opened_to_others_is_noticed() {
    for name in ["state", "state/sessions", "state/recordings"] {
        let seen = refused(|root| {
            std::fs::set_permissions(root.join(name), std::fs::Permissions::from_mode(0o777)).unwrap();
        });
        assert!(seen.contains("(mode 0777): run chmod 0700"), "{seen}");
    }
}
