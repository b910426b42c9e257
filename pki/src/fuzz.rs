//! Fuzz bodies: what a stranger says of itself, and texts that are shown. They never panic, and what passes keeps its promise.
//!
//! Plain functions over any bytes: ordinary tests run them over `pki/corpus/` and over mutated input, a fuzzer over anything.
//! The certificates of the corpus were signed by the CA in `pki/corpus/ca.der`, whose key nobody has any more.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::ffi::OsStringExt as _;
use std::sync::LazyLock;
use std::time::Duration;

use jiff::Timestamp;
use rustls_pki_types::CertificateDer;

use crate::extension::{self, Claims};
use crate::identity::{Identity, RoleKind};
use crate::key::PrivateKey;
use crate::name::{
    AccountName, ClusterName, GroupName, IssuerName, NodeName, ProfileName, RelayName, TrustDomain, UserName,
};
use crate::pem;
use crate::text::{self, LogLines, Period};
use crate::tls::Credentials;
use crate::trust::{CaEntry, TrustAnchors, TrustError};
use crate::verify::{Expect, MAX_CHAIN, PeerRefused, Usage, VerifiedPeer};
use crate::{inspect, time};

const CA: &[u8] = include_bytes!("../corpus/ca.der");
const FLEET: &str = "fleet.example";
const CLUSTER: &str = "alpha";

static TRUST: LazyLock<Result<TrustAnchors, String>> =
    LazyLock::new(|| trusting(CA).map_err(|error| format!("the CA of the corpus is refused: {error}")));

/// Moments at which certificates of the corpus begin or end, and the ends of the calendar.
const MOMENTS: [i64; 6] = [
    i64::MIN,
    -1,
    // 2026-11-30T12:00:00Z
    1_796_040_000,
    // 2050-01-01T00:00:00Z, where dates get a longer form.
    2_524_608_000,
    // 9999-12-31T23:59:59Z: no end at all (RFC 5280).
    253_402_300_799,
    i64::MAX,
];
const NOON: usize = 2;

/// Certificates behind each other, leaf first, as a peer shows them: verified at every moment and for every place, read for
/// people, and taken as CA certificates.
pub fn certificate(bytes: &[u8]) {
    let trust = TRUST.as_ref();
    assert_eq!(trust.err(), None);
    let chain = chain(bytes);
    let moments = MOMENTS.map(time::from_seconds);
    let expect = Expect::Roles(&RoleKind::ALL);
    for (trust, now) in trust.iter().flat_map(|trust| moments.map(|now| (trust, now))) {
        for usage in [Usage::Client, Usage::Server] {
            verified(trust.verify(&chain, usage, &expect, now), now);
        }
    }
    let now = moments[NOON];
    for (trust, expect) in trust.iter().flat_map(|trust| places().map(move |place| (trust, place))) {
        let peer = trust.verify(&chain, Usage::Server, &expect, now);
        if let Ok(peer) = &peer {
            assert_eq!(
                expect.check(peer.identity()),
                Ok(()),
                "nobody stands where another is expected"
            );
        }
        verified(peer, now);
    }
    let Some((first, rest)) = chain.split_first() else {
        return;
    };
    match inspect::facts(first) {
        Ok(facts) => harmless(&facts.to_string()),
        Err(error) => harmless(&error.to_string()),
    }
    match trusting(first) {
        Ok(trust) => verified(trust.verify(rest, Usage::Client, &expect, now), now),
        Err(error) => harmless(&error.to_string()),
    }
}

/// PEM text: certificates, a private key, or both. What passes is the same when it is written and read again.
pub fn pem(bytes: &[u8]) {
    let certificates = pem::certificates(bytes);
    match &certificates {
        Ok(found) => {
            assert!(
                (1..=pem::MAX_CERTIFICATES).contains(&found.len()),
                "never none, never more"
            );
            assert_eq!(&pem::certificates(pem::chain_to_pem(found).as_bytes()), &certificates);
        }
        Err(error) => harmless(&error.to_string()),
    }
    match PrivateKey::from_pem(bytes) {
        Ok(key) => {
            let again = key.to_pem().and_then(|text| PrivateKey::from_pem(text.as_bytes()));
            assert_eq!(again.map(|key| key.fingerprint()).ok(), Some(key.fingerprint()));
            if let Err(error) =
                Credentials::new(certificates.unwrap_or_default(), key, time::from_seconds(MOMENTS[NOON]))
            {
                harmless(&error.to_string());
            }
        }
        Err(error) => harmless(&error.to_string()),
    }
}

