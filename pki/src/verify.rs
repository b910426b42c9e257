//! Verifying a peer's certificate chain: who is this, and may it stand here?
//!
//! ```text
//! chain ─> one URI = identity ─> trust domain ─> path to a CA whose entry names this cluster and role
//!       ─> CA and chain valid now ─> usage ─> lifetime within the rule of the role ─> the place expects it
//!       ─> VerifiedPeer
//! ```
//!
//! [`TrustAnchors::verify`] is the only way to a [`VerifiedPeer`], on every leg, at every handshake: nothing is resumed
//! and nothing remembered, so that an expired certificate or a removed CA counts from the next handshake on.
//!
//! What it never does: look at a certificate's subject, compare names loosely, or accept a certificate for a place
//! that expects another role.

use std::fmt;

use jiff::Timestamp;
use rustls_pki_types::{CertificateDer, TrustAnchor};

use crate::identity::{Identity, RoleKind};
use crate::leaf::Leaf;
use crate::name::{ClusterName, GroupName};
use crate::trust::{Anchor, TrustAnchors};
use crate::{ca, key, text, time};

/// Most certificates that a peer may send: the leaf and its intermediates.
pub const MAX_CHAIN: usize = 4;
/// Largest certificate that a peer may send.
pub const MAX_CERTIFICATE: usize = 32 * 1024;

/// On which side of the TLS connection the *peer* stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    /// The peer is the TLS client.
    Client,
    /// The peer is the TLS server.
    Server,
}

/// Who may stand in this place.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Expect {
    /// Anybody of one of these roles.
    Roles(&'static [RoleKind]),
    /// Exactly this one.
    Exactly(Identity),
    /// Exactly this relay, as the fleet file has it.
    ThisRelay {
        /// Its name and cluster.
        identity: Identity,
        /// SHA-256 of its public key, hex, when the fleet file pins it.
        key: Option<String>,
    },
    /// Any relay, or any relay of one cluster.
    Relay {
        /// The cluster, if it matters.
        cluster: Option<ClusterName>,
    },
}

impl fmt::Display for Expect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expect::Roles(kinds) => {
                for (at, kind) in kinds.iter().enumerate() {
                    write!(f, "{}{kind}", if at == 0 { "" } else { " or " })?;
                }
                Ok(())
            }
            Expect::Exactly(identity) | Expect::ThisRelay { identity, key: None } => fmt::Display::fmt(identity, f),
            Expect::ThisRelay {
                identity,
                key: Some(key),
            } => write!(f, "{identity} with key {key}"),
            Expect::Relay { cluster: None } => f.write_str("a relay"),
            Expect::Relay { cluster: Some(cluster) } => write!(f, "a relay of cluster {cluster}"),
        }
    }
}

/// A peer whose certificate was verified. Made by [`TrustAnchors::verify`] only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedPeer {
    leaf: Leaf,
    certificate_fingerprint: String,
}

impl VerifiedPeer {
    /// Who it is.
    pub fn identity(&self) -> &Identity {
        &self.leaf.identity
    }

    /// Groups of a user, sorted.
    pub fn groups(&self) -> &[GroupName] {
        &self.leaf.claims.groups
    }

    /// When the API server attested the identity.
    pub fn attested_at(&self) -> Option<Timestamp> {
        self.leaf.claims.attested_at
    }

    /// Version of the policy bundle that the issuer had.
    pub fn bundle_version(&self) -> Option<u64> {
        self.leaf.claims.bundle_version
    }

    /// Uid of the Node object.
    pub fn node_uid(&self) -> Option<&str> {
        self.leaf.claims.node_uid.as_deref()
    }

    /// Start of the certificate.
    pub fn not_before(&self) -> Timestamp {
        self.leaf.not_before
    }

    /// End of the certificate.
    pub fn not_after(&self) -> Timestamp {
        self.leaf.not_after
    }

    /// SHA-256 of the public key (SubjectPublicKeyInfo), lower-case hex.
    pub fn key_fingerprint(&self) -> &str {
        &self.leaf.key_fingerprint
    }

    /// SHA-256 of the certificate, lower-case hex.
    pub fn certificate_fingerprint(&self) -> &str {
        &self.certificate_fingerprint
    }
}

