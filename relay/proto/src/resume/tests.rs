//! The proof against a value computed elsewhere, and every way in which it must not verify.

use super::*;

fn claim() -> Claim {
    Claim {
        role: Role::Client,
        session: SessionId::new(*b"0123456789abcdef"),
        epoch: 3,
        sent: 0x0102_0304_0506_0708,
        consumed: 258,
    }
}

fn key() -> ResumeKey {
    ResumeKey::new([0x11; 32])
}

fn binding() -> Binding {
    Binding::new([0x22; 32])
}

#[test]
fn golden_input_and_mac() {
    let mut wanted = b"noderelay-session/1 resume\0\0\x010123456789abcdef".to_vec();
    wanted.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 1, 2]);
    wanted.extend_from_slice(&[0x22; 32]);
    assert_eq!(mac_input(&claim(), &binding()), wanted);
    assert_eq!(wanted.len(), INPUT_LENGTH);
    let mac = sign(&key(), &claim(), &binding());
    let hex: String = mac.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        hex, "d70fcd102fb21908aca807cb4301c6dfbc078179f7b63c3f43edb1bd2da991ee",
        "computed with another implementation of HMAC-SHA256"
    );
    assert_eq!(verify(&key(), &claim(), &binding(), &mac), Ok(()));
}

#[test]
fn a_proof_is_worth_nothing_for_anything_else() {
    let mac = sign(&key(), &claim(), &binding());
    let others = [
        Claim {
            role: Role::Node,
            ..claim()
        },
        Claim {
            session: SessionId::new([0; 16]),
            ..claim()
        },
        Claim { epoch: 4, ..claim() },
        Claim { epoch: 2, ..claim() },
        Claim { sent: 0, ..claim() },
        Claim {
            consumed: 259,
            ..claim()
        },
        Claim {
            sent: claim().consumed,
            consumed: claim().sent,
            ..claim()
        },
    ];
    for other in others {
        assert_eq!(verify(&key(), &other, &binding(), &mac), Err(BadMac), "{other:?}");
    }
    assert_eq!(
        verify(&key(), &claim(), &Binding::new([0x23; 32]), &mac),
        Err(BadMac),
        "another connection"
    );
    assert_eq!(
        verify(&ResumeKey::new([0x12; 32]), &claim(), &binding(), &mac),
        Err(BadMac),
        "another key"
    );
    assert_eq!(BadMac.code(), Code::SessionMac);
}

#[test]
fn a_changed_or_cut_proof_does_not_verify() {
    let mac = sign(&key(), &claim(), &binding());
    for position in 0..mac.len() {
        let mut bent = mac.to_vec();
        bent[position] ^= 1;
        assert_eq!(verify(&key(), &claim(), &binding(), &bent), Err(BadMac));
        assert_eq!(verify(&key(), &claim(), &binding(), &mac[..position]), Err(BadMac));
    }
    let mut longer = mac.to_vec();
    longer.push(0);
    assert_eq!(verify(&key(), &claim(), &binding(), &longer), Err(BadMac));
}

#[test]
fn epochs_only_rise() {
    for (current, offered) in [(0, 1), (0, 7), (6, 7), (u64::MAX - 1, u64::MAX)] {
        assert!(epoch_follows(current, offered), "{current} {offered}");
    }
    for (current, offered) in [(0, 0), (1, 1), (2, 1), (u64::MAX, 0), (u64::MAX, u64::MAX)] {
        assert!(!epoch_follows(current, offered), "{current} {offered}");
    }
}

#[test]
fn secrets_do_not_show() {
    assert_eq!(format!("{:?} {:?}", key(), binding()), "ResumeKey(…) Binding(…)");
    assert_eq!(ResumeKey::from_slice(&[0; 31]).map(|_| ()), None);
}
