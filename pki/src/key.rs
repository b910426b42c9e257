//! Private keys of certificates: ECDSA P-256, kept in memory by the crypto library, on disk as PKCS#8 PEM, mode 0600.
//!
//! What it never does: show key bytes in `Debug`, in an error, or in a log; read a key file that others can read.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use aws_lc_rs::encoding::{AsBigEndian as _, AsDer, EcPrivateKeyBin, PublicKeyX509Der};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use zeroize::Zeroizing;

use crate::files::{self, FileError};
use crate::pem;

/// A private key (ECDSA P-256). Cloning shares it.
#[derive(Clone)]
pub struct PrivateKey {
    pair: Arc<EcdsaKeyPair>,
    public: Arc<[u8]>,
}

/// What keeps secrets that are derived from a private key apart from every other use of it.
const DERIVE: &[u8] = b"noderelay derived secret/1";

/// A private key could not be made, read or written. Never says anything about the key's content.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file.
    #[error(transparent)]
    File(#[from] FileError),
    /// Not a PEM private key.
    #[error("no private key found: a PEM block `PRIVATE KEY` (PKCS#8) is needed")]
    NoKey,
    /// A key of another kind.
    #[error("the private key is not usable: an ECDSA P-256 key is needed (make one with `noderelay pki issue`)")]
    Unusable,
    /// The crypto library failed.
    #[error("the crypto library could not {0}")]
    Crypto(&'static str),
}

impl PrivateKey {
    /// Makes a new key.
    pub fn generate() -> Result<PrivateKey, KeyError> {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING)
            .map_err(|_| KeyError::Crypto("make a private key"))?;
        Self::from_pair(pair)
    }

    /// Reads a PEM file that only we (or root) can read.
    pub fn load(path: &Path) -> Result<PrivateKey, KeyError> {
        let pem = Zeroizing::new(files::read_private(path, files::MAX_PEM_FILE)?);
        Self::from_pem(&pem)
    }

    /// Writes a PEM file with mode 0600, whole or not at all.
    pub fn save(&self, path: &Path) -> Result<(), KeyError> {
        Ok(files::write_atomic(path, self.to_pem()?.as_bytes(), 0o600)?)
    }

    /// From PEM: PKCS#8, or SEC1 as OpenSSL writes it.
    pub fn from_pem(pem: &[u8]) -> Result<PrivateKey, KeyError> {
        let der = PrivateKeyDer::from_pem_slice(pem).map_err(|_| KeyError::NoKey)?;
        let der = Erased(der);
        let pair = EcdsaKeyPair::from_private_key_der(&ECDSA_P256_SHA256_ASN1_SIGNING, der.0.secret_der())
            .map_err(|_| KeyError::Unusable)?;
        Self::from_pair(pair)
    }

    /// As PKCS#8 PEM; the text is erased from memory when dropped.
    pub fn to_pem(&self) -> Result<Zeroizing<String>, KeyError> {
        let der = self.to_pkcs8()?;
        Ok(pem::encode("PRIVATE KEY", &der))
    }

    /// The public key as DER SubjectPublicKeyInfo.
    pub fn public_key_der(&self) -> &[u8] {
        &self.public
    }

    /// SHA-256 of the public key (SubjectPublicKeyInfo), lower-case hex.
    pub fn fingerprint(&self) -> String {
        fingerprint(&self.public)
    }

    /// A secret of another use that only the holder of this key can make, the same after a restart: HKDF-SHA256 (RFC 5869) over
    /// the private scalar, with `label` as the use. Says nothing about the key.
    ///
    /// # Errors
    /// The crypto library failed.
    pub fn derive<const N: usize>(&self, label: &str) -> Result<Zeroizing<[u8; N]>, KeyError> {
        struct Length(usize);
        impl KeyType for Length {
            fn len(&self) -> usize {
                self.0
            }
        }
        let failed = |_| KeyError::Crypto("derive a secret from the private key");
        let scalar: EcPrivateKeyBin<'_> = self.pair.private_key().as_be_bytes().map_err(failed)?;
        let mut secret = Zeroizing::new([0; N]);
        Salt::new(HKDF_SHA256, DERIVE)
            .extract(scalar.as_ref())
            .expand(&[label.as_bytes()], Length(N))
            .and_then(|made| made.fill(secret.as_mut()))
            .map_err(failed)?;
        Ok(secret)
    }

    /// The signer that rustls uses.
    pub(crate) fn tls_signer(&self) -> Result<Arc<dyn rustls::sign::SigningKey>, KeyError> {
        let der = self.to_pkcs8()?;
        let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(der.as_slice()));
        rustls::crypto::aws_lc_rs::sign::any_ecdsa_type(&der).map_err(|_| KeyError::Unusable)
    }

    fn to_pkcs8(&self) -> Result<Zeroizing<Vec<u8>>, KeyError> {
        let document = self
            .pair
            .to_pkcs8v1()
            .map_err(|_| KeyError::Crypto("write the private key"))?;
        Ok(Zeroizing::new(document.as_ref().to_vec()))
    }

    fn from_pair(pair: EcdsaKeyPair) -> Result<PrivateKey, KeyError> {
        let public: PublicKeyX509Der<'_> = pair
            .public_key()
            .as_der()
            .map_err(|_| KeyError::Crypto("write the public key"))?;
        let public = public.as_ref().into();
        Ok(PrivateKey {
            pair: Arc::new(pair),
            public,
        })
    }
}

/// SHA-256 as lower-case hex.
pub(crate) fn fingerprint(bytes: &[u8]) -> String {
    hex::encode(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes))
}

/// Key bytes that are erased when dropped.
struct Erased(PrivateKeyDer<'static>);

impl Drop for Erased {
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.0);
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrivateKey")
            .field("public_key_sha256", &self.fingerprint())
            .finish_non_exhaustive()
    }
}

impl rcgen::PublicKeyData for PrivateKey {
    fn der_bytes(&self) -> &[u8] {
        self.pair.public_key().as_ref()
    }

    fn algorithm(&self) -> &'static rcgen::SignatureAlgorithm {
        &rcgen::PKCS_ECDSA_P256_SHA256
    }
}

impl rcgen::SigningKey for PrivateKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        let random = aws_lc_rs::rand::SystemRandom::new();
        let signature = self
            .pair
            .sign(&random, message)
            .map_err(|_| rcgen::Error::RemoteKeyError)?;
        Ok(signature.as_ref().to_vec())
    }
}

#[cfg(test)]
mod tests;
