//! What an agent makes of a relay's words, with the relay's side of the link played by the test.

use std::net::UdpSocket;

use jiff::Timestamp;
use noderelay_link::{Restart, Times, agent_transport, server_endpoint};
use noderelay_pki::RoleKind;
use noderelay_pki::tls::Leg;
use noderelay_proto::Refusal;
use noderelay_proto::control::{Drain, Purpose, Registered, RouteHeader};
use noderelay_proto::version::{self, Version};
use quinn::{Connection, Endpoint};
use tokio::sync::watch;

use super::*;
use crate::testing::{self, Fleet, Publisher};

fn registered(parked: bool) -> ToAgent {
    Registered {
        relay: "r1".into(),
        parked,
        ..Registered::default()
    }
    .into()
}

#[tokio::test]
async fn the_wiring_hears_what_a_registration_came_to() {
    let (said, mut heard) = mpsc::channel(4);
    let metrics = Metrics::new();
    let counted = || (metrics.relays_attached.get(), metrics.relays_parked.get());
    let first = report(Standing::Attached, "r1", &said, &metrics);
    let second = report(Standing::Parked, "r2", &said, &metrics);
    assert_eq!(counted(), (1, 1));
    drop((first, second, said));
    assert_eq!(counted(), (0, 0));
    assert_eq!(heard.recv().await, Some(Said::Attached("r1".into())));
    assert_eq!(heard.recv().await, Some(Said::Parked("r2".into())));
    assert_eq!(heard.recv().await, None);
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), what)
        .await
        .expect("hangs")
}

/// An agent that dials relays which the test plays, and of which it uses one.
struct Rig {
    relay: Endpoint,
    others: Vec<Endpoint>,
    heard: mpsc::Receiver<Said>,
    stop: CancellationToken,
    _folder: tempfile::TempDir,
}

impl Rig {
    async fn new(limits: &str) -> Self {
        Self::of(limits, &["r1"]).await
    }

    async fn of(limits: &str, names: &[&str]) -> Self {
        let (fleet, now) = (Fleet::new(), Timestamp::now());
        let in_force = Publisher::new(&fleet, "", now).await.in_force(now).await;
        let folder = tempfile::tempdir().unwrap();
        let in_force = watch::Sender::new(in_force).subscribe();
        let node = Arc::new(testing::node(&fleet, folder.path(), limits, in_force));
        let (mut relays, mut doors) = (Vec::new(), Vec::new());
        for name in names {
            let identity = fleet.relay(name);
            let party = fleet.party(identity.clone());
            let tls = party
                .server(Expect::Roles(&[RoleKind::Node]), Leg::Outer, version::OUTER)
                .unwrap();
            let restart = Restart::from_key(party.credentials.get().key()).unwrap();
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let relay = server_endpoint(socket, tls, &restart, &Times::default()).unwrap();
            let expect = Expect::ThisRelay { identity, key: None };
            doors.push((relay.local_addr().unwrap().to_string(), expect));
            relays.push(relay);
        }
        let others = relays.split_off(1);
        let (said, heard) = mpsc::channel(16);
        let stop = CancellationToken::new();
        let dialer = Dialer::new(
            node.party.clone(),
            agent_transport(node.config.limits.streams(), &Times::default()),
        );
        tokio::spawn(keep(node, dialer, doors, InstanceId::new([3; 16]), said, stop.clone()));
        Self {
            relay: relays.remove(0),
            others,
            heard,
            stop,
            _folder: folder,
        }
    }

    /// The agent's next connection, with its REGISTER read and not answered.
    async fn dialled(&self) -> (Connection, FrameReader<RecvStream, Opening>, FrameWriter<SendStream>) {
        Self::dialled_at(&self.relay).await
    }

