//! B082: relays that take packets and never answer, and relays that finish the handshake and then say nothing.

use std::net::UdpSocket;

use netsim_tests::fleet::Fleet;
use netsim_tests::liar::{Peer, liar};
use netsim_tests::told::Told;

use crate::setup::append;

#[test]
fn b082_silent_relays_keep_an_agent_and_a_client_from_no_other() {
    let mut fleet = Fleet::files("relays: 1, registration: 500ms");
    let void = UdpSocket::bind("127.0.0.1:0").unwrap();
    let void = void.local_addr().map(|address| (void, address.to_string())).unwrap();
    let mute = liar(&fleet, |knock| async move {
        // The handshake is finished, and that was all.
        let Some(Peer::Agent(connection, _) | Peer::Client(connection, _)) = knock.accept().await else {
            return;
        };
        connection.closed().await;
    });
    let (honest, mute_address) = (fleet.address(), mute.address.to_string());
    // An agent begins with another one than the first, by its name: here with the one that never answers.
    let relays = [&honest, &void.1, &mute_address];
    append(fleet.layout.agent(), &format!("relays: {relays:?}"));
    fleet.start_relay();
    fleet.start_agent();
    assert!(mute.knocks() > 0, "the agent never tried the silent ones");
    let knocks = mute.knocks();
    let mut client = fleet.client();
    for relay in [&void.1, &mute_address, &honest] {
        client.args(["--relay", relay]);
    }
    Told::of(client, &["true"]).assert_exit(0);
    assert!(mute.knocks() > knocks, "the client never tried the silent ones");
}
