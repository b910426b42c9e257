//! Every rule of decoding: bounds, values, broken protobuf, what is shown.

use super::*;

/// A payload that claims more than it has, or can't be protobuf.
#[test]
fn broken_protobuf_is_refused() {
    let broken: &[&[u8]] = &[
        b"\x0a\xff\xff\xff\xff\x0fx",                    // claims 4 GiB
        b"\x0a\x10short",                                // cut off
        b"\x0a",                                         // no length
        b"\x08",                                         // no value
        b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", // more than 64 bits
        b"\x00\x00",                                     // field 0
        b"\x0b\x0c",                                     // a group
        b"\x0f\x00",                                     // no such wire type
        b"\x09\x00",                                     // fixed 64, cut off
        b"\x80",                                         // a key without end
        b"\xf8\xff\xff\xff\xff\xff\x01\x00",             // field number beyond 32 bits
    ];
    for payload in broken {
        let result = decode::<Closed>(Bytes::from_static(payload));
        assert!(
            matches!(
                result,
                Err(ProtocolError::Malformed {
                    frame: Type::Closed,
                    ..
                })
            ),
            "{payload:x?} {result:?}"
        );
    }
    let wrong_type = decode::<Closed>(Bytes::from_static(b"\x0a\x00"));
    assert!(
        matches!(wrong_type, Err(ProtocolError::Malformed { .. })),
        "text where a number belongs"
    );
    let no_utf8 = decode::<Closed>(Bytes::from_static(b"\x08\x01\x12\x01\xff"));
    assert!(matches!(no_utf8, Err(ProtocolError::Malformed { .. })));
}

#[test]
fn a_field_twice_is_refused() {
    let mut payload = prost::Message::encode_to_vec(&RouteHeader::new(Version::V1, "eu", "n1", Purpose::Session));
    payload.extend_from_slice(b"\x1a\x02n2");
    let twice = ProtocolError::Malformed {
        frame: Type::Route,
        what: "the same field twice",
    };
    assert_eq!(decode::<RouteHeader>(payload.into()), Err(twice));
}

#[test]
fn fields_of_later_versions_are_skipped_but_not_without_end() {
    let message = Closed {
        code: 1,
        seen: String::new(),
    };
    let payload = |unknown: usize| {
        let mut payload = prost::Message::encode_to_vec(&message);
        (0..unknown).for_each(|_| payload.extend_from_slice(b"\x9a\x06\x01x"));
        Bytes::from(payload)
    };
    assert_eq!(decode::<Closed>(payload(MAX_UNKNOWN_FIELDS)), Ok(message.clone()));
    assert!(matches!(
        decode::<Closed>(payload(MAX_UNKNOWN_FIELDS + 1)),
        Err(ProtocolError::OverLimit { .. })
    ));
}

#[test]
fn a_list_is_counted_before_it_is_built() {
    let mut payload = prost::Message::encode_to_vec(&open());
    (0..MAX_ARGV).for_each(|_| payload.extend_from_slice(b"\x1a\x00"));
    let error = ProtocolError::OverLimit {
        frame: Type::Open,
        field: "a list",
        seen: MAX_ARGV + 1,
        limit: MAX_ARGV,
    };
    assert_eq!(decode::<Open>(payload.into()), Err(error));
}

#[test]
fn a_payload_above_the_bound_is_refused_also_without_a_decoder() {
    let payload = Bytes::from(vec![0; MAX_ROUTE + 1]);
    assert!(matches!(
        decode::<RouteHeader>(payload),
        Err(ProtocolError::TooLarge { .. })
    ));
}

/// `rule!(message, field = value, "the field that is refused, empty when none is")`
macro_rules! rule {
    ($message:expr, $field:ident = $value:expr, $refused:expr $(, $why:expr)?) => {{
        let mut message = $message;
        message.$field = $value;
        assert_eq!(broken(message), $refused $(, $why)?);
    }};
}

