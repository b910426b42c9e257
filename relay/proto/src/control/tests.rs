//! Golden bytes of every control message; the rules are in [`rules`].

mod rules;

use super::*;
use crate::limits::*;
use crate::version::Version;

const ID: &[u8; 16] = b"0123456789abcdef";
const KEY: &[u8; 32] = b"0123456789abcdef0123456789ABCDEF";

fn id() -> Bytes {
    Bytes::from_static(ID)
}

fn ask() -> Ask {
    Ask {
        version: 1,
        wish: AskFor::Stream.into(),
        configuration: key(),
        certificate: key(),
        cluster: "eu".into(),
        node: "n1".into(),
        purpose: Purpose::Session.into(),
        keep_secs: 0,
    }
}

fn key() -> Bytes {
    Bytes::from_static(KEY)
}

fn open() -> Open {
    Open {
        open_id: id(),
        kind: Kind::Exec.into(),
        argv: vec![Bytes::from_static(b"ls"), Bytes::new()],
        cluster: "eu".into(),
        node: "n1".into(),
        purpose: Purpose::Session.into(),
        ..Open::default()
    }
}

fn opened() -> Opened {
    Opened {
        session: id(),
        profile: "login".into(),
        recorded: RecordLevel::Required.into(),
        node: "n1".into(),
        cluster: "eu".into(),
        window: WINDOW_TERMINAL,
        ..Opened::default()
    }
}

fn resume() -> Resume {
    Resume {
        session: id(),
        epoch: 1,
        mac: key(),
        cluster: "eu".into(),
        node: "n1".into(),
        purpose: Purpose::Session.into(),
        ..Resume::default()
    }
}

fn start() -> Start {
    Start {
        session: id(),
        token: key(),
        window: WINDOW_BULK,
        recorded: RecordLevel::Strict.into(),
        ..Start::default()
    }
}

/// `payload`: as a person writes it from docs/protocol.md: hexadecimal bytes, 'text' (`_` is a space), `ID` and `KEY`.
fn golden<M: Control + PartialEq + std::fmt::Debug>(message: &M, payload: &str) {
    let payload: Vec<u8> = payload.split_whitespace().flat_map(bytes_of).collect();
    let mut wire = BytesMut::new();
    put_header(&mut wire, M::TYPE, payload.len());
    wire.extend_from_slice(&payload);
    let mut out = BytesMut::new();
    encode(message, &mut out);
    assert_eq!(out, wire, "{message:?}");
    assert_eq!(decode::<M>(Bytes::from(payload)).as_ref(), Ok(message));
}

fn bytes_of(token: &str) -> Vec<u8> {
    match token {
        "ID" => ID.to_vec(),
        "KEY" => KEY.to_vec(),
        text if text.starts_with('\'') => text.trim_matches('\'').replace('_', " ").into_bytes(),
        hex => {
            let digits: Vec<char> = hex.chars().collect();
            let pairs = digits.chunks(2).map(String::from_iter);
            pairs.map(|pair| u8::from_str_radix(&pair, 16).unwrap()).collect()
        }
    }
}

#[test]
fn golden_outer() {
    golden(
        &RouteHeader::new(Version::V1, "eu-1", "gpu-7", Purpose::Session),
        "0801 1204 'eu-1' 1a05 'gpu-7' 2001 2803",
    );
    golden(
        &Register {
            instance_id: id(),
            software: "0.1".into(),
            versions: vec![1, 300],
            sessions: 2,
            draining: true,
        },
        "0a10 ID 1203 '0.1' 1a0301ac02 2002 2801",
    );
    golden(
        &Registered {
            relay: "r1".into(),
            software: "0.1".into(),
            parked: true,
            seen: "x".into(),
        },
        "0a02 'r1' 1203 '0.1' 1801 2201 'x'",
    );
    golden(
        &Drain {
            spread_ms: 5000,
            back_ms: 1,
        },
        "088827 1001",
    );
}

