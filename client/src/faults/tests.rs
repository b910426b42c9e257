//! What each kind of error on the way means.

use std::io;

use noderelay_proto::code::{Class, Code, Origin};

use super::{Fault, before_proof, of_stream};

#[test]
fn b014_every_error_of_the_system_is_a_lost_path_and_never_final() {
    use nix::errno::Errno;
    let errors = [
        Errno::ENETUNREACH,
        Errno::EHOSTUNREACH,
        Errno::ETIMEDOUT,
        Errno::ECONNRESET,
        Errno::ECONNREFUSED,
        Errno::ENETDOWN,
        Errno::EPIPE,
        Errno::ENOBUFS,
        Errno::EPERM,
        Errno::EADDRNOTAVAIL,
        Errno::EIO,
    ];
    for errno in errors {
        let fault = of_stream(&io::Error::from_raw_os_error(errno as i32));
        assert!(fault.is_transport(), "{errno}: {fault:?}");
        assert_ne!(fault.origin, Origin::Agent);
    }
    for kind in [
        io::ErrorKind::UnexpectedEof,
        io::ErrorKind::NotConnected,
        io::ErrorKind::Other,
    ] {
        assert!(of_stream(&kind.into()).is_transport());
    }
}

#[test]
fn b014_every_end_of_a_quic_connection_is_a_lost_path() {
    use quinn::{ConnectionError, ReadError, VarInt};
    for lost in [
        ConnectionError::TimedOut,
        ConnectionError::Reset,
        ConnectionError::LocallyClosed,
        ConnectionError::VersionMismatch,
    ] {
        let fault = of_stream(&ReadError::ConnectionLost(lost.clone()).into());
        assert!(fault.is_transport(), "{lost}: {fault:?}");
    }
    let silent = of_stream(&ReadError::ConnectionLost(ConnectionError::TimedOut).into());
    assert_eq!(silent.code, Code::TransportTimeout);
    let unknown = of_stream(&ReadError::Reset(VarInt::from_u32(4711)).into());
    assert_eq!((unknown.code, unknown.class), (Code::Unknown(4711), Class::Refused));
}

#[test]
fn a_relay_is_never_final_whatever_code_it_sends() {
    use quinn::{ReadError, VarInt};
    for &code in Code::ALL {
        let fault = of_stream(&ReadError::Reset(VarInt::from_u32(code.number())).into());
        assert!(fault.is_transport(), "{code:?}");
        assert_ne!(fault.origin, Origin::Agent, "{code:?}");
    }
}

#[test]
fn a_relay_does_not_speak_for_the_node() {
    use quinn::{ReadError, VarInt};
    let fault = |code: Code| of_stream(&ReadError::Reset(VarInt::from_u32(code.number())).into());
    for code in [
        Code::PolicyDenied,
        Code::GrantExpired,
        Code::RecordingUnavailable,
        Code::SessionIdle,
        Code::ShellFailed,
        Code::ClientInterrupted,
    ] {
        let fault = fault(code);
        assert_eq!(fault.code, Code::TransportReset, "{code}");
        assert!(fault.seen.contains(code.name()), "{fault}");
    }
    // What it judges itself, and what an agent says of a stream before anybody is known, stays as it is.
    for code in [
        Code::RelayBusy,
        Code::IdentityExpired,
        Code::ProtocolTooLarge,
        Code::AgentNotReady,
        Code::SessionAgentStopping,
    ] {
        assert_eq!(fault(code).code, code);
    }
}

#[test]
fn an_end_is_told_in_words_for_people() {
    let fault = of_stream(&io::Error::new(
        io::ErrorKind::UnexpectedEof,
        "see https://docs.example",
    ));
    assert_eq!(fault.code, Code::TransportClosed);
    assert!(!fault.seen.contains("https"), "{fault}");
}

#[test]
fn damaged_records_are_a_lost_path_and_alerts_of_the_node_are_final() {
    let tls = |error: rustls::Error| of_stream(&io::Error::new(io::ErrorKind::InvalidData, error));
    assert!(tls(rustls::Error::DecryptError).is_transport());
    let alert = tls(rustls::Error::AlertReceived(
        rustls::AlertDescription::CertificateExpired,
    ));
    assert_eq!(
        (alert.code, alert.class, alert.origin),
        (Code::IdentityExpired, Class::Final, Origin::Agent)
    );
    assert_eq!(tls(rustls::Error::NoApplicationProtocol).code, Code::ProtocolVersion);
}

#[test]
fn what_inner_tls_says_is_final() {
    assert!(!Fault::new(Code::PolicyDenied, Origin::Agent, "").is_transport());
    assert!(!Fault::new(Code::Unknown(9), Origin::Agent, "").is_transport());
}

#[test]
fn before_the_node_has_proved_itself_nothing_is_final() {
    for alert in [
        rustls::AlertDescription::CertificateExpired,
        rustls::AlertDescription::HandshakeFailure,
        rustls::AlertDescription::NoApplicationProtocol,
    ] {
        let error = io::Error::new(io::ErrorKind::InvalidData, rustls::Error::AlertReceived(alert));
        let fault = before_proof(&error);
        assert!(
            matches!(fault.code, Code::TransportTls | Code::ProtocolVersion),
            "nobody has judged our certificate yet: {fault}"
        );
        assert!(fault.is_transport() && fault.origin == Origin::Client, "{fault:?}");
    }
}

#[test]
fn a_fault_never_says_nothing() {
    for &code in Code::ALL {
        for fault in [
            Fault::on_the_way(code, ""),
            Fault::new(code, Origin::Agent, String::new()),
        ] {
            assert_eq!(fault.seen, code.summary());
            assert!(!fault.seen.is_empty(), "{code:?}");
        }
    }
}