/// The field of the first broken rule, empty when there is none.
fn broken<M: Control>(message: M) -> &'static str {
    let decoded = decode::<M>(message.encode_to_vec().into()).map(|_| ());
    assert_eq!(decoded, message.validate(), "decoding validates");
    match decoded {
        Ok(()) => "",
        Err(ProtocolError::BadField { field, .. } | ProtocolError::OverLimit { field, .. }) => field,
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn route_header_rules() {
    let good = RouteHeader::new(Version::V1, "eu", "n1", Purpose::Issue);
    assert_eq!(broken(good.clone()), "");
    rule!(good.clone(), version = 99, "", "a newer version is judged by the relay");
    rule!(good.clone(), version = 0, "version");
    for name in ["", "UPPER", "a..b", "-a", "a b", "ä", &"a".repeat(254)] {
        rule!(good.clone(), cluster = name.into(), "cluster", "{name}");
        rule!(good.clone(), node = name.into(), "node", "{name}");
    }
    rule!(good.clone(), purpose = 0, "purpose");
    rule!(good.clone(), purpose = 8, "purpose");
    rule!(good.clone(), purpose = -1, "purpose");
    rule!(good.clone(), hop_limit = MAX_HOPS + 1, "hop_limit");
    assert_eq!(good.next_hop().map(|next| next.hop_limit), Some(MAX_HOPS - 1));
    assert_eq!(RouteHeader { hop_limit: 0, ..good }.next_hop(), None);
}

#[test]
fn the_longest_route_header_fits() {
    let name = format!(
        "{}.{}.{}.{}",
        "a".repeat(63),
        "b".repeat(63),
        "c".repeat(63),
        "d".repeat(61)
    );
    assert_eq!(name.len(), 253);
    assert_eq!(
        broken(RouteHeader::new(
            Version::V1,
            name.as_str(),
            name.as_str(),
            Purpose::Session
        )),
        ""
    );
}

#[test]
fn registration_rules() {
    let good = Register::new(crate::InstanceId::new(*ID), "0.1");
    assert_eq!(broken(good.clone()), "");
    rule!(good.clone(), instance_id = Bytes::from_static(b"short"), "instance_id");
    rule!(good.clone(), software = "x".repeat(MAX_SHORT_TEXT + 1), "software");
    rule!(good, versions = vec![1; 17], "versions");
    let good = Registered {
        relay: "r".into(),
        ..Registered::default()
    };
    assert_eq!(broken(good.clone()), "");
    rule!(good.clone(), relay = String::new(), "relay");
    rule!(good, seen = "x".repeat(900), "");
}

#[test]
fn open_rules() {
    assert_eq!(broken(open()), "");
    rule!(open(), open_id = Bytes::new(), "open_id");
    rule!(open(), kind = 0, "kind");
    rule!(open(), kind = 3, "kind", "unknown modes are refused");
    rule!(open(), argv = vec![], "argv");
    rule!(open(), kind = Kind::Shell.into(), "argv");
    rule!(Open { argv: vec![], ..open() }, kind = Kind::Shell.into(), "");
    rule!(open(), login_line = true, "argv");
    rule!(open(), argv = vec![Bytes::from_static(b"a\0b")], "argv");
    let variable = |name: &str, value: &'static [u8]| {
        let env = vec![EnvVar {
            name: Bytes::copy_from_slice(name.as_bytes()),
            value: Bytes::from_static(value),
        }];
        broken(Open { env, ..open() })
    };
    assert_eq!(variable("", b""), "env.name");
    assert_eq!(variable("A=B", b""), "env.name");
    assert_eq!(variable("A\0", b""), "env.name");
    assert_eq!(variable(&"A".repeat(MAX_ENV_NAME + 1), b""), "env.name");
    assert_eq!(variable("A", b"a\0"), "env.value");
    let term = |term: &'static [u8]| {
        let terminal = Some(Terminal {
            term: Bytes::from_static(term),
            ..Terminal::default()
        });
        broken(Open { terminal, ..open() })
    };
    assert_eq!(term(b"x\0"), "terminal.term");
    assert_eq!(term(&[b'x'; MAX_TERM + 1]), "terminal.term");
    rule!(open(), profile = "No Profile".into(), "profile");
    rule!(open(), grants = vec![Bytes::from(vec![0; MAX_GRANT + 1])], "grants");
    rule!(open(), reason = "x".repeat(MAX_TEXT + 1), "reason");
    rule!(open(), cluster = "EU".into(), "cluster");
    rule!(open(), node = String::new(), "node");
    rule!(open(), purpose = 0, "purpose");
    rule!(open(), local_user = "a\0".into(), "local_user");
    rule!(open(), claimed_path = 9, "claimed_path");
    rule!(
        open(),
        correlation_id = "x".repeat(MAX_SHORT_TEXT + 1),
        "correlation_id"
    );
}

