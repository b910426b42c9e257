//! The environment is made of the account and an allow-list, whatever the agent's own is.

use super::*;

fn account() -> Account {
    Account {
        name: "oncall".into(),
        uid: 1,
        gid: 1,
        groups: vec![1],
        home: "/home/oncall".into(),
        shell: "/bin/sh".into(),
    }
}

fn value<'a>(all: &'a [(OsString, OsString)], name: &str) -> Option<&'a OsStr> {
    all.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_os_str())
}

#[test]
fn b030_only_the_account_and_the_allow_list_make_the_environment() {
    let offered: Vec<(&[u8], &[u8])> = vec![
        (b"LANG", b"de_DE.UTF-8"),
        (b"LC_ALL", b"C"),
        (b"LC_lower", b"C"),
        (b"LC_", b"C"),
        (b"LD_PRELOAD", b"/tmp/x.so"),
        (b"PATH", b"/tmp"),
        (b"BASH_ENV", b"/tmp/x"),
        (b"HOME", b"/tmp"),
        (b"TERM", b"xterm"),
        (b"LANG", b"second"),
    ];
    let all = build(&account(), None, offered);
    let names: Vec<_> = all.iter().map(|(n, _)| n.to_str().unwrap()).collect();
    assert_eq!(names, ["HOME", "USER", "LOGNAME", "PATH", "LANG", "LC_ALL"]);
    assert_eq!(value(&all, "LANG").unwrap(), "de_DE.UTF-8");
    assert_eq!(value(&all, "HOME").unwrap(), "/home/oncall");
}

#[test]
fn b031_strange_values_are_passed_whole_or_dropped() {
    for (given, kept) in [
        (b"a b=c".as_slice(), true),
        (b"caf\xe9", true),
        (b"$(touch /tmp/x)", false),
        (b"../../etc/x", false),
        (b"a\nb", false),
        (b"a\0b", false),
        (b"\x1b]0;x\x07", false),
    ] {
        let all = build(&account(), None, [(b"LANG".as_slice(), given)]);
        assert_eq!(
            value(&all, "LANG").map(OsStrExt::as_bytes),
            kept.then_some(given),
            "{given:?}"
        );
    }
    for (given, seen) in [
        (b"xterm-256color".as_slice(), "xterm-256color"),
        (b"rxvt+pcfkeys", "rxvt+pcfkeys"),
        (b"", "dumb"),
        (b"../x", "dumb"),
        (b"x term", "dumb"),
        (b"x=y", "dumb"),
        (b"\xff\xfe", "dumb"),
        (&[b'x'; 65], "dumb"),
    ] {
        let all = build(&account(), Some(given), []);
        assert_eq!(value(&all, "TERM").unwrap(), seen, "{given:?}");
    }
    let many: Vec<Vec<u8>> = (0..99)
        .map(|i| format!("LC_{}", "A".repeat(1 + i % 32) + &"B".repeat(i / 32)).into_bytes())
        .collect();
    let all = build(
        &account(),
        None,
        many.iter().map(|name| (name.as_slice(), b"C".as_slice())),
    );
    assert!(all.len() <= 4 + MAX_OFFERED);
}

#[test]
fn an_account_without_a_home_is_at_home_in_the_root_directory() {
    let all = build(
        &Account {
            home: "".into(),
            ..account()
        },
        None,
        [],
    );
    assert_eq!(value(&all, "HOME").unwrap(), "/");
}
