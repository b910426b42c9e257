//! What one end-entity certificate says, read by the profile of `ca`, before anybody vouched for it.
//!
//! What it never does: believe it. Only `verify` makes a `VerifiedPeer` of it.

use jiff::Timestamp;
use rustls_pki_types::CertificateDer;
use x509_parser::extensions::{GeneralName, ParsedExtension};

use crate::extension::Claims;
use crate::identity::Identity;
use crate::verify::{PeerRefused, Usage};
use crate::{ca, key, text, time, trust};

/// What a leaf certificate says, before anybody vouched for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Leaf {
    pub(crate) identity: Identity,
    pub(crate) claims: Claims,
    pub(crate) not_before: Timestamp,
    pub(crate) not_after: Timestamp,
    pub(crate) key_fingerprint: String,
}

impl Leaf {
    /// Reads the profile of `ca`: one URI and nothing else as name, not a CA, our extensions well formed.
    pub(crate) fn parse(der: &CertificateDer<'_>) -> Result<Leaf, PeerRefused> {
        let malformed = |what: &str| PeerRefused::Malformed(what.to_owned());
        let certificate = trust::parse(der).map_err(|error| PeerRefused::Malformed(error.to_string()))?;
        let mut identity = None;
        let mut usages = false;
        for extension in certificate.extensions() {
            match extension.parsed_extension() {
                ParsedExtension::SubjectAlternativeName(names) => {
                    let [GeneralName::URI(uri)] = names.general_names.as_slice() else {
                        return Err(malformed("exactly one name, a URI, is expected"));
                    };
                    let parsed = Identity::parse(uri).map_err(|error| PeerRefused::Malformed(error.to_string()))?;
                    if identity.replace(parsed).is_some() {
                        return Err(malformed("two lists of names"));
                    }
                }
                ParsedExtension::BasicConstraints(constraints) if constraints.ca => {
                    return Err(malformed("it is the certificate of a CA"));
                }
                ParsedExtension::ExtendedKeyUsage(usage) => usages |= usage.client_auth || usage.server_auth,
                ParsedExtension::ParseError { .. } => return Err(malformed("an extension can't be read")),
                _ => {}
            }
        }
        let identity = identity.ok_or_else(|| malformed("it carries no identity"))?;
        if !usages {
            return Err(malformed("it does not say what it may be used for"));
        }
        let claims = Claims::decode(certificate.extensions().iter().map(|e| (e.oid.as_bytes(), e.value)))
            .map_err(PeerRefused::Malformed)?;
        let (not_before, not_after) = trust::validity(&certificate);
        if not_before > not_after {
            return Err(malformed("it ends before it begins"));
        }
        let key_fingerprint = key::fingerprint(certificate.public_key().raw);
        Ok(Leaf {
            identity,
            claims,
            not_before,
            not_after,
            key_fingerprint,
        })
    }

    pub(crate) fn check_lifetime(&self) -> Result<(), PeerRefused> {
        let (role, not_before, not_after) = (self.identity.kind(), self.not_before, self.not_after);
        if time::between(not_before, not_after) > ca::max_lifetime(role) + ca::BACKDATE {
            return Err(PeerRefused::LifetimeTooLong {
                role,
                not_before,
                not_after,
            });
        }
        Ok(())
    }

    pub(crate) fn explain(&self, error: webpki::Error, usage: Usage, now: Timestamp) -> PeerRefused {
        use webpki::Error;
        let seen = || text::escape(&self.identity.to_string(), 512);
        let (not_before, not_after) = (self.not_before, self.not_after);
        match error {
            Error::CertExpired { .. } => PeerRefused::Expired {
                not_before,
                not_after,
                now,
            },
            Error::CertNotValidYet { .. } => PeerRefused::NotYetValid {
                not_before,
                not_after,
                now,
            },
            Error::UnknownIssuer | Error::InvalidSignatureForPublicKey => PeerRefused::UnknownCa { seen: seen() },
            Error::RequiredEkuNotFoundContext(_) => PeerRefused::WrongUsage {
                seen: seen(),
                side: match usage {
                    Usage::Client => "client",
                    Usage::Server => "server",
                },
            },
            other => PeerRefused::Malformed(text::escape(&other.to_string(), 120)),
        }
    }
}