    /// The same at another relay.
    async fn dialled_at(relay: &Endpoint) -> (Connection, FrameReader<RecvStream, Opening>, FrameWriter<SendStream>) {
        let connection = soon(async { relay.accept().await.unwrap().await.unwrap() }).await;
        let (send, recv) = soon(connection.accept_bi()).await.unwrap();
        let mut reader = FrameReader::new(recv);
        assert!(matches!(soon(reader.demand()).await.unwrap(), Opening::Register(_)));
        (connection, reader, FrameWriter::new(send))
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

#[tokio::test]
async fn a_relay_that_does_not_answer_a_registration_is_given_up() {
    let rig = Rig::new("{registration: 100ms, redial_min: 10ms}").await;
    let (first, _reader, _writer) = rig.dialled().await;
    // It dials again, and the connection to nobody is gone.
    let (_second, ..) = rig.dialled().await;
    soon(first.closed()).await;
}

#[tokio::test]
async fn a_relay_that_drains_is_left_and_what_runs_over_it_goes_on() {
    let mut rig = Rig::new("{}").await;
    let (first, mut reader, mut writer) = rig.dialled().await;
    writer.send(&registered(false)).await.unwrap();
    assert_eq!(soon(rig.heard.recv()).await, Some(Said::Attached("r1".into())));
    let drain = Drain {
        spread_ms: 50,
        back_ms: 0,
    };
    writer.send(&ToAgent::from(drain)).await.unwrap();
    // Its control stream ends in good order and another link is made; the first one is the relay's to close.
    assert!(soon(reader.next()).await.unwrap().is_none());
    let (_second, _reader, mut writer) = rig.dialled().await;
    writer.send(&registered(false)).await.unwrap();
    assert_eq!(soon(rig.heard.recv()).await, Some(Said::Attached("r1".into())));
    assert!(first.close_reason().is_none());
    rig.stop.cancel();
    soon(first.closed()).await;
}

#[tokio::test]
async fn streams_beyond_the_slots_are_told_that_the_agent_is_not_ready() {
    let rig = Rig::new("{handshakes: 1}").await;
    let (connection, _reader, mut writer) = rig.dialled().await;
    writer.send(&registered(false)).await.unwrap();
    let open = async || {
        let (send, recv) = connection.open_bi().await.unwrap();
        let mut writer = FrameWriter::new(send);
        let header = RouteHeader::new(Version::V1, "alpha", "gpu-7", Purpose::Session);
        writer.send(&Opening::from(header)).await.unwrap();
        (writer, recv)
    };
    // It has a slot until its client has said what it wants, and says nothing.
    let (_held, _quiet) = open().await;
    let (_writer, mut refused) = open().await;
    let ended = soon(refused.read_to_end(16)).await;
    let Err(quinn::ReadToEndError::Read(quinn::ReadError::Reset(code))) = ended else {
        panic!("{ended:?}");
    };
    assert_eq!(code.into_inner(), u64::from(Code::AgentNotReady.number()));
}

#[tokio::test]
async fn a_relay_that_asks_and_never_reads_is_given_up() {
    let rig = Rig::new("{registration: 100ms, redial_min: 10ms}").await;
    let (first, _unread, mut writer) = rig.dialled().await;
    writer.send(&registered(false)).await.unwrap();
    let flood = async {
        loop {
            (0..10_000).for_each(|number| writer.queue(&ToAgent::Ping(number)));
            if writer.flush().await.is_err() {
                return;
            }
        }
    };
    // Each answer takes room in a window that nobody empties.
    let (_second, ..) = tokio::select! {
        () = flood => rig.dialled().await,
        dialled = rig.dialled() => dialled,
    };
    soon(first.closed()).await;
}

#[tokio::test]
async fn a_link_that_was_left_is_closed_once_it_carries_nothing() {
    let rig = Rig::new("{registration: 100ms}").await;
    let (first, _reader, mut writer) = rig.dialled().await;
    writer.send(&registered(false)).await.unwrap();
    writer.send(&ToAgent::from(Drain::default())).await.unwrap();
    // Its relay keeps it open.
    soon(first.closed()).await;
}

#[tokio::test]
async fn a_registration_is_answered_by_nothing_else() {
    let mut rig = Rig::new("{redial_min: 10ms}").await;
    let (first, _reader, mut writer) = rig.dialled().await;
    writer.send(&ToAgent::Ping(1)).await.unwrap();
    let (_second, ..) = rig.dialled().await;
    soon(first.closed()).await;
    assert!(rig.heard.try_recv().is_err(), "nobody is attached");
}

/// How long the relay of these tests wants to be left alone.
const BACK: Duration = Duration::from_millis(700);

fn busy(back: Duration) -> quinn::VarInt {
    let refusal = Refusal {
        code: Code::RelayBusy,
        back: Some(back),
    };
    refusal.to_wire().try_into().unwrap()
}

#[tokio::test]
async fn b088_a_relay_that_said_when_to_come_back_is_not_dialled_sooner() {
    let rig = Rig::new("{redial_min: 10ms, redial_max: 20ms}").await;
    // It says so instead of an answer, to one that is attached, and when it drains.
    let (unanswered, ..) = rig.dialled().await;
    let mut said = Instant::now();
    unanswered.close(busy(BACK), b"");
    let (attached, _reader, mut writer) = rig.dialled().await;
    assert!(said.elapsed() >= BACK, "{:?}", said.elapsed());
    writer.send(&registered(false)).await.unwrap();
    said = Instant::now();
    attached.close(busy(BACK), b"");
    let (_draining, _reader, mut writer) = rig.dialled().await;
    assert!(said.elapsed() >= BACK, "{:?}", said.elapsed());
    writer.send(&registered(false)).await.unwrap();
    said = Instant::now();
    let drain = Drain {
        spread_ms: 0,
        back_ms: 700,
    };
    writer.send(&ToAgent::from(drain)).await.unwrap();
    let (_last, ..) = rig.dialled().await;
    assert!(said.elapsed() >= BACK, "{:?}", said.elapsed());
}

#[tokio::test]
async fn b088_a_relay_that_is_full_keeps_nobody_from_another_one_and_is_left_alone_meanwhile() {
    let rig = Rig::of("{redial_min: 10ms, redial_max: 20ms}", &["r1", "r2"]).await;
    let (refused, ..) = rig.dialled().await;
    refused.close(busy(Duration::from_secs(60)), b"");
    let other = &rig.others[0];
    let others = async {
        // The other one is tried at once, and again however often it fails.
        for _ in 0..3 {
            let (lost, ..) = Rig::dialled_at(other).await;
            lost.close(0u32.into(), b"");
        }
    };
    tokio::select! {
        () = others => {}
        _ = rig.relay.accept() => panic!("it wanted to be left alone"),
    }
}

#[tokio::test]
async fn b075_a_relay_that_is_heard_and_does_not_answer_is_given_up() {
    let quic = "{redial_min: 10ms}\nquic: {keepalive: 100ms, idle: 600ms}";
    let rig = Rig::new(quic).await;
    let (first, reader, mut writer) = rig.dialled().await;
    let mut reader = FrameReader::<_, FromAgent>::new(reader.into_inner());
    writer.send(&registered(false)).await.unwrap();
    // It says something all the time, as whoever gets no acknowledgement does.
    let talk = async {
        let mut asked = 0;
        loop {
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(50)) => {
                    if writer.send(&registered(false)).await.is_err() {
                        return asked;
                    }
                }
                heard = reader.next() => match heard {
                    Ok(Some(_)) => asked += 1,
                    _ => return asked,
                },
            }
        }
    };
    assert!(soon(talk).await > 0, "it was never asked");
    soon(first.closed()).await;
    // One that answers is kept for longer than that.
    let (second, reader, mut writer) = rig.dialled().await;
    let mut reader = FrameReader::<_, FromAgent>::new(reader.into_inner());
    writer.send(&registered(false)).await.unwrap();
    for _ in 0..6 {
        let FromAgent::Ping(number) = soon(reader.demand()).await.unwrap() else {
            panic!("not a question");
        };
        writer.send(&ToAgent::Pong(number)).await.unwrap();
    }
    assert!(second.close_reason().is_none());
}
