//! Mutants of a corpus: what is nearly right reaches further than chance does.
//!
//! A mutant is a file of the corpus, or the mutant before it, after a few changes: bits, bytes, lengths, numbers, words of the
//! formats, pieces left out, doubled, repeated or taken from another file. Everything follows from one seed. It knows nothing of
//! coverage; that is for `fuzz/`.

use crate::chance::Chance;

/// Longest mutant.
const MOST: usize = 64 * 1024;

/// Words that mean something in the formats that are read.
const WORDS: &[&[u8]] = &[
    b"\x1b[",
    b"\x1b]0;",
    b"\x1bP",
    b"\x1b\\",
    b"\x1b(0",
    b"\x1b[?1049h",
    b"\x9b",
    b"\x18",
    b"\x07",
    b"\x0e",
    b"\r\n",
    b"\n",
    b"\t",
    b"\xe2\x80\xae",
    b"\xf3\xa0\x80\x81",
    b"\xef\xbb\xbf",
    b"\xe2\x82",
    b"\xc2\x85",
    b"\xff",
    b"\0",
    b"~.",
    b"~~",
    b"~?",
    b"{",
    b"}",
    b"[",
    b"]",
    b"(",
    b")",
    b"\"",
    b"'",
    b":",
    b": ",
    b", ",
    b"- ",
    b"&a ",
    b"*a",
    b"<<: *a",
    b"|\n",
    b">\n",
    b"---\n",
    b"!!binary ",
    b"~",
    b"null",
    b"true",
    b"0",
    b"-1",
    b"1",
    b"255",
    b"256",
    b"65535",
    b"65536",
    b"4294967295",
    b"4294967296",
    b"18446744073709551615",
    b"9223372036854775808",
    b"1e308",
    b"0x10",
    b"0o7",
    b".inf",
    b".nan",
    b"\\u0000",
    b"\\ud800",
    b"\\n",
    b"\\x41",
    b"0s",
    b"36500d",
    b"9999-12-31T23:59:59Z",
    b"1969-12-31T23:59:59Z",
    b"spiffe://",
    b"/cluster/",
    b"%2F",
    b"%e2",
    b"permit(principal, action, resource);",
    b"when { ",
    b"unless { ",
    b" && ",
    b" || ",
    b"!",
    b"-",
    b"if ",
    b" then ",
    b" else ",
    b"@id(\"a\")",
    b"principal",
    b" in ",
    b" has ",
    b" like ",
    b"context.",
    b"decimal(\"1.0\")",
    b"ip(\"::1\")",
    b"::",
    b"?principal",
    b"//",
    b"-----BEGIN CERTIFICATE-----\n",
    b"-----END CERTIFICATE-----\n",
    b"-----BEGIN PRIVATE KEY-----\n",
    b"=",
    b"\x30\x80",
    b"\x30\x82\xff\xff",
    b"\x30\x84\xff\xff\xff\xff",
    b"\x02\x01\x00",
    b"\x0c\x00",
    b"\x17\x0d500101000000Z",
    b"\x18\x0f99991231235959Z",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\x80",
    b"\x40",
    b"\xc0",
    b"\x01",
    b"\x08",
    b"\x0a",
];

/// A row of mutants.
#[derive(Debug)]
pub struct Mutants<'a> {
    corpus: &'a [(String, Vec<u8>)],
    chance: Chance,
    last: Vec<u8>,
}

impl<'a> Mutants<'a> {
    /// Of this corpus, with chance that begins at this seed.
    pub fn of(corpus: &'a [(String, Vec<u8>)], chance: Chance) -> Self {
        let last = Vec::new();
        Self { corpus, chance, last }
    }

    /// The next one.
    pub fn mutant(&mut self) -> &[u8] {
        // Mutants of mutants go far; from time to time a new beginning.
        if self.last.is_empty() || self.chance.below(4) != 0 {
            self.last = self.any_file();
        }
        for _ in 0..=self.chance.below(6) {
            self.change();
        }
        self.last.truncate(MOST);
        &self.last
    }

    fn any_file(&mut self) -> Vec<u8> {
        let at = self.chance.below(self.corpus.len());
        self.corpus.get(at).map(|(_, bytes)| bytes.clone()).unwrap_or_default()
    }

    fn change(&mut self) {
        let length = self.last.len();
        let at = self.chance.below(length + 1);
        match self.chance.below(12) {
            0 | 1 if at < length => self.last[at] ^= 1 << self.chance.below(8),
            2 if at < length => self.last[at] = self.chance.number() as u8,
            3 if at < length => {
                let step = [1, 255, 16, 128][self.chance.below(4)];
                self.last[at] = self.last[at].wrapping_add(step);
            }
            4 => {
                let few = 1 + self.chance.below(8);
                let bytes = self.chance.bytes(few);
                self.insert(at, &bytes);
            }
            5 => {
                let piece = self.piece();
                self.last.drain(piece);
            }
            6 => {
                let piece = self.piece();
                let bytes = self.last[piece].to_vec();
                self.insert(at, &bytes);
            }
            7 => {
                // Nested deep, or listed long.
                let piece = self.piece();
                let bytes = self.last[piece].to_vec();
                let few = &bytes[..bytes.len().min(12)];
                let repeated = few.repeat(1 << self.chance.below(9));
                self.insert(at, &repeated);
            }
            8 => {
                let other = self.any_file();
                let from = self.chance.below(other.len() + 1);
                let to = from + self.chance.below(other.len() - from + 1);
                self.insert(at, &other[from..to]);
            }
            9 => self.last.truncate(at),
            _ => {
                let word = WORDS[self.chance.below(WORDS.len())];
                if self.chance.below(2) == 0 {
                    let over = (at + word.len()).min(length);
                    self.last.drain(at..over);
                }
                self.insert(at, word);
            }
        }
    }

    fn piece(&mut self) -> std::ops::Range<usize> {
        let length = self.last.len();
        let from = self.chance.below(length + 1);
        let most = if self.chance.below(2) == 0 { 8 } else { length };
        from..from + self.chance.below((length - from).min(most) + 1)
    }

    fn insert(&mut self, at: usize, bytes: &[u8]) {
        let room = MOST.saturating_sub(self.last.len());
        let tail = self.last.split_off(at);
        self.last.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.last.extend_from_slice(&tail);
    }
}
