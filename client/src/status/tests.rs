//! The object of `--status`, and where it can and cannot be written.

use std::io::Read as _;
use std::time::Duration;

use super::{Status, write_through};

fn example() -> Status {
    Status {
        code: "transport.lost",
        origin: "client",
        exit_code: 255,
        path: Some("relay"),
        relay: Some("r1".into()),
        session: Some("00".repeat(16)),
        cluster: Some("demo".into()),
        policy_version: Some(3),
        bytes_in: 5,
        bytes_out: 7,
        ..Status::new("local")
    }
}

#[test]
fn one_object_with_the_documented_keys() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("status.json");
    std::fs::write(&file, "old").unwrap();
    example().write(&file).unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.ends_with("}\n"));
    let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&text).unwrap();
    for key in [
        "code",
        "origin",
        "exit_code",
        "signal",
        "path",
        "session",
        "node",
        "cluster",
        "policy_version",
        "bytes_in",
        "bytes_out",
        "resumed",
    ] {
        assert!(object.contains_key(key), "{key}");
    }
    assert_eq!(object["code"], "transport.lost");
    assert_eq!(object["exit_code"], 255);
}

#[test]
fn a_device_is_written_to_and_not_replaced() {
    example().write(std::path::Path::new("/dev/null")).unwrap();
    assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
}

#[test]
fn a_file_that_cannot_be_written_is_an_error_known_beforehand() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    for bad in ["none/status.json", "file/status.json", ""] {
        let bad = folder.path().join(bad);
        assert!(Status::check(&bad).is_err(), "{}", bad.display());
        assert!(example().write(&bad).is_err(), "{}", bad.display());
    }
    let good = folder.path().join("status.json");
    Status::check(&good).unwrap();
    assert!(!good.exists());
    Status::check(std::path::Path::new("/dev/null")).unwrap();
}

#[test]
fn a_pipe_that_nobody_reads_holds_nobody_up_and_one_with_a_reader_gets_it() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    Status::check(&pipe).unwrap();
    let alone = write_through(&pipe, b"{}", Duration::from_millis(50)).unwrap_err();
    assert!(alone.to_string().contains("nobody read this pipe"), "{alone}");

    // A reader that comes late, and one that does not keep up.
    let other = pipe.clone();
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        std::fs::File::open(other).unwrap().read_to_end(&mut all).unwrap();
        all
    });
    let text = vec![b'x'; 1024 * 1024];
    write_through(&pipe, &text, Duration::from_secs(30)).unwrap();
    assert_eq!(reader.join().unwrap(), text);

    let _silent = std::fs::File::options().read(true).write(true).open(&pipe).unwrap();
    let full = write_through(&pipe, &text, Duration::from_millis(50)).unwrap_err();
    assert!(full.to_string().contains("nobody read this pipe"), "{full}");

    let socket = folder.path().join("socket");
    let _bound = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    assert!(Status::check(&socket).is_err());
}

#[test]
fn the_outcome_of_an_earlier_run_is_taken_away_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("status.json");
    Status::forget(&file).unwrap();
    example().write(&file).unwrap();
    Status::forget(&file).unwrap();
    assert!(!file.exists());
    Status::forget(std::path::Path::new("/dev/null")).unwrap();
    assert!(std::path::Path::new("/dev/null").exists());
}
