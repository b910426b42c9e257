//! Who may speak to a warm process, what else comes over its socket from either side, and what else may lie at its place.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;

use bytes::{Bytes, BytesMut};
use jiff::Timestamp;

use netsim_tests::fleet::Fleet;
use netsim_tests::process::{Bounded as _, PATIENCE, eventually};
use netsim_tests::told::Told;
use netsim_tests::warm::Warm;
use nix::sys::signal::{Signal, kill};
use noderelay_client::Config;
use noderelay_client::creds::Creds;
use noderelay_client::target::Target;
use noderelay_client::warm::ask;
use noderelay_proto::FromWarm;
use noderelay_proto::code::Code;
use noderelay_proto::control::{Answer, Broken, Carried, Report};

/// A question for the report: frame 0x50, version 1, wish 2.
const REPORT: &[u8] = b"\x40\x50\x04\x08\x01\x10\x02";
/// Somebody who is not root.
const NOBODY: u32 = 65534;
/// Names the socket to the copy of this test that runs as somebody else.
const SOCKET: &str = "WARM_SOCKET";

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What comes back until the end.
fn asked(socket: &Path, bytes: &[u8]) -> Vec<u8> {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answer = Vec::new();
    // Whoever is turned away may not be able to write any more.
    let _ = stream.write_all(bytes);
    let _ = stream.read_to_end(&mut answer);
    answer
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Run by `another_user_gets_no_answer` as somebody else; nothing by itself.
#[test]
fn as_somebody_else() {
    let Some(socket) = std::env::var_os(SOCKET) else { return };
    assert_eq!(nix::unistd::geteuid().as_raw(), NOBODY);
    assert_eq!(asked(Path::new(&socket), REPORT), b"", "another user was answered");
}

/// Another user gets no answer, also where the folder would let them in.
#[test]
fn another_user_gets_no_answer() {
    if !is_root() {
        return eprintln!("not root: nobody else can be played");
    }
    let fleet = Fleet::serving();
    let warm = Warm::of(&fleet, "");
    let socket = warm.folder().join("socket");
    assert!(asked(&socket, REPORT).starts_with(b"\x40\x52"), "we are answered");
    // A copy, as the folder of the tests may be closed to others.
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("test");
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    let try_it = || {
        let mut command = Command::new(&copy);
        command
            .args(["--exact", "as_somebody_else", "--nocapture"])
            .env(SOCKET, &socket);
        command.uid(NOBODY).gid(NOBODY).current_dir("/").bounded()
    };
    mode(folder.path(), 0o755);
    // Closed folders keep them out.
    let output = try_it();
    assert!(
        !output.status.success() && said(&output).contains("Permission denied"),
        "{}",
        said(&output)
    );
    // With every folder open, the process itself turns them away.
    mode(&socket, 0o777);
    for folder in socket
        .ancestors()
        .skip(1)
        .take_while(|folder| *folder != Path::new("/tmp") && *folder != Path::new("/"))
    {
        mode(folder, 0o755);
    }
    let output = try_it();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        said(&output)
    );
    assert!(
        warm.log().contains("another user's client was turned away"),
        "{}",
        warm.log()
    );
    // And a client of ours does not use a folder that others can enter.
    let told = Told::of(verbose(&fleet), &["true"]);
    told.assert_exit(0);
    assert!(told.said().contains("not this user's alone"), "{}", told.said());
    mode(&warm.folder(), 0o700);
    assert_eq!(warm.count("streams") + warm.count("standbys"), 0);
}

fn verbose(fleet: &Fleet) -> Command {
    let mut command = fleet.client();
    command.arg("-v");
    command
}

