//! Sessions over what is kept warm: the same as cold ones, and whatever becomes of the warm process.

use std::io::{Read as _, Write as _};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use netsim_tests::fleet::Fleet;
use netsim_tests::process::{Bounded as _, eventually, processes_with};
use netsim_tests::told::Told;
use netsim_tests::warm::{Warm, gone};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use noderelay_bundle::FleetFile;
use serde_json::Value;
use tokio::time::Instant;

const CONNECTIONS: &str = "warm: connections";

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A session that is not to use what is warm.
fn cold(fleet: &Fleet) -> Command {
    let mut command = fleet.client();
    command.arg("--no-warm");
    command
}

/// What a session leaves: output, messages, status and record, without what differs from one session to the next.
fn traces(fleet: &Fleet, client: Command, words: &[&str]) -> (Output, Value, Vec<Value>) {
    let before = fleet.recordings();
    let mut told = Told::of(client, words);
    let session = told.status["session"].take();
    let mut recording = None;
    eventually("the session is recorded", || {
        recording = fleet.recordings().into_iter().find(|path| !before.contains(path));
        recording.is_some()
    });
    let text = std::fs::read_to_string(recording.unwrap()).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let lines = lines.map(|mut line| {
        if let Some(event) = line.as_array_mut() {
            // When it was.
            event[0] = 0.into();
        }
        let line = line.to_string().replace(session.as_str().unwrap(), "SESSION");
        let mut line: Value = serde_json::from_str(&line).unwrap();
        if let Some(header) = line.as_object_mut() {
            header.remove("timestamp");
            let ours = header.get_mut("noderelay").and_then(|ours| ours.get_mut("session"));
            ours.and_then(Value::as_object_mut).unwrap().remove("started").unwrap();
        }
        line
    });
    let lines = lines.collect();
    (told.output, told.status, lines)
}

/// Output, exit code, messages, `--status` and recording are the same whether a session dials, begins on a connection that stood, or
/// on an inner leg that stood.
#[test]
fn a_session_over_what_is_warm_is_the_same_as_a_cold_one() {
    let fleet = Fleet::serving();
    let words = ["sh", "-c", "echo out; echo err >&2; cat; exit 7"];
    let expected = traces(&fleet, cold(&fleet), &words);
    assert_eq!(expected.0.status.code(), Some(7), "{}", said(&expected.0));
    let warm = Warm::of(&fleet, CONNECTIONS);
    eventually("three sessions on a connection that stood", || {
        assert_eq!(traces(&fleet, fleet.client(), &words), expected);
        warm.count("streams") == 3
    });
    assert_eq!(warm.count("standbys"), 0);
    drop(warm);

    let config = std::fs::read_to_string(fleet.layout.client()).unwrap();
    std::fs::write(fleet.layout.client(), config.replace(CONNECTIONS, "")).unwrap();
    let warm = Warm::of(&fleet, "");
    until_used(&fleet, &warm);
    eventually("three sessions on an inner leg that stood", || {
        warm.until_standby();
        assert_eq!(traces(&fleet, fleet.client(), &words), expected);
        warm.count("standbys") == 3
    });
    // --no-warm leaves it aside.
    let uses = || (warm.count("streams"), warm.count("standbys"));
    let before = uses();
    assert_eq!(traces(&fleet, cold(&fleet), &words), expected);
    assert_eq!(uses(), before);
    assert_eq!(warm.count("carrying"), 0);
}

