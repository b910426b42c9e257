//! Agents that come back, die, are copied, or leave; and the relay's own end.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::common::*;
use noderelay_proto::Code;

#[tokio::test]
async fn the_same_instance_comes_back_and_open_streams_go_on() {
    let fleet = Fleet::new();
    let relay = fleet.relay("").await;
    let first = Agent::attached(&fleet, &relay, "worker-1", 1).await;
    let _echo = first.echo();
    let client = Client::new(&fleet, &relay).await;
    let (mut send, mut recv) = client.open(&header("home", "worker-1"), b"a").await;
    recv.read_exact(&mut [0]).await.unwrap();
    let second = Agent::attached(&fleet, &relay, "worker-1", 1).await;
    // What was open stays where it is; what is new goes to the new connection.
    send.write_all(b"b").await.unwrap();
    recv.read_exact(&mut [0]).await.unwrap();
    let _new = client.open(&header("home", "worker-1"), b"c").await;
    second.accept().await;
    assert_eq!(relay.metric("agents_attached").await, 1.0);
    assert_eq!(relay.metric("agent_conflicts_total{verdict=\"parked\"}").await, 0.0);
    // A third connection of the same process ends the first.
    let _third = Agent::attached(&fleet, &relay, "worker-1", 1).await;
    assert_eq!(close_code(&first.link.connection).await, Code::RelayReplaced);
}

#[tokio::test]
async fn b079_a_successor_replaces_an_agent_that_does_not_answer_within_the_probe() {
    let fleet = Fleet::new();
    let relay = fleet.relay("probe: 300ms").await;
    let dead = Agent::attached(&fleet, &relay, "worker-1", 1).await;
    dead.answering.store(false, Ordering::Relaxed);
    let client = Client::new(&fleet, &relay).await;
    let asked = tokio::time::Instant::now();
    let successor = Agent::attached(&fleet, &relay, "worker-1", 2).await;
    let took = asked.elapsed();
    assert!(took < Duration::from_secs(1), "the node was undecided for {took:?}");
    assert_eq!(close_code(&dead.link.connection).await, Code::RelayReplaced);
    let _stream = client.open(&header("home", "worker-1"), b"x").await;
    successor.accept().await;
    assert_eq!(relay.metric("agent_conflicts_total{verdict=\"replaced\"}").await, 1.0);
    assert_eq!(relay.metric("agents_attached").await, 1.0);
}

#[tokio::test]
async fn b083_a_copied_key_waits_behind_the_live_agent_and_both_are_shown() {
    let fleet = Fleet::new();
    let relay = fleet.relay("probe: 500ms, probe_again: 200ms").await;
    // One key on two machines.
    let party = fleet.party("home", node("worker-1"));
    let register = |run| noderelay_proto::control::Register::new(instance(run), "test");
    let mut incumbent = Agent::with(party.clone(), relay.address, register(1)).await;
    assert!(!incumbent.registered().await.parked);
    let mut copy = Agent::with(party, relay.address, register(2)).await;
    let answer = copy.registered().await;
    assert!(answer.parked && !answer.seen.is_empty(), "{answer:?}");
    let listed = relay.ask("/agents").await;
    for run in [1, 2] {
        assert!(listed.contains(&instance(run).to_string()), "{listed}");
    }
    assert!(
        listed.contains("\"parked\": false") && listed.contains("\"parked\": true"),
        "{listed}"
    );
    assert_eq!(relay.metric("agents_parked").await, 1.0);
    assert_eq!(relay.metric("agent_conflicts_total{verdict=\"parked\"}").await, 1.0);
    // Sessions never cross to the copy.
    let client = Client::new(&fleet, &relay).await;
    for _ in 0..5 {
        let _stream = client.open(&header("home", "worker-1"), b"x").await;
        incumbent.accept().await;
    }
    // Nobody was thrown out, so nobody storms back.
    assert!(incumbent.link.connection.close_reason().is_none() && copy.link.connection.close_reason().is_none());
    // The incumbent falls silent without closing: the one that waits takes over by itself.
    incumbent.answering.store(false, Ordering::Relaxed);
    assert!(!copy.registered().await.parked);
    let _stream = client.open(&header("home", "worker-1"), b"x").await;
    copy.accept().await;
}

#[tokio::test]
async fn when_the_incumbent_leaves_the_one_that_waits_takes_over_at_once() {
    let fleet = Fleet::new();
    let relay = fleet.relay("").await;
    let incumbent = Agent::attached(&fleet, &relay, "worker-1", 1).await;
    let mut waiting = Agent::new(&fleet, &relay, "worker-1", 2).await;
    assert!(waiting.registered().await.parked);
    incumbent.link.connection.close(0u32.into(), b"");
    assert!(!waiting.registered().await.parked);
    let client = Client::new(&fleet, &relay).await;
    let _stream = client.open(&header("home", "worker-1"), b"x").await;
    waiting.accept().await;
}

