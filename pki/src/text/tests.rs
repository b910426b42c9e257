//! What may be shown, and how durations are read.

use std::io::Write as _;

use proptest::prelude::*;

use super::*;

#[test]
fn control_bidi_and_invisible_characters_are_shown_escaped() {
    assert_eq!(escape("plain é 日本", 100), "plain é 日本");
    assert_eq!(escape("\u{1b}]0;x\u{7}", 100), "\\u{1b}]0;x\\u{7}");
    assert_eq!(escape("a\r\n\tb", 100), "a\\r\\n\\tb");
    assert_eq!(escape("\u{202e}gnp.exe\u{200b}", 100), "\\u{202e}gnp.exe\\u{200b}");
    assert_eq!(escape("\u{e0041}\u{fe0f}\u{3164}", 100), "\\u{e0041}\\u{fe0f}\\u{3164}");
    assert_eq!(escape("abcdef", 3), "abc…");
    assert_eq!(escape("abc", 3), "abc");
    assert_eq!(escape_bytes(b"ok\xff\xfe!", 100), "ok\\xff\\xfe!");
    assert_eq!(escape_bytes(b"abc\xffdef", 4), "abc\\xff…");
}

#[test]
fn lines_stay_lines_and_none_is_begun_by_a_stranger() {
    assert_eq!(escape_lines("two:\n a\x1b[m\n", 100), "two:\n   a\\u{1b}[m");
    assert_eq!(
        escape_lines("x\nnoderelay: all is well", 100),
        "x\n  noderelay: all is well"
    );
}

#[test]
fn a_cause_is_told_once() {
    #[derive(Debug, thiserror::Error)]
    enum Error {
        #[error("the disk is full")]
        Disk,
        #[error("can't write a: {0}")]
        Telling(#[source] Box<Error>),
        #[error("state")]
        Silent(#[source] Box<Error>),
    }
    let telling = || Error::Telling(Box::new(Error::Disk));
    assert_eq!(chain(&telling()), "can't write a: the disk is full");
    assert_eq!(
        chain(&Error::Silent(Box::new(telling()))),
        "state: can't write a: the disk is full"
    );
    assert_eq!(chain(&Error::Silent(Box::new(Error::Disk))), "state: the disk is full");
}

#[test]
fn durations_as_people_write_them() {
    for (text, millis) in [
        ("0s", 0),
        ("500ms", 500),
        ("30s", 30_000),
        ("10m", 600_000),
        ("8h", 28_800_000),
        ("30d", 2_592_000_000),
    ] {
        let period = Period::parse(text).unwrap();
        assert_eq!(period.duration().as_millis(), millis);
        assert_eq!(period.to_string(), text);
    }
    assert_eq!(Period::parse("90s").unwrap().to_string(), "90s");
    assert_eq!(Period::parse("60s").unwrap().to_string(), "1m");
    for bad in [
        "",
        "5",
        "s",
        "5 s",
        "-5s",
        "+5s",
        "05s",
        "1.5h",
        "5S",
        "5sec",
        "1h30m",
        "99999999999999999999s",
        "36501d",
        "5ß",
    ] {
        let error = Period::parse(bad).unwrap_err().to_string();
        assert!(error.contains("30s"), "{error}");
    }
    assert_eq!(Period::from_secs(u64::MAX), Period::MAX);
    assert_eq!(Period::from_millis(u64::MAX), Period::MAX);
    assert_eq!(
        serde_json::from_str::<Period>("\"8h\"").unwrap(),
        Period::from_secs(8 * 3600)
    );
    assert!(serde_json::from_str::<Period>("8").is_err());
}

proptest! {
    #[test]
    fn nothing_invisible_comes_out(text in any::<String>(), max in 0usize..50) {
        prop_assert!(!escape(&text, max).chars().any(is_invisible));
    }

    #[test]
    fn bytes_never_panic(bytes in any::<Vec<u8>>(), max in 0usize..50) {
        prop_assert!(!escape_bytes(&bytes, max).chars().any(is_invisible));
    }

    #[test]
    fn a_period_reads_back(seconds in 0u64..4_000_000_000) {
        let period = Period::from_secs(seconds);
        prop_assert_eq!(Period::parse(&period.to_string()).unwrap(), period);
    }
}

#[test]
fn a_line_of_a_log_is_one_line_that_shows_what_it_holds() {
    let hostile = "2026 INFO node=a\u{202e}b\n2026 INFO audit forged\x1b[2J\tend\n";
    let mut out = Vec::new();
    LogLines::text(&mut out).write_all(hostile.as_bytes()).unwrap();
    let shown = String::from_utf8(out).unwrap();
    assert_eq!(
        shown,
        "2026 INFO node=a\\u{202e}b\\n2026 INFO audit forged\\u{1b}[2J\\tend\n"
    );

    let json = "{\"a\":\"x\u{202e}\u{e0001}y\"}\n";
    let mut out = Vec::new();
    LogLines::json(&mut out).write_all(json.as_bytes()).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), "{\"a\":\"x\\u202e\\udb40\\udc01y\"}\n");
}

#[test]
fn a_usage_error_quotes_nothing_that_deceives() {
    let quoting = |words: Vec<OsString>| {
        words
            .first()
            .map(|word| format!("unexpected {}\n  tip", word.to_string_lossy()))
    };
    let words = ["--bo\u{1b}[31m\u{202e}gus\nnoderelay: done"].map(OsString::from);
    let shown = usage(words.clone(), "seen", quoting);
    assert_eq!(shown, "unexpected --bo\\u{1b}[31m\\u{202e}gus\\nnoderelay: done\n  tip");
    // Escaped, the words are good: what was seen counts.
    assert_eq!(usage(words, "not\x1bgood\n", |_| None), "not\\u{1b}good\n");
}

#[test]
fn yaml_that_would_deceive_is_shown_with_escapes_and_means_the_same() {
    assert_eq!(shown_yaml("a: b\n".into(), String::new), "a: b\n");
    let json = || "{\"a\":\"x\u{202e}\u{e0001}\"}".to_owned();
    assert_eq!(
        shown_yaml("a: x\u{202e}\u{e0001}\n".into(), json),
        "{\"a\":\"x\\u202e\\U000e0001\"}\n"
    );
}
