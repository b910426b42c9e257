//! PEM files of certificates.
//!
//! What it never does: skip a block that can't be read. A file with anything broken in it is refused whole.

use base64::Engine as _;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use zeroize::Zeroizing;

/// Most certificates in one file.
pub const MAX_CERTIFICATES: usize = 16;

/// A PEM file was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PemError {
    /// No block `CERTIFICATE`.
    #[error("no certificate found: a PEM block `CERTIFICATE` is needed (is the file empty or half-written?)")]
    NoCertificate,
    /// Broken base64 or a missing end line.
    #[error("the PEM text is broken (is the file half-written?)")]
    Broken,
    /// More than [`MAX_CERTIFICATES`].
    #[error("more than {MAX_CERTIFICATES} certificates in one file")]
    TooMany,
}

/// One certificate as PEM.
pub fn certificate_to_pem(der: &[u8]) -> String {
    encode("CERTIFICATE", der).to_string()
}

/// A chain as PEM, in the order given.
pub fn chain_to_pem(chain: &[CertificateDer<'_>]) -> String {
    chain
        .iter()
        .map(|certificate| certificate_to_pem(certificate))
        .collect()
}

/// All certificates of a PEM text, at least one.
pub fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, PemError> {
    let mut found = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        if found.len() >= MAX_CERTIFICATES {
            return Err(PemError::TooMany);
        }
        found.push(certificate.map_err(|_| PemError::Broken)?);
    }
    let begun = pem.windows(BEGIN.len()).filter(|window| *window == BEGIN).count();
    match found.len() {
        0 if begun == 0 => Err(PemError::NoCertificate),
        count if count == begun => Ok(found),
        _ => Err(PemError::Broken),
    }
}

const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";

/// PEM of any label; erased from memory when dropped, as it may hold a private key.
pub(crate) fn encode(label: &str, der: &[u8]) -> Zeroizing<String> {
    let body = Zeroizing::new(base64::engine::general_purpose::STANDARD.encode(der));
    // Room for everything at once, so that no copy is left behind while it grows.
    let mut pem = Zeroizing::new(String::with_capacity(
        body.len() + body.len() / 64 + 2 * label.len() + 64,
    ));
    pem.push_str("-----BEGIN ");
    pem.push_str(label);
    pem.push_str("-----\n");
    for (at, c) in body.chars().enumerate() {
        if at > 0 && at % 64 == 0 {
            pem.push('\n');
        }
        pem.push(c);
    }
    pem.push_str("\n-----END ");
    pem.push_str(label);
    pem.push_str("-----\n");
    pem
}
