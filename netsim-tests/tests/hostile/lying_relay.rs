//! A relay of the fleet that lies to clients and to the agent. Nothing comes of it but time, and the honest relay serves all along.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use netsim_tests::chance::Chance;
use netsim_tests::fleet::Fleet;
use netsim_tests::liar::{Knock, Liar, Peer, Tamper, Way, attach, carry, copy, fleet_with, liar};
use netsim_tests::told::Told;
use quinn::{RecvStream, SendStream};
use tokio::time::Instant;

/// Longest time of a client at one relay that lies: it has 10 s for the inner handshake.
const WITHIN: Duration = Duration::from_secs(25);

const ANSWERS: [Answer; 9] = [
    Answer::Garbage,
    Answer::Endless,
    Answer::Alert,
    Answer::Cut,
    Answer::OddCode,
    Answer::FinalCode,
    Answer::Backoff,
    Answer::NoStreams,
    Answer::Silence,
];

/// What the liar does with a client's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Garbage,
    Endless,
    Alert,
    Cut,
    OddCode,
    FinalCode,
    Backoff,
    NoStreams,
    Silence,
}

async fn answer(answer: Answer, knock: Knock) {
    if answer == Answer::NoStreams {
        let _open = knock.accept_without_streams().await;
        return std::future::pending().await;
    }
    let Some(Peer::Client(connection, _)) = knock.accept().await else {
        return;
    };
    while let Ok((send, recv)) = connection.accept_bi().await {
        answer_stream(answer, send, recv).await;
    }
}

async fn answer_stream(answer: Answer, mut send: SendStream, mut recv: RecvStream) {
    // The route header with the first flight.
    let _ = recv.read_chunk(16 * 1024, true).await;
    let reset = |send: &mut SendStream, code: u64| _ = send.reset(code.try_into().unwrap());
    match answer {
        Answer::Garbage => {
            let _ = send.write_all(&[0xa5; 3000]).await;
        }
        Answer::Endless => {
            // Handshake records without an end, as many as are taken.
            let mut record = vec![22, 3, 3, 0x40, 0];
            record.resize(5 + 0x4000, 0);
            while send.write_all(&record).await.is_ok() {}
        }
        Answer::Alert => {
            // "Your certificate has expired", from somebody who has proved nothing.
            let _ = send.write_all(&[21, 3, 3, 0, 2, 2, 45]).await;
        }
        Answer::Cut => {
            let _ = send.write_all(&[22, 3, 3, 1, 0, 2]).await;
            let _ = send.finish();
        }
        Answer::OddCode => return reset(&mut send, 0x3fff_ffff),
        Answer::FinalCode => return reset(&mut send, u64::from(noderelay_proto::Code::PolicyDenied.number())),
        Answer::Backoff => {
            let code = u64::from(noderelay_proto::Code::RelayBusy.number());
            return reset(&mut send, ((1 << 30) - 1) << 32 | code);
        }
        Answer::NoStreams | Answer::Silence => {}
    }
    // Open until the client leaves.
    while recv
        .read_chunk(16 * 1024, true)
        .await
        .is_ok_and(|chunk| chunk.is_some())
    {}
}

/// What the client says of it: code and words.
fn told_of(answer: Answer) -> (&'static str, &'static str) {
    match answer {
        Answer::Garbage | Answer::Endless => ("transport.tls", "relay liar: what arrived is no valid inner TLS"),
        Answer::Alert => ("transport.tls", "before it had proved to be the node"),
        Answer::Cut => ("transport.closed", "No session was opened"),
        Answer::OddCode => ("unknown", "relay liar: "),
        Answer::FinalCode => ("transport.reset", "which counts only from the node itself"),
        Answer::Backoff => ("relay.busy", "relay liar: "),
        Answer::NoStreams => ("transport.timeout", "relay liar: it let no stream be opened"),
        Answer::Silence => ("transport.timeout", "relay liar: the node did not answer"),
    }
}

/// The client tells one fault within its time, shows nothing, and goes to the next relay when there is one.
#[test]
fn a_client_is_not_held_by_a_relay_that_lies_and_shows_nothing_of_it() {
    let fleet = Fleet::serving();
    let (fleet, honest) = (&fleet, fleet.address());
    let honest = &honest;
    std::thread::scope(|scope| {
        for case in ANSWERS {
            scope.spawn(move || {
                let liar = liar(fleet, move |knock| answer(case, knock));
                let by = |relays: &[&str]| {
                    let (mut client, since) = (fleet.client(), Instant::now());
                    for relay in relays {
                        client.args(["--relay", relay]);
                    }
                    let told = Told::of(client, &["echo", "honest"]);
                    assert!(since.elapsed() < WITHIN, "{case:?}: {:?}", since.elapsed());
                    told
                };
                let (code, words) = told_of(case);
                let lying = liar.address.to_string();
                let told = by(&[&lying]);
                told.assert_refused(code);
                assert!(told.said().contains(words), "{case:?}: {}", told.said());
                assert_eq!(told.said().lines().count(), 2, "{case:?}: {}", told.said());
                assert_ne!(told.status["origin"], "agent", "{case:?}: {}", told.status);
                // Whoever answers first is asked; the honest one is left for the case that it is the liar.
                let told = by(&[&lying, honest]);
                told.assert_exit(0);
                assert_eq!(told.output.stdout, b"honest\n", "{case:?}");
            });
        }
    });
}

