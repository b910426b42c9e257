//! Fuzz bodies: everything that a stranger's directory can feed us. They never panic, and what passes keeps its promise.
//!
//! Plain functions, so that ordinary tests run them over mutated good input, and a fuzzer over anything.

use crate::limits::{MAX_ROOT, MAX_TARGETS};
use crate::metadata::{Root, Signed, Snapshot, Targets, TimestampDocument};
use crate::signing::SigningKey;
use crate::verify::TrustedRoot;
use crate::{FleetFile, PrincipalsFile, PublicKey, strict};

/// One metadata file, read as each kind. What passes is its own canonical form.
pub fn metadata(bytes: &[u8]) {
    let passed = Signed::<Root>::parse("f", bytes, MAX_ROOT).is_ok()
        | Signed::<Targets>::parse("f", bytes, MAX_TARGETS).is_ok()
        | Signed::<Snapshot>::parse("f", bytes, MAX_ROOT).is_ok()
        | Signed::<TimestampDocument>::parse("f", bytes, MAX_ROOT).is_ok();
    // Its own signatures count as well.
    let _ = TrustedRoot::parse("f", bytes);
    if passed {
        let again = strict::value("f", bytes, MAX_TARGETS).map(|value| strict::canonical(&value));
        assert_eq!(again.ok().as_deref(), Some(bytes));
    }
}

/// A fleet file. What passes can be written and reads back the same.
pub fn fleet(bytes: &[u8]) {
    if let Ok(fleet) = FleetFile::parse(bytes) {
        let again = fleet
            .to_yaml()
            .ok()
            .and_then(|text| FleetFile::parse(text.as_bytes()).ok());
        assert_eq!(again, Some(fleet));
    }
}

/// A principals file. What passes can be written and reads back the same.
pub fn principals(bytes: &[u8]) {
    if let Ok(file) = PrincipalsFile::parse(bytes) {
        let again = file
            .to_yaml()
            .ok()
            .and_then(|text| PrincipalsFile::parse(text.as_bytes()).ok());
        assert_eq!(again, Some(file));
    }
}

/// PEM text of a signing key. What passes is the same key when it is written and read again.
pub fn signing_key(bytes: &[u8]) {
    if let Some(key) = SigningKey::from_pem(bytes) {
        let again = key.to_pem().ok().and_then(|text| SigningKey::from_pem(text.as_bytes()));
        assert_eq!(
            again.map(|key| key.public().to_string()),
            Some(key.public().to_string())
        );
    }
}

/// The text of a public key. What passes is its one text.
pub fn public_key(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(key) = text.parse::<PublicKey>() {
        assert_eq!(key.to_string(), text);
    }
}
