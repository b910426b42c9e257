//! What becomes of the words, the environment and the limits of a wish.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use noderelay_pki::name::{ClusterName, NodeName};
use noderelay_proto::OpenId;
use noderelay_proto::code::Code;
use noderelay_proto::control::Kind;

use super::{WantTerminal, Wish, Work};
use crate::terminal::Size;

fn wish<'a>(work: &'a Work, node: &'a NodeName, cluster: &'a ClusterName) -> Wish<'a> {
    Wish {
        id: OpenId::new([7; 16]),
        node,
        cluster,
        work,
        terminal: None,
        environment: Vec::new(),
        profile: None,
        reason: None,
        grants: &[],
        local_user: None,
    }
}

fn names() -> (NodeName, ClusterName) {
    (NodeName::parse("gpu-7").unwrap(), ClusterName::parse("demo").unwrap())
}

#[test]
fn b031_arguments_arrive_as_given() {
    let (node, cluster) = names();
    let argv: Vec<OsString> = ["printf", "%s|", "a b", "c'd", "$HOME", "", "*", "x\ny"]
        .iter()
        .map(OsString::from)
        .collect();
    let mut argv = argv;
    argv.push(OsString::from_vec(vec![0xff, 0xfe, b'=']));
    let work = Work::Exec(argv.clone());
    let open = wish(&work, &node, &cluster).message().unwrap();
    let sent: Vec<OsString> = open
        .argv
        .iter()
        .map(|bytes| OsString::from_vec(bytes.to_vec()))
        .collect();
    assert_eq!(sent, argv);
    assert_eq!((open.kind, open.login_line), (Kind::Exec.into(), false));
}

#[test]
fn a_line_is_one_argument_for_the_login_shell() {
    let (node, cluster) = names();
    let work = Work::Line("echo a; echo b".into());
    let open = wish(&work, &node, &cluster).message().unwrap();
    assert_eq!((open.argv.len(), open.login_line), (1, true));
}

#[test]
fn b030_only_the_allow_list_of_the_environment_goes_along() {
    let (node, cluster) = names();
    let work = Work::Shell;
    let variable = |name: &str, value: &[u8]| (OsString::from(name), OsString::from_vec(value.to_vec()));
    let environment = vec![
        variable("LANG", b"de_DE.UTF-8"),
        variable("LC_ALL", b"with spaces = and \xff"),
        variable("COLORTERM", b"truecolor"),
        variable("TERM", b"xterm \xff"),
        variable("KUBECONFIG", b"/secret"),
        variable("AWS_SECRET_ACCESS_KEY", b"x"),
        variable("LC_LONG", &[b'a'; 5000]),
    ];
    let mut wish = wish(&work, &node, &cluster);
    wish.environment = environment;
    wish.terminal = Some(Some(Size {
        cols: 200,
        rows: 50,
        xpixel: 0,
        ypixel: 0,
    }));
    let open = wish.message().unwrap();
    let sent: Vec<&[u8]> = open.env.iter().map(|variable| &variable.name[..]).collect();
    assert_eq!(sent, [&b"LANG"[..], b"LC_ALL", b"COLORTERM"]);
    assert_eq!(&open.env[1].value[..], b"with spaces = and \xff");
    let terminal = open.terminal.unwrap();
    assert_eq!(
        (&terminal.term[..], terminal.cols, terminal.rows),
        (&b"xterm \xff"[..], 200, 50)
    );
}

#[test]
fn what_breaks_a_bound_is_refused_here() {
    let (node, cluster) = names();
    for work in [
        Work::Exec(Vec::new()),
        Work::Exec(vec!["a\0b".into()]),
        Work::Exec(vec!["a".repeat(300_000).into()]),
        Work::Exec(vec!["a".into(); 513]),
    ] {
        assert!(wish(&work, &node, &cluster).message().is_err());
    }
}

/// Whoever gave too much is told what, how much may be, and what to do; nobody else is blamed.
#[test]
fn a_limit_that_the_persons_own_input_breaks_is_told_as_theirs() {
    let (node, cluster) = names();
    let shell = Work::Shell;
    let long = "r".repeat(1025);
    let told = |work: &Work, change: &dyn Fn(&mut Wish<'_>)| {
        let mut wish = wish(work, &node, &cluster);
        change(&mut wish);
        let error = wish.message().unwrap_err();
        assert_eq!(error.code(), Code::ClientUsage, "{error}");
        error.to_string()
    };
    let nothing = |_: &mut Wish<'_>| {};
    let (words, one, sum) = (
        Work::Exec(vec!["a".into(); 513]),
        Work::Exec(vec!["a".repeat(300_000).into()]),
        Work::Exec(vec!["a".repeat(100_000).into(); 3]),
    );
    let line = Work::Line("a".repeat(300_000).into());
    for (said, parts) in [
        (told(&words, &nothing), ["513", "512", "standard input"]),
        (told(&one, &nothing), ["300000", "262144", "standard input"]),
        (told(&sum, &nothing), ["3000", "262144", "standard input"]),
        (told(&line, &nothing), ["300000", "262144", "standard input"]),
    ] {
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
        assert!(!said.contains("peer"), "{said}");
    }
    let mut with = wish(&shell, &node, &cluster);
    with.reason = Some(&long);
    let said = with.message().unwrap_err().to_string();
    assert!(
        said.contains("--reason") && said.contains("1025") && said.contains("1024"),
        "{said}"
    );
    with.reason = None;
    with.profile = Some("No Name");
    let said = with.message().unwrap_err().to_string();
    assert!(said.contains("--profile") && !said.contains("peer"), "{said}");
    with.profile = None;
    with.local_user = Some(&long);
    let said = with.message().unwrap_err().to_string();
    assert!(said.contains("-l") && said.contains("1024"), "{said}");
    // Of the environment, what does not fit stays here.
    with.local_user = None;
    with.environment = (0..100)
        .map(|n| (OsString::from(format!("LC_{n}")), OsString::from("C")))
        .collect();
    assert_eq!(with.message().unwrap().env.len(), 64);
}

#[test]
fn terminals_as_in_ssh() {
    let exec = Work::Exec(vec!["ls".into()]);
    for (want, work, stdin, expected) in [
        (WantTerminal::Auto, &Work::Shell, true, true),
        (WantTerminal::Auto, &Work::Shell, false, false),
        (WantTerminal::Auto, &exec, true, false),
        (WantTerminal::Force, &exec, false, true),
        (WantTerminal::Never, &Work::Shell, true, false),
    ] {
        assert_eq!(want.decide(work, stdin), expected);
    }
}
