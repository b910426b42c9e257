//! One child at a time, from spawn to the end of its command.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use noderelay_child::{Account, SpawnError, Spec, Stdio, What, environment, passwd, pty, spawn};

const RIG: &str = env!("CARGO_BIN_EXE_noderelay-child-rig");
const NO_WORDS: &[&str] = &[];
const SOON: Duration = Duration::from_secs(20);

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

fn me() -> Account {
    passwd::find_uid(Path::new("/"), nix::unistd::geteuid().as_raw()).unwrap()
}

fn command(argv: &[&str]) -> Spec {
    let argv = argv.iter().map(OsString::from).collect();
    Spec::new(What::Command(argv), me(), environment::build(&me(), None, []), false)
}

struct Done {
    stdout: Vec<u8>,
    stderr: String,
    code: Option<i32>,
    signal: Option<i32>,
}

fn try_run(spec: &Spec, input: &[u8]) -> Result<Done, SpawnError> {
    let (stdin, mut our_stdin) = std::io::pipe().unwrap();
    let (mut our_stdout, stdout) = std::io::pipe().unwrap();
    let (mut our_stderr, stderr) = std::io::pipe().unwrap();
    let stdio = Stdio::Pipes {
        stdin: stdin.into(),
        stdout: stdout.into(),
        stderr: stderr.into(),
    };
    let pid = spawn(Path::new(RIG), NO_WORDS, spec, stdio)?.started(SOON)?;
    our_stdin.write_all(input).unwrap();
    drop(our_stdin);
    let (mut out, mut err) = (Vec::new(), String::new());
    our_stdout.read_to_end(&mut out).unwrap();
    our_stderr.read_to_string(&mut err).unwrap();
    let (code, signal) = wait_for(pid);
    Ok(Done {
        stdout: out,
        stderr: err,
        code,
        signal,
    })
}

fn run(spec: &Spec) -> Done {
    try_run(spec, b"").unwrap()
}

