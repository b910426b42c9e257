//! Random valid messages, for the round-trip and mutation tests of every module.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use crate::control::*;
use crate::limits::{WINDOW_MAX, WINDOW_TERMINAL};
use crate::message::{FromAgent, FromHolder, FromWarm, Opening, ToAgent, ToClient, ToHolder, ToNode, ToWarm};
use crate::varint;

pub(crate) fn bytes(length: impl Into<proptest::collection::SizeRange>) -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), length).prop_map(Bytes::from)
}

fn no_nul(length: impl Into<proptest::collection::SizeRange>) -> impl Strategy<Value = Bytes> {
    vec(1..=255_u8, length).prop_map(Bytes::from)
}

fn name() -> impl Strategy<Value = String> {
    "[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?(\\.[a-z0-9]([a-z0-9-]{0,10}[a-z0-9])?){0,3}"
}

fn text() -> impl Strategy<Value = String> {
    ".{0,60}"
}

fn varint_value() -> impl Strategy<Value = u64> {
    prop_oneof![0..100_u64, 0..=varint::MAX, Just(varint::MAX)]
}

fn env() -> impl Strategy<Value = EnvVar> {
    ("[A-Za-z_]{1,20}", no_nul(0..40)).prop_map(|(name, value)| EnvVar {
        name: name.into(),
        value,
    })
}

fn terminal() -> impl Strategy<Value = Terminal> {
    (no_nul(0..20), any::<(u32, u32, u32, u32)>()).prop_map(|(term, (cols, rows, xpixel, ypixel))| Terminal {
        term,
        cols,
        rows,
        xpixel,
        ypixel,
    })
}

fn route() -> impl Strategy<Value = RouteHeader> {
    (1..9_u32, name(), name(), 1..=7_i32, 0..=3_u32).prop_map(|(version, cluster, node, purpose, hop_limit)| {
        RouteHeader {
            version,
            cluster,
            node,
            purpose,
            hop_limit,
        }
    })
}

fn register() -> impl Strategy<Value = Register> {
    (
        bytes(16),
        "[ -~]{0,40}",
        vec(any::<u32>(), 0..16),
        any::<u32>(),
        any::<bool>(),
    )
        .prop_map(|(instance_id, software, versions, sessions, draining)| Register {
            instance_id,
            software,
            versions,
            sessions,
            draining,
        })
}

fn open() -> impl Strategy<Value = Open> {
    let command = prop_oneof![
        Just((1, Vec::new(), false)),
        vec(no_nul(0..30), 1..8).prop_map(|argv| (2, argv, false)),
        no_nul(0..60).prop_map(|line| (2, vec![line], true)),
    ];
    let extras = (
        vec(env(), 0..5),
        option::of(terminal()),
        vec(bytes(0..100), 0..8),
        text(),
        0..=3_i32,
    );
    (
        bytes(16),
        command,
        extras,
        name(),
        name(),
        1..=7_i32,
        option::of(name()),
        "[a-z]{0,10}",
    )
        .prop_map(
            |(open_id, command, extras, cluster, node, purpose, profile, local_user)| Open {
                open_id,
                kind: command.0,
                argv: command.1,
                login_line: command.2,
                env: extras.0,
                terminal: extras.1,
                grants: extras.2,
                reason: extras.3,
                claimed_path: extras.4,
                profile: profile.unwrap_or_default(),
                correlation_id: local_user.clone(),
                cluster,
                node,
                purpose,
                local_user,
            },
        )
}

fn opened() -> impl Strategy<Value = Opened> {
    let numbers = (
        any::<u64>(),
        any::<Option<i64>>(),
        any::<Option<u32>>(),
        any::<u64>(),
        any::<bool>(),
        any::<u32>(),
    );
    (
        bytes(16),
        numbers,
        name(),
        text(),
        1..=2_i32,
        name(),
        name(),
        WINDOW_TERMINAL..=WINDOW_MAX,
    )
        .prop_map(
            |(session, numbers, profile, account, recorded, node, cluster, window)| Opened {
                session,
                policy_version: numbers.0,
                deadline_unix: numbers.1,
                idle_secs: numbers.2,
                consumed: numbers.3,
                demo: numbers.4,
                resume_window_secs: numbers.5,
                profile,
                account,
                recorded,
                node,
                cluster,
                window,
            },
        )
}

fn resume() -> impl Strategy<Value = Resume> {
    (
        bytes(16),
        1..=u64::MAX,
        any::<(u64, u64)>(),
        bytes(32),
        name(),
        name(),
        1..=7_i32,
        vec(bytes(0..50), 0..8),
    )
        .prop_map(
            |(session, epoch, (sent, consumed), mac, cluster, node, purpose, grants)| Resume {
                session,
                epoch,
                sent,
                consumed,
                mac,
                cluster,
                node,
                purpose,
                grants,
                claimed_path: purpose % 4,
            },
        )
}

