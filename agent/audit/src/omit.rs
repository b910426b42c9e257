//! Keeps big output of work without a terminal from filling the node: from a limit on only size and digest are kept.
//!
//! Never: anything for work with a terminal, whose output is what a person saw.

use sha2::{Digest as _, Sha256};

use crate::line::letter;
use crate::{Omitted, Stream};

/// Output of work without a terminal is recorded whole up to here, per stream; beyond, by size and digest. Enough for
/// every log that a person reads, far less than a node's disk.
pub(crate) const WHOLE: u64 = 16 * 1024 * 1024;

/// What is left out of one stream.
#[derive(Debug)]
pub(crate) struct Omit {
    stream: Stream,
    limit: u64,
    seen: u64,
    digest: Sha256,
    reported: u64,
}

impl Omit {
    /// Everything is kept (`limit` none), or only the first `limit` bytes.
    pub(crate) fn new(stream: Stream, limit: Option<u64>) -> Self {
        Self {
            stream,
            limit: limit.unwrap_or(u64::MAX),
            seen: 0,
            digest: Sha256::new(),
            reported: 0,
        }
    }

    /// Splits off what is to be recorded whole; the rest goes into the digest.
    pub(crate) fn keep<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let room = usize::try_from(self.limit.saturating_sub(self.seen)).unwrap_or(usize::MAX);
        let (kept, left_out) = bytes.split_at(bytes.len().min(room));
        self.seen = self.seen.saturating_add(bytes.len() as u64);
        if !left_out.is_empty() {
            self.digest.update(left_out);
        }
        kept
    }

    /// What is left out so far, if that has grown since the last report.
    pub(crate) fn report(&mut self) -> Option<Omitted> {
        let bytes = self.seen.saturating_sub(self.limit);
        if bytes == self.reported {
            return None;
        }
        self.reported = bytes;
        let sha256 = hex::encode(self.digest.clone().finalize());
        Some(Omitted {
            stream: letter(self.stream).to_string(),
            from: self.limit,
            bytes,
            sha256,
        })
    }
}
