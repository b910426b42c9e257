//! The place of a warm process, and what stands for its configuration.

use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;

use super::ask::configuration;
use super::place::{Place, PlaceError};
use crate::config::{Config, Places};

fn config(folder: &Path, more: &str) -> Config {
    let text = format!("identity: {{certificate: c, key: k}}\nbundle: b\nstate: state\n{more}");
    Config::parse(text.as_bytes(), &folder.join("config.yaml"), folder, &Places::default()).unwrap()
}

#[tokio::test]
async fn one_process_has_a_place_and_what_a_dead_one_left_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), "");
    let place = Place::of(&config);
    assert!(place.connect().await.is_err(), "nobody yet");
    let first = place.occupy().unwrap();
    let taken = place.occupy().unwrap_err();
    assert!(matches!(taken, PlaceError::Taken(_)));
    assert!(taken.to_string().contains("/warm/lock is locked by "), "{taken}");
    place.connect().await.unwrap();
    drop(first);
    assert!(!place.socket().exists());
    // A process that was killed leaves its socket.
    drop(std::os::unix::net::UnixListener::bind(place.socket()).unwrap());
    assert!(place.connect().await.is_err());
    let again = place.occupy().unwrap();
    place.connect().await.unwrap();
    drop(again);
}

#[tokio::test]
async fn a_place_that_others_can_enter_or_that_is_too_deep_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let wide = config(folder.path(), "");
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(Place::of(&wide).folder())
        .unwrap();
    std::fs::set_permissions(Place::of(&wide).folder(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let error = Place::of(&wide).occupy().unwrap_err().to_string();
    assert!(error.contains("chmod 0700"), "{error}");
    let deep = folder.path().join("d".repeat(100));
    let error = Place::of(&config(&deep, "")).occupy().unwrap_err();
    assert!(matches!(error, PlaceError::TooLong(_)), "{error}");
}

#[test]
fn another_file_or_another_setting_is_another_configuration() {
    let base = config(Path::new("/a"), "");
    assert_eq!(
        configuration(&base),
        configuration(&config(Path::new("/a"), "keepalive: 15s\n"))
    );
    for other in [
        config(Path::new("/b"), ""),
        config(Path::new("/a"), "relays: ['192.0.2.1:443']\n"),
        config(Path::new("/a"), "cluster: other\n"),
    ] {
        assert_ne!(configuration(&base), configuration(&other));
    }
}
