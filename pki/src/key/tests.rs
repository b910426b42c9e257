//! Keys are private: in `Debug`, in errors, on disk.

use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::files::Problem;

#[test]
fn a_key_survives_the_disk_with_mode_0600() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key.pem");
    let key = PrivateKey::generate().unwrap();
    key.save(&path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    let again = PrivateKey::load(&path).unwrap();
    assert_eq!(again.public_key_der(), key.public_key_der());
    assert_eq!(again.fingerprint(), key.fingerprint());
    assert_eq!(again.fingerprint().len(), 64);
}

#[test]
fn a_key_file_that_others_can_read_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key.pem");
    PrivateKey::generate().unwrap().save(&path).unwrap();
    for mode in [0o640, 0o604, 0o660, 0o644, 0o610] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let error = PrivateKey::load(&path).unwrap_err();
        assert!(
            matches!(
                error,
                KeyError::File(FileError {
                    problem: Problem::TooWide { .. },
                    ..
                })
            ),
            "{error}"
        );
        assert!(error.to_string().contains("chmod 0600"), "{error}");
    }
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o400)).unwrap();
    PrivateKey::load(&path).unwrap();
}

#[test]
fn key_bytes_are_in_no_debug_and_no_error() {
    let key = PrivateKey::generate().unwrap();
    let pem = key.to_pem().unwrap();
    let body: Vec<&str> = pem.lines().filter(|line| !line.starts_with('-')).collect();
    let secret = hex::encode(&*key.to_pkcs8().unwrap());
    let shown = [format!("{key:?}"), format!("{key:#?}")];
    for text in &shown {
        assert!(text.contains(&key.fingerprint()));
        assert!(!body.iter().any(|line| text.contains(line)), "{text}");
        assert!(!text.contains(&secret[64..128]));
    }
    let broken = pem.replace("MI", "!!");
    let error = PrivateKey::from_pem(broken.as_bytes()).unwrap_err();
    assert!(!body.iter().any(|line| format!("{error} {error:?}").contains(line)));
}

#[test]
fn other_keys_and_broken_files_are_refused() {
    let key = PrivateKey::generate().unwrap();
    let pem = key.to_pem().unwrap();
    assert!(matches!(PrivateKey::from_pem(b""), Err(KeyError::NoKey)));
    assert!(matches!(
        PrivateKey::from_pem(&pem.as_bytes()[..80]),
        Err(KeyError::NoKey)
    ));
    assert!(matches!(
        PrivateKey::from_pem(pem.replace("PRIVATE", "PUBLIC").as_bytes()),
        Err(KeyError::NoKey)
    ));
    let p384 = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384)
        .unwrap()
        .serialize_pem();
    assert!(matches!(PrivateKey::from_pem(p384.as_bytes()), Err(KeyError::Unusable)));
    let ed25519 = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519)
        .unwrap()
        .serialize_pem();
    assert!(matches!(
        PrivateKey::from_pem(ed25519.as_bytes()),
        Err(KeyError::Unusable)
    ));
    // A key as another tool writes it.
    let other = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    PrivateKey::from_pem(other.serialize_pem().as_bytes()).unwrap();
}

#[test]
fn a_derived_secret_is_the_same_after_a_restart_and_another_for_each_use_and_key() {
    let key = PrivateKey::generate().unwrap();
    let again = PrivateKey::from_pem(key.to_pem().unwrap().as_bytes()).unwrap();
    let secret = key.derive::<32>("one use").unwrap();
    assert_eq!(secret, again.derive::<32>("one use").unwrap());
    assert_ne!(secret, key.derive::<32>("another use").unwrap());
    assert_ne!(secret, PrivateKey::generate().unwrap().derive::<32>("one use").unwrap());
    assert_ne!(*secret, [0; 32]);
}
