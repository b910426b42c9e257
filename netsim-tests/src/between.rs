//! A network between the parts that looks at every datagram, changes it, or lets it go lost.
//!
//! ```text
//! client ┐
//!        ├→ forwarder (threads of the test; the address in the bundle) → noderelay-relay
//! agent  ┘
//! ```

use std::collections::HashMap;
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use crate::fleet::Fleet;

/// What is done to a datagram that passes; says whether it goes on.
pub type Look = Arc<dyn Fn(&mut [u8]) -> bool + Send + Sync>;

/// A serving fleet whose relay is reached through the forwarder alone. Its threads end with the test's process.
pub fn fleet_behind(look: &Look) -> Fleet {
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
    forward(
        UdpSocket::bind(known).expect("the port in the bundle"),
        real,
        Arc::clone(look),
    );
    fleet.start_relay();
    fleet.start_agent();
    fleet
}

fn forward(front: UdpSocket, real: SocketAddr, look: Look) {
    std::thread::spawn(move || {
        let mut known: HashMap<SocketAddr, UdpSocket> = HashMap::new();
        let mut buffer = [0; 65536];
        loop {
            let Ok((n, from)) = front.recv_from(&mut buffer) else {
                continue;
            };
            let back = known.entry(from).or_insert_with(|| answers(&front, from, real, &look));
            if look(&mut buffer[..n]) {
                let _ = back.send(&buffer[..n]);
            }
        }
    });
}

/// A socket of its own towards the relay for each peer, whose answers go back to that peer.
fn answers(front: &UdpSocket, to: SocketAddr, real: SocketAddr, look: &Look) -> UdpSocket {
    let back = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    back.connect(real).expect("an address");
    let copy = |socket: &UdpSocket| socket.try_clone().expect("a descriptor");
    let (reader, front, look) = (copy(&back), copy(front), Arc::clone(look));
    std::thread::spawn(move || {
        let mut buffer = [0; 65536];
        loop {
            let Ok(n) = reader.recv(&mut buffer) else { continue };
            if look(&mut buffer[..n]) {
                let _ = front.send_to(&buffer[..n], to);
            }
        }
    });
    back
}