fn wait_for(pid: u32) -> (Option<i32>, Option<i32>) {
    use nix::sys::wait::{WaitStatus, waitpid};
    match waitpid(nix::unistd::Pid::from_raw(pid as i32), None).unwrap() {
        WaitStatus::Exited(_, code) => (Some(code), None),
        WaitStatus::Signaled(_, signal, _) => (None, Some(signal as i32)),
        other => panic!("{other:?}"),
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn b031_arguments_arrive_one_by_one_as_given() {
    let mut spec = command(&["printf", "%s|", "a b", "c'd", "$HOME", "", "*", "x\ny"]);
    let What::Command(argv) = &mut spec.what else {
        unreachable!()
    };
    argv.push(OsString::from_vec(vec![0xff, b'"', 0xfe]));
    assert_eq!(run(&spec).stdout, b"a b|c'd|$HOME||*|x\ny|\xff\"\xfe|");
}

#[test]
fn b030_the_environment_is_the_accounts_and_nothing_else() {
    let mut spec = command(&["env", "-0"]);
    spec.environment = environment::build(&me(), Some(b"xterm"), [(b"LANG".as_slice(), b"a b=\xff".as_slice())]);
    let done = run(&spec);
    let mut names: Vec<&[u8]> = done
        .stdout
        .split(|b| *b == 0)
        .filter_map(|line| line.split(|b| *b == b'=').next())
        .collect();
    names.retain(|name| !name.is_empty());
    names.sort_unstable();
    let expected = ["HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "USER"].map(str::as_bytes);
    assert_eq!(names, expected);
    assert!(done.stdout.windows(10).any(|part| part == b"LANG=a b=\xff"));
}

#[test]
fn b015_nothing_but_the_standard_descriptors_is_open() {
    let leak = std::fs::File::open("/dev/zero").unwrap();
    nix::fcntl::fcntl(&leak, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty())).unwrap();
    let open = run(&command(&["ls", "-l", "/proc/self/fd"])).stdout;
    let open = text(&open);
    // A line in front, the three, and the directory that ls itself has open.
    assert_eq!(open.lines().count(), 5, "{open}");
    assert!(
        !open.contains("/dev/zero") && !open.contains("socket:") && !open.contains("ptmx"),
        "{open}"
    );
}

#[test]
fn b008_ends_are_reported_as_a_shell_reports_them() {
    let dir = tempfile::tempdir().unwrap();
    let plain = dir.path().join("plain");
    std::fs::write(&plain, "echo hi").unwrap();
    for (argv, code, says) in [
        (vec!["nosuchcmd-x"], 127, "noderelay: nosuchcmd-x: command not found\n"),
        (vec!["/no/such/file"], 127, "noderelay: /no/such/file: no such file\n"),
        (vec![""], 127, "noderelay: empty command\n"),
        (vec![plain.to_str().unwrap()], 126, "Permission denied"),
        (vec!["/"], 126, "Permission denied"),
        (vec!["sh", "-c", "exit 130"], 130, ""),
        (vec!["sh", "-c", "exit 255"], 255, ""),
    ] {
        let done = run(&command(&argv));
        assert_eq!((done.code, done.signal), (Some(code), None), "{argv:?}");
        assert!(
            done.stderr.contains(says) && done.stdout.is_empty(),
            "{argv:?}: {}",
            done.stderr
        );
    }
    for (line, signal) in [("kill -SEGV $$", 11), ("kill -KILL $$", 9)] {
        let done = run(&command(&["sh", "-c", line]));
        assert_eq!((done.code, done.signal), (None, Some(signal)), "{line}");
    }
    // A script without its first line runs by sh, as it would from a prompt.
    std::fs::set_permissions(&plain, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(run(&command(&[plain.to_str().unwrap()])).stdout, b"hi\n");
}

#[test]
fn b028_the_next_shell_is_taken_and_none_is_one_clear_message() {
    let mut spec = command(&[]);
    spec.what = What::Line("echo $SHELL $0".into());
    let plain = tempfile::NamedTempFile::new().unwrap();
    spec.shells = vec!["/no/bash".into(), plain.path().to_owned(), "/bin/sh".into()];
    assert_eq!(text(&run(&spec).stdout), "/bin/sh sh\n");

    spec.shells.pop();
    let error = try_run(&spec, b"").err().unwrap();
    assert!(error.is_no_shell());
    let said = error.to_string();
    let plain = plain.path().display();
    assert_eq!(
        said,
        format!("this node offers no shell: tried /no/bash (No such file or directory), {plain} (Permission denied)")
    );
}

#[test]
fn a_login_shell_knows_that_it_is_one_and_reads_its_input() {
    let mut spec = command(&[]);
    spec.what = What::Shell { login: true };
    spec.shells = vec!["/bin/sh".into()];
    let done = try_run(&spec, b"echo $0; exit 3\n").unwrap();
    assert_eq!(done.code, Some(3));
    assert!(text(&done.stdout).ends_with("-sh\n"), "{}", text(&done.stdout));
}

#[test]
fn signals_are_as_fresh_as_after_a_boot() {
    let done = run(&command(&[
        "sh",
        "-c",
        "grep -E 'Sig(Blk|Ign)' /proc/$$/status; yes | head -n1; umask",
    ]));
    let said = text(&done.stdout);
    assert!(
        said.contains("SigBlk:\t0000000000000000") && said.contains("SigIgn:\t0000000000000000"),
        "{said}"
    );
    assert!(
        said.ends_with("y\n0022\n") && done.stderr.is_empty(),
        "{said}{}",
        done.stderr
    );
}

#[test]
fn it_leads_a_session_of_its_own_and_starts_at_home_or_says_where() {
    let done = run(&command(&["sh", "-c", "cut -d' ' -f1,5,6 /proc/$$/stat; pwd"]));
    let mut lines = text(&done.stdout).lines();
    let ids: Vec<&str> = lines.next().unwrap().split(' ').collect();
    assert!(ids[0] == ids[1] && ids[1] == ids[2], "{ids:?}");
    assert_eq!(Path::new(lines.next().unwrap()), me().home.canonicalize().unwrap());

    let mut spec = command(&["pwd"]);
    spec.directories = vec!["/no/such/home".into()];
    let done = run(&spec);
    assert_eq!(text(&done.stdout), "/\n");
    assert_eq!(
        done.stderr,
        "noderelay: cannot enter /no/such/home: No such file or directory (os error 2); starting in /\n"
    );
}

#[test]
fn root_becomes_another_account_wholly_and_nobody_else_can() {
    let other = Account {
        name: "nobody".into(),
        uid: 65534,
        gid: 65533,
        groups: vec![4, 65533],
        home: "/".into(),
        shell: "/bin/sh".into(),
    };
    let line = "grep -E '^(Uid|Gid|Groups|CapEff|CapPrm)' /proc/$$/status; echo x > /dev/stderr";
    let argv = ["sh", "-c", line].map(OsString::from).to_vec();
    let spec = Spec::new(What::Command(argv), other, vec![], false);
    if !is_root() {
        assert!(matches!(try_run(&spec, b""), Err(SpawnError::Failed { .. })));
        return;
    }
    let done = run(&spec);
    let said = text(&done.stdout);
    for expected in [
        "Uid:\t65534\t65534\t65534\t65534\n",
        "Gid:\t65533\t65533\t65533\t65533\n",
        "Groups:\t4 65533 \n",
        "CapPrm:\t0000000000000000\n",
        "CapEff:\t0000000000000000\n",
    ] {
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn a_terminal_is_the_controlling_one_with_its_size_and_hangs_up() {
    let size = pty::Size {
        cols: 132,
        rows: 43,
        xpixel: 0,
        ypixel: 0,
    };
    let (master, slave) = pty::open(size).unwrap();
    let mut spec = command(&[
        "sh",
        "-c",
        "stty size; tty; stty -a | grep -o ' iutf8'; exec sleep 1000 < /dev/tty",
    ]);
    spec.terminal = true;
    let pid = spawn(Path::new(RIG), NO_WORDS, &spec, Stdio::Terminal(slave))
        .unwrap()
        .started(SOON)
        .unwrap();
    let mut seen = String::new();
    let mut buffer = [0; 4096];
    while !seen.contains("iutf8") {
        let mut fds = [nix::poll::PollFd::new(
            std::os::fd::AsFd::as_fd(&master),
            nix::poll::PollFlags::POLLIN,
        )];
        assert!(nix::poll::poll(&mut fds, 20_000u16).unwrap() > 0, "{seen}");
        let read = master.file().read(&mut buffer).unwrap();
        seen.push_str(text(&buffer[..read]));
    }
    assert!(seen.starts_with("43 132\r\n/dev/pts/"), "{seen}");
    assert_eq!(master.end_key(), Some(pty::EndKey { byte: 4, lines: true }));
    assert_eq!(master.interrupt_key(), Some(3));
    drop(master);
    assert_eq!(wait_for(pid), (None, Some(1)));
}

#[test]
fn a_program_that_is_not_ours_or_missing_is_an_error_not_a_hang() {
    let spec = command(&["true"]);
    let pipes = || {
        let (a, b) = std::io::pipe().unwrap();
        let (_, c) = std::io::pipe().unwrap();
        Stdio::Pipes {
            stdin: OwnedFd::from(a),
            stdout: b.into(),
            stderr: c.into(),
        }
    };
    let missing = spawn(Path::new("/no/such/program"), NO_WORDS, &spec, pipes());
    assert!(matches!(missing, Err(SpawnError::Launch { .. })));
    let silent = spawn(Path::new("/bin/sleep"), &["5"], &spec, pipes());
    assert!(matches!(
        silent.unwrap().started(Duration::from_millis(50)),
        Err(SpawnError::TimedOut(_))
    ));
    let long = command(&["echo", &"x".repeat(2 << 20)]);
    assert!(matches!(
        spawn(Path::new(RIG), &[OsStr::new("child")], &long, pipes()),
        Err(SpawnError::Handover(_))
    ));
}
