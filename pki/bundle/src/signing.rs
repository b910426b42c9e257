//! Signing keys: Ed25519 (default) or P-256, PKCS#8 in PEM, in a file of mode 0600.
//!
//! A private key never appears in `Debug`, logs or errors; the text that held it is wiped after use.

use crate::key::{KeyId, PublicKey};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use noderelay_pki::files::{self, FileError};
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject;
use std::fmt;
use std::path::Path;
use zeroize::Zeroizing;

const MAX_KEY_FILE: usize = 16 * 1024;

/// What kind of key to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Algorithm {
    /// Ed25519.
    #[default]
    Ed25519,
    /// NIST P-256.
    P256,
}

/// Why a signing key cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyFileError {
    /// There is a file already: a key is never overwritten.
    #[error("{file} exists: a key is never overwritten; choose another name")]
    Exists {
        /// The file.
        file: String,
    },
    /// The file cannot be read or written, or its mode is wider than 0600.
    #[error("{file}: {cause}")]
    File {
        /// The file.
        file: String,
        /// What was seen.
        cause: String,
    },
    /// The file holds no signing key.
    #[error("{file} holds no Ed25519 or P-256 signing key (PKCS#8, PEM); make one with `noderelay key create`")]
    NoKey {
        /// The file.
        file: String,
    },
    /// The random generator or the signature failed.
    #[error("the cryptographic library failed to {to}")]
    Crypto {
        /// What was tried.
        to: &'static str,
    },
}

/// A private signing key.
pub struct SigningKey {
    pair: Pair,
    public: PublicKey,
}

enum Pair {
    Ed25519(Ed25519KeyPair),
    P256(EcdsaKeyPair),
}

impl From<FileError> for KeyFileError {
    fn from(error: FileError) -> Self {
        Self::File {
            file: error.path.display().to_string(),
            cause: error.problem.to_string(),
        }
    }
}

impl SigningKey {
    /// Makes a new key.
    ///
    /// # Errors
    /// [`KeyFileError::Crypto`].
    pub fn generate(algorithm: Algorithm) -> Result<Self, KeyFileError> {
        let failed = |_| KeyFileError::Crypto { to: "make a key" };
        let pair = match algorithm {
            Algorithm::Ed25519 => Pair::Ed25519(Ed25519KeyPair::generate().map_err(failed)?),
            Algorithm::P256 => Pair::P256(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).map_err(failed)?),
        };
        Self::with(pair).ok_or(KeyFileError::Crypto { to: "make a key" })
    }

    /// Makes a new key and writes it to `file` (mode 0600), which must not exist.
    ///
    /// # Errors
    /// The file exists or cannot be written.
    pub fn create(file: &Path, algorithm: Algorithm) -> Result<Self, KeyFileError> {
        let key = Self::generate(algorithm)?;
        key.save(file)?;
        Ok(key)
    }

    /// Writes the key to `file` (mode 0600), which must not exist.
    ///
    /// # Errors
    /// The file exists or cannot be written.
    pub fn save(&self, file: &Path) -> Result<(), KeyFileError> {
        if file.symlink_metadata().is_ok() {
            return Err(KeyFileError::Exists {
                file: file.display().to_string(),
            });
        }
        let pem = self.to_pem()?;
        Ok(files::write_atomic(file, pem.as_bytes(), 0o600)?)
    }

    /// Reads a key; a file that others can read is refused.
    ///
    /// # Errors
    /// The file cannot be read, is open to others, or holds no such key.
    pub fn load(file: &Path) -> Result<Self, KeyFileError> {
        let bytes = files::read_private(file, MAX_KEY_FILE)?;
        Self::from_pem(&bytes).ok_or_else(|| KeyFileError::NoKey {
            file: file.display().to_string(),
        })
    }

    /// From PEM text.
    #[must_use]
    pub fn from_pem(pem: &[u8]) -> Option<Self> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem).ok()?;
        let der = der.secret_pkcs8_der();
        let pair = match Ed25519KeyPair::from_pkcs8_maybe_unchecked(der) {
            Ok(pair) => Pair::Ed25519(pair),
            Err(_) => Pair::P256(EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, der).ok()?),
        };
        Self::with(pair)
    }

    /// The public key.
    #[must_use]
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// The id of the public key in TUF metadata.
    #[must_use]
    pub fn id(&self) -> KeyId {
        self.public.id()
    }

    /// Signs a message.
    ///
    /// # Errors
    /// [`KeyFileError::Crypto`].
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyFileError> {
        let failed = |_| KeyFileError::Crypto { to: "sign" };
        Ok(match &self.pair {
            Pair::Ed25519(pair) => pair.try_sign(message).map_err(failed)?.as_ref().to_vec(),
            Pair::P256(pair) => pair
                .sign(&SystemRandom::new(), message)
                .map_err(failed)?
                .as_ref()
                .to_vec(),
        })
    }

    pub(crate) fn to_pem(&self) -> Result<Zeroizing<String>, KeyFileError> {
        let failed = |_| KeyFileError::Crypto { to: "write the key" };
        let der = match &self.pair {
            Pair::Ed25519(pair) => pair.to_pkcs8v1().map_err(failed)?,
            Pair::P256(pair) => pair.to_pkcs8v1().map_err(failed)?,
        };
        let encoded = Zeroizing::new(BASE64.encode(der.as_ref()));
        let mut pem = Zeroizing::new(String::with_capacity(encoded.len() + 128));
        pem.push_str("-----BEGIN PRIVATE KEY-----\n");
        let mut rest = encoded.as_str();
        while !rest.is_empty() {
            let (line, more) = rest.split_at_checked(64).unwrap_or((rest, ""));
            pem.push_str(line);
            pem.push('\n');
            rest = more;
        }
        pem.push_str("-----END PRIVATE KEY-----\n");
        Ok(pem)
    }

    fn with(pair: Pair) -> Option<Self> {
        let public = match &pair {
            Pair::Ed25519(pair) => PublicKey::Ed25519(pair.public_key().as_ref().try_into().ok()?),
            Pair::P256(pair) => PublicKey::P256(pair.public_key().as_ref().try_into().ok()?),
        };
        Some(Self { pair, public })
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey")
            .field("public", &self.public)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
