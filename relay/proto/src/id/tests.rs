//! Ids as text.

use super::*;

#[test]
fn text_and_back() {
    let id = SessionId::new([0xab, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 0xff]);
    assert_eq!(id.to_string(), "ab000102030405060708090a0b0c0dff");
    assert_eq!(id.to_string().parse(), Ok(id));
    assert_eq!(SessionId::from_slice(&id.to_bytes()), Some(id));
}

#[test]
fn only_32_lower_case_digits() {
    for text in [
        "",
        "ab",
        &"A".repeat(32),
        &"g".repeat(32),
        &"0".repeat(31),
        &"0".repeat(33),
        &"é".repeat(16),
    ] {
        assert_eq!(text.parse::<OpenId>(), Err(NotAnId), "{text}");
    }
    assert_eq!(InstanceId::from_slice(&[0; 15]), None);
    assert_eq!(InstanceId::from_slice(&[0; 17]), None);
}