/// Another's socket, a file, a link, a folder of another mode: a session dials, and says why only when asked.
#[test]
fn what_is_not_ours_is_not_spoken_to() {
    let fleet = Fleet::serving();
    let warm = Warm::with(&fleet.layout.client());
    let folder = warm.folder();
    std::fs::create_dir_all(&folder).unwrap();
    mode(&folder, 0o700);
    let socket = folder.join("socket");
    let check = |why: &str| {
        let told = Told::of(verbose(&fleet), &["true"]);
        told.assert_exit(0);
        assert!(told.said().contains(why), "{why}: {}", told.said());
        let quiet = Told::of(fleet.client(), &["true"]);
        quiet.assert_exit(0);
        assert_eq!(quiet.said(), "");
    };
    check("no warm process");
    std::fs::write(&socket, "").unwrap();
    check("not this user's alone");
    std::fs::remove_file(&socket).unwrap();
    let elsewhere = folder.with_file_name("elsewhere");
    let listener = UnixListener::bind(&elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &socket).unwrap();
    check("not this user's alone");
    std::fs::remove_file(&socket).unwrap();
    std::fs::rename(&elsewhere, &socket).unwrap();
    if is_root() {
        std::os::unix::fs::chown(&socket, Some(NOBODY), None).unwrap();
        check("not this user's alone");
        std::os::unix::fs::chown(&socket, Some(0), None).unwrap();
    }
    mode(&folder, 0o750);
    check("not this user's alone");
    mode(&folder, 0o700);
    // Ours, and it never answers: a session waits a moment, and dials.
    check("did not answer");
    drop(listener);
    check("no warm process");
}

/// Nothing that comes over the socket disturbs it: no bytes, no number of connections, no silence.
#[test]
fn garbage_on_the_socket_is_turned_away() {
    let fleet = Fleet::serving();
    let warm = Warm::of(&fleet, "");
    let socket = warm.folder().join("socket");
    let pid = warm.pid();
    let mut state = 0x9e37_79b9_u32;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[0]
    };
    let mut cases: Vec<Vec<u8>> = vec![
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        // More than it may have.
        b"\x40\x50\x80\x40\x00\x00".to_vec(),
        // Data before a question, a question of the other side, an unknown version, an unknown wish.
        b"\x40\x53\x01a".to_vec(),
        b"\x40\x51\x02\x08\x01".to_vec(),
        b"\x40\x50\x04\x08\x63\x10\x02".to_vec(),
        b"\x40\x50\x04\x08\x01\x10\x63".to_vec(),
        // A stream to nobody knows where.
        b"\x40\x50\x04\x08\x01\x10\x01".to_vec(),
    ];
    for length in 0..60 {
        cases.push((0..length).map(|_| random()).collect());
        let mut mutated = REPORT.to_vec();
        let at = length % mutated.len();
        mutated[at] = random();
        cases.push(mutated);
    }
    for bytes in &cases {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    }
    assert!(asked(&socket, REPORT).starts_with(b"\x40\x52"));
    // As many silent ones as there are seats, and more: sessions dial until they are put out.
    let silent: Vec<UnixStream> = (0..200).filter_map(|_| UnixStream::connect(&socket).ok()).collect();
    Told::of(fleet.client(), &["true"]).assert_exit(0);
    for mut stream in silent {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        assert!(
            !matches!(stream.read(&mut [0; 1]), Ok(1..)),
            "an answer without a question"
        );
    }
    // One that is stopped does not hold up a session either.
    assert_eq!(warm.pid(), pid);
    Told::of(fleet.client(), &["true"]).assert_exit(0);
    assert!(warm.count("streams") + warm.count("standbys") > 0, "{}", warm.log());
    kill(pid, Signal::SIGSTOP).unwrap();
    let told = Told::of(fleet.client(), &["true"]);
    kill(pid, Signal::SIGCONT).unwrap();
    told.assert_exit(0);
    assert_eq!(told.said(), "");
}

/// A client that asks for a stream and then breaks the protocol, or goes, takes nothing along.
#[test]
fn a_client_that_misbehaves_breaks_only_its_own() {
    let fleet = Fleet::serving();
    let warm = Warm::of(&fleet, "");
    let child = fleet.begin(&[], "echo begun; read line; echo $line", Stdio::piped());
    let socket = warm.folder().join("socket");
    for bytes in [&b"\x40\x53\x80\x02\x00\x00"[..], b"\xff\xff\xff\xff", b""] {
        // Of another configuration: it gets nothing.
        let mut ask = b"\x40\x50".to_vec();
        let mut payload = b"\x08\x01\x10\x01\x1a\x20".to_vec();
        payload.extend_from_slice(&[1; 32]);
        payload.extend_from_slice(b"\x22\x20");
        payload.extend_from_slice(&[2; 32]);
        payload.extend_from_slice(b"\x2a\x04demo\x32\x05local\x38\x01");
        ask.extend_from_slice(&(u16::try_from(payload.len()).unwrap() | 0x4000).to_be_bytes());
        ask.extend_from_slice(&payload);
        ask.extend_from_slice(bytes);
        let answer = asked(&socket, &ask);
        assert!(answer.starts_with(b"\x40\x51"), "{answer:?}");
        assert!(
            String::from_utf8_lossy(&answer).contains("another configuration"),
            "{answer:?}"
        );
    }
    let mut child = child;
    child.stdin.take().unwrap().write_all(b"still here\n").unwrap();
    let output = child.bounded();
    assert_eq!(output.stdout, b"still here\n", "{}", said(&output));
    // A client that is killed in the middle: its stream goes, and with it the command.
    let mut child = fleet.begin(&[], "echo begun; exec sleep 600", Stdio::null());
    assert_eq!(warm.count("carrying"), 1);
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("nothing is carried", || warm.count("carrying") == 0);
}

