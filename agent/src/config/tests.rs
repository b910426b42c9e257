//! The file as it is documented, and the ways in which it can be wrong.

use super::*;

const GOOD: &str = "
identity: {certificate: node.crt, key: /keys/node.key}
bundle: published
state: state
default_profile: login
profiles:
  diagnostic: {run_as: {account: nobody}}
  login: {run_as: agent}
limits: {resume_window: 3s}
";

fn load(text: &str) -> Result<Config, ConfigError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.yaml");
    std::fs::write(&path, text).unwrap();
    let mut config = Config::load(&path)?;
    // Paths are compared without the random folder.
    config.bundle = config.bundle.strip_prefix(dir.path()).unwrap().into();
    Ok(config)
}

#[test]
fn paths_are_relative_to_the_file_and_absent_limits_are_the_defaults() {
    let c = load(GOOD).unwrap();
    assert_eq!(c.bundle, Path::new("published"));
    assert_eq!(c.identity.key, Path::new("/keys/node.key"));
    assert!(c.recordings().ends_with("state/recordings"));
    assert_eq!(c.limits.resume_window, Period::from_secs(3));
    assert_eq!(c.limits.sessions, Limits::default().sessions);
    assert!(matches!(c.profiles[&c.default_profile].run_as, RunAs::Agent));
}

#[test]
fn an_unknown_field_is_refused_and_named() {
    for (from, to, word) in [
        ("state: state", "state: state\nstat: x", "stat"),
        ("resume_window", "resum_window", "resum_window"),
        ("run_as: agent", "run_as: agent, shell: /bin/sh", "shell"),
    ] {
        let e = load(&GOOD.replace(from, to)).unwrap_err().to_string();
        assert!(e.contains(word), "{e}");
    }
}

#[test]
fn a_default_profile_that_does_not_exist_is_refused() {
    let e = load(&GOOD.replace("default_profile: login", "default_profile: root"))
        .unwrap_err()
        .to_string();
    assert!(e.contains("default_profile root"), "{e}");
}

#[test]
fn the_default_profile_has_a_valid_name() {
    assert_eq!(default_profile().as_str(), "diagnostic");
}

#[test]
fn limits_that_would_stop_the_agent_are_refused() {
    for field in ["handshakes", "sessions", "relays"] {
        let e = load(&GOOD.replace("resume_window: 3s", &format!("{field}: 0")))
            .unwrap_err()
            .to_string();
        assert!(e.contains(field), "{e}");
    }
    for field in ["handshake", "hup_grace", "reload", "redial_min", "redial_max"] {
        let e = load(&GOOD.replace("resume_window: 3s", &format!("{field}: 0s")))
            .unwrap_err()
            .to_string();
        assert!(e.contains(field), "{e}");
    }
    assert!(load(&GOOD.replace("resume_window: 3s", "redial_min: 1m, redial_max: 1s")).is_err());
}

#[test]
fn times_of_connections_are_set_under_quic_and_checked() {
    let with = |quic: &str| load(&format!("{GOOD}\nquic: {{{quic}}}\n"));
    assert_eq!(with("keepalive: 2s").unwrap().quic.keepalive.duration().as_secs(), 2);
    let text = with("idle: 9s").unwrap_err().to_string();
    assert!(text.contains("quic.idle, 9s"), "{text}");
    assert!(with("mtu: 9000").is_err());
}