/// Large amounts both ways at once, the end of the input alone, and a reader that is slow: nothing is lost, doubled or held up.
#[test]
fn much_data_passes_both_ways_and_an_end_of_input_alone() {
    let fleet = Fleet::serving();
    let warm = Warm::of(&fleet, "");
    let bytes: Vec<u8> = (0..8_000_000_u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    for counted in ["streams", "standbys"] {
        if counted == "standbys" {
            warm.until_standby();
        }
        let before = warm.count(counted);
        let mut client = fleet.client();
        client
            .args(["local", "--", "cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = client.spawn().unwrap();
        let (mut input, sent) = (child.stdin.take().unwrap(), bytes.clone());
        let writer = std::thread::spawn(move || input.write_all(&sent).unwrap());
        let mut output = child.stdout.take().unwrap();
        let mut first = vec![0; 100_000];
        output.read_exact(&mut first).unwrap();
        // Everything between here and the node is full by now.
        std::thread::sleep(Duration::from_millis(300));
        output.read_to_end(&mut first).unwrap();
        writer.join().unwrap();
        assert!(first == bytes, "{} of {} bytes", first.len(), bytes.len());
        assert!(child.wait().unwrap().success());
        assert_eq!(warm.count(counted), before + 1, "{}", warm.log());
    }
}

/// The warm process is killed under a session: 255 at once, with a message that names it; the next session dials.
#[test]
fn a_killed_warm_process_breaks_its_sessions_and_no_others() {
    let fleet = Fleet::serving();
    for settings in [CONNECTIONS, ""] {
        let config = std::fs::read_to_string(fleet.layout.client()).unwrap();
        std::fs::write(fleet.layout.client(), config.replace(CONNECTIONS, "")).unwrap();
        let warm = Warm::of(&fleet, settings);
        if settings.is_empty() {
            until_used(&fleet, &warm);
            warm.until_standby();
        }
        let child = fleet.begin(&[], "echo begun; exec sleep 600", Stdio::null());
        assert_eq!(warm.count("carrying"), 1);
        warm.kill();
        let output = child.bounded();
        assert_eq!(output.status.code(), Some(255), "{}", said(&output));
        assert!(said(&output).contains("transport.lost"), "{}", said(&output));
        assert!(said(&output).contains("warm process"), "{}", said(&output));
        // Its socket lies there still.
        assert!(warm.folder().join("socket").exists());
        Told::of(fleet.client(), &["true"]).assert_exit(0);
        // And is no hindrance to the next one.
        warm.started(&[]);
        warm.until_connected();
        until_used(&fleet, &warm);
    }
}

/// The reason of a refusal, and that nothing was started, are the same over a standby that was made before the policy changed.
#[test]
fn a_session_over_a_standby_is_judged_when_it_opens() {
    let fleet = Fleet::serving();
    let warm = Warm::of(&fleet, "");
    until_used(&fleet, &warm);
    warm.until_standby();
    let recorded = fleet.recordings().len();
    fleet.repolicy(r#"[Action::"shell", Action::"exec"]"#, r#"[Action::"shell"]"#);
    let over_warm = Told::of(fleet.client(), &["true"]);
    over_warm.assert_refused("policy.denied");
    let dialled = Told::of(cold(&fleet), &["true"]);
    dialled.assert_refused("policy.denied");
    assert_eq!(over_warm.said(), dialled.said());
    assert_eq!(fleet.recordings().len(), recorded);
}

/// A relay's refusal over a warm connection is no more final than any other: the client dials, and says what it then hears.
#[test]
fn a_relays_refusal_over_a_warm_connection_leads_to_dialling() {
    let fleet = Fleet::serving();
    let warm = Warm::of(&fleet, "");
    let ask = |mut client: Command| client.args(["other-node", "--", "id"]).bounded();
    let (over_warm, dialled) = (ask(fleet.client()), ask(cold(&fleet)));
    assert_eq!(warm.count("streams"), 1);
    assert_eq!(over_warm.status.code(), Some(255));
    assert!(said(&over_warm).contains("relay.no_such_node"), "{}", said(&over_warm));
    assert_eq!(said(&over_warm), said(&dialled));
}

/// Runs sessions until one goes over what is warm: on a busy machine one may not wait for its answer.
fn until_used(fleet: &Fleet, warm: &Warm) {
    let uses = || warm.count("streams") + warm.count("standbys");
    let before = uses();
    eventually("a session uses what is warm", || {
        Told::of(fleet.client(), &["true"]).assert_exit(0);
        uses() > before
    });
}

/// Without its certificate the warm process ends, and with an expired one nobody gets in over it.
#[test]
fn a_warm_process_ends_with_its_certificate() {
    let fleet = Fleet::serving();
    let groups = ["demo-operators"];
    let config_of = |client: &Command| {
        let file = client.get_args().nth(1).map(std::path::PathBuf::from).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with("state: "));
        // The folder that it has is too deep for a socket.
        let lines: Vec<&str> = lines.chain(["state: s"]).collect();
        std::fs::write(&file, lines.join("\n") + "\n").unwrap();
        file
    };
    // Removed.
    let client = fleet.client_as(&fleet.layout.ca(), "leaver", &groups, Duration::from_secs(3600));
    let config = config_of(&client);
    let warm = Warm::with(&config);
    warm.started(&[]);
    let pid = warm.pid();
    std::fs::remove_file(config.with_extension("crt")).unwrap();
    gone(pid);
    assert!(warm.log().contains("the certificate has gone"), "{}", warm.log());
    assert!(!warm.folder().join("socket").exists());
    // Expired.
    let brief = fleet.client_as(&fleet.layout.ca(), "leaver", &groups, Duration::from_secs(8));
    let config = config_of(&brief);
    let warm = Warm::with(&config);
    warm.started(&[]);
    let pid = warm.pid();
    gone(pid);
    assert!(warm.log().contains("expired"), "{}", warm.log());
    let output = client_of(&config).args(["local", "--", "true"]).bounded();
    assert_eq!(output.status.code(), Some(255));
    assert!(said(&output).contains("identity.expired"), "{}", said(&output));
}

fn client_of(config: &std::path::Path) -> Command {
    let mut client = Command::new(netsim_tests::process::program("noderelay"));
    client.arg("--config").arg(config).arg("--via-relay");
    client
}

/// A new certificate is used from the first session on that shows it.
#[test]
fn a_new_certificate_replaces_what_was_made_with_the_old_one() {
    let fleet = Fleet::serving();
    let warm = Warm::of(&fleet, "");
    until_used(&fleet, &warm);
    warm.until_standby();
    let other = fleet.client_as(
        &fleet.layout.ca(),
        "tester",
        &["demo-operators"],
        Duration::from_secs(3600),
    );
    let prefix = other.get_args().nth(1).map(std::path::PathBuf::from).unwrap();
    let ours = fleet.layout.client();
    for (from, to) in [("key", "user.key"), ("crt", "user.crt")] {
        std::fs::rename(prefix.with_extension(from), ours.with_file_name(to)).unwrap();
    }
    // The connections of the old one are given to nobody, whenever it looks at the files.
    Told::of(fleet.client(), &["true"]).assert_exit(0);
    assert!(warm.log().contains("everything is made anew"), "{}", warm.log());
    warm.until_connected();
    until_used(&fleet, &warm);
}

/// A cluster more, and another cluster's relays that change: the connections and standbys of a cluster of which nothing changed stay. When
/// its own relay changes, it is made anew.
#[test]
fn what_changes_elsewhere_leaves_the_connections_of_a_cluster_alone() {
    let fleet = Fleet::serving();
    let warm = Warm::of(&fleet, "cluster: demo");
    until_used(&fleet, &warm);
    warm.until_standby();
    let published = |edit: &dyn Fn(&mut FleetFile)| {
        let taken = || warm.log().matches("a new publication").count();
        let before = taken();
        fleet.republish(|policy| {
            let file = policy.join("fleet.yaml");
            let mut fleet = FleetFile::parse(&std::fs::read(&file).unwrap()).unwrap();
            edit(&mut fleet);
            std::fs::write(&file, fleet.to_yaml().unwrap()).unwrap();
        });
        eventually("the warm process has seen it", || taken() > before);
    };
    let connected = || warm.log().matches(" connected ").count();
    let before = connected();
    let ask_other = || {
        let mut client = fleet.client();
        client.args(["--cluster", "other", "some-node", "--", "true"]);
        assert_eq!(client.bounded().status.code(), Some(255));
    };
    let relays = || warm.status().unwrap()["relays"].as_array().unwrap().len();
    let unchanged = |why: &str| {
        let status = warm.status().unwrap();
        assert!(!status["relays"][0]["up_seconds"].is_null(), "{why}: {status}");
        let nodes = status["nodes"].as_array().unwrap();
        assert!(nodes.iter().any(|node| node["standby"] == true), "{why}: {status}");
        assert_eq!(connected(), before, "{why}: {}", warm.log());
    };
    let ca = noderelay_pki::ca::CertificateAuthority::create(noderelay_pki::ca::CaSpec::new(
        "demo.noderelay".parse().unwrap(),
        "other".parse().unwrap(),
        jiff::Timestamp::now(),
        Duration::from_secs(86_400),
    ))
    .unwrap();
    published(&|fleet| {
        let mut other = fleet.clusters[0].clone();
        other.name = "other".parse().unwrap();
        other.certificate_authorities[0].certificate = ca.certificate_pem();
        fleet.clusters.push(other);
    });
    unchanged("a cluster more");
    ask_other();
    assert_eq!(relays(), 2);
    unchanged("another cluster is asked for");
    published(&|fleet| fleet.clusters[1].relays[0].addresses.push("127.0.0.1:9".into()));
    assert_eq!(relays(), 2);
    unchanged("the other cluster's relay has one address more");
    published(&|fleet| {
        fleet.clusters.pop();
    });
    unchanged("the other cluster is gone");
    assert_eq!(relays(), 1);
    published(&|fleet| fleet.clusters[0].relays[0].addresses.push("127.0.0.1:9".into()));
    eventually("its own relay has changed", || connected() > before);
    warm.until_standby();
}

/// A relay that was restarted is dialled again, and until that is noticed sessions dial by themselves.
#[test]
fn a_restarted_relay_is_found_again_by_the_warm_process() {
    let mut fleet = Fleet::serving();
    let warm = Warm::of(&fleet, "");
    until_used(&fleet, &warm);
    warm.until_standby();
    fleet.relay.take().unwrap().kill();
    fleet.start_relay();
    eventually("the agent is back, and a session works", || {
        fleet.run(&["true"]).status.success()
    });
    eventually("the warm process is back", || {
        warm.log().matches(" connected ").count() >= 2
    });
    warm.until_connected();
    until_used(&fleet, &warm);
    // An agent that was restarted took its end of the standby with it: a new one is made.
    warm.until_standby();
    fleet.agent.take().unwrap().kill();
    fleet.start_agent();
    eventually("a session works", || fleet.run(&["true"]).status.success());
    warm.until_standby();
}

/// A relay that is silent, as one behind a dead path is: neither its connection nor what stands by on it is given to anybody, long before
/// the connection's own end.
#[test]
fn what_stands_on_a_silent_path_is_not_given_away() {
    let fleet = Fleet::serving();
    let warm = Warm::of(&fleet, "");
    until_used(&fleet, &warm);
    warm.until_standby();
    let relay = fleet.relay.as_ref().unwrap().0.id();
    let relay = Pid::from_raw(i32::try_from(relay).unwrap());
    kill(relay, Signal::SIGSTOP).unwrap();
    let stopped = Instant::now();
    eventually("nothing is given", || {
        let status = warm.status().unwrap();
        status["relays"][0]["up_seconds"].is_null() && status["nodes"][0]["standby"] == false
    });
    // The idle limit of a connection is 20 s.
    let noticed = stopped.elapsed();
    kill(relay, Signal::SIGCONT).unwrap();
    assert!(noticed < Duration::from_secs(15), "{noticed:?}");
    assert!(warm.log().contains("nothing was heard"), "{}", warm.log());
    warm.until_connected();
    until_used(&fleet, &warm);
}

/// However often it is started, one process serves, and every start says that it does.
#[test]
fn starts_at_once_end_in_one_process() {
    let fleet = Fleet::serving();
    let warm = Warm::with(&fleet.layout.client());
    let starts: Vec<_> = (0..5)
        .map(|_| {
            let mut command = warm.command(&["--for", "10m"]);
            command
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            command.spawn().unwrap()
        })
        .collect();
    let outputs: Vec<Output> = starts.into_iter().map(|child| child.bounded()).collect();
    assert!(outputs.iter().all(|output| output.status.success()), "{outputs:?}");
    let ours = fleet.layout.client().display().to_string();
    eventually("one process is left", || processes_with(&ours).len() == 1);
    let pid = warm.pid();
    // A later start makes it go on.
    let left = warm.count("seconds_left");
    assert!(left <= 600, "{left}");
    warm.started(&["--for", "2h"]);
    assert_eq!(warm.pid(), pid);
    assert!(warm.count("seconds_left") > 7000);
}

/// Unused, or after its time, it ends by itself; what it carries then runs on, and no second process is in its way.
#[test]
fn it_ends_by_itself_and_breaks_nothing() {
    let fleet = Fleet::serving();
    let warm = Warm::with(&fleet.layout.client());
    warm.started(&["--for", "1h", "--idle", "4s"]);
    gone(warm.pid());
    assert!(warm.log().contains("nobody used it"), "{}", warm.log());
    warm.started(&["--for", "10s"]);
    let (pid, file) = (warm.pid(), fleet.layout.root.join("go"));
    warm.until_connected();
    let line = format!(
        "echo begun; while ! [ -e {} ]; do sleep 0.05; done; echo end",
        file.display()
    );
    let child = fleet.begin(&[], &line, Stdio::null());
    eventually("it answers no more", || warm.status().is_none());
    assert!(warm.log().contains("its time is over"), "{}", warm.log());
    warm.started(&[]);
    assert_ne!(warm.pid(), pid, "the old one is on its way out");
    // So is the next one, told so.
    let output = warm.command(&["stop"]).bounded();
    assert!(output.status.success(), "{}", said(&output));
    std::fs::write(&file, "").unwrap();
    let output = child.bounded();
    assert_eq!(
        (output.status.code(), &output.stdout[..]),
        (Some(0), &b"end\n"[..]),
        "{}",
        said(&output)
    );
    gone(pid);
    let output = warm.command(&["status"]).bounded();
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("noderelay warm --for"), "{}", said(&output));
    assert!(
        warm.command(&["stop"]).bounded().status.success(),
        "nothing to stop is no failure"
    );
}

/// It has a session of its own and nothing of whoever started it: no terminal, no descriptor, no folder; so no terminal ends it.
#[test]
fn it_holds_nothing_of_whoever_started_it() {
    let fleet = Fleet::serving();
    let warm = Warm::with(&fleet.layout.client());
    let kept = fleet.layout.root.join("kept-open");
    let mut line = Command::new("script");
    line.args(["-qec"]);
    let start = warm.command(&[]);
    let words: Vec<String> = std::iter::once(start.get_program())
        .chain(start.get_args())
        .map(|word| format!("'{}'", word.display()))
        .collect();
    line.arg(format!("exec 9>'{}'; exec {}", kept.display(), words.join(" ")))
        .arg("/dev/null")
        .current_dir(&fleet.layout.root);
    let output = line.bounded();
    assert!(output.status.success(), "{}", said(&output));
    let pid = warm.pid();
    let open: Vec<_> = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok())
        .map(|to| to.display().to_string())
        .collect();
    let ours = warm.folder().display().to_string();
    for to in &open {
        let fine =
            to == "/dev/null" || to.starts_with("socket:") || to.starts_with("anon_inode:") || to.starts_with(&ours);
        assert!(fine, "{to} is open; all: {open:?}");
    }
    assert_eq!(
        std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap().to_str(),
        Some("/")
    );
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    // State, parent, group, session, terminal.
    assert_eq!((fields[3], fields[4]), (pid.to_string().as_str(), "0"), "{stat}");
    warm.until_connected();
}
