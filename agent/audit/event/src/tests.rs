//! Golden lines, round trips, and refusal of what is not an event.

use jiff::Timestamp;
use noderelay_pki::identity::Identity;
use noderelay_pki::name::{ClusterName, GroupName, NodeName, ProfileName};

use super::*;

fn at() -> Timestamp {
    "2030-05-06T07:08:09.123456Z".parse().unwrap()
}

fn started() -> SessionStarted {
    SessionStarted {
        session: SessionId([0xab; 16]),
        cluster: ClusterName::parse("alpha").unwrap(),
        node: NodeName::parse("gpu-1").unwrap(),
        principal: Identity::parse("spiffe://example.org/cluster/alpha/user/alice%40example.org").unwrap(),
        key_fingerprint: "00ff".to_owned(),
        groups: vec![GroupName::parse("oncall").unwrap()],
        kind: SessionKind::Exec,
        argv: vec!["printf".into(), Argument::from(&b"a\xffb"[..]), "".into()],
        profile: ProfileName::parse("diagnostic").unwrap(),
        account: "noderelay-diagnostic".to_owned(),
        policy_version: 7,
        rules: vec!["on-call-diagnostic".to_owned()],
        reason: Some("INC-7 \"quoted\"\n".to_owned()),
        level: Level::Required,
        started: at(),
        claimed: Claimed {
            path: Some("relay".to_owned()),
            correlation_id: None,
        },
    }
}

#[test]
fn golden_lines() {
    let line = Event::SessionStarted(started()).at(at()).to_json_line().unwrap();
    assert_eq!(
        line,
        concat!(
            r#"{"v":1,"at":"2030-05-06T07:08:09.123456Z","event":"session.started","#,
            r#""session":"abababababababababababababababab","cluster":"alpha","node":"gpu-1","#,
            r#""principal":"spiffe://example.org/cluster/alpha/user/alice%40example.org","key_fingerprint":"00ff","#,
            r#""groups":["oncall"],"kind":"exec","argv":["printf",{"base64":"Yf9i"},""],"profile":"diagnostic","#,
            r#""account":"noderelay-diagnostic","policy_version":7,"rules":["on-call-diagnostic"],"#,
            r#""reason":"INC-7 \"quoted\"\n","level":"required","started":"2030-05-06T07:08:09.123456Z","#,
            r#""claimed":{"path":"relay"}}"#,
            "\n"
        )
    );
    assert_eq!(
        Record::from_json_line(&line).unwrap(),
        Event::SessionStarted(started()).at(at())
    );
    assert_eq!(started().argv[1].as_bytes(), b"a\xffb");
}

#[test]
fn a_printed_line_deceives_nobody_and_loses_nothing() {
    let mut hostile = started();
    hostile.reason = Some("\u{202e}drawrof\u{200b}\u{7f}\u{9b}2J\u{e0041}é\u{feff}".to_owned());
    hostile.argv = vec!["a\u{2066}b\x1b[2J".into()];
    hostile.claimed.correlation_id = Some("x\u{2028}y".to_owned());
    let record = Event::SessionStarted(hostile).at(at());
    let line = record.to_json_line().unwrap();
    let seen: Vec<_> = line
        .trim_end()
        .chars()
        .filter(|c| noderelay_pki::text::is_invisible(*c))
        .collect();
    assert!(seen.is_empty(), "{seen:?}");
    assert!(
        line.contains("\\u202edrawrof\\u200b\\u007f\\u009b2J\\udb40\\udc41é\\ufeff"),
        "{line}"
    );
    assert_eq!(Record::from_json_line(&line).unwrap(), record);
}

#[test]
fn every_event_comes_back_as_it_went() {
    let ended = SessionEnded {
        session: SessionId([1; 16]),
        code: "ok".to_owned(),
        exit_code: Some(3),
        signal: None,
        bytes_in: u64::MAX,
        bytes_out: 0,
        recording_complete: true,
    };
    let denied = Denied {
        cluster: started().cluster,
        node: started().node,
        principal: started().principal,
        key_fingerprint: "00".to_owned(),
        action: "shell".to_owned(),
        profile: None,
        code: "policy.denied".to_owned(),
        seen: "no rule permits it".to_owned(),
        policy_version: 7,
        claimed: Claimed::default(),
    };
    for event in [
        Event::SessionStarted(started()),
        Event::SessionEnded(ended),
        Event::Denied(denied),
        Event::DenialsCounted(DenialsCounted {
            cluster: started().cluster,
            node: started().node,
            principal: started().principal,
            count: 990,
        }),
    ] {
        let record = event.at(at());
        let line = record.to_json_line().unwrap();
        assert_eq!(line.matches('\n').count(), 1);
        assert!(line.contains(&format!("\"event\":\"{}\"", record.event.name())));
        assert_eq!(Record::from_json_line(&line).unwrap(), record);
    }
}

#[test]
fn later_optional_fields_are_read_over_and_later_versions_refused() {
    let line = Event::SessionStarted(started()).at(at()).to_json_line().unwrap();
    let later = line.replace("\"kind\":", "\"something_new\":[1],\"kind\":");
    assert!(Record::from_json_line(&later).is_ok());
    let error = Record::from_json_line(&line.replace("\"v\":1", "\"v\":2")).unwrap_err();
    assert!(matches!(error, EventError::Version(2)), "{error}");
}

#[test]
fn what_is_not_an_event_is_refused() {
    for line in [
        "",
        "{}",
        "[]",
        "{\"v\":1}",
        "{\"v\":-1}",
        "{\"v\":1,\"at\":\"2030-05-06T07:08:09Z\",\"event\":\"other\"}",
    ] {
        assert!(
            matches!(Record::from_json_line(line), Err(EventError::Decode(_))),
            "{line}"
        );
    }
    assert!(matches!(
        Record::from_json_line(&" ".repeat(MAX_LINE + 1)),
        Err(EventError::TooLong(_))
    ));
}

#[test]
fn session_ids_have_one_spelling() {
    let text = "000102030405060708090a0b0c0d0eff";
    assert_eq!(text.parse::<SessionId>().unwrap().to_string(), text);
    for bad in [
        "",
        "00",
        &text.to_uppercase(),
        &format!("{text}0"),
        &text.replace('0', "g"),
        &"é".repeat(16),
    ] {
        assert!(bad.parse::<SessionId>().is_err(), "{bad}");
    }
}
