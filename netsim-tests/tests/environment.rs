//! What a session finds in its environment: built from the account, with the client's terminal and locale by an
//! allow-list, whatever stands in the environments of agent and client.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Stdio};

use netsim_tests::fleet::Fleet;
use netsim_tests::process::{processes_in, program};
use netsim_tests::terminal::Terminal;
use netsim_tests::told::Told;

/// What must never reach a session, whoever has it: settings of a cluster, secrets, what changes how programs start.
const HARMFUL: &[&str] = &[
    "KUBERNETES_SERVICE_HOST",
    "KUBERNETES_PORT",
    "KUBECONFIG",
    "API_TOKEN",
    "AWS_SECRET_ACCESS_KEY",
    "NODERELAY_CONFIG_OF_AGENT",
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "LD_AUDIT",
    "BASH_ENV",
    "ENV",
    "PROMPT_COMMAND",
    "IFS",
    "BASH_FUNC_env%%",
    "SSH_AUTH_SOCK",
    "HTTPS_PROXY",
    "XDG_STATE_HOME",
];
const MARK: &str = "/nonexistent/leaked-value";

/// A fleet whose agent was started in an environment full of what must not get out.
fn polluted() -> Fleet {
    let mut fleet = Fleet::files("");
    fleet.start_relay();
    let mut agent = Command::new(program("noderelay-agent"));
    agent.envs(HARMFUL.iter().map(|name| (name, MARK)));
    // Names that a client may set; the agent's own values are none of a session's.
    agent.envs(["TERM", "LANG", "LC_ALL", "LC_TIME"].map(|name| (name, MARK)));
    fleet.start_agent_as(agent);
    fleet
}

/// The client in an environment of the same kind, with a terminal and a locale of its own.
fn client(fleet: &Fleet) -> Command {
    let mut client = fleet.client();
    // The client is a program as well: what its loader acts on stays away from it.
    client.envs(
        HARMFUL
            .iter()
            .filter(|n| !n.starts_with("LD_"))
            .map(|name| (name, MARK)),
    );
    for (name, _) in std::env::vars_os() {
        if name.as_bytes().starts_with(b"LC_") {
            client.env_remove(name);
        }
    }
    client
        .env("TERM", "vt220")
        .env("LANG", "C.UTF-8")
        .env("LC_TIME", "C")
        .env("LC_lower", "no");
    client
}

fn variables(output: &[u8]) -> BTreeMap<String, String> {
    let text = String::from_utf8_lossy(output);
    let pairs = text.lines().filter_map(|line| line.trim_end().split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Of the agent's environment nothing is seen, of the client's the allow-list alone: in a command, with a terminal, in a
/// line of the login shell, and in a shell.
#[test]
fn b030_the_environment_is_built_from_the_account() {
    let fleet = polluted();
    let command = Told::of(client(&fleet), &["env"]);
    command.assert_exit(0);
    let seen = variables(&command.output.stdout);
    let names: Vec<&str> = seen.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        ["HOME", "LANG", "LC_TIME", "LOGNAME", "PATH", "SHELL", "USER"],
        "{seen:?}"
    );
    assert_eq!((&seen["LANG"][..], &seen["LC_TIME"][..]), ("C.UTF-8", "C"));
    assert_eq!(seen["USER"], seen["LOGNAME"]);

    let mut on_terminal = client(&fleet);
    on_terminal.arg("-t");
    let on_terminal = Told::of(on_terminal, &["env"]);
    on_terminal.assert_exit(0);
    let mut with_terminal = variables(&on_terminal.output.stdout);
    assert_eq!(with_terminal.remove("TERM").as_deref(), Some("vt220"));
    assert_eq!(with_terminal, seen);

    // Login shells read the account's own files: what those set is the account's, too.
    let mut line = client(&fleet);
    line.args(["-c", "env", "local"]);
    let line = netsim_tests::process::Bounded::bounded(&mut line).stdout;
    let file = fleet.layout.root.join("environment");
    let mut shell = client(&fleet);
    shell.arg("local");
    let mut shell = Terminal::shell(shell, 80, 24);
    shell.type_in(format!("env > {}; echo written-$((1))\n", file.display()));
    shell.wait_for("written-1");
    for (what, output) in [("a line", line), ("a shell", std::fs::read(&file).unwrap())] {
        let found = variables(&output);
        for name in ["HOME", "PATH", "USER", "SHELL", "LANG"] {
            assert!(found.contains_key(name), "{what}: no {name} in {found:?}");
        }
        for name in HARMFUL.iter().chain(&["LC_lower"]) {
            assert!(!found.contains_key(*name), "{what}: {name} in {found:?}");
        }
        assert!(!String::from_utf8_lossy(&output).contains(MARK), "{what}: {found:?}");
    }
}

/// The holder is started with no environment at all: what it does not have, no session can get from it, and nothing that
/// changes how programs start is at work in it.
#[test]
fn b030_a_holder_has_nothing_of_the_agents_environment() {
    let fleet = polluted();
    let mut client = fleet.begin(&[], "echo begun; exec sleep 600", Stdio::null());
    let sessions = fleet
        .layout
        .recordings()
        .with_file_name("sessions")
        .canonicalize()
        .unwrap();
    let agent = fleet.agent.as_ref().unwrap().0.id();
    let holders: Vec<u32> = processes_in(&sessions)
        .into_iter()
        .filter(|pid| *pid != agent)
        .collect();
    let [holder] = holders[..] else { panic!("{holders:?}") };
    let environment = std::fs::read(format!("/proc/{holder}/environ")).unwrap();
    assert!(environment.is_empty(), "{}", String::from_utf8_lossy(&environment));
    client.kill().unwrap();
    client.wait().unwrap();
}

/// Strange values arrive as they are or not at all; nothing of them is executed.
#[test]
fn b031_strange_values_are_passed_or_dropped_never_executed() {
    let fleet = Fleet::serving();
    // A locale may be any text without `/`; a terminal's name is letters, digits and `+._-`.
    for (value, locale, terminal) in [
        (&b"a b=c; exit 9"[..], true, false),
        (b"$(exit 9)`exit 9`", true, false),
        (b"\xff\xfe", true, false),
        (b"two\nlines", false, false),
        (b"../../etc/passwd", false, false),
        (b"", true, false),
        (b"x=y", true, false),
        (b"screen.xterm-256color", true, true),
    ] {
        let given = OsStr::from_bytes(value);
        let mut client = fleet.client();
        client.env("LANG", given).env("TERM", given).arg("-t");
        // Raw and without echo: what is shown is what was printed.
        let told = Told::of(
            client,
            &["sh", "-c", "stty raw -echo; printf 'begin:%s|%s|' \"$LANG\" \"$TERM\""],
        );
        told.assert_exit(0);
        let mut wanted = if locale { value.to_vec() } else { Vec::new() };
        wanted.push(b'|');
        wanted.extend(if terminal { value } else { b"dumb" });
        wanted.push(b'|');
        // The end of the input is a key, which the terminal may have echoed before.
        let all = &told.output.stdout;
        let begin = all.windows(6).position(|window| window == b"begin:");
        let shown = &all[begin.expect("the beginning") + 6..];
        assert!(
            shown == wanted,
            "{given:?} came as {:?}",
            String::from_utf8_lossy(shown)
        );
    }
    // A login shell starts all the same.
    let mut client = fleet.client();
    client.env("LANG", OsStr::from_bytes(b"\xff $(exit 9)")).arg("local");
    let mut shell = Terminal::shell(client, 80, 24);
    shell.type_in("exit 5\n");
    assert_eq!(shell.wait().code(), Some(5));
}
