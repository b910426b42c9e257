//! What a refusal says always fits into its message.

use bytes::BytesMut;
use noderelay_proto::message::{Frames, ToClient};

use super::*;

#[test]
fn text_of_any_kind_fits_its_field() {
    for piece in ["a", "\n", "\u{1b}", "\u{202e}", "\u{e0001}", "ß", "😀", "😀\u{202e}"] {
        for count in [0, 1, MAX_TEXT / 4, MAX_TEXT, 10 * MAX_TEXT] {
            let shown = shown(&piece.repeat(count));
            assert!(
                shown.len() <= MAX_TEXT,
                "{piece:?} {count} times: {} bytes",
                shown.len()
            );
            assert!(!shown.chars().any(text::is_invisible), "{shown:?}");
            assert_eq!(shown.is_empty(), count == 0);
        }
    }
}

#[test]
fn short_text_is_shown_whole() {
    assert_eq!(shown("no rule permits it"), "no rule permits it");
    assert_eq!(shown("a\nb\u{202e}"), "a\\nb\\u{202e}");
}

#[test]
fn the_client_can_decode_every_refusal() {
    for code in Code::ALL.iter().filter(|code| **code != Code::Ok) {
        let refusal = Refusal {
            policy_version: 7,
            ..Refusal::node(*code, "\u{e0001}".repeat(5000))
        };
        let mut bytes = BytesMut::new();
        ToClient::from(refusal.message()).encode(&mut bytes);
        let mut frames = Frames::<ToClient>::new();
        frames.push(&bytes);
        let Some(ToClient::Denied(denied)) = frames.next().unwrap() else {
            panic!("no DENIED");
        };
        assert_eq!(Code::from_number(denied.code), *code);
        assert_eq!(Missing::try_from(denied.missing), Ok(Missing::Node));
        assert_eq!(denied.policy_version, 7);
    }
}
