//! The code of each refused certificate.

use jiff::Timestamp;
use noderelay_pki::RoleKind;
use noderelay_pki::name::ClusterName;
use noderelay_proto::Class;

use super::*;

#[test]
fn every_reason_has_its_code_and_none_is_final_on_an_outer_leg() {
    let (text, now) = (String::new, Timestamp::UNIX_EPOCH);
    let cluster = || ClusterName::parse("east").unwrap();
    let table = [
        (PeerRefused::NoCertificate, "identity.missing"),
        (
            PeerRefused::Expired {
                not_before: now,
                not_after: now,
                now,
            },
            "identity.expired",
        ),
        (
            PeerRefused::NotYetValid {
                not_before: now,
                not_after: now,
                now,
            },
            "identity.not_yet_valid",
        ),
        (
            PeerRefused::CaNotValid {
                cluster: cluster(),
                not_before: now,
                not_after: now,
                now,
            },
            "identity.unknown_ca",
        ),
        (PeerRefused::UnknownCa { seen: text() }, "identity.unknown_ca"),
        (
            PeerRefused::WrongTrustDomain {
                expected: text(),
                seen: text(),
            },
            "identity.wrong_trust_domain",
        ),
        (
            PeerRefused::WrongCluster {
                seen: cluster(),
                ca: cluster(),
            },
            "identity.wrong_cluster",
        ),
        (
            PeerRefused::RoleNotOfCa {
                cluster: cluster(),
                seen: RoleKind::Node,
            },
            "identity.wrong_role",
        ),
        (
            PeerRefused::WrongRole {
                expected: text(),
                seen: RoleKind::Node,
                identity: text(),
            },
            "identity.wrong_role",
        ),
        (
            PeerRefused::WrongName {
                expected: text(),
                seen: text(),
            },
            "identity.wrong_name",
        ),
        (
            PeerRefused::WrongUsage {
                seen: text(),
                side: "client",
            },
            "identity.malformed",
        ),
        (
            PeerRefused::LifetimeTooLong {
                role: RoleKind::User,
                not_before: now,
                not_after: now,
            },
            "identity.malformed",
        ),
        (PeerRefused::Malformed(text()), "identity.malformed"),
    ];
    for (refused, name) in table {
        let code = identity_code(&refused);
        assert_eq!(code.name(), name, "{refused:?}");
        assert_eq!(code.on_outer_leg(), Class::Refused, "{refused:?}");
    }
}
