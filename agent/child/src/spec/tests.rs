//! Orders come back as they went, broken ones are refused, and shells are tried in the documented order.

use super::*;

fn account(shell: &str) -> Account {
    Account {
        name: "n".into(),
        uid: 1,
        gid: 2,
        groups: vec![2, 3],
        home: "/h".into(),
        shell: shell.into(),
    }
}

fn specs() -> Vec<Spec> {
    let argv = ["printf", "a b", "", "*", "x\ny"].map(OsString::from);
    let mut argv = argv.to_vec();
    argv.push(OsString::from_vec(vec![0xff, 0xfe]));
    let environment = vec![("A".into(), "b=c".into())];
    [
        What::Shell { login: true },
        What::Shell { login: false },
        What::Line("echo $HOME".into()),
        What::Command(argv),
    ]
    .into_iter()
    .enumerate()
    .map(|(i, what)| Spec::new(what, account("/bin/zsh"), environment.clone(), i % 2 == 0))
    .chain([Spec {
        what: What::Command(vec![]),
        environment: vec![],
        directories: vec![],
        shells: vec![],
        account: None,
        terminal: false,
    }])
    .collect()
}

#[test]
fn orders_survive_the_way() {
    for spec in specs() {
        assert_eq!(Spec::decode(&spec.encode()), Ok(spec));
    }
}

#[test]
fn cut_longer_or_changed_orders_never_panic_and_cut_ones_are_refused() {
    for spec in specs() {
        let bytes = spec.encode();
        for end in 0..bytes.len() {
            assert_eq!(Spec::decode(&bytes[..end]), Err(Malformed), "cut at {end}");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert_eq!(Spec::decode(&longer), Err(Malformed));
        for at in 0..bytes.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut changed = bytes.clone();
                changed[at] = value;
                let _ = Spec::decode(&changed);
            }
        }
    }
    assert_eq!(
        Spec::decode(&[2, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]),
        Err(Malformed),
        "claimed length"
    );
}

#[test]
fn a_zero_byte_in_a_text_is_refused() {
    let spec = Spec {
        what: What::Line(OsString::from_vec(b"a\0b".to_vec())),
        ..specs().remove(0)
    };
    assert_eq!(Spec::decode(&spec.encode()), Err(Malformed));
}

#[test]
fn b028_shells_are_tried_in_the_documented_order() {
    let usual = [
        "/bin/bash",
        "/usr/bin/bash",
        "/bin/sh",
        "/usr/bin/sh",
        "/bin/ash",
        "/bin/dash",
        "/bin/busybox",
    ];
    let list = |shell: &str| {
        shells(&account(shell))
            .iter()
            .map(|p| p.to_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(list("/bin/zsh")[0], "/bin/zsh");
    assert_eq!(list("/bin/zsh")[1..], usual);
    assert_eq!(list("/bin/sh")[..2], ["/bin/sh", "/bin/bash"]);
    assert_eq!(list("/bin/sh").len(), usual.len());
    for refusing in ["/usr/sbin/nologin", "/bin/false", "", "bash", "../bin/bash", "/"] {
        assert_eq!(list(refusing), usual, "{refusing}");
    }
}
