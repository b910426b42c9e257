//! Key files.

use super::*;
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_key_is_written_once_privately_and_reads_back() {
    let directory = tempfile::tempdir().unwrap();
    for (name, algorithm) in [("a.pem", Algorithm::Ed25519), ("b.pem", Algorithm::P256)] {
        let file = directory.path().join(name);
        let key = SigningKey::create(&file, algorithm).unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o600);
        let again = SigningKey::load(&file).unwrap();
        assert_eq!(again.public(), key.public());
        assert!(key.public().verifies(b"text", &again.sign(b"text").unwrap()));
        assert!(matches!(
            SigningKey::create(&file, algorithm),
            Err(KeyFileError::Exists { .. })
        ));
    }
}

#[test]
fn a_key_that_others_can_read_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("key.pem");
    SigningKey::create(&file, Algorithm::Ed25519).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    assert!(matches!(SigningKey::load(&file), Err(KeyFileError::File { .. })));
}

#[test]
fn what_is_no_signing_key_is_refused() {
    let rubbish = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    assert!(SigningKey::from_pem(rubbish.as_bytes()).is_none());
    assert!(SigningKey::from_pem(b"").is_none());
}

#[test]
fn debug_shows_the_public_part_only() {
    let key = SigningKey::generate(Algorithm::Ed25519).unwrap();
    let shown = format!("{key:?}");
    assert!(
        shown.contains(&key.public().to_string()) && !shown.contains("seed") && shown.len() < 140,
        "{shown}"
    );
}

#[test]
fn public_keys_have_one_text_each() {
    for algorithm in [Algorithm::Ed25519, Algorithm::P256] {
        let key = SigningKey::generate(algorithm).unwrap();
        let text = key.public().to_string();
        assert_eq!(text.parse::<PublicKey>().as_ref(), Ok(key.public()));
        let (name, digits) = text.split_once(':').unwrap();
        for bad in [
            digits.to_owned(),
            format!("{name}:{}", digits.to_uppercase()),
            format!("{text}00"),
            format!("rsa:{digits}"),
        ] {
            assert!(bad.parse::<PublicKey>().is_err() || bad == text, "{bad}");
        }
    }
    // The compressed point is another spelling of the same P-256 key.
    assert!(format!("p256:02{}", "11".repeat(32)).parse::<PublicKey>().is_err());
}