/// The private extensions of one certificate: number, length in two bytes, value. What passes has one spelling.
pub fn claims(bytes: &[u8]) {
    let arc = extension::oid_bytes(&extension::ARC);
    let mut rest = bytes;
    let mut given: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    while let [number, high, low, more @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(more.len());
        let (value, more) = more.split_at(length);
        given.push(([arc.as_slice(), &[*number]].concat(), value.to_vec()));
        rest = more;
    }
    match Claims::decode(given.iter().map(|(oid, value)| (oid.as_slice(), value.as_slice()))) {
        Ok(claims) => {
            given.sort();
            let written = claims.encode().into_iter();
            let written: Vec<_> = written
                .map(|(oid, value)| (extension::oid_bytes(&oid), value))
                .collect();
            assert_eq!(written, given, "one spelling");
            claims.groups.iter().for_each(|group| one_line(group.as_str()));
        }
        Err(error) => one_line(&error),
    }
}

/// Names, identities, spans and times. What passes is its own text.
pub fn names(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    macro_rules! names {
        ($($name:ident)*) => {
            $(match $name::parse(text) {
                Ok(name) => {
                    assert_eq!(name.as_str(), text);
                    one_line(name.as_str());
                }
                Err(error) => one_line(&error.to_string()),
            })*
        };
    }
    names!(TrustDomain ClusterName NodeName RelayName IssuerName AccountName ProfileName UserName GroupName);
    match Identity::parse(text) {
        Ok(identity) => {
            assert_eq!(identity.to_string(), text);
            one_line(identity.role.name());
        }
        Err(error) => one_line(&error.to_string()),
    }
    match Period::parse(text) {
        Ok(period) => {
            assert_eq!(Period::parse(&period.to_string()), Ok(period));
            assert!(period <= Period::MAX);
        }
        Err(error) => one_line(&error.to_string()),
    }
    match time::parse(text) {
        Ok(at) => {
            assert_eq!(time::format(at), text);
            for span in [Duration::ZERO, Period::MAX.duration(), Duration::MAX] {
                assert!(time::before(at, span) <= at && at <= time::after(at, span));
            }
            let _ = (time::between(at, Timestamp::MAX), time::between(Timestamp::MAX, at));
        }
        Err(error) => one_line(&error.to_string()),
    }
}

/// Text from elsewhere on its way to a person, a log or a document: nothing in it acts on a terminal, and no more of it is
/// shown than was asked for.
pub fn text(bytes: &[u8]) {
    // Longest escape of one character: `\u{e0fff}`.
    const LONGEST: usize = 9;
    let max = bytes.first().copied().map_or(0, usize::from);
    let lossy = String::from_utf8_lossy(bytes);
    for max in [max, usize::MAX] {
        let of_text = text::escape(&lossy, max);
        let of_bytes = text::escape_bytes(bytes, max);
        for shown in [&of_text, &of_bytes] {
            one_line(shown);
            assert!(
                shown.chars().count() <= max.saturating_mul(LONGEST).saturating_add(1),
                "no more than asked for"
            );
        }
        if let Ok(exact) = std::str::from_utf8(bytes) {
            assert_eq!(of_text, of_bytes);
            if exact.chars().count() <= max && !exact.contains(text::is_invisible) {
                assert_eq!(of_text, exact, "what is harmless is shown as it is");
            }
        }
        let lines = text::escape_lines(&lossy, max);
        harmless(&lines);
        assert!(
            lines.lines().skip(1).all(|line| line.starts_with("  ")),
            "no line of theirs begins a line"
        );
    }
    let lines = text::escape_each_line(&lossy);
    harmless(&lines);
    assert_eq!(lines.split('\n').count(), lossy.split('\n').count(), "no line is lost");
    harmless(&text::escape_json(&lossy));
    harmless(&text::shown_yaml(lossy.to_string(), || lossy.to_string()));
    let words = bytes
        .split(|byte| *byte == 0)
        .map(|word| OsString::from_vec(word.to_vec()));
    harmless(&text::usage(words.clone(), &lossy, |_| None));
    harmless(&text::usage(words, &lossy, |words| {
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        Some(words.join("\n"))
    }));
    log(bytes);
}

