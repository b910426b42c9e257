//! Reading the YAML files of a publication: one document, no duplicate keys, no unknown fields, bounded.

use crate::error::BundleError;
use serde::de::DeserializeOwned;

/// Parses a file that was signed.
pub(crate) fn parse<T: DeserializeOwned>(file: &str, bytes: &[u8]) -> Result<T, BundleError> {
    let text = std::str::from_utf8(bytes).map_err(|e| BundleError::content(file, e.to_string()))?;
    let options = serde_saphyr::options! {
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::Error,
        strict_booleans: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|e| BundleError::content(file, e.to_string()))
}