fn man_in_the_middle(tamper: Tamper) -> (Fleet, Liar) {
    let (fleet, liar) = fleet_with("", move |knock| carrying(knock, Arc::clone(&tamper)));
    liar.has_agent();
    (fleet, liar)
}

async fn carrying(knock: Knock, tamper: Tamper) {
    match knock.accept().await {
        Some(Peer::Agent(connection, agent)) => {
            let _control = attach(&connection, &agent).await;
            connection.closed().await;
        }
        Some(Peer::Client(connection, Some(agent))) => {
            while let Ok(stream) = connection.accept_bi().await {
                carry(stream, &agent, &tamper).await;
            }
        }
        _ => {}
    }
}

fn by(liar: &Liar, fleet: &Fleet) -> Command {
    let mut client = fleet.client();
    client.args(["--relay", &liar.address.to_string()]);
    client
}

/// Enough output for many records.
const LINES: &str = "20000";

fn all_lines() -> String {
    (1..=20_000).map(|n| format!("{n}\n")).collect()
}

#[test]
fn a_byte_that_the_relay_changes_costs_the_session_and_alters_nothing() {
    let place = Arc::new(Mutex::new((Way::ToNode, usize::MAX)));
    let changed = Arc::new(AtomicUsize::new(0));
    let (at, count) = (Arc::clone(&place), Arc::clone(&changed));
    let (fleet, liar) = man_in_the_middle(Arc::new(move |way, done, mut bytes| {
        let (wanted, at) = *at.lock().unwrap();
        if way == wanted && (done..done + bytes.len()).contains(&at) {
            bytes[at - done] ^= 1;
            count.fetch_add(1, Ordering::Relaxed);
        }
        Some(bytes)
    }));
    Told::of(by(&liar, &fleet), &["echo", "carried"]).assert_exit(0);
    let wanted = all_lines();
    let mut chance = Chance::new();
    // In the route header, in hello, certificate, wish; in the session.
    let mut places: Vec<_> = [3, 40, 300, 1500].map(|at| (Way::ToNode, at)).into();
    places.extend([3, 40, 300, 1500, 3000, 20_000].map(|at| (Way::ToClient, at)));
    places.extend([2000, 2000, 100_000].map(|most| (Way::ToClient, chance.below(most))));
    for (way, at) in places {
        changed.store(0, Ordering::Relaxed);
        *place.lock().unwrap() = (way, at);
        let told = Told::of(by(&liar, &fleet), &["seq", "1", LINES]);
        let said = told.said();
        assert_eq!(changed.load(Ordering::Relaxed), 1, "{way:?} {at}: not changed; {said}");
        assert_eq!(told.output.status.code(), Some(255), "{way:?} {at}: {said}");
        assert!(
            wanted.as_bytes().starts_with(&told.output.stdout),
            "{way:?} {at}: altered"
        );
        let code = told.status["code"].as_str().unwrap_or_default().to_owned();
        assert!(code.starts_with("transport."), "{way:?} {at}: {said}");
        assert!(said.contains(&code), "{way:?} {at}: {said}");
    }
}

#[test]
fn what_the_relay_recorded_of_a_session_opens_nothing_and_shows_nothing() {
    let tape: Arc<Mutex<(Vec<u8>, Vec<u8>)>> = Arc::default();
    let recording = Arc::clone(&tape);
    let (fleet, liar) = man_in_the_middle(Arc::new(move |way, _, bytes| {
        let mut tape = recording.lock().unwrap();
        let side = if way == Way::ToNode { &mut tape.0 } else { &mut tape.1 };
        side.extend_from_slice(&bytes);
        Some(bytes)
    }));
    let ran = fleet.layout.root.join("ran");
    let line = format!("echo x >> {}; echo secret", ran.display());
    Told::of(by(&liar, &fleet), &["sh", "-c", &line]).assert_exit(0);
    let (to_node, to_client) = tape.lock().unwrap().clone();
    let recordings = fleet.recordings().len();
    // To the node, from its first byte to its last, several times at once.
    let agent = liar.agent();
    let said = liar.runtime().block_on(async {
        let mut said = 0;
        for _ in 0..5 {
            let (mut send, mut recv) = agent.open_bi().await.unwrap();
            send.write_all(&to_node).await.unwrap();
            let ended = tokio::time::timeout(WITHIN, async {
                while let Ok(Some(chunk)) = recv.read_chunk(65536, true).await {
                    said += chunk.bytes.len();
                }
            });
            ended.await.expect("the agent ends it");
        }
        said
    });
    // A hello of its own and an alert, no session.
    assert!(said < 5 * to_client.len(), "{said}");
    assert_eq!(fs::read_to_string(&ran).unwrap(), "x\n");
    assert_eq!(fleet.recordings().len(), recordings);
    // And to a client.
    let old = Arc::new(to_client);
    let replaying = netsim_tests::liar::liar(&fleet, move |knock| {
        let old = Arc::clone(&old);
        async move {
            let Some(Peer::Client(connection, _)) = knock.accept().await else {
                return;
            };
            while let Ok((mut send, mut recv)) = connection.accept_bi().await {
                let _ = send.write_all(&old).await;
                while recv
                    .read_chunk(16 * 1024, true)
                    .await
                    .is_ok_and(|chunk| chunk.is_some())
                {}
            }
        }
    });
    Told::of(by(&replaying, &fleet), &["echo", "new"]).assert_refused("transport.tls");
}

