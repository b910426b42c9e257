//! Commands that open no session, through the real program: exit code 0 for good, 1 for a finding, 2 for usage; answers on
//! stdout, findings on stderr.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use netsim_tests::fleet::Fleet;
use netsim_tests::process::{Bounded as _, program};
use serde_json::Value;

fn noderelay(words: &[&str]) -> Output {
    Command::new(program("noderelay")).args(words).bounded()
}

/// What a command printed; it must have ended with this code, and found things on stderr only.
#[track_caller]
fn printed(output: &Output, code: i32) -> String {
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{out}{err}");
    out
}

#[track_caller]
fn finding(output: &Output, words: &[&str]) {
    let out = printed(output, 1);
    let said = text(&output.stderr);
    assert!(out.is_empty(), "{out}");
    assert!(
        words.iter().all(|word| said.contains(word)),
        "{words:?} are not in {said}"
    );
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn shown(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A completion script for each shell, which that shell takes where it is installed, and which knows the commands.
#[test]
fn completion_scripts_are_good_in_their_shells() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let script = printed(&noderelay(&["completion", shell]), 0);
        for word in ["doctor", "whoami", "via-relay", "status"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
        let file = folder.path().join(shell);
        fs::write(&file, &script).unwrap();
        let checked = Command::new(shell)
            .arg("-n")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        match checked {
            Ok(child) => assert_eq!(printed(&child.bounded(), 0), "", "{shell}"),
            Err(error) => println!("{shell} is not here: {error}"),
        }
    }
    // What bash makes of it when somebody presses the key.
    let asks = format!(
        "source {}; COMP_WORDS=(noderelay who); COMP_CWORD=1; _noderelay noderelay who noderelay; echo \"${{COMPREPLY[*]}}\"",
        folder.path().join("bash").display()
    );
    let answer = Command::new("bash").args(["--norc", "-c", &asks]).bounded();
    assert_eq!(printed(&answer, 0).trim(), "whoami");
    assert_eq!(noderelay(&["completion", "no-such-shell"]).status.code(), Some(2));
}

/// A good configuration is printed as it is in effect; a bad one names file and fault.
#[test]
fn check_config_tells_good_from_bad() {
    let fleet = Fleet::files("");
    let config = fleet.layout.client();
    let good = printed(&fleet.plain().arg("check-config").bounded(), 0);
    for word in [shown(&config), "user.crt", "keepalive: 15s", "patience: 20s"] {
        assert!(good.contains(word), "{word} is not in\n{good}");
    }
    // What is printed is a configuration again.
    let again = fleet.layout.root.join("again.yaml");
    fs::write(&again, &good).unwrap();
    let once_more = printed(&noderelay(&["check-config", "--config", shown(&again)]), 0);
    let settings = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(settings(&once_more), settings(&good));

    let bad = fleet.layout.root.join("bad.yaml");
    let text = fs::read_to_string(&config).unwrap();
    for (fault, word) in [
        ("keepalife: 1s\n", "keepalife"),
        ("keepalive: soon\n", "soon"),
        ("identity: {}\n", "identity"),
    ] {
        fs::write(&bad, format!("{text}{fault}")).unwrap();
        let output = noderelay(&["check-config", "--config", shown(&bad)]);
        finding(&output, &["bad.yaml", word]);
    }
    let missing = noderelay(&["check-config", "--config", "/nonexistent/config.yaml"]);
    finding(&missing, &["/nonexistent/config.yaml"]);
}

/// The same facts from the certificate by `whoami` and `pki inspect`; a certificate that the fleet refuses is a finding.
#[test]
fn whoami_and_inspect_say_what_the_certificate_says() {
    let fleet = Fleet::files("");
    let json = |output: &Output, code: i32| -> Value { serde_json::from_str(&printed(output, code)).unwrap() };
    let me = json(&fleet.plain().args(["whoami", "-o", "json"]).bounded(), 0);
    let identity = "spiffe://demo.noderelay/cluster/demo/user/tester";
    assert_eq!(me["identity"], identity);
    assert_eq!(
        (&me["role"], &me["name"], &me["cluster"]),
        (&"user".into(), &"tester".into(), &"demo".into())
    );
    assert_eq!(me["groups"], serde_json::json!(["demo-operators"]));
    assert_eq!((&me["policy_version"], &me["refused"]), (&1.into(), &Value::Null));
    let left = me["seconds_left"].as_u64().unwrap();
    assert!((11 * 3600..=12 * 3600).contains(&left), "{left}");

    let certificate = fleet.layout.root.join("client/user.crt");
    let facts = json(&noderelay(&["pki", "inspect", shown(&certificate), "-o", "json"]), 0);
    for fact in ["identity", "groups", "not_before", "not_after", "key_fingerprint"] {
        assert_eq!(facts[fact], me[fact], "{fact}");
    }
    assert_eq!(facts["ca"], false);
    let ca = noderelay(&["pki", "inspect", shown(&fleet.layout.ca().join("ca.pem")), "-o", "json"]);
    assert_eq!(json(&ca, 0)["ca"], true);
    let table = printed(&noderelay(&["pki", "inspect", shown(&certificate)]), 0);
    assert!(table.contains(identity), "{table}");
    finding(
        &noderelay(&["pki", "inspect", shown(&fleet.layout.client())]),
        &["no certificate found"],
    );

    // Of another CA: told, and 1.
    let other = fleet.layout.root.join("other");
    let init = [
        "pki",
        "init",
        "--trust-domain",
        "demo.noderelay",
        "--cluster",
        "demo",
        shown(&other),
    ];
    printed(&noderelay(&init), 0);
    let mut stranger = fleet.client_as(&other, "stranger", &[], Duration::from_secs(3600));
    // The option of a session does not belong here: the configuration alone is taken over.
    let config = stranger.get_args().nth(1).unwrap().to_owned();
    stranger = Command::new(program("noderelay"));
    let refused = json(
        &stranger
            .arg("--config")
            .arg(config)
            .args(["whoami", "-o", "json"])
            .bounded(),
        1,
    );
    assert!(
        refused["refused"].as_str().is_some_and(|why| why.contains("CA")),
        "{refused}"
    );
}

/// `policy verify` takes what a node takes and names what is wrong with anything else.
#[test]
fn policy_verify_names_what_is_wrong() {
    let fleet = Fleet::files("");
    let published = fleet.layout.published();
    let verify = || noderelay(&["policy", "verify", shown(&published), "-o", "json"]);
    let good: Value = serde_json::from_str(&printed(&verify(), 0)).unwrap();
    assert_eq!(good["policy_version"], 1, "{good}");
    printed(&noderelay(&["policy", "verify", shown(&published)]), 0);

    // A policy that was changed after it was signed.
    let files = fs::read_dir(published.join("targets"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let policies = files.filter(|path| shown(path).ends_with(".policies")).last();
    let policy = policies.unwrap().join("demo.cedar");
    let text = fs::read_to_string(&policy).unwrap();
    fs::write(&policy, text.replace("permit", "forbid")).unwrap();
    finding(&verify(), &["demo.cedar"]);
    fs::remove_file(&policy).unwrap();
    finding(&verify(), &["demo.cedar"]);
    fs::write(&policy, &text).unwrap();
    printed(&verify(), 0);

    // Another fleet's root.
    let other = Fleet::files("");
    let root = other.layout.published().join("metadata/1.root.json");
    let foreign = noderelay(&["policy", "verify", shown(&published), "--root", shown(&root)]);
    finding(&foreign, &["not signed by any key"]);

    // A timestamp that somebody made younger.
    let timestamp = published.join("metadata/timestamp.json");
    let signed = fs::read_to_string(&timestamp).unwrap();
    fs::write(&timestamp, signed.replacen("\"expires\":\"20", "\"expires\":\"21", 1)).unwrap();
    finding(&verify(), &["timestamp", "not signed"]);
    finding(&noderelay(&["policy", "verify", "/nonexistent"]), &["/nonexistent"]);
}

/// A signing key shows its public half and id, the same as its `.pub` file, and never its private half.
#[test]
fn key_show_shows_the_public_half_only() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("signer");
    let created = printed(&noderelay(&["key", "create", shown(&file)]), 0);
    let shows = printed(&noderelay(&["key", "show", shown(&file)]), 0);
    assert_eq!(shows, created);
    let public = fs::read_to_string(folder.path().join("signer.pub")).unwrap();
    assert_eq!(shows.lines().next(), Some(public.trim()));
    assert!(
        shows.starts_with("ed25519:") && shows.lines().nth(1).unwrap().starts_with("id "),
        "{shows}"
    );
    let private = fs::read_to_string(&file).unwrap();
    let secret = private.lines().find(|line| !line.starts_with("-----")).unwrap();
    assert!(secret.len() > 20 && !shows.contains(secret));
    finding(&noderelay(&["key", "create", shown(&file)]), &["signer"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), private, "never written over");
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    finding(&noderelay(&["key", "show", shown(&file)]), &["signer", "chmod"]);
}
