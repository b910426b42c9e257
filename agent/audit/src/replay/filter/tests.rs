//! What acts on the viewer's machine is left out, what draws passes, and memory stays small.

use proptest::prelude::*;

use super::*;

fn shown(show: Show, input: &str) -> String {
    let mut whole = String::new();
    Filter::new(show).push(input.as_bytes(), &mut whole);
    // The same in single bytes: cuts make no difference.
    let (mut filter, mut pieces) = (Filter::new(show), String::new());
    input
        .as_bytes()
        .chunks(1)
        .for_each(|byte| filter.push(byte, &mut pieces));
    assert_eq!(whole, pieces);
    whole
}

#[test]
fn drawing_passes() {
    for input in [
        "plain ä漢🦀\r\n\ttext\x08",
        "\x1b[1;31mred\x1b[0m\x1b[38;2;1;2;3m\x1b[4:3m",
        "\x1b[H\x1b[2J\x1b[10;20Hx\x1b[K\x1b[5A\x1b[?1049h\x1b[?25l\x1b[1;24r\x1b7\x1b8\x1bM\x1b(0lqk\x1b(B",
        "\x1b[4h\x1b[2@\x1b[3P\x1b[4X\x1b[2 q\x1b[!p\x1bc\x1b#8\x1b=\x1b>",
        "\x1b[?1;25h",
        "\x1b[3b",
    ] {
        assert_eq!(shown(Show::Terminal, input), input, "{input:?}");
    }
}

#[test]
fn what_reaches_beyond_the_screen_is_left_out() {
    for input in [
        "\x1b]0;title\x07",
        "\x1b]2;title\x1b\\",
        "\x1bktitle\x1b\\",
        "\x1b]52;c;cm0gLXJmIH4K\x07",
        "\x1b]52;c;?\x1b\\",
        "\x1b]8;;https://example.org\x1b\\",
        "\x1b]1337;File=name=x:AAAA\x07",
        "\x1b]777;notify;a;b\x07",
        "\x1bP$qm\x1b\\",
        "\x1bPtmux;\x1b\x1b]52;c;AAAA\x07\x1b\\",
        "\x1b_Gf=24;AAAA\x1b\\",
        "\x1b^pm\x1b\\",
        "\x1bXsos\x1b\\",
        "\x1b[c",
        "\x1b[>c",
        "\x1b[6n",
        "\x1b[?6n",
        "\x1b[x",
        "\x1b[>q",
        "\x1b[?1$p",
        "\x1b[21t",
        "\x1b[8;1000;1000t",
        "\x1b[5i",
        "\x1b[?5i",
        "\x1b[?1000h",
        "\x1b[?1002;1003;1006h",
        "\x1b[?2004h",
        "\x1b[?1004h",
        "\x1b[?9001h",
        "\x1b[>1u",
        "\x1b[=1;1u",
        "\x1b[?u",
        "\x1b[>4;2m",
        "\x1b[2h",
        "\x1b[2*x",
        "\x1bZ",
        "\x1b%@",
        "\x1b F",
        "\x05",
        "\x07",
        "\x00",
        "\x7f",
        "\u{9b}",
        "\x1b[99999999999b",
        "\x1b[10000b",
    ] {
        assert_eq!(
            shown(Show::Terminal, &format!("a{input}b")).replace("\x1b\\", ""),
            "ab",
            "{input:?}"
        );
        let plain = shown(Show::Plain, &format!("a{input}b"));
        assert!(!plain.chars().any(char::is_control), "{plain:?}");
    }
}

#[test]
fn no_control_of_the_second_set_passes() {
    let all: String = ('\u{80}'..='\u{9f}').collect();
    assert_eq!(shown(Show::Terminal, &all), "");
    // As single bytes they are not UTF-8.
    let mut out = String::new();
    Filter::new(Show::Terminal).push(b"\x9b6n\x9d0;x\x07", &mut out);
    assert_eq!(out, "\u{fffd}6n\u{fffd}0;x");
}

#[test]
fn mixed_private_modes_keep_the_harmless_ones() {
    assert_eq!(shown(Show::Terminal, "\x1b[?1049;1000;25;2004h"), "\x1b[?1049;25h");
}

#[test]
fn sequences_end_where_terminals_end_them() {
    assert_eq!(shown(Show::Terminal, "\x1b]0;never ended\x1b[31mred"), "\x1b[31mred");
    assert_eq!(shown(Show::Terminal, "\x1b]0;x\x18text"), "text");
    assert_eq!(shown(Show::Terminal, "\x1b[12\x1b[31mred"), "\x1b[31mred");
    assert_eq!(shown(Show::Terminal, "\x1b[3\n1mred"), "\n\x1b[31mred");
    assert_eq!(shown(Show::Terminal, "\x1b[31"), "");
}

#[test]
fn plain_is_text_only() {
    let input = "a\x1b[31mb\x1b[0m\r\nprogress 1\rprogress 2\r\n\x1b]0;t\x07c\x08\td";
    assert_eq!(shown(Show::Plain, input), "ab\nprogress 1\nprogress 2\nc\td");
}

#[test]
fn an_escape_bomb_of_ten_megabytes_costs_nothing() {
    let mut filter = Filter::new(Show::Terminal);
    let mut out = String::new();
    for start in ["\x1b]52;c;", "\x1bP", "\x1b_", "\x1b[", "\x1b[?", "\x1b"] {
        filter.push(start.as_bytes(), &mut out);
        for _ in 0..160 {
            filter.push("9;9;".repeat(16 * 1024).as_bytes(), &mut out);
        }
        filter.push(b"\n", &mut out);
        assert!(filter.sequence.len() <= MAX_CSI && filter.partial.len() <= 3);
        out.clear();
    }
    // A string that does not end cannot hide the rest.
    filter.push(b"\x1b]0;", &mut out);
    filter.push(&vec![b'A'; 10 * 1024 * 1024], &mut out);
    filter.push(b"\nrm -rf /\n", &mut out);
    assert_eq!(out, "[a long control string is left out]\nrm -rf /\n");
}

proptest! {
    #[test]
    fn only_listed_sequences_come_out(bytes in proptest::collection::vec(
        prop_oneof![any::<u8>(), prop::sample::select(b"\x1b\x1b[]()?>;019hlmnctiPk_\\\x07\x9b\xc2".to_vec())], 0..120))
    {
        for show in [Show::Terminal, Show::Plain] {
            let mut out = String::new();
            Filter::new(show).push(&bytes, &mut out);
            let mut again = String::new();
            Filter::new(show).push(out.as_bytes(), &mut again);
            prop_assert_eq!(&out, &again, "filtering twice changes nothing");
            prop_assert!(!out.chars().any(|c| c.is_control() && !"\t\n\x08\r\x0b\x0c\x0e\x0f\x1b".contains(c)));
            for rest in out.split('\x1b').skip(1) {
                prop_assert!(!rest.starts_with([']', 'P', 'X', '^', '_', 'k', 'Z']), "{:?}", out);
            }
        }
    }
}