#[test]
fn golden_route_header_is_24_bytes_on_the_wire() {
    let mut out = BytesMut::new();
    encode(
        &RouteHeader::new(Version::V1, "eu-1", "gpu-7", Purpose::Session),
        &mut out,
    );
    assert_eq!(
        out.as_ref(),
        b"\x01\x13\x08\x01\x12\x04eu-1\x1a\x05gpu-7\x20\x01\x28\x03"
    );
}

#[test]
fn golden_open() {
    let full = Open {
        env: vec![EnvVar {
            name: "LANG".into(),
            value: Bytes::from_static(b"\xffC"),
        }],
        terminal: Some(Terminal {
            term: "vt".into(),
            cols: 80,
            rows: 24,
            xpixel: 640,
            ypixel: 0,
        }),
        profile: "login".into(),
        grants: vec![Bytes::from_static(b"g")],
        reason: "disk".into(),
        local_user: "op".into(),
        claimed_path: ClaimedPath::Relay.into(),
        correlation_id: "c".into(),
        ..open()
    };
    golden(
        &full,
        "0a10 ID 1002 1a02 'ls' 1a00 220a 0a04 'LANG' 1202ff 'C' 2a0b 0a02 'vt' 1050 1818 208005 3205 'login' \
         3a01 'g' 4204 'disk' 4a02 'eu' 5202 'n1' 5801 6a02 'op' 7002 7a01 'c'",
    );
    let line = Open {
        argv: vec!["a b".into()],
        login_line: true,
        ..open()
    };
    golden(&line, "0a10 ID 1002 1a03 'a_b' 4a02 'eu' 5202 'n1' 5801 6001");
}

#[test]
fn golden_answers() {
    golden(
        &Opened {
            policy_version: 7,
            account: "op".into(),
            deadline_unix: Some(1),
            idle_secs: Some(0),
            consumed: 3,
            demo: true,
            resume_window_secs: 1800,
            ..opened()
        },
        "0a10 ID 1007 1a05 'login' 2202 'op' 2801 3001 3800 4202 'n1' 4a02 'eu' 50808010 5803 6001 68880e",
    );
    golden(
        &Denied {
            code: 400,
            missing: Missing::Rule.into(),
            seen: "no".into(),
            policy_version: 7,
        },
        "089003 1003 1a02 'no' 2007",
    );
    golden(
        &Closed {
            code: 704,
            seen: "k".into(),
        },
        "08c005 1201 'k'",
    );
    golden(
        &Notice {
            code: 702,
            seconds_left: 60,
            seen: String::new(),
        },
        "08be05 103c",
    );
}

#[test]
fn golden_small() {
    golden(
        &Exit {
            code: Some(0),
            signal: None,
            core_dumped: false,
        },
        "0800",
    );
    golden(
        &Exit {
            code: Some(255),
            signal: None,
            core_dumped: false,
        },
        "08ff01",
    );
    golden(
        &Exit {
            code: None,
            signal: Some(11),
            core_dumped: true,
        },
        "100b 1801",
    );
    golden(
        &Resize {
            cols: 200,
            rows: 50,
            xpixel: 0,
            ypixel: 0,
        },
        "08c801 1032",
    );
    golden(
        &Signal {
            signal: SignalName::Int.into(),
        },
        "0801",
    );
}

#[test]
fn golden_standby() {
    golden(
        &Standby {
            cluster: "eu".into(),
            node: "n1".into(),
            purpose: Purpose::Session.into(),
        },
        "0a02 'eu' 1202 'n1' 1801",
    );
    golden(&StandingBy { secs: 300 }, "08ac02");
}

