//! The one routine that counts signatures, for every signed thing: how many *distinct public keys* out of a set signed
//! exactly these bytes.
//!
//! It counts keys, never signatures or key ids: a key that signed twice, or that stands in the set under two names, counts
//! once. It says nothing about whether the count is enough for a purpose; [`Count::reaches`] compares it with a threshold.

use crate::key::PublicKey;
use std::collections::BTreeSet;

/// What the routine found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    /// The distinct keys with a valid signature.
    pub signers: BTreeSet<PublicKey>,
    /// Signatures that added nothing: by a key outside the set, by one that had already signed, or invalid.
    pub others: usize,
}

impl Count {
    /// Whether `threshold` distinct keys signed. A threshold of zero is never reached.
    #[must_use]
    pub fn reaches(&self, threshold: u64) -> bool {
        threshold > 0 && self.have() >= threshold
    }

    /// The number of distinct keys.
    #[must_use]
    pub fn have(&self) -> u64 {
        u64::try_from(self.signers.len()).unwrap_or(u64::MAX)
    }
}

/// Counts the distinct keys of `allowed` that signed `message`. Each signature names the key that it claims to be by.
pub fn count<'a>(
    allowed: &BTreeSet<PublicKey>,
    message: &[u8],
    signatures: impl IntoIterator<Item = (&'a PublicKey, &'a [u8])>,
) -> Count {
    let mut found = Count {
        signers: BTreeSet::new(),
        others: 0,
    };
    for (key, signature) in signatures {
        let counts = allowed.contains(key) && !found.signers.contains(key) && key.verifies(message, signature);
        if counts {
            found.signers.insert(key.clone());
        } else {
            found.others += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests;
