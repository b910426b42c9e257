//! Garbage around a relay: at its port, at its admin socket, and from a person who opens more than there is. It serves on, and keeps
//! nothing of it.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use netsim_tests::attached;
use netsim_tests::burden::Burden;
use netsim_tests::chance::Chance;
use netsim_tests::fleet::Fleet;
use noderelay_link::{Dialer, client_transport};
use noderelay_pki::Expect;
use noderelay_pki::ca::{CERTIFICATE_FILE, CertificateAuthority, KEY_FILE};
use noderelay_pki::identity::Role;
use noderelay_pki::name::UserName;
use noderelay_pki::tls::{Leg, SERVER_NAME};
use noderelay_proto::version;
use tokio::time::Instant;

/// What an attack may add to the logs beside what each session writes there: a few lines of each kind.
const LOG: usize = 40_000;
/// What a session writes to the logs of relay and agent.
const LOG_OF_ONE: usize = 3_000;
/// Refusals that are written whole: ten of each code within a minute, and an attack meets few codes.
const WHOLE: usize = 40;
/// How long an attack lasts.
const ATTACK: Duration = Duration::from_secs(2);

/// Longest time that a session may take beside an attack, on a machine that is busy.
const BESIDE: Duration = Duration::from_secs(10);

fn serving_with_admin() -> Fleet {
    let mut fleet = Fleet::files("");
    fleet.with_admin();
    fleet.start_relay();
    fleet.start_agent();
    assert!(fleet.run(&["true"]).status.success());
    fleet
}

/// Runs sessions as long as `attack` does, which says when it is over.
fn beside(fleet: &Fleet, attack: impl FnOnce() + Send) -> usize {
    std::thread::scope(|scope| {
        let attack = scope.spawn(attack);
        let mut served = 0;
        while !attack.is_finished() || served == 0 {
            let since = Instant::now();
            let output = fleet.run(&["echo", "honest"]);
            assert_eq!(output.stdout, b"honest\n", "{output:?}");
            assert!(since.elapsed() < BESIDE, "{:?}", since.elapsed());
            served += 1;
        }
        served
    })
}

/// A first packet of QUIC with this version, and chance behind its ids.
fn initial(chance: &mut Chance, version: u32, size: usize) -> Vec<u8> {
    let mut packet = vec![0xc0 | (chance.number() as u8 & 0x0f)];
    packet.extend_from_slice(&version.to_be_bytes());
    packet.push(8);
    packet.extend(chance.bytes(8));
    packet.push(8);
    packet.extend(chance.bytes(8));
    packet.push(0);
    packet.extend_from_slice(&[0x44, 0x00]);
    let left = size.saturating_sub(packet.len());
    packet.extend(chance.bytes(left));
    packet
}

#[test]
fn garbage_at_the_port_holds_nothing_up_and_leaves_nothing() {
    let fleet = serving_with_admin();
    let relay = fleet.relay.as_ref().unwrap().0.id();
    let before = Burden::of(relay);
    let to: SocketAddr = fleet.address().parse().unwrap();
    let mut chance = Chance::new();
    let log = fleet.logs().len();
    let served = beside(&fleet, || {
        let until = Instant::now() + ATTACK;
        // Each from another port, as a scanner would.
        while Instant::now() < until {
            let socket = UdpSocket::bind("127.0.0.2:0").unwrap();
            for n in 0..200 {
                let packet = match n % 8 {
                    0 => {
                        let size = chance.below(1500);
                        chance.bytes(size)
                    }
                    1 => chance.bytes(60_000),
                    2 => initial(&mut chance, 1, 1200),
                    3 => {
                        let size = chance.below(100);
                        initial(&mut chance, 1, size)
                    }
                    4 => initial(&mut chance, 0, 1200),
                    5 => initial(&mut chance, 0x1a2a_3a4a, 1200),
                    6 => initial(&mut chance, 1, 8900),
                    _ => Vec::new(),
                };
                let _ = socket.send_to(&packet, to);
            }
        }
    });
    let during = Burden::of(relay);
    before.returns(relay, "garbage at the port");
    let log = fleet.logs().len() - log;
    println!(
        "served {served}, {before:?} {during:?} {:?}, log {log}",
        Burden::of(relay)
    );
    assert!(log < LOG + served * LOG_OF_ONE, "{log} bytes of log, {served} sessions");
}