/// One line of a log stays one line, whatever is in it.
fn log(bytes: &[u8]) {
    let mut plain = Vec::new();
    let taken = LogLines::text(&mut plain).write(bytes);
    assert_eq!(taken.ok(), Some(bytes.len()));
    let plain = String::from_utf8_lossy(&plain);
    one_line(plain.strip_suffix('\n').unwrap_or(&plain));
    let mut json = Vec::new();
    let taken = LogLines::json(&mut json).write(bytes);
    assert_eq!(taken.ok(), Some(bytes.len()));
    harmless(&String::from_utf8_lossy(&json));
}

fn chain(bytes: &[u8]) -> Vec<CertificateDer<'_>> {
    let mut rest = bytes;
    let mut chain = Vec::new();
    while !rest.is_empty() && chain.len() <= MAX_CHAIN {
        let length = match rest {
            [0x30, 0x82, high, low, ..] => 4 + usize::from(u16::from_be_bytes([*high, *low])),
            _ => rest.len(),
        };
        let (one, more) = rest.split_at(length.min(rest.len()));
        chain.push(CertificateDer::from(one));
        rest = more;
    }
    chain
}

fn trusting(ca: &[u8]) -> Result<TrustAnchors, TrustError> {
    let malformed = |error: crate::name::NameError| TrustError::Malformed(error.to_string());
    let entry = CaEntry {
        cluster: ClusterName::parse(CLUSTER).map_err(malformed)?,
        roles: BTreeSet::from(RoleKind::ALL),
        certificate: CertificateDer::from(ca.to_vec()),
    };
    TrustAnchors::new(TrustDomain::parse(FLEET).map_err(malformed)?, vec![entry])
}

fn places() -> impl Iterator<Item = Expect> {
    let node = Identity::parse("spiffe://fleet.example/cluster/alpha/node/n1");
    let relay = Identity::parse("spiffe://fleet.example/cluster/alpha/relay/r1");
    let pinned = |identity| Expect::ThisRelay {
        identity,
        key: Some("00".repeat(32)),
    };
    [
        Some(Expect::Roles(&[RoleKind::User, RoleKind::BreakGlass])),
        Some(Expect::Relay { cluster: None }),
        Some(Expect::Relay {
            cluster: ClusterName::parse("beta").ok(),
        }),
        node.ok().map(Expect::Exactly),
        relay.ok().map(pinned),
    ]
    .into_iter()
    .flatten()
}

fn verified(outcome: Result<VerifiedPeer, PeerRefused>, now: Timestamp) {
    match outcome {
        Ok(peer) => {
            assert!(peer.not_before() <= now && now <= peer.not_after(), "valid now");
            assert_eq!(
                Identity::parse(&peer.identity().to_string()).as_ref(),
                Ok(peer.identity())
            );
            assert_eq!(peer.identity().trust_domain.as_str(), FLEET);
            assert_eq!(peer.identity().cluster.as_str(), CLUSTER);
            assert!(peer.groups().is_sorted());
        }
        Err(error) => harmless(&error.to_string()),
    }
}

/// Nothing that a terminal would not show as it is, but for ends of lines.
fn harmless(text: &str) {
    assert!(
        !text.contains(|c: char| c != '\n' && text::is_invisible(c)),
        "unescaped: {text:?}"
    );
}

/// The same within one line.
fn one_line(text: &str) {
    assert!(!text.contains(text::is_invisible), "unescaped: {text:?}");
}
