//! Characters split between reads are whole in the record, and no byte is lost, whatever the bytes are.

use proptest::prelude::*;

use super::*;

/// Events as (code, data) for chunks on one stream; the end of the stream is recorded too.
fn events(chunks: &[&[u8]]) -> Vec<(String, String)> {
    let mut splitter = Splitter::new(Stream::Stdout);
    let mut out = Vec::new();
    for chunk in chunks {
        splitter.push(&mut out, Duration::ZERO, chunk);
    }
    splitter.finish(&mut out, Duration::ZERO);
    let lines = out.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    lines
        .map(|line| serde_json::from_slice::<(f64, String, String)>(line).unwrap())
        .map(|(_, c, d)| (c, d))
        .collect()
}

fn strings(events: &[(String, String)]) -> Vec<(&str, &str)> {
    events
        .iter()
        .map(|(code, data)| (code.as_str(), data.as_str()))
        .collect()
}

#[test]
fn b019_a_character_that_comes_byte_by_byte_is_whole() {
    let emoji = "🦀".as_bytes();
    let got = events(&[&emoji[..1], &emoji[1..2], &emoji[2..3], &emoji[3..]]);
    // Each beginning is recorded at once, then the whole.
    assert_eq!(
        strings(&got),
        [("h", "o:8A=="), ("h", "o:8J8="), ("h", "o:8J+m"), ("o", "🦀")]
    );
}

#[test]
fn b019_cjk_over_read_edges_is_whole() {
    let text = "漢字仮名交じり文".repeat(400);
    let chunks: Vec<_> = text.as_bytes().chunks(4096).collect();
    let got = events(&chunks);
    let whole: String = got
        .iter()
        .filter(|(code, _)| code == "o")
        .map(|(_, data)| data.as_str())
        .collect();
    assert_eq!(whole, text);
    assert!(got.iter().all(|(code, _)| code != "b"));
}

#[test]
fn b019_an_incomplete_tail_is_kept() {
    let got = events(&[b"ok\xf0\x9f"]);
    assert_eq!(strings(&got), [("o", "ok"), ("h", "o:8J8="), ("b", "o:8J8=")]);
}

#[test]
fn bytes_that_are_not_text_are_kept_between_the_text() {
    let got = events(&[b"a\xffb\xc3(", b"\xe2\x82x"]);
    assert_eq!(
        strings(&got),
        [
            ("o", "a"),
            ("b", "o:/w=="),
            ("o", "b"),
            ("b", "o:ww=="),
            ("o", "("),
            ("b", "o:4oI="),
            ("o", "x")
        ]
    );
}

#[test]
fn a_binary_piece_does_not_become_thousands_of_lines() {
    let binary: Vec<u8> = (0..=255).cycle().take(64 * 1024).collect();
    assert!(events(&[&binary]).len() <= 3 * MAX_SWITCHES);
}

proptest! {
    #[test]
    fn no_byte_is_lost(
        bytes in proptest::collection::vec(prop_oneof![any::<u8>(), 0x80_u8..=0xff, prop::sample::select("aä漢🦀\n".as_bytes().to_vec())], 0..200),
        sizes in proptest::collection::vec(1_usize..9, 1..200),
    ) {
        let mut splitter = Splitter::new(Stream::Stderr);
        let mut out = Vec::new();
        let mut rest = &bytes[..];
        for size in sizes.iter().cycle() {
            if rest.is_empty() { break }
            let (chunk, after) = rest.split_at((*size).min(rest.len()));
            splitter.push(&mut out, Duration::ZERO, chunk);
            rest = after;
            // At any moment, what the file holds is everything that was put in.
            prop_assert_eq!(crate::read::tests::output_of(&out), &bytes[..bytes.len() - rest.len()]);
        }
        splitter.finish(&mut out, Duration::ZERO);
        prop_assert_eq!(crate::read::tests::output_of(&out), bytes);
    }
}
