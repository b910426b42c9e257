//! What the tests of this crate share: a fleet of one or more clusters, made at run time.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use rustls_pki_types::CertificateDer;

use crate::ca::{CaSpec, CertificateAuthority, LeafSpec};
use crate::identity::{Identity, RoleKind};
use crate::key::PrivateKey;
use crate::tls::{Credentials, Live, Party};
use crate::trust::{CaEntry, TrustAnchors};

pub(crate) const DAY: Duration = Duration::from_secs(86_400);

/// A moment that no test derives from the clock.
pub(crate) fn noon() -> Timestamp {
    crate::time::parse("2026-11-30T12:00:00Z").unwrap()
}

pub(crate) fn id(path: &str) -> Identity {
    Identity::parse(&format!("spiffe://fleet.example/{path}")).unwrap()
}

pub(crate) fn all_roles() -> BTreeSet<RoleKind> {
    RoleKind::ALL.into_iter().collect()
}

pub(crate) fn ca_at(cluster: &str, now: Timestamp) -> CertificateAuthority {
    let spec = CaSpec::new(
        "fleet.example".parse().unwrap(),
        cluster.parse().unwrap(),
        now,
        DAY * 365,
    );
    CertificateAuthority::create(spec).unwrap()
}

pub(crate) fn anchors(entries: Vec<CaEntry>) -> TrustAnchors {
    TrustAnchors::new("fleet.example".parse().unwrap(), entries).unwrap()
}

pub(crate) fn leaf(ca: &CertificateAuthority, spec: &LeafSpec) -> CertificateDer<'static> {
    CertificateDer::from(ca.issue(spec).unwrap())
}

/// A certificate and its key for an identity of this CA's cluster.
pub(crate) fn issue(ca: &CertificateAuthority, path: &str, now: Timestamp) -> (CertificateDer<'static>, PrivateKey) {
    let key = PrivateKey::generate().unwrap();
    (leaf(ca, &LeafSpec::new(id(path), key.public_key_der(), now)), key)
}

pub(crate) fn credentials(ca: &CertificateAuthority, path: &str, now: Timestamp) -> Credentials {
    let (certificate, key) = issue(ca, path, now);
    Credentials::new(vec![certificate], key, now).unwrap()
}

/// A party that trusts one CA for all roles.
pub(crate) fn party(ca: &CertificateAuthority, path: &str, now: Timestamp) -> Party {
    Party::new(
        Live::new(credentials(ca, path, now)),
        Live::new(anchors(vec![ca.entry(all_roles())])),
    )
}

/// A certificate that no rule of ours would issue, signed by the CA all the same: what a stolen key could make.
pub(crate) fn forge(
    ca: &CertificateAuthority,
    uris: &[&str],
    edit: impl FnOnce(&mut rcgen::CertificateParams),
) -> (CertificateDer<'static>, PrivateKey) {
    use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
    let directory = tempfile::tempdir().unwrap();
    ca.save(&directory.path().join("ca")).unwrap();
    let ca_key = PrivateKey::load(&directory.path().join("ca/ca.key")).unwrap();
    let key = PrivateKey::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.not_before = date(noon()) - time::Duration::minutes(10);
    params.not_after = date(noon()) + time::Duration::hours(12);
    params.subject_alt_names = uris
        .iter()
        .map(|uri| rcgen::SanType::URI((*uri).try_into().unwrap()))
        .collect();
    params.extended_key_usages = vec![ClientAuth, ServerAuth];
    edit(&mut params);
    let issuer = rcgen::Issuer::from_ca_cert_der(ca.certificate(), &ca_key).unwrap();
    (params.signed_by(&key, &issuer).unwrap().into(), key)
}

/// A CA certificate that no rule of ours would make.
pub(crate) fn forge_ca(edit: impl FnOnce(&mut rcgen::CertificateParams)) -> CertificateDer<'static> {
    let key = PrivateKey::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.not_before = date(noon());
    params.not_after = date(noon()) + time::Duration::days(365);
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    edit(&mut params);
    params.self_signed(&key).unwrap().into()
}

pub(crate) fn date(at: Timestamp) -> time::OffsetDateTime {
    time::OffsetDateTime::from_unix_timestamp(at.as_second()).unwrap()
}
