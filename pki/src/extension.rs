//! The private extensions of our certificates, as DER, bounded on both sides.
//!
//! They hang under the UUID arc of ISO (`2.25`), which needs no registration, with one fixed number of 63 bits that was
//! drawn at random for this project: `2.25.6844212137512398344` ([`ARC`]).
//!
//! | object identifier | content | in certificates of |
//! |---|---|---|
//! | ARC.1 | groups: SEQUENCE OF UTF8String, sorted, no doubles | users |
//! | ARC.2 | node uid: UTF8String | nodes |
//! | ARC.3 | attested at: INTEGER, seconds since 1970 | all issued from an attestation |
//! | ARC.4 | bundle version at issuance: INTEGER | all issued by an issuer with a bundle |
//!
//! They are not critical: other tools can still read the certificate. Encoding is DER with one spelling: what is read
//! must give the same bytes when it is written again.
//!
//! What it never does: accept an extension of ours twice, an unknown number under our arc, or trailing bytes.

use jiff::Timestamp;

use crate::name::GroupName;
use crate::time;

/// First two arcs and our number.
pub(crate) const ARC: [u64; 3] = [2, 25, 6_844_212_137_512_398_344];
/// Most groups in one certificate.
pub(crate) const MAX_GROUPS: usize = 128;
/// Most bytes of all groups together: the chain must fit into a TLS handshake message with room to spare.
pub(crate) const MAX_GROUP_BYTES: usize = 16 * 1024;
/// Longest node uid (Kubernetes uses 36 characters).
pub(crate) const MAX_UID: usize = 128;

const GROUPS: u64 = 1;
const NODE_UID: u64 = 2;
const ATTESTED_AT: u64 = 3;
const BUNDLE_VERSION: u64 = 4;

/// What the private extensions say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Claims {
    pub(crate) groups: Vec<GroupName>,
    pub(crate) node_uid: Option<String>,
    pub(crate) attested_at: Option<Timestamp>,
    pub(crate) bundle_version: Option<u64>,
}

impl Claims {
    /// Checks the limits; sorts the groups and drops doubles.
    pub(crate) fn checked(mut self) -> Result<Claims, String> {
        self.groups.sort();
        self.groups.dedup();
        if self.groups.len() > MAX_GROUPS {
            return Err(format!("{} groups, and {MAX_GROUPS} are allowed", self.groups.len()));
        }
        let bytes: usize = self.groups.iter().map(|group| group.as_str().len()).sum();
        if bytes > MAX_GROUP_BYTES {
            return Err(format!(
                "groups of {bytes} bytes together, and {MAX_GROUP_BYTES} are allowed"
            ));
        }
        if let Some(uid) = &self.node_uid
            && (uid.is_empty() || uid.len() > MAX_UID || !uid.bytes().all(|b| b.is_ascii_graphic()))
        {
            return Err(format!(
                "a node uid of 1 to {MAX_UID} visible ASCII characters is needed"
            ));
        }
        if self.attested_at.is_some_and(|at| at.as_second() < 0) {
            return Err("attested before 1970".to_owned());
        }
        // Whole seconds are what the certificate keeps.
        self.attested_at = self.attested_at.map(|at| time::from_seconds(at.as_second()));
        Ok(self)
    }

    /// Object identifier and content of each extension that has something to say.
    pub(crate) fn encode(&self) -> Vec<(Vec<u64>, Vec<u8>)> {
        let mut out = Vec::new();
        let mut add = |number: u64, content: Vec<u8>| out.push((oid(number), content));
        if !self.groups.is_empty() {
            let items: Vec<u8> = self
                .groups
                .iter()
                .flat_map(|group| element(UTF8_STRING, group.as_str().as_bytes()))
                .collect();
            add(GROUPS, element(SEQUENCE, &items));
        }
        if let Some(uid) = &self.node_uid {
            add(NODE_UID, element(UTF8_STRING, uid.as_bytes()));
        }
        if let Some(at) = self.attested_at {
            add(ATTESTED_AT, integer(u64::try_from(at.as_second()).unwrap_or(0)));
        }
        if let Some(version) = self.bundle_version {
            add(BUNDLE_VERSION, integer(version));
        }
        out
    }

