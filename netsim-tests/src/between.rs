//! A serving fleet whose relay is reached through a [middleman](crate::middleman) alone.
//!
//! ```text
//! client ┐
//!        ├→ middleman (the address in the bundle) → noderelay-relay
//! agent  ┘
//! ```

use std::fs;
use std::net::{SocketAddr, UdpSocket};

use crate::fleet::Fleet;
use crate::middleman::{Look, Middleman};

/// The fleet, and what stands before its relay and looks at every datagram.
pub fn fleet_behind(look: &Look) -> (Fleet, Middleman) {
    let mut fleet = Fleet::files("");
    let config = fleet.layout.relay();
    let text = fs::read_to_string(&config).expect("the relay's configuration");
    let known: SocketAddr = text
        .split(|c: char| !(c.is_ascii_digit() || c == '.' || c == ':'))
        .find_map(|word| word.parse().ok())
        .expect("the relay's address in its configuration");
    let real = UdpSocket::bind("127.0.0.1:0")
        .and_then(|s| s.local_addr())
        .expect("a free port");
    fs::write(&config, text.replace(&known.to_string(), &real.to_string())).expect("the relay's configuration");
    let middleman = Middleman::at(UdpSocket::bind(known).expect("the port in the bundle"), real);
    middleman.look(look);
    fleet.start_relay();
    fleet.start_agent();
    (fleet, middleman)
}
