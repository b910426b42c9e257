//! Public keys of signers, in the one form of each that is accepted.
//!
//! A key is Ed25519 or P-256. Its text form (in YAML and on the command line) is `ed25519:HEX` or `p256:HEX`, lower case;
//! its TUF form is the object that root metadata holds, and its id is the SHA-256 of that object's canonical form. Each
//! public key has exactly one text, one TUF object and one id, so that nobody counts twice.

use crate::strict;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, ED25519, UnparsedPublicKey};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;

const ED25519_BYTES: usize = 32;
/// An uncompressed point: `04`, x, y.
const P256_BYTES: usize = 65;

/// The id of a key: SHA-256 of its canonical TUF object, lower-case hex.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
pub struct KeyId(String);

impl KeyId {
    /// Takes 64 lower-case hex digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        (text.len() == 64 && lower_hex(text)).then(|| Self(text.to_owned()))
    }

    /// The 64 hex digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A signer's public key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum PublicKey {
    /// Ed25519, 32 bytes.
    Ed25519([u8; ED25519_BYTES]),
    /// NIST P-256, the uncompressed point.
    P256([u8; P256_BYTES]),
}

/// Not a public key in its one accepted form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a public key: {seen}; expected ed25519:64-HEX-DIGITS or p256:04-AND-128-HEX-DIGITS, lower case")]
pub struct KeyError {
    seen: String,
}

impl PublicKey {
    /// The object that stands in root metadata.
    #[must_use]
    pub fn tuf(&self) -> Value {
        match self {
            Self::Ed25519(bytes) => {
                json!({"keytype": "ed25519", "keyval": {"public": hex::encode(bytes)}, "scheme": "ed25519"})
            }
            Self::P256(bytes) => {
                json!({"keytype": "ecdsa", "keyval": {"public": hex::encode(bytes)}, "scheme": "ecdsa-sha2-nistp256"})
            }
        }
    }

    /// The key's id in TUF metadata.
    #[must_use]
    pub fn id(&self) -> KeyId {
        KeyId(hex::encode(Sha256::digest(strict::canonical(&self.tuf()))))
    }

    /// Whether `signature` over `message` is by this key.
    #[must_use]
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Ed25519(bytes) => UnparsedPublicKey::new(&ED25519, bytes)
                .verify(message, signature)
                .is_ok(),
            Self::P256(bytes) => UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, bytes)
                .verify(message, signature)
                .is_ok(),
        }
    }

    /// From the parts of a TUF key object. `None`: another algorithm, or another spelling of the same key.
    pub(crate) fn from_tuf(keytype: &str, scheme: &str, public: &str) -> Option<Self> {
        match (keytype, scheme) {
            ("ed25519", "ed25519") => Some(Self::Ed25519(bytes(public)?)),
            ("ecdsa", "ecdsa-sha2-nistp256") => Some(Self::P256(bytes(public)?)).filter(Self::well_formed),
            _ => None,
        }
    }

    fn well_formed(&self) -> bool {
        match self {
            Self::Ed25519(_) => true,
            Self::P256(bytes) => bytes.first() == Some(&4),
        }
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let refused = || KeyError {
            seen: crate::error::shown(text),
        };
        match text.split_once(':') {
            Some(("ed25519", public)) => Self::from_tuf("ed25519", "ed25519", public),
            Some(("p256", public)) => Self::from_tuf("ecdsa", "ecdsa-sha2-nistp256", public),
            _ => None,
        }
        .ok_or_else(refused)
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ed25519(bytes) => write!(f, "ed25519:{}", hex::encode(bytes)),
            Self::P256(bytes) => write!(f, "p256:{}", hex::encode(bytes)),
        }
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl TryFrom<String> for PublicKey {
    type Error = KeyError;

    fn try_from(text: String) -> Result<Self, KeyError> {
        text.parse()
    }
}

impl From<PublicKey> for String {
    fn from(key: PublicKey) -> Self {
        key.to_string()
    }
}

pub(crate) fn lower_hex(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// Decodes exactly `N` bytes of lower-case hex.
pub(crate) fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    if !lower_hex(text) {
        return None;
    }
    hex::decode(text).ok()?.try_into().ok()
}