    /// Reads the extensions of one certificate: object identifier (content bytes) and value of each.
    pub(crate) fn decode<'a>(extensions: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Result<Claims, String> {
        let mut claims = Claims::default();
        let mut seen = 0u8;
        let arc = oid_bytes(&ARC);
        for (identifier, value) in extensions {
            let Some(number) = identifier.strip_prefix(arc.as_slice()) else {
                continue;
            };
            let number = match number {
                [number @ 1..=4] => *number,
                _ => return Err("an unknown extension of ours".to_owned()),
            };
            if seen & (1 << number) != 0 {
                return Err(format!("extension {number} twice"));
            }
            seen |= 1 << number;
            claims
                .take(u64::from(number), value)
                .ok_or_else(|| format!("extension {number} is malformed"))?;
        }
        let again = claims.clone().checked()?;
        if again == claims {
            Ok(claims)
        } else {
            Err("groups that are not sorted or are doubled".to_owned())
        }
    }

    fn take(&mut self, number: u64, value: &[u8]) -> Option<()> {
        match number {
            GROUPS => {
                let mut items = whole(SEQUENCE, value)?;
                while !items.is_empty() {
                    let (item, rest) = one(UTF8_STRING, items)?;
                    items = rest;
                    if self.groups.len() >= MAX_GROUPS {
                        return None;
                    }
                    self.groups
                        .push(GroupName::parse(std::str::from_utf8(item).ok()?).ok()?);
                }
                // An empty list has no extension.
                (!self.groups.is_empty()).then_some(())
            }
            NODE_UID => {
                self.node_uid = Some(std::str::from_utf8(whole(UTF8_STRING, value)?).ok()?.to_owned());
                Some(())
            }
            ATTESTED_AT => {
                let seconds = i64::try_from(number_of(value)?).ok()?;
                self.attested_at = Some(Timestamp::from_second(seconds).ok()?);
                Some(())
            }
            BUNDLE_VERSION => {
                self.bundle_version = Some(number_of(value)?);
                Some(())
            }
            _ => None,
        }
    }
}

fn oid(number: u64) -> Vec<u64> {
    let mut oid = ARC.to_vec();
    oid.push(number);
    oid
}

/// Content bytes of an object identifier (X.690 § 8.19).
pub(crate) fn oid_bytes(arcs: &[u64]) -> Vec<u8> {
    let mut out = Vec::new();
    let (first, rest) = match arcs {
        [first, second, rest @ ..] => (first * 40 + second, rest),
        _ => return out,
    };
    for arc in std::iter::once(first).chain(rest.iter().copied()) {
        let groups = (u64::BITS - (arc | 1).leading_zeros()).div_ceil(7);
        for group in (0..groups).rev() {
            let bits = u8::try_from((arc >> (group * 7)) & 0x7f).unwrap_or(0);
            out.push(if group == 0 { bits } else { bits | 0x80 });
        }
    }
    out
}

const INTEGER: u8 = 0x02;
const UTF8_STRING: u8 = 0x0c;
const SEQUENCE: u8 = 0x30;

/// Tag, shortest length, content.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    if content.len() < 0x80 {
        out.push(u8::try_from(content.len()).unwrap_or(0));
    } else {
        let length = content.len().to_be_bytes();
        let length: Vec<u8> = length.iter().copied().skip_while(|byte| *byte == 0).collect();
        out.push(0x80 | u8::try_from(length.len()).unwrap_or(0));
        out.extend_from_slice(&length);
    }
    out.extend_from_slice(content);
    out
}

fn integer(number: u64) -> Vec<u8> {
    let bytes = number.to_be_bytes();
    let mut bytes: Vec<u8> = bytes.iter().copied().skip_while(|byte| *byte == 0).collect();
    if bytes.first().is_none_or(|byte| byte & 0x80 != 0) {
        bytes.insert(0, 0);
    }
    element(INTEGER, &bytes)
}

/// One element of the given tag at the start: its content and what follows.
fn one(tag: u8, input: &[u8]) -> Option<(&[u8], &[u8])> {
    let (seen, rest) = input.split_first()?;
    let (first, rest) = rest.split_first()?;
    if *seen != tag {
        return None;
    }
    let (length, rest) = match *first {
        short @ 0..=0x7f => (usize::from(short), rest),
        long @ 0x81..=0x83 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
            let length = bytes
                .iter()
                .fold(0usize, |length, byte| (length << 8) | usize::from(*byte));
            // Shortest form only.
            if length < 0x80 || bytes.first() == Some(&0) {
                return None;
            }
            (length, rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

/// The only element: nothing may follow.
fn whole(tag: u8, input: &[u8]) -> Option<&[u8]> {
    match one(tag, input)? {
        (content, []) => Some(content),
        _ => None,
    }
}

/// A number that is not negative and has its shortest form.
fn number_of(input: &[u8]) -> Option<u64> {
    let number = whole(INTEGER, input)?.iter().try_fold(0u64, |number, byte| {
        number.checked_mul(256)?.checked_add(u64::from(*byte))
    })?;
    (integer(number) == input).then_some(number)
}

#[cfg(test)]
mod tests;