#[test]
fn golden_warm() {
    golden(&ask(), "0801 1001 1a20 KEY 2220 KEY 2a02 'eu' 3202 'n1' 3801");
    golden(
        &Ask {
            version: 1,
            wish: AskFor::Keep.into(),
            keep_secs: 3600,
            ..Ask::default()
        },
        "0801 1003 40901c",
    );
    golden(
        &Answer {
            carried: Carried::Standby.into(),
            relay: "r1".into(),
            resume_key: key(),
            seen: "x".into(),
            rtt_us: 300,
        },
        "0803 1202 'r1' 1a20 KEY 2201 'x' 28ac02",
    );
    golden(
        &Report {
            pid: 1,
            left_secs: 2,
            idle_left_secs: 3,
            carrying: 4,
            streams: 5,
            standbys: 6,
            stopping: true,
            relays: vec![WarmRelay {
                cluster: "eu".into(),
                relay: "r1".into(),
                up_secs: Some(0),
                rtt_us: 1,
                seen: "x".into(),
            }],
            nodes: vec![WarmNode {
                cluster: "eu".into(),
                node: "n1".into(),
                standby: true,
                proof_secs: Some(0),
                uses: 1,
                seen: "x".into(),
            }],
        },
        "0801 1002 1803 2004 2805 3006 3801 420f 0a02 'eu' 1202 'r1' 1800 2001 2a01 'x' \
         4a11 0a02 'eu' 1202 'n1' 1801 2000 2801 3201 'x'",
    );
    golden(
        &Broken {
            code: 300,
            seen: "x".into(),
            writing: true,
            by_node: true,
        },
        "08ac02 1201 'x' 1801 2001",
    );
}

#[test]
fn golden_resume() {
    golden(
        &Resume {
            sent: 5,
            consumed: 300,
            grants: vec!["g".into()],
            claimed_path: ClaimedPath::Api.into(),
            ..resume()
        },
        "0a10 ID 1001 1805 20ac02 2a20 KEY 3202 'eu' 3a02 'n1' 4001 4a01 'g' 5001",
    );
    golden(
        &Resumed {
            epoch: 1,
            sent: 300,
            consumed: 5,
            mac: key(),
        },
        "0801 10ac02 1805 2220 KEY",
    );
}

#[test]
fn golden_holder() {
    let account = Account {
        name: "op".into(),
        uid: 1000,
        gid: 100,
        groups: vec![4, 300],
        home: "/h".into(),
        shell: "/s".into(),
    };
    golden(
        &Start {
            argv: vec!["l".into()],
            login: true,
            line: true,
            account: Some(account),
            env: vec![EnvVar {
                name: "A".into(),
                value: "1".into(),
            }],
            terminal: Some(Terminal {
                term: "vt".into(),
                ..Terminal::default()
            }),
            deadline_unix: Some(-1),
            idle_secs: Some(60),
            hup_grace_ms: 5000,
            window_secs: 1800,
            started_unix_ms: 1,
            resume_key: key(),
            ..start()
        },
        "0a10 ID 1220 KEY 1a01 'l' 2001 2801 3216 0a02 'op' 10e807 1864 220304ac02 2a02 '/h' 3202 '/s' 3a06 \
         0a01 'A' 1201 '1' 4204 0a02 'vt' 4880808002 50ffffffffffffffffff01 583c 608827 68880e 7002 7801 \
         820120 KEY",
    );
    golden(&Started { pid: 300 }, "08ac02");
    golden(
        &StartFailed {
            code: 901,
            seen: "s".into(),
        },
        "088507 1201 's'",
    );
    golden(
        &Terminate {
            code: 700,
            seen: String::new(),
        },
        "08bc05",
    );
    golden(
        &Terms {
            deadline_unix: Some(2),
            idle_secs: Some(3),
        },
        "0802 1003",
    );
    golden(
        &Adopt {
            session: id(),
            token: key(),
            version: 1,
        },
        "0a10 ID 1220 KEY 1801",
    );
    golden(
        &Adopted {
            pid: 1,
            epoch: 2,
            sent: 3,
            consumed: 4,
            version: 5,
        },
        "0801 1002 1803 2004 2805",
    );
}