#[test]
fn garbage_at_the_admin_socket_holds_nothing_up() {
    let fleet = serving_with_admin();
    let relay = fleet.relay.as_ref().unwrap().0.id();
    let socket = fleet.layout.relay().with_file_name("admin.sock");
    let before = Burden::of(relay);
    let ask = |words: &str| {
        let mut asked = UnixStream::connect(&socket).unwrap();
        asked.set_read_timeout(Some(BESIDE)).unwrap();
        asked.write_all(words.as_bytes()).unwrap();
        let mut answer = String::new();
        asked.read_to_string(&mut answer).unwrap();
        answer
    };
    let health = || ask("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let mut chance = Chance::new();
    let mut slow: Vec<UnixStream> = (0..200)
        .map(|n| {
            let mut socket = UnixStream::connect(&socket).unwrap();
            let garbage = chance.bytes(100);
            let words = if n % 2 == 0 { &garbage[..] } else { b"GET /met" };
            let _ = socket.write_all(words);
            socket
        })
        .collect();
    for _ in 0..10 {
        for socket in &mut slow {
            let _ = socket.write_all(b"x");
        }
        assert!(health().starts_with("HTTP/1.1 200"));
    }
    // Headers without an end.
    let mut endless = UnixStream::connect(&socket).unwrap();
    endless.set_write_timeout(Some(BESIDE)).unwrap();
    let _ = endless.write_all(b"GET /healthz HTTP/1.1\r\n");
    let mut sent = 0;
    while endless
        .write_all(b"a: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n")
        .is_ok()
        && sent < 100_000
    {
        sent += 1;
    }
    println!("headers taken {sent}");
    assert!(health().starts_with("HTTP/1.1 200"));
    assert!(fleet.run(&["true"]).status.success());
    drop((slow, endless));
    before.returns(relay, "garbage at the admin socket");
}

#[test]
fn a_person_who_opens_thousands_of_streams_takes_nothing_from_others() {
    let fleet = serving_with_admin();
    let relay = fleet.relay.as_ref().unwrap().0.id();
    let agent = fleet.agent.as_ref().unwrap().0.id();
    let ca = fleet.layout.ca();
    let ca = CertificateAuthority::load(&ca.join(CERTIFICATE_FILE), &ca.join(KEY_FILE)).unwrap();
    let greedy = attached::party(&ca, Role::User(UserName::parse("greedy").unwrap())).unwrap();
    let (before, agent_before) = (Burden::of(relay), Burden::of(agent));
    let to = fleet.address();
    let log = fleet.logs().len();
    let opened = std::sync::atomic::AtomicUsize::new(0);
    let served = beside(&fleet, || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let dialer = Dialer::new(greedy, client_transport());
            let until = Instant::now() + ATTACK;
            let mut links = Vec::new();
            for _ in 0..4 {
                links.push(
                    dialer
                        .dial(std::slice::from_ref(&to), Expect::Relay { cluster: None })
                        .await
                        .unwrap(),
                );
            }
            let mut held = Vec::new();
            let mut header = bytes::BytesMut::new();
            let wish = noderelay_proto::RouteHeader::new(
                links[0].version,
                "demo",
                "local",
                noderelay_proto::control::Purpose::Session,
            );
            noderelay_proto::control::encode(&wish, &mut header);
            while Instant::now() < until {
                for link in &links {
                    let opening = tokio::time::timeout(Duration::from_millis(20), link.connection.open_bi());
                    let Ok(Ok((mut send, recv))) = opening.await else {
                        continue;
                    };
                    let n = opened.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let words = match n % 3 {
                        0 => &header[..],
                        1 => &header[..7],
                        _ => b"",
                    };
                    let _ = send.write_all(words).await;
                    if n < 100 {
                        held.push((send, recv));
                    }
                }
                tokio::task::yield_now().await;
            }
        });
    });
    let during = Burden::of(relay);
    before.returns(relay, "streams, the relay");
    agent_before.returns(agent, "streams, the agent");
    let log = fleet.logs().len() - log;
    println!(
        "served {served}, opened {opened:?}, {before:?} {during:?} {:?}, log {log}",
        Burden::of(relay)
    );
    assert!(opened.into_inner() > 1000, "no attack");
    assert!(log < LOG + served * LOG_OF_ONE, "{log} bytes of log, {served} sessions");
    let lines = fleet.logs().matches("stream refused").count();
    assert!(
        (1..=WHOLE).contains(&lines),
        "{lines} refusals of one person in the log"
    );
}

#[test]
fn connections_of_strangers_take_nothing_from_others() {
    let fleet = serving_with_admin();
    let relay = fleet.relay.as_ref().unwrap().0.id();
    let another = Fleet::files("");
    let ca = another.layout.ca();
    let ca = CertificateAuthority::load(&ca.join(CERTIFICATE_FILE), &ca.join(KEY_FILE)).unwrap();
    let stranger = attached::party(&ca, Role::User(UserName::parse("tester").unwrap())).unwrap();
    let (before, log) = (Burden::of(relay), fleet.logs().len());
    let to: SocketAddr = fleet.address().parse().unwrap();
    let tried = std::sync::atomic::AtomicUsize::new(0);
    let served = beside(&fleet, || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let expect = Expect::Relay { cluster: None };
            let tls = stranger.client(expect, Leg::Outer, version::OUTER).unwrap();
            let crypto = quinn::crypto::rustls::QuicClientConfig::try_from(tls).unwrap();
            let config = quinn::ClientConfig::new(Arc::new(crypto));
            // Many addresses: what one is refused for, another one begins anew.
            let mut last = (2..250).cycle();
            let over = Instant::now() + ATTACK;
            while Instant::now() < over {
                let from = SocketAddr::from(([127, 0, 0, last.next().unwrap()], 0));
                let endpoint = quinn::Endpoint::client(from).unwrap();
                for _ in 0..8 {
                    let connecting = endpoint.connect_with(config.clone(), to, SERVER_NAME).unwrap();
                    tried.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let _ = tokio::time::timeout(Duration::from_millis(20), connecting).await;
                }
            }
        });
    });
    before.returns(relay, "strangers");
    let log = fleet.logs().len() - log;
    println!(
        "served {served}, tried {tried:?}, {before:?} {:?}, log {log}",
        Burden::of(relay)
    );
    assert!(tried.into_inner() > 200, "no attack");
    assert!(log < LOG + served * LOG_OF_ONE, "{log} bytes of log, {served} sessions");
    let lines = fleet.logs().matches("connection refused").count();
    assert!((1..=WHOLE).contains(&lines), "{lines} refused connections in the log");
}
