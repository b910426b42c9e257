//! The one mapping from a refused certificate to the code that is told, logged and counted: the same at client, relay and
//! agent, whoever of them looked.
//!
//! Never: has a case for everything else, so that a new reason needs a decision here.

use noderelay_pki::PeerRefused;
use noderelay_proto::Code;

/// The code of a refused certificate.
#[must_use]
pub const fn identity_code(refused: &PeerRefused) -> Code {
    match refused {
        PeerRefused::NoCertificate => Code::IdentityMissing,
        PeerRefused::Expired { .. } => Code::IdentityExpired,
        PeerRefused::NotYetValid { .. } => Code::IdentityNotYetValid,
        PeerRefused::UnknownCa { .. } | PeerRefused::CaNotValid { .. } => Code::IdentityUnknownCa,
        PeerRefused::WrongTrustDomain { .. } => Code::IdentityWrongTrustDomain,
        PeerRefused::WrongCluster { .. } => Code::IdentityWrongCluster,
        PeerRefused::RoleNotOfCa { .. } | PeerRefused::WrongRole { .. } => Code::IdentityWrongRole,
        PeerRefused::WrongName { .. } => Code::IdentityWrongName,
        PeerRefused::WrongUsage { .. } | PeerRefused::LifetimeTooLong { .. } | PeerRefused::Malformed(_) => {
            Code::IdentityMalformed
        }
    }
}

#[cfg(test)]
mod tests;
