//! Good and bad configuration files.

use noderelay_pki::files::Problem;

use super::*;

const GOOD: &str = "listen: \"127.0.0.1:0\"\nidentity: { certificate: relay.pem, key: /keys/relay.key }\nbundle: bundle\nstate: state\n";

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text.as_bytes(), Path::new("/etc/noderelay/relay.yaml"))
}

fn refused(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn paths_are_relative_to_the_files_folder() {
    let config = parse(&format!("{GOOD}admin: admin.sock\n")).unwrap();
    assert_eq!(config.identity.certificate, Path::new("/etc/noderelay/relay.pem"));
    assert_eq!(config.identity.key, Path::new("/keys/relay.key"));
    assert_eq!(config.admin.unwrap(), Path::new("/etc/noderelay/admin.sock"));
    assert_eq!(config.timing.probe, Period::from_secs(1));
}

#[test]
fn what_is_shown_at_the_start_reads_back_the_same() {
    let config = parse(&format!("{GOOD}timing: {{ drain: 250ms, probe: 200ms }}\n")).unwrap();
    let shown = serde_saphyr::to_string(&config).unwrap();
    let again = parse(&shown).unwrap();
    assert_eq!(serde_saphyr::to_string(&again).unwrap(), shown);
    assert!(shown.contains("250ms"), "{shown}");
}

#[test]
fn unknown_keys_are_refused_at_every_depth() {
    assert!(refused(&format!("{GOOD}colour: red\n")).contains("colour"));
    assert!(refused(&format!("{GOOD}timing: {{ prob: 1s }}\n")).contains("prob"));
    assert!(refused(&GOOD.replace("key: /keys/relay.key", "key: a, ca: b")).contains("ca"));
}

#[test]
fn missing_and_broken_values_are_refused_with_the_file_and_the_key() {
    let text = refused(&GOOD.replace("state: state\n", ""));
    assert!(
        text.contains("/etc/noderelay/relay.yaml") && text.contains("state"),
        "{text}"
    );
    assert!(refused(&GOOD.replace("127.0.0.1:0", "relay.example:443")).contains("relay.yaml"));
    assert!(refused(&format!("{GOOD}timing: {{ drain: soon }}\n")).contains("30s"));
    assert!(refused("").contains("relay.yaml"));
    assert!(refused("- [").contains("relay.yaml"));
    assert!(Config::parse(b"\xff\xfe", Path::new("x")).is_err());
}

#[test]
fn bounds_are_checked() {
    let text = refused(&format!("{GOOD}timing: {{ probe: 2s }}\n"));
    assert!(
        text.contains("timing.probe is 2s, it has to be from 50ms to 1s"),
        "{text}"
    );
    assert!(refused(&format!("{GOOD}timing: {{ header: 0s }}\n")).contains("header"));
    assert!(refused(&format!("{GOOD}timing: {{ drain: 2h }}\n")).contains("drain"));
    assert_eq!(
        parse(&format!("{GOOD}timing: {{ drain: 0s }}\n")).unwrap().timing.drain,
        Period::from_secs(0)
    );
}

#[test]
fn a_file_that_is_not_there_or_too_large_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("relay.yaml");
    assert!(Config::load(&path).unwrap_err().to_string().contains("--config FILE"));
    std::fs::write(&path, "#".repeat(MAX_FILE + 1)).unwrap();
    assert!(matches!(
        Config::load(&path).unwrap_err(),
        ConfigError::Read(FileError {
            problem: Problem::TooLarge { .. },
            ..
        })
    ));
}

#[test]
fn limits_have_bounds_and_defaults() {
    let with = |more: &str| parse(&format!("{GOOD}{more}"));
    let limits = with("").unwrap().limits;
    assert!(limits.unproven_handshakes < limits.handshakes);
    assert_eq!(with("limits: { streams: 7 }").unwrap().limits.streams, 7);
    for bad in [
        "limits: { streams: 0 }",
        "limits: { handshakes: 5000 }",
        "limits: { stream: 1 }",
    ] {
        assert!(with(bad).is_err(), "{bad}");
    }
    let error = with("limits: { opens_per_second: 0 }").unwrap_err().to_string();
    assert!(
        error.contains("limits.opens_per_second is 0, it has to be from 1 to"),
        "{error}"
    );
}

#[test]
fn times_of_connections_are_set_under_quic_and_checked() {
    let config = parse(&format!("{GOOD}quic: {{ idle: 10s }}\n")).unwrap();
    assert_eq!(
        (config.quic.idle, config.quic.keepalive),
        (Period::from_secs(10), Period::from_secs(5))
    );
    let text = refused(&format!("{GOOD}quic: {{ idle: 9s }}\n"));
    assert!(
        text.contains("/etc/noderelay/relay.yaml") && text.contains("quic.idle, 9s"),
        "{text}"
    );
    assert!(refused(&format!("{GOOD}quic: {{ mtu: 9000 }}\n")).contains("mtu"));
}
