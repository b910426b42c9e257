//! What an error on the way means: a lost path, a relay's refusal, or something final.
//!
//! | error | meaning |
//! |---|---|
//! | any error of socket, QUIC or stream; an end without a word; damaged TLS records | the path is lost |
//! | a code with which a relay broke stream or connection | refused: try the next relay. Never final, whatever it says |
//! | such a code that only the node can know | the path is lost: nobody is told that the node said so |
//! | a certificate that we refuse, an alert, before the node has proved who it is | refused: whoever carries the bytes can make these |
//! | an alert, a code or a breach of the protocol inside the inner TLS | final |
//! | an error that holds a fault already (what the warm process carried) | that fault |
//!
//! Pure: errors in, [`Fault`] out. No text of an error is searched for meaning.

use std::io;

use noderelay_link::{Lost, identity_code, lost, peer_refusal};
use noderelay_pki::tls::refusal_in;
use noderelay_proto::code::{Class, Code, Origin};
use rustls::AlertDescription;

#[cfg(test)]
mod tests;

/// What went wrong, who said so, and what is done about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The code.
    pub code: Code,
    /// Who said so.
    pub origin: Origin,
    /// What is done about it.
    pub class: Class,
    /// What was seen. May hold text from elsewhere.
    pub seen: String,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code, self.seen)
    }
}

impl std::error::Error for Fault {}

impl Fault {
    /// Something of this machine refused us: `what` is what we were about to use, or doing.
    pub fn local_io(what: &str, error: &io::Error) -> Self {
        Self::new(Code::ClientLocalIo, Origin::Client, format!("{what}: {error}"))
    }

    /// A fault with the class that its code has. Where nothing was seen, the code's summary stands for it.
    pub fn new(code: Code, origin: Origin, seen: impl Into<String>) -> Self {
        let mut seen = seen.into();
        if seen.is_empty() {
            code.summary().clone_into(&mut seen);
        }
        Self {
            code,
            origin,
            class: code.class(),
            seen,
        }
    }

    /// A fault of a relay or of the way to it: never final.
    pub fn on_the_way(code: Code, seen: impl Into<String>) -> Self {
        let origin = if code.origin() == Origin::Relay {
            Origin::Relay
        } else {
            Origin::Client
        };
        Self {
            class: code.on_outer_leg(),
            ..Self::new(code, origin, seen)
        }
    }

    /// Whether another path or another try could help.
    pub fn is_transport(&self) -> bool {
        matches!(self.class, Class::Transport | Class::Refused)
    }
}

/// Classifies an error of the inner handshake: nobody has proved yet to be the node, so nothing is final.
pub fn before_proof(error: &io::Error) -> Fault {
    let fault = of_stream(error);
    let said_by_nobody = fault.origin == Origin::Agent;
    if said_by_nobody && fault.code != Code::ProtocolVersion {
        // The node says what it thinks of a certificate after it has shown its own.
        let seen = "whoever answered broke off the inner TLS before it had proved to be the node";
        return Fault::on_the_way(Code::TransportTls, seen);
    }
    Fault {
        class: fault.code.on_outer_leg(),
        origin: if said_by_nobody { Origin::Client } else { fault.origin },
        ..fault
    }
}

/// Whether the node alone can know it, and says it inside the inner TLS.
fn is_the_nodes_word(code: Code) -> bool {
    // Relays judge certificates and frames as well.
    let anybodys = matches!(code.number(), 300..=399 | 800..=899);
    code.class() == Class::Final && !anybodys && !matches!(code, Code::Unknown(_))
}

/// Classifies an error of the inner TLS once the node has proved who it is.
pub fn of_stream(error: &io::Error) -> Fault {
    if let Some(fault) = error.get_ref().and_then(|inner| inner.downcast_ref::<Fault>()) {
        return fault.clone();
    }
    if let Some(refused) = refusal_in(error) {
        return Fault::new(
            identity_code(refused),
            Origin::Client,
            format!("the other end shows a certificate that is refused: {refused}"),
        );
    }
    if let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        return of_tls(tls);
    }
    if let Some(refusal) = peer_refusal(error) {
        let code = if refusal.code == Code::Ok {
            Code::TransportClosed
        } else {
            refusal.code
        };
        if is_the_nodes_word(code) {
            let seen = format!("broken off on the way with {code}, which counts only from the node itself");
            return Fault::on_the_way(Code::TransportReset, seen);
        }
        let seen = refusal.back.map_or_else(String::new, |_| refusal.to_string());
        return Fault::on_the_way(code, seen);
    }
    match lost(error) {
        Some(Lost::Silent) => Fault::on_the_way(Code::TransportTimeout, "the relay was not heard any more"),
        Some(Lost::Forgotten) => Fault::on_the_way(Code::TransportLost, Lost::Forgotten.to_string()),
        Some(handshake @ (Lost::Alert(_) | Lost::Handshake(_))) => {
            Fault::on_the_way(Code::TransportTls, handshake.to_string())
        }
        Some(other) => Fault::on_the_way(Code::TransportLost, other.to_string()),
        None => {
            let code = match error.kind() {
                io::ErrorKind::TimedOut => Code::TransportTimeout,
                io::ErrorKind::UnexpectedEof => Code::TransportClosed,
                io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionAborted => {
                    Code::TransportReset
                }
                io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => Code::TransportUnreachable,
                _ => Code::TransportLost,
            };
            // What TLS says of an end is for programmers.
            let seen = match code {
                Code::TransportClosed => "the stream ended in the middle, without a word of its end".to_owned(),
                _ => error.to_string(),
            };
            Fault::on_the_way(code, seen)
        }
    }
}

fn of_tls(error: &rustls::Error) -> Fault {
    use rustls::Error as Tls;
    let refused = |code: Code, what: &str| {
        let seen = format!("the node does not accept our certificate ({what}); its log has the reason");
        Fault::new(code, Origin::Agent, seen)
    };
    match error {
        Tls::AlertReceived(alert) => match alert {
            AlertDescription::NoApplicationProtocol | AlertDescription::ProtocolVersion => Fault::new(
                Code::ProtocolVersion,
                Origin::Agent,
                "the node speaks no version of the session protocol that this program knows",
            ),
            AlertDescription::CertificateExpired => refused(Code::IdentityExpired, "expired"),
            AlertDescription::CertificateRevoked => refused(Code::IdentityRevoked, "revoked"),
            AlertDescription::CertificateRequired => refused(Code::IdentityMissing, "none was shown"),
            AlertDescription::UnknownCA => refused(Code::IdentityUnknownCa, "unknown CA"),
            AlertDescription::BadCertificate | AlertDescription::UnsupportedCertificate => {
                refused(Code::IdentityMalformed, "malformed")
            }
            // A verifier of ours says it with a handshake failure.
            AlertDescription::CertificateUnknown
            | AlertDescription::AccessDenied
            | AlertDescription::HandshakeFailure => refused(Code::IdentityUnknownCa, "not accepted"),
            other => Fault::on_the_way(
                Code::TransportTls,
                format!("the other end broke off the inner TLS: {other:?}"),
            ),
        },
        Tls::NoApplicationProtocol | Tls::PeerIncompatible(_) => Fault::new(
            Code::ProtocolVersion,
            Origin::Client,
            "the other end speaks no version of the session protocol that this program knows",
        ),
        // Whoever carries the bytes can damage them, and nothing more.
        other => Fault::on_the_way(
            Code::TransportTls,
            format!("what arrived is no valid inner TLS: {other}"),
        ),
    }
}