fn closed() -> impl Strategy<Value = Closed> {
    (any::<u32>(), text()).prop_map(|(code, seen)| Closed { code, seen })
}

fn exit() -> impl Strategy<Value = Exit> {
    (
        prop_oneof![(0..=255_u32).prop_map(Ok), (1..=64_u32).prop_map(Err)],
        any::<bool>(),
    )
        .prop_map(|(how, core_dumped)| Exit {
            code: how.ok(),
            signal: how.err(),
            core_dumped,
        })
}

fn start() -> impl Strategy<Value = Start> {
    let account = (text(), any::<(u32, u32)>(), vec(any::<u32>(), 0..20), no_nul(0..30)).prop_map(
        |(name, (uid, gid), groups, home)| Account {
            name: name.replace('\0', ""),
            uid,
            gid,
            groups,
            shell: home.clone(),
            home,
        },
    );
    let numbers = (
        any::<Option<i64>>(),
        any::<Option<u32>>(),
        any::<(u32, u32)>(),
        any::<i64>(),
        1..=2_i32,
    );
    let what = (
        vec(no_nul(0..30), 0..5),
        any::<bool>(),
        option::of(account),
        vec(env(), 0..5),
        option::of(terminal()),
    );
    (bytes(16), bytes(32), what, WINDOW_TERMINAL..=WINDOW_MAX, numbers).prop_map(
        |(session, token, what, window, numbers)| Start {
            session,
            resume_key: token.clone(),
            token,
            line: what.0.len() == 1,
            argv: what.0,
            login: what.1,
            account: what.2,
            env: what.3,
            terminal: what.4,
            window,
            deadline_unix: numbers.0,
            idle_secs: numbers.1,
            hup_grace_ms: numbers.2.0,
            window_secs: numbers.2.1,
            started_unix_ms: numbers.3,
            recorded: numbers.4,
        },
    )
}

pub(crate) fn opening() -> impl Strategy<Value = Opening> {
    prop_oneof![route().prop_map(Opening::Route), register().prop_map(Opening::Register)]
}

pub(crate) fn from_agent() -> impl Strategy<Value = FromAgent> {
    varint_value().prop_map(|n| {
        if n % 2 == 0 {
            FromAgent::Ping(n)
        } else {
            FromAgent::Pong(n)
        }
    })
}

pub(crate) fn to_agent() -> impl Strategy<Value = ToAgent> {
    prop_oneof![
        (name(), text(), any::<bool>(), text()).prop_map(|(relay, software, parked, seen)| ToAgent::Registered(
            Registered {
                relay,
                software: software.chars().take(30).collect(),
                parked,
                seen
            }
        )),
        any::<(u32, u32)>().prop_map(|(spread_ms, back_ms)| ToAgent::Drain(Drain { spread_ms, back_ms })),
        varint_value().prop_map(ToAgent::Ping),
        varint_value().prop_map(ToAgent::Pong),
    ]
}

pub(crate) fn to_node_sequenced() -> impl Strategy<Value = ToNode> {
    prop_oneof![
        6 => bytes(1..200).prop_map(ToNode::Data),
        1 => Just(ToNode::End),
        1 => any::<(u32, u32, u32, u32)>()
            .prop_map(|(cols, rows, xpixel, ypixel)| ToNode::Resize(Resize { cols, rows, xpixel, ypixel })),
        1 => (1..=13_i32).prop_map(|signal| ToNode::Signal(Signal { signal })),
    ]
}

pub(crate) fn to_node() -> impl Strategy<Value = ToNode> {
    prop_oneof![
        open().prop_map(ToNode::Open),
        resume().prop_map(ToNode::Resume),
        (name(), name(), 1..=7_i32).prop_map(|(cluster, node, purpose)| ToNode::Standby(Standby {
            cluster,
            node,
            purpose
        })),
        closed().prop_map(ToNode::Closed),
        to_node_sequenced(),
        varint_value().prop_map(ToNode::Ack),
        varint_value().prop_map(ToNode::Ping),
        varint_value().prop_map(ToNode::Pong),
    ]
}

