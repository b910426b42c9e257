//! A relay of the fleet that turns on the agent: streams, words and links of every bad kind. The agent stays up, gives back what it
//! took, and serves through the honest relay all along.

use std::time::Duration;

use bytes::BytesMut;
use netsim_tests::burden::Burden;
use netsim_tests::liar::{Knock, Peer, Said, attach, fleet_with, registered};
use noderelay_proto::control::{Drain, Purpose, RouteHeader, encode};
use noderelay_proto::version::Version;
use noderelay_proto::{Type, frame};
use quinn::Connection;
use tokio::sync::watch;
use tokio::time::Instant;

/// How long each attack lasts.
const ATTACK: Duration = Duration::from_secs(2);
/// Streams of an attack; more than all that an agent allows at once.
const STREAMS: usize = 3000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attack {
    Garbage,
    Silent,
    OtherNode,
    Oversized,
    Cut,
    TlsGarbage,
    TlsSilent,
    DrainNow,
    DrainNever,
    Words,
    Drops,
    MidHandshake,
    Refusal,
}

fn header(node: &str) -> BytesMut {
    let mut bytes = BytesMut::new();
    encode(
        &RouteHeader::new(Version::V1, "demo", node, Purpose::Session),
        &mut bytes,
    );
    bytes
}

/// What each stream of an attack says first.
fn first_words(attack: Attack) -> BytesMut {
    let mut bytes = BytesMut::new();
    match attack {
        Attack::Garbage => bytes.extend_from_slice(&[0xa5; 4000]),
        Attack::OtherNode => bytes = header("other"),
        Attack::Oversized => frame::put_header(&mut bytes, Type::Route, 1 << 30),
        Attack::Cut => bytes.extend_from_slice(&header("local")[..5]),
        Attack::TlsGarbage => {
            bytes = header("local");
            bytes.extend_from_slice(&[0xa5; 4000]);
        }
        Attack::TlsSilent => bytes = header("local"),
        _ => {}
    }
    bytes
}

/// What is done with the agent each time that it dials, while the attack is on.
async fn act(attack: Attack, knock: Knock, mut on: watch::Receiver<bool>) {
    if *on.borrow() {
        match attack {
            Attack::MidHandshake => return knock.abandon().await,
            Attack::Refusal => return knock.refuse(),
            _ => {}
        }
    }
    let Some(Peer::Agent(connection, agent)) = knock.accept().await else {
        return;
    };
    let Some(control) = attach(&connection, &agent).await else {
        return;
    };
    if on.wait_for(|on| *on).await.is_err() {
        return;
    }
    tokio::select! {
        () = bother(attack, &connection, &control) => {}
        _ = on.wait_for(|on| !*on) => {}
    }
    if attack == Attack::DrainNow {
        // It never closes what the agent has left.
        connection.closed().await;
    }
    connection.close(0u32.into(), b"");
}

async fn bother(attack: Attack, connection: &Connection, control: &Said) {
    match attack {
        Attack::DrainNow | Attack::DrainNever => {
            let ms = if attack == Attack::DrainNow { 0 } else { u32::MAX };
            let drain = Drain {
                spread_ms: ms,
                back_ms: ms,
            };
            control.say(&drain).await;
            std::future::pending().await
        }
        Attack::Words => {
            for number in 0..5000 {
                control.say(&registered(number % 2 == 0)).await;
                let drain = Drain {
                    spread_ms: u32::MAX,
                    back_ms: 0,
                };
                control.say(&drain).await;
            }
            std::future::pending().await
        }
        Attack::Drops | Attack::MidHandshake | Attack::Refusal => {}
        _ => {
            let mut open = Vec::new();
            for _ in 0..STREAMS {
                let Ok((mut send, recv)) = connection.open_bi().await else {
                    return;
                };
                let _ = send.write_all(&first_words(attack)).await;
                match attack {
                    // Held, so that the agent has to let go of them.
                    Attack::Silent | Attack::TlsSilent => open.push((send, recv)),
                    _ => _ = send.finish(),
                }
            }
            std::future::pending().await
        }
    }
}

fn attacked(attack: Attack) {
    let (switch, on) = watch::channel(false);
    let limits = "handshake: 500ms, registration: 500ms";
    let (fleet, liar) = fleet_with(limits, move |knock| act(attack, knock, on.clone()));
    liar.has_agent();
    let pid = fleet.agent.as_ref().unwrap().0.id();
    for _ in 0..3 {
        assert!(fleet.run(&["true"]).status.success());
    }
    let before = Burden::of(pid);
    let (knocks, said) = (liar.knocks(), fleet.logs().len());
    if matches!(attack, Attack::MidHandshake | Attack::Refusal) {
        liar.agent().close(0u32.into(), b"");
    }
    switch.send_replace(true);
    let (until, mut served) = (Instant::now() + ATTACK, 0);
    while Instant::now() < until {
        let output = fleet.run(&["echo", "honest"]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.stdout, b"honest\n", "{attack:?}: {told}");
        served += 1;
    }
    let (knocks, said) = (liar.knocks() - knocks, fleet.logs().len() - said);
    switch.send_replace(false);
    before.returns(pid, &format!("{attack:?}"));
    assert!(knocks < 40, "{attack:?}: dialled {knocks} times in {ATTACK:?}");
    assert!(said < 2000 * served + 40_000, "{attack:?}: {said} bytes of log");
    assert!(fleet.run(&["true"]).status.success());
}

#[test]
fn an_agent_serves_on_and_gives_back_what_a_lying_relay_made_it_take() {
    let attacks = [
        Attack::Garbage,
        Attack::Silent,
        Attack::OtherNode,
        Attack::Oversized,
        Attack::Cut,
        Attack::TlsGarbage,
        Attack::TlsSilent,
        Attack::DrainNow,
        Attack::DrainNever,
        Attack::Words,
        Attack::Drops,
        Attack::MidHandshake,
        Attack::Refusal,
    ];
    std::thread::scope(|scope| {
        for attack in attacks {
            scope.spawn(move || attacked(attack));
        }
    });
}
