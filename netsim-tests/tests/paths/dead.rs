//! B074, B075: paths that carry nothing any more, in one direction or in both, from one port or at all.

use netsim_tests::fleet::Fleet;
use netsim_tests::middleman::{Middleman, Way};
use netsim_tests::process::eventually;
use netsim_tests::told::Told;

use crate::setup::{Net, append};

const BOTH: &[Way] = &[Way::ToServer, Way::ToPeer];
const DEATHS: [&[Way]; 3] = [BOTH, &[Way::ToServer], &[Way::ToPeer]];

/// An agent with two ways to its relay, of which it uses one: gives the one that it uses, and the other.
fn two_ways(fleet: &mut Fleet, quic: &str) -> (Middleman, Middleman) {
    let relay = fleet.address().parse().unwrap();
    let (one, other) = (Middleman::before(relay), Middleman::before(relay));
    append(fleet.layout.relay(), &format!("quic: {{{quic}}}"));
    let relays = format!(
        "quic: {{{quic}}}\nrelays: [\"{}\", \"{}\"]",
        one.address(),
        other.address()
    );
    append(fleet.layout.agent(), &relays);
    fleet.start_relay();
    fleet.start_agent();
    if one.passed(Way::ToPeer) > 0 {
        (one, other)
    } else {
        (other, one)
    }
}

#[test]
fn b075_an_agent_leaves_a_dead_path_for_another_whichever_direction_died() {
    std::thread::scope(|scope| {
        for ways in DEATHS {
            scope.spawn(move || {
                let mut fleet = Fleet::files("relays: 1, redial_max: 500ms");
                let (used, other) = two_ways(&mut fleet, "keepalive: 300ms, idle: 2s");
                Told::of(fleet.client(), &["true"]).assert_exit(0);
                assert_eq!(other.passed(Way::ToPeer), 0);
                used.block(ways);
                eventually("the agent is attached by the other way", || {
                    fleet.logs().matches("agent attached").count() > 1
                });
                assert!(other.passed(Way::ToPeer) > 0, "{ways:?}");
                Told::of(fleet.client(), &["true"]).assert_exit(0);
            });
        }
    });
}

/// A NAT, or a firewall, that lets nothing through any more of what comes from one port.
#[test]
fn b074_an_agent_whose_port_is_dead_comes_from_another_one() {
    let net = Net::serving("keepalive: 300ms, idle: 1s", "redial_max: 500ms");
    Told::of(net.client(), &["true"]).assert_exit(0);
    assert_eq!(net.agent.peers(), 1);
    net.agent.bury();
    eventually("the agent is attached from another port", || net.attached() > 1);
    assert!(net.agent.peers() > 1);
    Told::of(net.client(), &["true"]).assert_exit(0);
}
