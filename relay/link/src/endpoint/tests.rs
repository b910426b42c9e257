//! What a peer learns of a server that was killed and started again.

use std::time::Duration;

use noderelay_pki::tls::Party;

use super::*;
use crate::testing::*;
use crate::{Link, Lost};

/// Connects, takes the server away without a word, and starts `next` at its address. Its endpoints are kept by the caller.
async fn restarted(fleet: &Fleet, first: &Party, next: &Party) -> (Link, [Endpoint; 2]) {
    let (server, address) = serve(first);
    let (dialer, addresses) = (fleet.dialer(), [address.to_string()]);
    let (link, _connection) = tokio::join!(soon(dialer.dial(&addresses, RELAY)), crate::testing::next(&server));
    let again = replaced(&server, next, address).await;
    (link.unwrap(), [server, again])
}

/// Takes a server's address away and starts `next` there.
async fn replaced(server: &Endpoint, next: &Party, address: SocketAddr) -> Endpoint {
    // Nothing leaves the old one any more, not even a farewell.
    server.rebind(silent().0).unwrap();
    // The one before is kept until the next.
    server.rebind(silent().0).unwrap();
    soon(async {
        while UdpSocket::bind(address).is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    serve_at(next, address).0
}

#[tokio::test]
async fn a_peer_that_says_something_to_a_restarted_relay_hears_at_once_that_it_is_forgotten() {
    let fleet = Fleet::new();
    let party = fleet.party("relay/r1");
    let (link, _held) = restarted(&fleet, &party, &party.clone()).await;
    let (mut send, _recv) = link.connection.open_bi().await.unwrap();
    send.write_all(b"still there?").await.unwrap();
    let start = tokio::time::Instant::now();
    assert_eq!(Lost::from(&soon(link.connection.closed()).await), Lost::Forgotten);
    // Far below the idle limit: this is what it saves.
    assert!(start.elapsed() < crate::transport::IDLE / 4, "{:?}", start.elapsed());
}

#[tokio::test]
async fn whoever_has_another_key_cannot_end_a_connection() {
    let fleet = Fleet::new();
    let (link, _held) = restarted(&fleet, &fleet.party("relay/r1"), &fleet.party("relay/r1")).await;
    let (mut send, _recv) = link.connection.open_bi().await.unwrap();
    send.write_all(b"still there?").await.unwrap();
    let ended = tokio::time::timeout(Duration::from_millis(700), link.connection.closed()).await;
    assert!(ended.is_err(), "{ended:?}");
}

/// Has a client prove its address to `first`, takes that away before it could read the proof, and starts `next` there; says
/// whether that takes it.
async fn proven_to(fleet: &Fleet, first: &Party, next: &Party) -> bool {
    let (server, address) = serve(first);
    let (dialer, addresses) = (fleet.dialer(), [address.to_string()]);
    let dialling = tokio::spawn(async move { dialer.dial(&addresses, RELAY).await });
    let incoming = soon(server.accept()).await.unwrap();
    assert!(!incoming.remote_address_validated());
    incoming.retry().unwrap();
    let proof = soon(server.accept()).await.unwrap();
    assert!(proof.remote_address_validated());
    proof.ignore();
    let again = replaced(&server, next, address).await;
    let proof = soon(again.accept()).await.unwrap();
    let proven = proof.remote_address_validated();
    drop(proof);
    dialling.abort();
    proven
}

#[tokio::test]
async fn b088_an_address_that_was_proven_to_a_relay_is_proven_to_its_successor() {
    let fleet = Fleet::new();
    let party = fleet.party("relay/r1");
    assert!(proven_to(&fleet, &party, &party.clone()).await);
    assert!(!proven_to(&fleet, &party, &fleet.party("relay/r1")).await);
}