#[test]
fn an_open_that_no_frame_can_carry_is_known_before_it_is_sent() {
    let half = Bytes::from(vec![b'x'; MAX_OPEN / 2 + 1]);
    let message = Open {
        argv: vec![half.clone(), half],
        ..open()
    };
    assert!(matches!(
        message.validate(),
        Err(ProtocolError::OverLimit {
            field: "the whole message",
            ..
        })
    ));
}

#[test]
fn b031_arguments_and_values_of_any_bytes_travel_one_by_one() {
    let strange: &[&[u8]] = &[
        b"",
        b"a b",
        b"c'd",
        b"$HOME",
        b"*",
        b"x\ny",
        b"\xff\xfe",
        b"--",
        b"=",
        b"\x1b[2J",
    ];
    let argv: Vec<Bytes> = strange
        .iter()
        .map(|argument| Bytes::copy_from_slice(argument))
        .collect();
    let env = vec![EnvVar {
        name: "LANG".into(),
        value: Bytes::from_static(b"a b=\xff\n;`x`"),
    }];
    let terminal = Some(Terminal {
        term: Bytes::from_static(b"vt 100=\xff"),
        ..Terminal::default()
    });
    let message = Open {
        argv,
        env,
        terminal,
        ..open()
    };
    assert_eq!(
        decode::<Open>(prost::Message::encode_to_vec(&message).into()),
        Ok(message)
    );
}

#[test]
fn b002_no_size_is_an_error_and_absurd_ones_are_clamped_or_ignored() {
    let resize = |cols, rows| {
        let message = Resize {
            cols,
            rows,
            xpixel: u32::MAX,
            ypixel: 1,
        };
        assert_eq!(
            decode::<Resize>(prost::Message::encode_to_vec(&message).into()),
            Ok(message)
        );
        message
            .size()
            .map(|size| (size.cols, size.rows, size.xpixel, size.ypixel))
    };
    assert_eq!(resize(0, 0), None);
    assert_eq!(resize(0, 24), None);
    assert_eq!(resize(80, 0), None);
    assert_eq!(resize(1, 1), Some((1, 1, u16::MAX, 1)));
    assert_eq!(resize(65_535, 65_535), Some((u16::MAX, u16::MAX, u16::MAX, 1)));
    assert_eq!(resize(u32::MAX, 65_536), Some((u16::MAX, u16::MAX, u16::MAX, 1)));
}

#[test]
fn answer_rules() {
    assert_eq!(broken(opened()), "");
    rule!(opened(), session = Bytes::new(), "session");
    rule!(opened(), profile = String::new(), "profile");
    rule!(
        opened(),
        recorded = 0,
        "recorded",
        "a session that is not recorded does not exist"
    );
    rule!(opened(), window = WINDOW_TERMINAL - 1, "window");
    rule!(opened(), window = WINDOW_MAX + 1, "window");

    let denied = || Denied {
        code: 400,
        ..Denied::default()
    };
    rule!(denied(), code = 0, "code");
    rule!(denied(), missing = 7, "missing");
    rule!(denied(), seen = "x".repeat(MAX_TEXT + 1), "seen");
    assert_eq!(
        broken(Closed {
            code: 1,
            seen: "x".repeat(MAX_TEXT + 1)
        }),
        "seen"
    );
    let notice = || Notice {
        code: 702,
        ..Notice::default()
    };
    rule!(notice(), seen = "x".repeat(MAX_TEXT + 1), "seen");
    assert_eq!(broken(Signal { signal: 0 }), "signal");
    assert_eq!(broken(Signal { signal: 14 }), "signal");
}

#[test]
fn b006_an_exit_says_exactly_one_thing() {
    let exit = |code, signal| {
        broken(Exit {
            code,
            signal,
            core_dumped: false,
        })
    };
    assert_eq!(exit(Some(0), None), "");
    assert_eq!(exit(None, Some(9)), "");
    for (code, signal) in [
        (None, None),
        (Some(0), Some(9)),
        (Some(256), None),
        (None, Some(0)),
        (None, Some(65)),
    ] {
        assert_eq!(exit(code, signal), "code or signal");
    }
    let empty = decode::<Exit>(Bytes::new());
    assert!(empty.is_err(), "an empty EXIT is no success");
}

#[test]
fn resume_rules() {
    assert_eq!(broken(resume()), "");
    rule!(resume(), epoch = 0, "epoch");
    rule!(resume(), mac = Bytes::from_static(&[0; 31]), "mac");
    rule!(resume(), session = Bytes::new(), "session");
    rule!(resume(), node = "N".into(), "node");
    let resumed = || Resumed {
        epoch: 1,
        mac: key(),
        ..Resumed::default()
    };
    rule!(resumed(), epoch = 0, "epoch");
    rule!(resumed(), mac = Bytes::new(), "mac");
}