/// A place for a process that is no warm one: the folder, private, and the socket's path.
fn place(fleet: &Fleet) -> PathBuf {
    let folder = Warm::with(&fleet.layout.client()).folder();
    std::fs::create_dir_all(&folder).unwrap();
    mode(&folder, 0o700);
    folder.join("socket")
}

/// Somebody in the place of the warm process, who says this to one client, with or without an end, and gives what it heard.
fn impostor(socket: &Path, says: &[u8], ends: bool) -> mpsc::Receiver<Vec<u8>> {
    // What the one before left.
    let _ = std::fs::remove_file(socket);
    let (listener, says) = (UnixListener::bind(socket).unwrap(), says.to_vec());
    let (give, heard) = mpsc::channel();
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut all = vec![0; 4096];
        let first = client.read(&mut all).unwrap();
        all.truncate(first);
        client.write_all(&says).unwrap();
        if !ends {
            // A client that goes may reset it.
            let _ = client.read_to_end(&mut all);
        }
        let _ = give.send(all);
    });
    heard
}

fn frames(messages: &[FromWarm], more: &[u8]) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    messages.iter().for_each(|message| message.encode(&mut bytes));
    bytes.extend_from_slice(more);
    bytes.to_vec()
}

fn given(carried: Carried) -> FromWarm {
    let key: &'static [u8] = if carried == Carried::Standby { &[7; 32] } else { b"" };
    FromWarm::Answer(Answer {
        carried: carried.into(),
        relay: "relay-1".into(),
        resume_key: Bytes::from_static(key),
        ..Answer::default()
    })
}

/// Whatever whoever sits at its place says: the session dials, as quiet as ever, and with -v the reason is told.
#[test]
fn whatever_a_warm_process_says_a_session_dials_and_says_why() {
    let fleet = Fleet::serving();
    let socket = place(&fleet);
    let (stream, standby) = (given(Carried::Stream), given(Carried::Standby));
    let half = &frames(std::slice::from_ref(&stream), b"")[..5];
    let broken = FromWarm::Broken(Broken {
        code: Code::RelayBusy.number(),
        seen: "full".into(),
        writing: false,
        by_node: false,
    });
    let (other, did_not_work) = ("something else than an answer", "what was warm did not work; dialling");
    let cases: Vec<(Vec<u8>, bool, &str)> = vec![
        (vec![0xff; 16], false, other),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), false, other),
        // Longer than it may be.
        (b"\x40\x51\x80\x01\x00\x01".to_vec(), false, other),
        (frames(&[FromWarm::Report(Report::default())], b""), false, other),
        (half.to_vec(), false, "did not answer"),
        (half.to_vec(), true, "went without an answer"),
        (frames(std::slice::from_ref(&stream), &[0xff; 16]), false, did_not_work),
        (frames(std::slice::from_ref(&stream), half), false, did_not_work),
        (frames(std::slice::from_ref(&stream), b""), true, did_not_work),
        (frames(&[stream.clone(), broken], b""), false, did_not_work),
        (
            frames(&[stream.clone(), FromWarm::Carry("no TLS".into())], b""),
            false,
            did_not_work,
        ),
        (frames(std::slice::from_ref(&standby), &[0xff; 16]), false, did_not_work),
        (frames(std::slice::from_ref(&standby), half), false, did_not_work),
        (frames(std::slice::from_ref(&standby), b""), true, did_not_work),
    ];
    for (number, (says, ends, why)) in cases.iter().enumerate() {
        let heard = impostor(&socket, says, *ends);
        let told = Told::of(verbose(&fleet), &["true"]);
        told.assert_exit(0);
        assert!(told.said().contains(why), "case {number}, {why}: {}", told.said());
        heard.recv_timeout(PATIENCE).unwrap();
        let heard = impostor(&socket, says, *ends);
        let quiet = Told::of(fleet.client(), &["true"]);
        quiet.assert_exit(0);
        assert_eq!(quiet.said(), "", "case {number}");
        heard.recv_timeout(PATIENCE).unwrap();
    }
}