/// A peer was refused. The texts say what was seen, by which clock, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeerRefused {
    /// The peer sent no certificate.
    #[error("the peer sent no certificate (its own may be missing or expired)")]
    NoCertificate,
    /// The certificate is past its end.
    #[error(
        "the certificate expired: it was valid from {} to {} and the clock here says {}; renew it, or set the clock",
        time::format(*not_before), time::format(*not_after), time::format(*now)
    )]
    Expired {
        /// Its start.
        not_before: Timestamp,
        /// Its end.
        not_after: Timestamp,
        /// Our clock.
        now: Timestamp,
    },
    /// The certificate has not begun.
    #[error(
        "the certificate is not valid yet: it is valid from {} to {} and the clock here says {}; one of the two clocks \
         is wrong: set it",
        time::format(*not_before), time::format(*not_after), time::format(*now)
    )]
    NotYetValid {
        /// Its start.
        not_before: Timestamp,
        /// Its end.
        not_after: Timestamp,
        /// Our clock.
        now: Timestamp,
    },
    /// The CA's own certificate is outside its validity.
    #[error(
        "the CA of cluster {cluster} is valid from {} to {} and the clock here says {}; change the CA in the fleet file",
        time::format(*not_before), time::format(*not_after), time::format(*now)
    )]
    CaNotValid {
        /// Its cluster.
        cluster: ClusterName,
        /// Its start.
        not_before: Timestamp,
        /// Its end.
        not_after: Timestamp,
        /// Our clock.
        now: Timestamp,
    },
    /// No CA of the fleet signed it.
    #[error("no CA of the fleet signed the certificate of {seen}; is the fleet file current on both sides?")]
    UnknownCa {
        /// Who it claims to be.
        seen: String,
    },
    /// Another fleet.
    #[error("the certificate belongs to trust domain {seen}, and this is {expected}")]
    WrongTrustDomain {
        /// Ours.
        expected: String,
        /// Seen.
        seen: String,
    },
    /// A CA of one cluster signed for another.
    #[error("the CA of cluster {ca} signed a certificate for cluster {seen}: that CA vouches for its own cluster only")]
    WrongCluster {
        /// The cluster in the certificate.
        seen: ClusterName,
        /// The cluster of the CA that signed.
        ca: ClusterName,
    },
    /// A CA signed for a role that its entry does not list.
    #[error(
        "the CA of cluster {cluster} may not vouch for the role {seen}; add the role to its entry in the fleet file"
    )]
    RoleNotOfCa {
        /// The CA's cluster.
        cluster: ClusterName,
        /// The role in the certificate.
        seen: RoleKind,
    },
    /// A certificate of another role than this place is for.
    #[error("a certificate of role {seen} ({identity}) has no business here: {expected} is expected")]
    WrongRole {
        /// What is expected here.
        expected: String,
        /// The role in the certificate.
        seen: RoleKind,
        /// Who it is.
        identity: String,
    },
    /// Somebody else than the one who was asked for.
    #[error("reached {seen} instead of {expected}")]
    WrongName {
        /// Who was asked for.
        expected: String,
        /// Who answered.
        seen: String,
    },
    /// The certificate may not be used on this side of a TLS connection.
    #[error("the certificate of {seen} may not be used as TLS {side}")]
    WrongUsage {
        /// Who it is.
        seen: String,
        /// `client` or `server`.
        side: &'static str,
    },
    /// Longer than the rule for the role.
    #[error(
        "the certificate is valid from {} to {}, and one of role {role} lives at most {} hours",
        time::format(*not_before), time::format(*not_after), ca::max_lifetime(*role).as_secs() / 3600
    )]
    LifetimeTooLong {
        /// The role.
        role: RoleKind,
        /// Its start.
        not_before: Timestamp,
        /// Its end.
        not_after: Timestamp,
    },
    /// Not a certificate of ours at all.
    #[error("the certificate is malformed: {0}")]
    Malformed(String),
}