#[tokio::test]
async fn too_many_claims_on_one_node_are_turned_away() {
    let fleet = Fleet::new();
    let relay = fleet.relay("").await;
    let _incumbent = Agent::attached(&fleet, &relay, "worker-1", 1).await;
    let mut waiting = Vec::new();
    for run in 2..6 {
        let mut agent = Agent::new(&fleet, &relay, "worker-1", run).await;
        assert!(agent.registered().await.parked);
        waiting.push(agent);
    }
    let surplus = Agent::new(&fleet, &relay, "worker-1", 9).await;
    assert_eq!(close_code(&surplus.link.connection).await, Code::RelayParked);
    // Another node of the same fleet is none of their business.
    let _other = Agent::attached(&fleet, &relay, "worker-2", 1).await;
}

#[tokio::test]
async fn a_stop_lets_open_streams_end_refuses_new_ones_and_tells_agents() {
    let fleet = Fleet::new();
    let relay = fleet.relay("drain: 15s").await;
    let mut agent = Agent::attached(&fleet, &relay, "worker-1", 1).await;
    let _echo = agent.echo();
    let busy = Client::new(&fleet, &relay).await;
    let idle = Client::new(&fleet, &relay).await;
    let (mut send, mut recv) = busy.open(&header("home", "worker-1"), b"a").await;
    recv.read_exact(&mut [0]).await.unwrap();
    relay.stop.soft.cancel();
    assert_eq!(close_code(&idle.link.connection).await, Code::RelayDraining);
    assert_eq!(soon("agents are told", agent.said.recv()).await, Some(Said::Draining));
    assert_eq!(busy.refusal(&header("home", "worker-1")).await, Code::RelayDraining);
    assert!(
        relay
            .ask("/readyz")
            .await
            .contains("draining: the relay was asked to stop")
    );
    // Nobody new gets in.
    let dialer = noderelay_link::Dialer::new(fleet.party("home", user("eve")), noderelay_link::client_transport());
    let expect = noderelay_pki::Expect::Relay { cluster: None };
    assert!(
        soon("refused", dialer.dial(&[relay.address.to_string()], expect))
            .await
            .is_err()
    );
    // The session that was open works, ends in its own time, and then the relay goes.
    send.write_all(b"the last words").await.unwrap();
    send.finish().unwrap();
    assert_eq!(recv.read_to_end(100).await.unwrap(), b"the last words");
    soon("the relay stops", relay.ended).await.unwrap().unwrap();
    assert_eq!(close_code(&busy.link.connection).await, Code::RelayDraining);
    assert_eq!(close_code(&agent.link.connection).await, Code::RelayDraining);
    assert!(!relay.admin.exists());
}

#[tokio::test]
async fn a_stop_waits_no_longer_than_its_bound_and_cuts_with_a_code() {
    let fleet = Fleet::new();
    let relay = fleet.relay("drain: 300ms").await;
    let agent = Agent::attached(&fleet, &relay, "worker-1", 1).await;
    let client = Client::new(&fleet, &relay).await;
    let (_send, mut recv) = client.open(&header("home", "worker-1"), b"a").await;
    let mut arrived = agent.accept().await;
    let asked = tokio::time::Instant::now();
    relay.stop.soft.cancel();
    soon("the relay stops", relay.ended).await.unwrap().unwrap();
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    let cut = |error| match error {
        quinn::ReadToEndError::Read(quinn::ReadError::Reset(seen)) => assert_eq!(seen, code(Code::RelayDraining)),
        quinn::ReadToEndError::Read(quinn::ReadError::ConnectionLost(quinn::ConnectionError::ApplicationClosed(
            seen,
        ))) => {
            assert_eq!(seen.error_code, code(Code::RelayDraining));
        }
        other => panic!("{other:?}"),
    };
    cut(soon("cut", recv.read_to_end(10)).await.unwrap_err());
    cut(soon("cut", arrived.recv.read_to_end(10)).await.unwrap_err());
}

#[tokio::test]
async fn an_agent_that_ends_its_control_stream_gets_nothing_new_and_keeps_what_it_has() {
    let fleet = Fleet::new();
    let relay = fleet.relay("").await;
    let link = dial(fleet.party("home", node("worker-1")), relay.address, true).await;
    let (mut control, mut answers) = link.connection.open_bi().await.unwrap();
    let mut hello = bytes::BytesMut::new();
    noderelay_proto::control::encode(&noderelay_proto::control::Register::new(instance(1), "x"), &mut hello);
    control.write_all(&hello).await.unwrap();
    answers.read_chunk(1024, true).await.unwrap().unwrap();
    let client = Client::new(&fleet, &relay).await;
    let (mut send, _recv) = client.open(&header("home", "worker-1"), b"a").await;
    let (_answer, mut arrived) = link.connection.accept_bi().await.unwrap();
    control.finish().unwrap();
    eventually("it is detached", async || relay.metric("agents_attached").await == 0.0).await;
    assert_eq!(
        client.refusal(&header("home", "worker-1")).await,
        Code::RelayNodeOffline
    );
    send.write_all(b"still here").await.unwrap();
    send.finish().unwrap();
    let got = soon("what was sent", arrived.read_to_end(4096)).await.unwrap();
    assert!(got.ends_with(b"still here"));
}
