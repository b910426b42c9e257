//! Which configuration files are taken, from where, and what is said of the others.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Config, ConfigError, Places, is_address};

const SMALL: &str = "identity: {certificate: c.pem, key: k.pem}\nbundle: b\nstate: s\n";

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(
        text.as_bytes(),
        Path::new("/etc/nr/config.yaml"),
        Path::new("/etc/nr"),
        &Places::default(),
    )
}

fn refused(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn relative_paths_start_at_the_file_and_defaults_hold() {
    let config = parse(SMALL).unwrap();
    assert_eq!(config.identity.key, PathBuf::from("/etc/nr/k.pem"));
    assert_eq!(config.bundle, PathBuf::from("/etc/nr/b"));
    assert_eq!(config.state, PathBuf::from("/etc/nr/s"));
    assert_eq!(config.escape, Some(b'~'));
    assert_eq!(
        (config.keepalive, config.patience),
        (Duration::from_secs(15), Duration::from_secs(20))
    );
    assert!(config.relays.is_empty() && config.root.is_none() && config.cluster.is_none());
}

#[test]
fn everything_can_be_set() {
    let text = "identity: {certificate: /c.pem, key: /k.pem}\nbundle: /b\nroot: r.json\nstate: /s\ncluster: prod\n\
                relays: ['relay.example:4433', '[::1]:5', '192.0.2.1:443']\nescape: none\nkeepalive: 5s\npatience: 1m\n";
    let config = parse(text).unwrap();
    assert_eq!(config.escape, None);
    assert_eq!(config.relays.len(), 3);
    assert_eq!(config.cluster.unwrap().as_str(), "prod");
    assert_eq!(config.patience, Duration::from_secs(60));
    assert_eq!(config.root, Some(PathBuf::from("/etc/nr/r.json")));
}

#[test]
fn what_is_in_effect_is_written_as_a_file_that_says_the_same() {
    for more in [
        "",
        "escape: none\nkeepalive: 1500ms\npatience: 2h\nwarm: none\n",
        "warm: connections\n",
        "escape: '~'\n",
        "escape: '%'\n",
        "escape: \"'\"\n",
        "escape: '1'\n",
        "escape: '#'\nroot: r.json\ncluster: prod\nrelays: ['[::1]:5', 'a.example:1']\n",
    ] {
        let config = parse(&format!("{SMALL}{more}")).unwrap();
        let written = serde_saphyr::to_string(&config).unwrap();
        assert_eq!(parse(&written).unwrap(), config, "{written}");
    }
    let written = serde_saphyr::to_string(&parse(SMALL).unwrap()).unwrap();
    for line in ["keepalive: 15s", "patience: 20s", "~"] {
        assert!(written.contains(line), "{written}");
    }
}

#[test]
fn bad_files_are_refused_and_say_where() {
    for (text, part) in [
        (format!("{SMALL}colour: red\n"), "colour"),
        (format!("{SMALL}escape: '~~'\n"), "escape"),
        (format!("{SMALL}escape: ''\n"), "escape"),
        (format!("{SMALL}relays: [relay]\n"), "HOST:PORT"),
        (format!("{SMALL}root_fingerprint: ABC\n"), "root_fingerprint"),
        (format!("{SMALL}cluster: Prod\n"), "config.yaml"),
        (format!("{SMALL}keepalive: soon\n"), "config.yaml"),
        (format!("{SMALL}keepalive: 0s\n"), "keepalive is no time"),
        (format!("{SMALL}patience: 0ms\n"), "patience is no time"),
        (format!("{SMALL}warm: hot\n"), "config.yaml"),
        ("bundle: b\nstate: s\n".into(), "identity"),
        (
            "identity: {certificate: c.pem, key: k.pem}\nbundle: b\n".into(),
            "state",
        ),
        ("identity: [\n".into(), "config.yaml"),
        (String::new(), "config.yaml"),
    ] {
        let seen = refused(&text);
        assert!(
            seen.contains(part) && seen.starts_with("/etc/nr/config.yaml"),
            "{text:?}: {seen}"
        );
    }
}

#[test]
fn the_file_is_found_in_the_documented_order() {
    let mut places = Places {
        home: Some("/home/a".into()),
        ..Places::default()
    };
    assert_eq!(
        places.file(None).unwrap(),
        PathBuf::from("/home/a/.config/noderelay/config.yaml")
    );
    places.config_home = Some("/x".into());
    assert_eq!(places.file(None).unwrap(), PathBuf::from("/x/noderelay/config.yaml"));
    places.config = Some("/y.yaml".into());
    assert_eq!(places.file(None).unwrap(), PathBuf::from("/y.yaml"));
    assert_eq!(
        places.file(Some(Path::new("/z.yaml"))).unwrap(),
        PathBuf::from("/z.yaml")
    );
    assert!(matches!(Places::default().file(None), Err(ConfigError::NoPlace)));
}

#[test]
fn a_missing_file_is_named() {
    let error = Config::load(Path::new("/nonexistent/config.yaml"))
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("/nonexistent/config.yaml: "), "{error}");
}

#[test]
fn addresses_have_host_and_port() {
    for good in ["a:1", "10.0.0.1:443", "relay-1.example.org:65535", "[2001:db8::1]:443"] {
        assert!(is_address(good), "{good}");
    }
    for bad in [
        "",
        "a",
        "a:",
        ":1",
        "a:0",
        "a:65536",
        "2001:db8::1:443",
        "[x]:1",
        "a b:1",
        "\u{202e}a:1",
    ] {
        assert!(!is_address(bad), "{bad}");
    }
}