pub(crate) fn to_client() -> impl Strategy<Value = ToClient> {
    prop_oneof![
        opened().prop_map(ToClient::Opened),
        any::<u32>().prop_map(|secs| ToClient::StandingBy(StandingBy { secs })),
        (1..=u32::MAX, 0..=6_i32, text(), any::<u64>()).prop_map(|(code, missing, seen, policy_version)| {
            ToClient::Denied(Denied {
                code,
                missing,
                seen,
                policy_version,
            })
        }),
        closed().prop_map(ToClient::Closed),
        (any::<(u32, u32)>(), text()).prop_map(|((code, seconds_left), seen)| ToClient::Notice(Notice {
            code,
            seconds_left,
            seen
        })),
        (1..=u64::MAX, any::<(u64, u64)>(), bytes(32)).prop_map(|(epoch, (sent, consumed), mac)| ToClient::Resumed(
            Resumed {
                epoch,
                sent,
                consumed,
                mac
            }
        )),
        exit().prop_map(ToClient::Exit),
        bytes(1..200).prop_map(ToClient::Data),
        bytes(1..200).prop_map(ToClient::DataErr),
        Just(ToClient::End),
        varint_value().prop_map(ToClient::Ack),
        varint_value().prop_map(ToClient::Ping),
        varint_value().prop_map(ToClient::Pong),
    ]
}

pub(crate) fn to_holder() -> impl Strategy<Value = ToHolder> {
    prop_oneof![
        start().prop_map(ToHolder::Start),
        closed().prop_map(|Closed { code, seen }| ToHolder::Terminate(Terminate { code, seen })),
        any::<(Option<i64>, Option<u32>)>().prop_map(|(deadline_unix, idle_secs)| ToHolder::Terms(Terms {
            deadline_unix,
            idle_secs
        })),
        (bytes(16), bytes(32), any::<u32>()).prop_map(|(session, token, version)| ToHolder::Adopt(Adopt {
            session,
            token,
            version
        })),
        to_node_sequenced().prop_map(ToHolder::Session),
    ]
}

pub(crate) fn from_holder() -> impl Strategy<Value = FromHolder> {
    prop_oneof![
        any::<u32>().prop_map(|pid| FromHolder::Started(Started { pid })),
        closed().prop_map(|Closed { code, seen }| FromHolder::StartFailed(StartFailed { code, seen })),
        any::<(u32, u64, u64, u64, u32)>().prop_map(|(pid, epoch, sent, consumed, version)| FromHolder::Adopted(
            Adopted {
                pid,
                epoch,
                sent,
                consumed,
                version
            }
        )),
        to_client()
            .prop_filter("only what a holder may say", |message| {
                message.frame().travels(crate::Direction::FromHolder)
            })
            .prop_map(FromHolder::Session),
    ]
}

pub(crate) fn to_warm() -> impl Strategy<Value = ToWarm> {
    let ask = (1..3_u32, 1..=4_i32, bytes(32), name(), name(), 1..=7_i32, 1..=u32::MAX);
    prop_oneof![
        ask.prop_map(
            |(version, wish, digest, cluster, node, purpose, keep_secs)| ToWarm::Ask(Ask {
                version,
                wish,
                configuration: digest.clone(),
                certificate: digest,
                cluster,
                node,
                purpose,
                keep_secs,
            })
        ),
        bytes(1..200).prop_map(ToWarm::Carry),
        Just(ToWarm::CarryEnd),
    ]
}

pub(crate) fn from_warm() -> impl Strategy<Value = FromWarm> {
    let relay = (name(), text(), any::<(Option<u32>, u32)>(), text());
    let relay = relay.prop_map(|(cluster, relay, (up_secs, rtt_us), seen)| WarmRelay {
        cluster,
        relay,
        up_secs,
        rtt_us,
        seen,
    });
    let node = (name(), name(), any::<(bool, Option<u32>, u32)>(), text());
    let node = node.prop_map(|(cluster, node, (standby, proof_secs, uses), seen)| WarmNode {
        cluster,
        node,
        standby,
        proof_secs,
        uses,
        seen,
    });
    let numbers = any::<(u32, u32, u32, u32, u64, u64, bool)>();
    prop_oneof![
        (1..=3_i32, name(), bytes(32), text(), any::<u32>()).prop_map(|(carried, relay, key, seen, rtt_us)| {
            FromWarm::Answer(Answer {
                carried,
                relay,
                resume_key: if carried == 3 { key } else { Bytes::new() },
                seen,
                rtt_us,
            })
        }),
        (numbers, vec(relay, 0..5), vec(node, 0..5)).prop_map(|(numbers, relays, nodes)| FromWarm::Report(Report {
            pid: numbers.0,
            left_secs: numbers.1,
            idle_left_secs: numbers.2,
            carrying: numbers.3,
            streams: numbers.4,
            standbys: numbers.5,
            stopping: numbers.6,
            relays,
            nodes,
        })),
        (any::<u32>(), text(), any::<(bool, bool)>()).prop_map(|(code, seen, (writing, by_node))| FromWarm::Broken(
            Broken {
                code,
                seen,
                writing,
                by_node
            }
        )),
        bytes(1..200).prop_map(FromWarm::Carry),
        Just(FromWarm::CarryEnd),
    ]
}