/// OPEN, with what the person wants, is said in the clear on a standby alone, and only where the configuration wants one.
#[test]
fn a_wish_is_in_the_clear_on_a_standby_alone() {
    let fleet = Fleet::serving();
    let socket = place(&fleet);
    let heard_of = |carried: Carried| {
        let heard = impostor(&socket, &frames(&[given(carried)], b""), false);
        let told = Told::of(verbose(&fleet), &["echo", "a-secret-word"]);
        told.assert_exit(0);
        let heard = heard.recv_timeout(PATIENCE).unwrap();
        (heard.windows(13).any(|window| window == b"a-secret-word"), told.said())
    };
    assert!(heard_of(Carried::Standby).0, "else this test sees nothing");
    assert!(!heard_of(Carried::Stream).0);
    let config = std::fs::read_to_string(fleet.layout.client()).unwrap();
    std::fs::write(fleet.layout.client(), config + "warm: connections\n").unwrap();
    let (clear, said) = heard_of(Carried::Standby);
    assert!(!clear && said.contains("a standby that nobody wanted"), "{said}");
}

/// Whoever has the lock is named, with its process; sessions go on without it, and when it has gone all is well.
#[test]
fn a_lock_that_somebody_else_holds_is_named_with_its_holder() {
    let fleet = Fleet::serving();
    let path = place(&fleet).with_file_name("lock");
    let lock = std::fs::File::create(&path).unwrap();
    lock.try_lock().unwrap();
    let warm = Warm::with(&fleet.layout.client());
    for (words, why) in [
        (&["--foreground"][..], "in its place"),
        (&[], "no warm process answers there"),
    ] {
        let output = warm.command(words).bounded();
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        let holder = format!("{} is locked by process {} (", path.display(), std::process::id());
        assert!(said(&output).contains(&holder), "{holder}: {}", said(&output));
        assert!(said(&output).contains(why), "{why}: {}", said(&output));
    }
    Told::of(fleet.client(), &["true"]).assert_exit(0);
    drop(lock);
    warm.started(&[]);
    // One that has the lock and is stopped is named as well.
    let pid = warm.pid();
    kill(pid, Signal::SIGSTOP).unwrap();
    let output = warm.command(&[]).bounded();
    kill(pid, Signal::SIGCONT).unwrap();
    let holder = format!("is locked by process {pid} (noderelay,");
    assert!(said(&output).contains(&holder), "{holder}: {}", said(&output));
}

/// Seats are for questions: however much is carried, others are answered, and all of it is given back.
#[test]
fn what_is_carried_takes_no_seat_of_those_who_ask() {
    let fleet = Fleet::serving();
    let warm = Warm::of(&fleet, "warm: connections");
    let file = fleet.layout.client();
    let config = Config::find(Some(&file)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut carried = Vec::new();
    runtime.block_on(async {
        let creds = Creds::load(&config, Timestamp::now()).await.unwrap();
        let target = Target::find("local", None, None, creds.publication.fleet()).unwrap();
        while carried.len() < 60 {
            // On a busy machine an answer may come too late: then the stream goes with it.
            carried.extend(ask::stream(&config, &creds, &target).await.ok());
        }
    });
    // As many as wait for somebody's word at once.
    let silent: Vec<UnixStream> = (0..8)
        .map(|_| {
            let mut client = UnixStream::connect(warm.folder().join("socket")).unwrap();
            client.write_all(&REPORT[..3]).unwrap();
            client
        })
        .collect();
    eventually("all are carried", || warm.count("carrying") == 60);
    // Half a question and then nothing: put out, without an answer.
    for mut client in silent {
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        assert!(
            matches!(client.read(&mut [0; 1]), Ok(0)),
            "half a question was answered"
        );
    }
    drop((carried, runtime));
    eventually("nothing is carried", || warm.count("carrying") == 0);
    Told::of(fleet.client(), &["true"]).assert_exit(0);
}
