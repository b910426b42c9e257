//! B071: the port, or the address, from which a client or an agent is seen changes in mid-session.

use std::io::Write as _;
use std::net::Ipv4Addr;
use std::time::Duration;

use netsim_tests::admin::ask;
use netsim_tests::middleman::{Middleman, Way};
use netsim_tests::process::eventually;
use netsim_tests::told::Told;

use crate::setup::Net;

/// How often a NAT thinks of another port.
const EVERY: Duration = Duration::from_millis(300);
/// 5 MB, in pieces over some seconds.
const LINE: &str = "i=0; while [ $i -lt 14 ]; do seq 1 65000; sleep 0.25; i=$((i+1)); done";

fn wanted() -> Vec<u8> {
    let piece: String = (1..=65_000).map(|n| format!("{n}\n")).collect();
    piece.repeat(14).into_bytes()
}

fn assert_whole(told: &Told) {
    told.assert_exit(0);
    let wanted = wanted();
    assert!(wanted.len() > 5_000_000);
    assert!(
        told.output.stdout == wanted,
        "{} bytes of {}",
        told.output.stdout.len(),
        wanted.len()
    );
}

#[test]
fn b071_a_session_goes_on_while_its_clients_port_changes_again_and_again() {
    let net = Net::serving("", "");
    net.client.rebind_every(EVERY);
    assert_whole(&Told::of(net.client(), &["sh", "-c", LINE]));
    // Whoever only listens is heard from its new port with its next keepalive, and nothing reaches it until then.
    assert!(net.client.mappings() > 1, "{} ports", net.client.mappings());
    // It was one connection all along, from one socket.
    assert_eq!(net.client.peers(), 1);
}

/// Here the client has something to send all the time, and comes from each of its ports.
#[test]
fn b071_a_session_with_input_goes_on_while_its_clients_port_changes_again_and_again() {
    let net = Net::serving("", "");
    net.client.rebind_every(EVERY);
    let piece = vec![b'x'; 20_000];
    let told = Told::fed(net.client(), &["wc", "-c"], |input| {
        for _ in 0..250 {
            input.write_all(&piece).unwrap();
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    told.assert_exit(0);
    assert_eq!(told.output.stdout, b"5000000\n");
    assert!(net.client.mappings() > 5, "{} ports", net.client.mappings());
    assert_eq!(net.client.peers(), 1);
}

#[test]
fn b071_a_session_goes_on_while_its_agents_port_changes_again_and_again() {
    let net = Net::serving("", "");
    net.agent.rebind_every(EVERY);
    assert_whole(&Told::of(net.client(), &["sh", "-c", LINE]));
    assert!(net.agent.mappings() > 5, "{} ports", net.agent.mappings());
    assert_eq!((net.agent.peers(), net.attached()), (1, 1));
}

/// Gives those behind it another address, and waits until they are heard from there.
fn moves(middleman: &Middleman, host: Ipv4Addr) {
    let before = middleman.mappings();
    middleman.rebind_to(host);
    eventually("it is heard from its new address", || middleman.mappings() > before);
    let passed = middleman.passed(Way::ToPeer);
    eventually("it is answered there", || middleman.passed(Way::ToPeer) > passed + 20);
}

#[test]
fn b071_a_session_goes_on_when_client_and_agent_come_from_other_addresses() {
    let net = Net::serving("", "");
    let line = format!("echo begun; {LINE}");
    let told = Told::after_begun(net.client(), &line, || {
        for last in [2, 3] {
            moves(&net.client, Ipv4Addr::new(127, 0, 0, last));
            moves(&net.agent, Ipv4Addr::new(127, 0, 0, last));
        }
    });
    told.assert_exit(0);
    assert!(told.output.stdout == [b"begun\n".to_vec(), wanted()].concat());
    assert_eq!((net.client.peers(), net.agent.peers(), net.attached()), (1, 1, 1));
}

/// Somebody beside the path repeats packets from an address of his own, sooner than they come by themselves or later.
#[test]
fn b071_copies_from_beside_the_path_do_not_move_a_session() {
    let net = Net::serving("", "");
    let (thief, other_thief) = (Ipv4Addr::new(127, 0, 0, 66), Ipv4Addr::new(127, 0, 0, 67));
    net.agent.copy_from(thief, 20);
    net.client.copy_from(other_thief, 20);
    assert_whole(&Told::of(net.client(), &["sh", "-c", LINE]));
    assert!(net.agent.copied() > 10 && net.client.copied() > 10);
    assert_eq!((net.client.peers(), net.agent.peers(), net.attached()), (1, 1, 1));
    let seen = net.agent.seen_at().unwrap().to_string();
    eventually("the relay sees the agent where it is", || {
        ask(&net.relay_socket(), "GET /agents", "").1.contains(&seen)
    });
}
