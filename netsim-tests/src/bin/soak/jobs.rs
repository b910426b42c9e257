//! What a load is made of: each job runs one session (or a refusal) to its end and says whether it ended as it should.
//!
//! A job gives the bytes that it saw, or what was wrong. Whatever panics in it is its failure, so that helpers of tests serve here.

use std::io::{Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use netsim_tests::chance::Chance;
use netsim_tests::echo::{FAR, Session};
use netsim_tests::fleet::edit;
use netsim_tests::process::{Bounded as _, PATIENCE, eventually, processes_with, program, read_within, wait_within};
use netsim_tests::terminal::Terminal;
use netsim_tests::told::Told;
use netsim_tests::warm::Warm;

use crate::setting::{STEADY, Setting};

/// What a job says: bytes that were seen, or what was wrong.
pub(crate) type Outcome = Result<u64, String>;

/// A kind of session.
pub(crate) struct Job {
    pub(crate) name: &'static str,
    /// How many of it run at once.
    pub(crate) workers: usize,
    /// Longest pause between two of a worker; the pause itself is random below that.
    pub(crate) pause: Duration,
    pub(crate) once: fn(&Setting, &mut Chance) -> Outcome,
}

/// Everything that runs beside each other. The pauses leave a busy machine room: a soak looks for what is left, not for speed.
pub(crate) const JOBS: &[Job] = &[
    job("a command, its output and exit code", 3, 1_500, short),
    job("a shell on a terminal, its exit code", 1, 3_000, shell),
    job("keystrokes echoed on a terminal", 2, 3_000, typed),
    job("4 MiB through `cat` and back", 1, 8_000, bulk),
    job("3 MB to a slow reader", 1, 1_000, slow),
    job("a client that is killed, its shell is gone", 4, 3_000, killed),
    job("a certificate of another CA, refused", 1, 8_000, stranger),
    job("a person whom no rule permits, refused", 1, 8_000, not_permitted),
    job("a policy published anew", 1, 60_000, published),
    job(
        "an agent stopped or killed, and started again",
        1,
        8_000,
        crate::restless::restarted,
    ),
    job("a warm process: started, used, stopped or killed", 1, 8_000, warm),
];

const fn job(name: &'static str, workers: usize, pause_ms: u64, once: fn(&Setting, &mut Chance) -> Outcome) -> Job {
    Job {
        name,
        workers,
        pause: Duration::from_millis(pause_ms),
        once,
    }
}

/// An error unless this holds.
pub(crate) fn must(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

fn some_node(chance: &mut Chance) -> &'static str {
    STEADY[chance.below(STEADY.len())]
}

fn short(setting: &Setting, chance: &mut Chance) -> Outcome {
    command(setting.client(&[], some_node(chance), &[]), chance)
}

/// One command by a client that lacks its words.
pub(crate) fn command(mut client: Command, chance: &mut Chance) -> Outcome {
    let (code, word) = (chance.below(200), chance.number());
    let line = format!("echo out-{word}; echo err-{word} >&2; exit {code}");
    let output = client.args(["sh", "-c", &line]).bounded();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    must(output.status.code() == i32::try_from(code).ok(), || {
        format!("exit code {:?} instead of {code}: {said}", output.status)
    })?;
    let expected = format!("out-{word}\n").into_bytes();
    must(
        output.stdout == expected && said.contains(&format!("err-{word}")),
        || format!("wrong output: {:?} {said:?}", String::from_utf8_lossy(&output.stdout)),
    )?;
    Ok((output.stdout.len() + output.stderr.len()) as u64)
}

fn shell(setting: &Setting, chance: &mut Chance) -> Outcome {
    let mut client = setting.fleet.client();
    client.arg(some_node(chance));
    let mut terminal = Terminal::shell(client, 80, 24);
    let code = 1 + chance.below(100);
    terminal.type_in("echo sum-$((40+2))\n");
    terminal.wait_for("sum-42");
    terminal.resize(100, 30);
    terminal.type_in(format!("exit {code}\n"));
    let status = terminal.wait();
    must(status.code() == i32::try_from(code).ok(), || {
        format!("{status} instead of {code}: {}", terminal.shown())
    })?;
    Ok(terminal.shown().len() as u64)
}

fn typed(setting: &Setting, chance: &mut Chance) -> Outcome {
    let mut client = setting.client(&["-q", "-t"], some_node(chance), &FAR);
    let mut session = Session::open(&mut client).map_err(|error| format!("{error:#}"))?;
    for _ in 0..20 {
        session
            .once(b'a' + chance.below(26) as u8)
            .map_err(|error| format!("{error:#}"))?;
        std::thread::sleep(chance.within(Duration::from_millis(100)));
    }
    Ok(20)
}

const BULK: usize = 4 << 20;

fn bulk(setting: &Setting, chance: &mut Chance) -> Outcome {
    let bytes = chance.bytes(BULK);
    let mut client = setting.client(&["-T"], some_node(chance), &["cat"]);
    let mut child = client
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let mut input = child.stdin.take().ok_or("no input")?;
    let sent = bytes.clone();
    let writer = std::thread::spawn(move || input.write_all(&sent));
    let output = child.bounded();
    let written = writer.join().map_err(|_| "the writer failed")?;
    let said = String::from_utf8_lossy(&output.stderr);
    must(output.status.success() && written.is_ok(), || {
        format!("{}, {written:?}: {said}", output.status)
    })?;
    must(output.stdout == bytes, || {
        format!("{} of {BULK} bytes, or others", output.stdout.len())
    })?;
    Ok(2 * BULK as u64)
}

fn slow(setting: &Setting, chance: &mut Chance) -> Outcome {
    const LAST: u32 = 430_000;
    let expected: u64 = (1..=LAST).map(|n| u64::from(n.ilog10()) + 2).sum();
    let mut client = setting.client(&["-T"], some_node(chance), &["seq", &LAST.to_string()]);
    let mut child = client
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())?;
    let mut output = child.stdout.take().ok_or("no output")?;
    let (mut seen, mut tail, mut buffer) = (0, Vec::new(), vec![0; 32 << 10]);
    loop {
        let n = output.read(&mut buffer).map_err(|error| error.to_string())?;
        if n == 0 {
            break;
        }
        seen += n as u64;
        tail.extend_from_slice(&buffer[..n]);
        tail.drain(..tail.len().saturating_sub(16));
        std::thread::sleep(chance.within(Duration::from_millis(120)));
    }
    let status = wait_within(&mut child, PATIENCE);
    must(
        status.success() && seen == expected && tail.ends_with(b"430000\n"),
        || {
            format!(
                "{status}, {seen} of {expected} bytes, the last {:?}",
                String::from_utf8_lossy(&tail)
            )
        },
    )?;
    Ok(seen)
}

