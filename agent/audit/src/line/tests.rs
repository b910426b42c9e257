//! Lines are JSON that says the same, in one line, and never much longer than the bytes.

use proptest::prelude::*;

use super::*;

fn data(line: &[u8]) -> (f64, String, String) {
    assert_eq!(line.iter().filter(|&&byte| byte == b'\n').count(), 1);
    serde_json::from_slice(line).unwrap()
}

#[test]
fn golden_lines() {
    let mut out = Vec::new();
    let at = Duration::from_micros(12_000_034);
    output(&mut out, at, Stream::Stdout, "a\"\\\r\n\t\u{1b}[1mä\u{7f}");
    bytes(&mut out, at, 'b', Stream::Stderr, b"\xff\0");
    text(&mut out, Duration::ZERO, 'r', "80x24");
    let expected = concat!(
        r#"[12.000034, "o", "a\"\\\r\n\t\u001b[1mä"#,
        "\u{7f}\"]\n",
        "[12.000034, \"b\", \"e:/wA=\"]\n",
        "[0.000000, \"r\", \"80x24\"]\n"
    );
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

#[test]
fn a_notice_holds_nothing_that_acts_on_a_terminal() {
    let mut out = Vec::new();
    text(
        &mut out,
        Duration::ZERO,
        'm',
        "left running: \u{202e}exe\u{200b}\u{9b}2J\u{7f}",
    );
    let line = String::from_utf8(out.clone()).unwrap();
    assert!(line.contains("\\u202eexe\\u200b\\u009b2J\\u007f"), "{line}");
    assert_eq!(data(&out).2, "left running: \u{202e}exe\u{200b}\u{9b}2J\u{7f}");
}

#[test]
fn controls_in_bulk_become_base64() {
    let mut out = Vec::new();
    output(&mut out, Duration::ZERO, Stream::Stdout, &"\0".repeat(MAX_PIECE));
    assert!(out.len() < MAX_PIECE * 3 / 2, "{}", out.len());
    assert_eq!(data(&out).1, "b");
}

proptest! {
    #[test]
    fn text_comes_back(text in any::<String>()) {
        let mut out = Vec::new();
        super::text(&mut out, Duration::from_millis(1), 'm', &text);
        prop_assert_eq!(data(&out), (0.001, "m".to_owned(), text));
    }
}