impl TrustAnchors {
    /// Verifies a peer's chain (leaf first) for this place and moment.
    pub fn verify(
        &self,
        chain: &[CertificateDer<'_>],
        usage: Usage,
        expect: &Expect,
        now: Timestamp,
    ) -> Result<VerifiedPeer, PeerRefused> {
        let (end, intermediates) = chain.split_first().ok_or(PeerRefused::NoCertificate)?;
        if chain.len() > MAX_CHAIN || chain.iter().any(|certificate| certificate.len() > MAX_CERTIFICATE) {
            let limit = format!("more than {MAX_CHAIN} certificates, or one above {MAX_CERTIFICATE} bytes");
            return Err(PeerRefused::Malformed(limit));
        }
        let leaf = Leaf::parse(end)?;
        let (ours, seen) = (self.trust_domain(), &leaf.identity.trust_domain);
        if ours != seen {
            return Err(PeerRefused::WrongTrustDomain {
                expected: ours.to_string(),
                seen: seen.to_string(),
            });
        }
        self.path(&leaf, end, intermediates, usage, now)?;
        leaf.check_lifetime()?;
        expect.check(&leaf.identity)?;
        expect.check_key(&leaf)?;
        Ok(VerifiedPeer {
            leaf,
            certificate_fingerprint: key::fingerprint(end),
        })
    }

    /// A path to a CA that may vouch for this identity now; or the best reason why there is none.
    fn path(
        &self,
        leaf: &Leaf,
        end: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        usage: Usage,
        now: Timestamp,
    ) -> Result<(), PeerRefused> {
        let fits =
            |anchor: &Anchor| anchor.cluster == leaf.identity.cluster && anchor.roles.contains(&leaf.identity.kind());
        let valid = |anchor: &Anchor| anchor.not_before <= now && now <= anchor.not_after;
        let search = |anchors: &[&Anchor], at: Timestamp| {
            Search {
                end,
                intermediates,
                usage,
                at,
            }
            .among(anchors)
        };

        let good: Vec<&Anchor> = self
            .anchors
            .iter()
            .filter(|anchor| fits(anchor) && valid(anchor))
            .collect();
        if search(&good, now).is_ok() {
            return Ok(());
        }
        // Refused; the rest only finds the reason. Who would have vouched for it, at a moment within its life?
        let then = now.clamp(leaf.not_before, leaf.not_after);
        let Some(anchor) = self.anchors.iter().find(|anchor| search(&[anchor], then).is_ok()) else {
            let all: Vec<&Anchor> = self.anchors.iter().collect();
            let error = search(&all, then).err().unwrap_or(webpki::Error::UnknownIssuer);
            return Err(leaf.explain(error, usage, now));
        };
        Err(not_by(anchor, leaf, now))
    }
}

/// Why a CA that signed a certificate does not vouch for it now.
fn not_by(anchor: &Anchor, leaf: &Leaf, now: Timestamp) -> PeerRefused {
    let (cluster, not_before, not_after) = (anchor.cluster.clone(), leaf.not_before, leaf.not_after);
    if cluster != leaf.identity.cluster {
        PeerRefused::WrongCluster {
            seen: leaf.identity.cluster.clone(),
            ca: cluster,
        }
    } else if !anchor.roles.contains(&leaf.identity.kind()) {
        PeerRefused::RoleNotOfCa {
            cluster,
            seen: leaf.identity.kind(),
        }
    } else if now > not_after {
        PeerRefused::Expired {
            not_before,
            not_after,
            now,
        }
    } else if now < not_before {
        PeerRefused::NotYetValid {
            not_before,
            not_after,
            now,
        }
    } else {
        PeerRefused::CaNotValid {
            cluster,
            not_before: anchor.not_before,
            not_after: anchor.not_after,
            now,
        }
    }
}

/// One search for a path.
struct Search<'a> {
    end: &'a CertificateDer<'a>,
    intermediates: &'a [CertificateDer<'a>],
    usage: Usage,
    at: Timestamp,
}

impl Search<'_> {
    fn among(&self, anchors: &[&Anchor]) -> Result<(), webpki::Error> {
        if anchors.is_empty() {
            return Err(webpki::Error::UnknownIssuer);
        }
        let anchors: Vec<TrustAnchor<'_>> = anchors.iter().map(|anchor| anchor.anchor.clone()).collect();
        let end = webpki::EndEntityCert::try_from(self.end)?;
        // That the leaf names its usages at all is checked by its profile; an intermediate need not.
        let usage = match self.usage {
            Usage::Client => webpki::KeyUsage::client_auth(),
            Usage::Server => webpki::KeyUsage::server_auth(),
        };
        let time = time::to_unix(self.at);
        end.verify_for_usage(
            webpki::ALL_VERIFICATION_ALGS,
            &anchors,
            self.intermediates,
            time,
            usage,
            None,
            None,
        )?;
        Ok(())
    }
}

impl Expect {
    /// Does this identity fit the place?
    pub fn check(&self, identity: &Identity) -> Result<(), PeerRefused> {
        let fits = match self {
            Expect::Roles(kinds) => kinds.contains(&identity.kind()),
            Expect::Exactly(exact) | Expect::ThisRelay { identity: exact, .. } => exact == identity,
            Expect::Relay { cluster } => {
                identity.kind() == RoleKind::Relay
                    && cluster.as_ref().is_none_or(|cluster| *cluster == identity.cluster)
            }
        };
        if fits {
            return Ok(());
        }
        let same_role = match self {
            Expect::Roles(_) => false,
            Expect::Exactly(exact) | Expect::ThisRelay { identity: exact, .. } => exact.kind() == identity.kind(),
            Expect::Relay { .. } => identity.kind() == RoleKind::Relay,
        };
        let (expected, seen) = (
            text::escape(&self.to_string(), 512),
            text::escape(&identity.to_string(), 512),
        );
        Err(if same_role {
            PeerRefused::WrongName { expected, seen }
        } else {
            PeerRefused::WrongRole {
                expected,
                seen: identity.kind(),
                identity: seen,
            }
        })
    }

    /// Is it the key that is pinned for this place, where one is?
    fn check_key(&self, leaf: &Leaf) -> Result<(), PeerRefused> {
        match self {
            Expect::ThisRelay { key: Some(key), .. } if *key != leaf.key_fingerprint => Err(PeerRefused::WrongName {
                expected: text::escape(&self.to_string(), 512),
                seen: format!("one with key {}", leaf.key_fingerprint),
            }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
