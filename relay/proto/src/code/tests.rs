//! The table of codes is a bijection and keeps its promises.

use std::collections::BTreeSet;

use super::*;

#[test]
fn every_number_and_name_is_unique_and_leads_back() {
    let mut numbers = BTreeSet::new();
    let mut names = BTreeSet::new();
    for code in Code::ALL.iter().copied() {
        assert!(
            numbers.insert(code.number()),
            "{code} has a number that another code has"
        );
        assert!(names.insert(code.name()), "{code} has a name that another code has");
        assert_eq!(Code::from_number(code.number()), code);
        assert_eq!(Code::from_wire(code.number().into()), code);
        assert_eq!(Code::from_name(code.name()), Some(code));
        assert_eq!(u32::from(code), code.number());
        assert_eq!(code.to_string(), code.name());
    }
    assert!(
        Code::ALL.is_sorted_by_key(|code| code.number()),
        "the table is in order"
    );
}

#[test]
fn unknown_numbers_keep_their_number_and_make_no_labels() {
    let code = Code::from_number(4_000_000_000);
    assert_eq!(code, Code::Unknown(4_000_000_000));
    assert_eq!(code.number(), 4_000_000_000);
    assert_eq!(code.name(), "unknown");
    assert_eq!(Code::from_name("unknown"), None);
    assert_eq!(Code::from_wire(u64::MAX), Code::Unknown(u32::MAX));
}

#[test]
fn a_refusal_carries_its_code_and_when_to_come_back() {
    let said = |millis| Refusal {
        code: Code::RelayQuota,
        back: Some(Duration::from_millis(millis)),
    };
    // Golden: 250 ms and code 108.
    assert_eq!(said(250).to_wire(), 0x0000_00fa_0000_006c);
    assert_eq!(Refusal::from(Code::RelayQuota).to_wire(), 108);
    for refusal in [
        said(1),
        said(5_000),
        said((1 << 30) - 1),
        Code::Ok.into(),
        Code::AgentNotReady.into(),
    ] {
        assert_eq!(Refusal::from_wire(refusal.to_wire()), refusal);
        assert!(refusal.to_wire() < 1 << 62);
    }
    // Too long a time is the longest one, a tiny one is not none.
    assert_eq!(said(u64::MAX).to_wire(), said((1 << 30) - 1).to_wire());
    let tiny = Refusal {
        code: Code::RelayBusy,
        back: Some(Duration::from_nanos(1)),
    };
    assert_eq!(Refusal::from_wire(tiny.to_wire()).back, Some(Duration::from_millis(1)));
    assert_eq!(said(4_200).to_string(), "relay.quota; try again in 5 s");
}

#[test]
fn names_are_labels() {
    for code in Code::ALL {
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte == b'_' || byte == b'.';
        assert!(code.name().bytes().all(fits), "{}", code.name());
        assert!(code.summary().ends_with('.'));
    }
}

#[test]
fn nothing_that_a_relay_says_is_final() {
    for code in Code::ALL.iter().copied().chain([Code::Unknown(77)]) {
        assert_ne!(code.on_outer_leg(), Class::Final, "{code}");
        if code.origin() == Origin::Relay {
            assert!(!code.is_final(), "{code}");
        }
    }
}

#[test]
fn b014_transport_errors_lead_to_resume_and_policy_and_protocol_errors_are_final() {
    for code in Code::ALL.iter().copied() {
        let group = code.name().split('.').next().unwrap();
        match group {
            "transport" => assert!(!code.is_final(), "{code}"),
            "identity" | "policy" | "grant" | "bundle" | "activation" => assert!(code.is_final(), "{code}"),
            _ => {}
        }
    }
    assert_eq!(Code::SessionAgentStopping.class(), Class::Transport);
    assert_eq!(
        Code::ProtocolTruncated.class(),
        Class::Transport,
        "a cut stream is a lost path, not a broken peer"
    );
}