#[test]
fn streams_that_the_relay_crosses_show_nothing_of_another_session() {
    let waiting: Arc<tokio::sync::Mutex<Option<(SendStream, RecvStream)>>> = Arc::default();
    let (fleet, liar) = fleet_with("", move |knock| crossing(knock, Arc::clone(&waiting)));
    liar.has_agent();
    let clients = ["one", "two"].map(|word| {
        let client = by(&liar, &fleet);
        std::thread::spawn(move || Told::of(client, &["echo", word]))
    });
    for client in clients {
        client.join().unwrap().assert_refused("transport.tls");
    }
}

/// What the node answers to the first of two clients goes to the second, and the other way round.
async fn crossing(knock: Knock, waiting: Arc<tokio::sync::Mutex<Option<(SendStream, RecvStream)>>>) {
    let pass: Tamper = Arc::new(|_, _, bytes| Some(bytes));
    match knock.accept().await {
        Some(Peer::Agent(connection, agent)) => {
            let _control = attach(&connection, &agent).await;
            connection.closed().await;
        }
        Some(Peer::Client(connection, Some(agent))) => {
            let Ok((near_send, near_recv)) = connection.accept_bi().await else {
                return;
            };
            let Ok((far_send, far_recv)) = agent.open_bi().await else {
                return;
            };
            let other = waiting.lock().await.take();
            let Some((other_send, other_recv)) = other else {
                *waiting.lock().await = Some((near_send, far_recv));
                copy(near_recv, far_send, Way::ToNode, &pass).await;
                connection.closed().await;
                return;
            };
            tokio::join!(
                copy(near_recv, far_send, Way::ToNode, &pass),
                both_shown([(far_recv, other_send), (other_recv, near_send)])
            );
        }
        _ => {}
    }
}

/// Passes on what comes once both nodes have answered, or the first client to be refused would take the other one's answer with it.
/// Ends are not passed on: the client's own refusal comes first.
async fn both_shown(ways: [(RecvStream, SendStream); 2]) {
    let barrier = &tokio::sync::Barrier::new(2);
    let [one, two] = ways.map(|(mut from, mut to)| async move {
        let mut answer = from.read_chunk(16 * 1024, true).await;
        barrier.wait().await;
        while let Ok(Some(chunk)) = answer
            && to.write_all(&chunk.bytes).await.is_ok()
        {
            answer = from.read_chunk(16 * 1024, true).await;
        }
        let _ = to.stopped().await;
    });
    tokio::join!(one, two);
}

#[test]
fn a_direction_that_the_relay_delays_costs_time_alone_and_a_cut_never_looks_like_an_end() {
    let slow = Arc::new(Mutex::new(None));
    let cut = Arc::new(AtomicUsize::new(usize::MAX));
    let (delayed, at) = (Arc::clone(&slow), Arc::clone(&cut));
    let (fleet, liar) = man_in_the_middle(Arc::new(move |way, done, mut bytes| {
        if *delayed.lock().unwrap() == Some(way) {
            std::thread::sleep(Duration::from_millis(100));
        }
        let left = at.load(Ordering::Relaxed).saturating_sub(done);
        if way == Way::ToClient && left < bytes.len() {
            bytes.truncate(left);
            return (!bytes.is_empty()).then_some(bytes);
        }
        Some(bytes)
    }));
    for way in [Way::ToNode, Way::ToClient] {
        *slow.lock().unwrap() = Some(way);
        let told = Told::of(by(&liar, &fleet), &["echo", "late"]);
        told.assert_exit(0);
        assert_eq!(told.output.stdout, b"late\n");
    }
    *slow.lock().unwrap() = None;
    let wanted = all_lines();
    for after in [1, 100, 1200, 2000, 2600, 5000, 60_000] {
        cut.store(after, Ordering::Relaxed);
        let told = Told::of(by(&liar, &fleet), &["seq", "1", LINES]);
        let said = told.said();
        assert_eq!(told.output.status.code(), Some(255), "{after}: {said}");
        assert!(wanted.as_bytes().starts_with(&told.output.stdout), "{after}");
        let open = told.status["session"].is_string();
        assert_eq!(said.contains("No session was opened"), !open, "{after}: {said}");
    }
}