fn killed(setting: &Setting, chance: &mut Chance) -> Outcome {
    let mark = format!("mark-{}-{}", std::process::id(), chance.number());
    // Every second one ignores its hang-up.
    let trap = if chance.below(2) == 0 { "trap '' HUP; " } else { "" };
    let terminal = if chance.below(2) == 0 { "-t" } else { "-T" };
    let line = format!("{trap}echo begun; sleep 3000; echo {mark}");
    let mut client = setting.fleet.begin(&[terminal], &line, Stdio::null());
    std::thread::sleep(chance.within(Duration::from_millis(500)));
    client.kill().expect("it is ours");
    let status = client.wait().expect("it is ours");
    must(status.signal() == Some(9), || {
        format!("killed, and ended with {status}")
    })?;
    eventually("nothing of the session runs", || processes_with(&mark).is_empty());
    Ok(0)
}

/// The client's files of somebody, made at the first use.
fn person(setting: &Setting, name: &str, make: impl FnOnce(&PathBuf) -> Command) -> Command {
    let config = setting.fleet.layout.root.join("client").join(format!("{name}.yaml"));
    if !config.exists() {
        let made = make(&config);
        let path = made.get_args().nth(1).expect("a configuration");
        std::fs::copy(path, &config).expect("a configuration");
    }
    let mut command = Command::new(program("noderelay"));
    command.arg("--config").arg(config).arg("--via-relay");
    command
}

/// A user certificate lives for a day at most.
const LIFE: Duration = Duration::from_secs(20 * 3600);

fn stranger(setting: &Setting, _: &mut Chance) -> Outcome {
    let client = person(setting, "stranger", |_| {
        let ca = setting.fleet.layout.root.join("ca-of-a-stranger");
        let made = Command::new(program("noderelay"))
            .args(["pki", "init", "--trust-domain", "demo.noderelay", "--cluster", "demo"])
            .arg(&ca)
            .bounded();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        setting.fleet.client_as(&ca, "tester", &["demo-operators"], LIFE)
    });
    Told::of(client, &["id"]).assert_refused("identity.unknown_ca");
    Ok(0)
}

fn not_permitted(setting: &Setting, _: &mut Chance) -> Outcome {
    let client = person(setting, "outsider", |_| {
        setting
            .fleet
            .client_as(&setting.fleet.layout.ca(), "outsider", &[], LIFE)
    });
    Told::of(client, &["id"]).assert_refused("policy.denied");
    Ok(0)
}

fn published(setting: &Setting, chance: &mut Chance) -> Outcome {
    let word = chance.number();
    setting.fleet.republish(|policy| {
        edit(&policy.join("policies/demo.cedar"), |text| {
            let rules: Vec<&str> = text.lines().filter(|line| !line.starts_with("// version ")).collect();
            format!("{}\n// version {word}\n", rules.join("\n"))
        });
    });
    Ok(0)
}

/// Sessions over one warm process.
const WARM: u64 = 6;

fn warm(setting: &Setting, chance: &mut Chance) -> Outcome {
    let config = setting.fleet.layout.client().with_file_name("warm.yaml");
    if !config.exists() {
        std::fs::copy(setting.fleet.layout.client(), &config).map_err(|error| error.to_string())?;
        edit(&config, |text| text.replace("state: state", "state: warm-state"));
    }
    let client = || {
        let mut command = Command::new(program("noderelay"));
        command.env_remove("RUST_LOG").arg("--config").arg(&config);
        command.args(["--via-relay", "local", "--"]);
        command
    };
    let warm = Warm::with(&config);
    warm.started(&[]);
    warm.until_connected();
    let mut seen = 0;
    for _ in 0..WARM {
        seen += command(client(), chance)?;
    }
    // Which of both is the node's choice: legs of killed ones keep their places until the relay has missed their clients.
    let used = warm.count("streams") + warm.count("standbys");
    must(used == WARM, || {
        format!("{used} of {WARM} sessions used it:\n{}", warm.log())
    })?;
    let pid = warm.pid();
    // Asked to stop, or killed: sessions don't depend on it either way.
    if chance.below(2) == 0 {
        let stopped = warm.command(&["stop"]).bounded();
        must(stopped.status.success(), || {
            String::from_utf8_lossy(&stopped.stderr).into_owned()
        })?;
    } else {
        warm.kill();
    }
    netsim_tests::warm::gone(pid);
    seen += command(client(), chance)?;
    Ok(seen)
}

/// Reads what a session said first.
pub(crate) fn begun(child: &mut std::process::Child) -> Result<(), String> {
    let mut first = [0; 6];
    read_within(child.stdout.as_mut().ok_or("no output")?, &mut first);
    must(&first == b"begun\n", || format!("{first:?}"))
}
