//! Golden bytes of RFC 9000 (appendix A.1), boundaries, shortest form, any bytes.

use bytes::BytesMut;
use proptest::prelude::*;

use super::*;

fn bytes(value: u64) -> Vec<u8> {
    let mut out = BytesMut::new();
    put(&mut out, value);
    out.to_vec()
}

#[test]
fn golden_bytes() {
    let golden: &[(u64, &[u8])] = &[
        (
            151_288_809_941_952_652,
            &[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c],
        ),
        (494_878_333, &[0x9d, 0x7f, 0x3e, 0x7d]),
        (15_293, &[0x7b, 0xbd]),
        (37, &[0x25]),
        (0, &[0]),
        (63, &[0x3f]),
        (64, &[0x40, 0x40]),
        (16_383, &[0x7f, 0xff]),
        (16_384, &[0x80, 0, 0x40, 0]),
        (1_073_741_823, &[0xbf, 0xff, 0xff, 0xff]),
        (1_073_741_824, &[0xc0, 0, 0, 0, 0x40, 0, 0, 0]),
        (MAX, &[0xff; 8]),
    ];
    for (value, wire) in golden {
        assert_eq!(bytes(*value), *wire, "{value}");
        assert_eq!(get(wire), Ok(Some((*value, wire.len()))));
        assert_eq!(len(*value), wire.len());
    }
}

#[test]
fn longer_forms_than_needed_are_refused() {
    for wire in [
        &[0x40, 0x25][..],
        &[0x80, 0, 0, 0x3f],
        &[0x80, 0, 0x3f, 0xff],
        &[0xc0, 0, 0, 0, 0x3f, 0xff, 0xff, 0xff],
    ] {
        assert_eq!(get(wire), Err(NotShortest), "{wire:x?}");
    }
}

#[test]
fn what_does_not_fit_is_written_as_the_largest() {
    assert_eq!(bytes(u64::MAX), bytes(MAX));
}

proptest! {
    #[test]
    fn round_trip_and_every_cut(value in 0..=MAX, tail in any::<u8>()) {
        let mut wire = bytes(value);
        for cut in 0..wire.len() {
            prop_assert_eq!(get(&wire[..cut]), Ok(None));
        }
        let length = wire.len();
        wire.push(tail);
        prop_assert_eq!(get(&wire), Ok(Some((value, length))));
    }

    #[test]
    fn any_bytes(wire in proptest::collection::vec(any::<u8>(), 0..10)) {
        crate::fuzz::number(&wire);
    }
}