#[test]
fn holder_rules() {
    assert_eq!(broken(start()), "");
    rule!(start(), token = Bytes::new(), "token");
    rule!(start(), line = true, "argv");
    rule!(start(), window = 0, "window");
    rule!(start(), recorded = 0, "recorded");
    rule!(start(), resume_key = Bytes::from_static(b"short"), "resume_key");
    let account = Account {
        home: Bytes::from_static(b"/\0"),
        ..Account::default()
    };
    rule!(start(), account = Some(account), "account.home");
    let account = Account {
        groups: vec![1; MAX_GROUPS + 1],
        ..Account::default()
    };
    rule!(start(), account = Some(account), "account.groups");
    assert_eq!(
        broken(Adopt {
            token: Bytes::from_static(b"x"),
            session: id(),
            version: 1
        }),
        "token"
    );
}

#[test]
fn standby_rules() {
    let good = Standby {
        cluster: "eu".into(),
        node: "n1".into(),
        purpose: Purpose::Session.into(),
    };
    assert_eq!(broken(good.clone()), "");
    rule!(good.clone(), cluster = "EU".into(), "cluster");
    rule!(good.clone(), node = String::new(), "node");
    rule!(good, purpose = 0, "purpose");
    assert_eq!(broken(StandingBy { secs: 0 }), "");
}

#[test]
fn warm_rules() {
    let good = ask();
    assert_eq!(broken(good.clone()), "");
    rule!(
        good.clone(),
        version = 99,
        "",
        "another version is judged by the process"
    );
    rule!(good.clone(), version = 0, "version");
    rule!(good.clone(), wish = 0, "wish");
    rule!(good.clone(), wish = 5, "wish");
    rule!(good.clone(), configuration = id(), "configuration");
    rule!(good.clone(), certificate = Bytes::new(), "certificate");
    rule!(good.clone(), node = "N1".into(), "node");
    rule!(good, wish = AskFor::Keep.into(), "keep_secs");

    let good = Answer {
        carried: Carried::Stream.into(),
        relay: "a".repeat(63),
        ..Answer::default()
    };
    assert_eq!(broken(good.clone()), "");
    rule!(good.clone(), carried = 0, "carried");
    rule!(good.clone(), relay = "no name".into(), "relay");
    rule!(good.clone(), resume_key = key(), "resume_key", "a stream has none");
    rule!(good.clone(), carried = Carried::Standby.into(), "resume_key");
    rule!(good, seen = "x".repeat(MAX_TEXT + 1), "seen");

    let relay = WarmRelay {
        cluster: "eu".into(),
        ..WarmRelay::default()
    };
    let report = |count| Report {
        relays: vec![relay.clone(); count],
        ..Report::default()
    };
    assert_eq!(broken(report(MAX_WARM_LIST)), "");
    assert_eq!(broken_list(report(MAX_WARM_LIST + 1)), "a list");
    let nameless = WarmNode {
        cluster: "eu".into(),
        ..WarmNode::default()
    };
    rule!(report(0), nodes = vec![nameless], "nodes.node");
}

/// The field of the first broken rule, found before the message is built.
fn broken_list<M: Control>(message: M) -> &'static str {
    match decode::<M>(message.encode_to_vec().into()) {
        Err(ProtocolError::OverLimit { field, .. }) => field,
        other => panic!("{:?}", other.map(|_| ())),
    }
}

#[test]
fn secrets_do_not_show() {
    let shown = [
        format!(
            "{:?}",
            Answer {
                resume_key: key(),
                ..Answer::default()
            }
        ),
        format!(
            "{:?}",
            Start {
                resume_key: key(),
                ..start()
            }
        ),
        format!(
            "{:?}",
            Adopt {
                session: id(),
                token: key(),
                version: 1
            }
        ),
        format!("{:?}", crate::ToHolder::Start(start())),
    ];
    for text in shown {
        assert!(!text.contains("ABCDEF"), "{text}");
    }
}

#[test]
fn purposes_have_words() {
    for number in 1..=7 {
        let purpose = Purpose::try_from(number).unwrap();
        assert_eq!(Purpose::from_name(purpose.name()), Some(purpose));
    }
    assert_eq!(Purpose::from_name("unspecified"), None);
}
