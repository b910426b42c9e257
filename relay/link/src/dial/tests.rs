//! Dialling over real sockets: dead addresses, dead names, wrong peers.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use noderelay_proto::version::Version;
use tokio::time::Instant;

use super::*;
use crate::testing::*;

const MS: Duration = Duration::from_millis(1);

fn given(addresses: &[&dyn ToString]) -> Vec<String> {
    addresses.iter().map(|address| address.to_string()).collect()
}

async fn failed(dialer: &Dialer, addresses: &[String]) -> (DialError, Vec<String>) {
    let error = soon(dialer.dial(addresses, RELAY))
        .await
        .map(|link| link.remote)
        .unwrap_err();
    let lines = error.to_string().lines().map(str::to_owned).collect();
    (error, lines)
}

#[tokio::test]
async fn a_link_knows_its_peer_and_version() {
    let fleet = Fleet::new();
    let (relay, address) = fleet.relay("relay/r1");
    let dialer = fleet.dialer();
    let addresses = given(&[&address]);
    let (link, connection) = tokio::join!(soon(dialer.dial(&addresses, RELAY)), next(&relay));
    let link = link.unwrap();
    assert_eq!(
        link.peer.identity().to_string(),
        "spiffe://fleet.example/cluster/east/relay/r1"
    );
    assert_eq!((link.version, link.remote), (Version::V1, address));
    let client = crate::accepted(&connection, &fleet.party("relay/r1"), &USERS, Timestamp::now()).unwrap();
    assert_eq!(
        client.identity().to_string(),
        "spiffe://fleet.example/cluster/east/user/alice"
    );
    // The same connection in a place for relays only.
    assert!(crate::accepted(&connection, &fleet.party("relay/r1"), &RELAY, Timestamp::now()).is_err());
}

#[tokio::test]
async fn b081_every_address_is_tried_and_a_dead_one_costs_a_stagger() {
    let fleet = Fleet::new();
    let (relay, address) = fleet.relay("relay/r1");
    let (_held, dead) = silent();
    let lookup: crate::resolve::Lookup = Arc::new(move |host, _| match host {
        "several.example" => Ok(vec![dead, address]),
        _ => Err(io::Error::other("no such name")),
    });
    let dialer = fleet
        .dialer()
        .resolver(Resolver::new(lookup, 500 * MS))
        .stagger(20 * MS);
    for addresses in [
        given(&[&dead, &address]),
        given(&[&"nowhere.example:443", &"not an address", &dead, &address]),
        given(&[&"several.example:443"]),
    ] {
        let start = Instant::now();
        let (link, _accepted) = tokio::join!(soon(dialer.dial(&addresses, RELAY)), next(&relay));
        assert_eq!(link.unwrap().remote, address);
        assert!(start.elapsed() < ATTEMPT, "waited for the dead address");
    }
}

#[tokio::test]
async fn b081_names_are_resolved_anew_and_the_last_good_answer_is_the_fallback() {
    let fleet = Fleet::new();
    let (old, old_address) = fleet.relay("relay/r1");
    let (new, new_address) = fleet.relay("relay/r1");
    let answer = Arc::new(Mutex::new(Some(old_address)));
    let asked = Arc::new(AtomicUsize::new(0));
    let (answers, count) = (Arc::clone(&answer), Arc::clone(&asked));
    let lookup: crate::resolve::Lookup = Arc::new(move |_, _| {
        count.fetch_add(1, Ordering::SeqCst);
        answers
            .lock()
            .unwrap()
            .map(|address| vec![address])
            .ok_or_else(|| io::Error::other("server failure"))
    });
    let dialer = fleet.dialer().resolver(Resolver::new(lookup, 500 * MS));
    let name = given(&[&"relay.example:443"]);

    let (link, _first) = tokio::join!(soon(dialer.dial(&name, RELAY)), next(&old));
    assert_eq!(link.unwrap().remote, old_address);
    // The relay moves: the next dial goes to the new address.
    *answer.lock().unwrap() = Some(new_address);
    let (link, _second) = tokio::join!(soon(dialer.dial(&name, RELAY)), next(&new));
    assert_eq!(link.unwrap().remote, new_address);
    // DNS goes down: the last good answer serves.
    *answer.lock().unwrap() = None;
    let (link, _third) = tokio::join!(soon(dialer.dial(&name, RELAY)), next(&new));
    assert_eq!(link.unwrap().remote, new_address);
    assert_eq!(asked.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn b081_a_hung_resolver_holds_nothing_up() {
    let fleet = Fleet::new();
    let (relay, address) = fleet.relay("relay/r1");
    let (release, hold) = std::sync::mpsc::channel::<()>();
    let hold = Mutex::new(hold);
    let lookup: crate::resolve::Lookup = Arc::new(move |_, _| {
        // Until the test ends.
        let _ = hold.lock().unwrap().recv();
        Err(io::Error::other("too late"))
    });
    let dialer = fleet.dialer().resolver(Resolver::new(lookup, 100 * MS));
    let addresses = given(&[&"hung.example:443", &address]);
    let (link, _accepted) = tokio::join!(soon(dialer.dial(&addresses, RELAY)), next(&relay));
    link.unwrap();
    let (error, lines) = failed(&dialer, &addresses[..1]).await;
    assert!(
        lines[1].contains("hung.example:443: the name was not resolved within 0.1 s"),
        "{lines:?}"
    );
    assert_eq!(error.code(), Code::TransportNames);
    drop(release);
}

#[tokio::test]
async fn b082_every_attempt_is_bounded_and_every_address_is_named() {
    let fleet = Fleet::new();
    let (_a, first) = silent();
    let (_b, second) = silent();
    let dialer = fleet.dialer().attempt_limit(150 * MS).stagger(10 * MS);
    let start = Instant::now();
    let (error, lines) = failed(&dialer, &given(&[&first, &second, &"x"])).await;
    assert!(start.elapsed() < Duration::from_secs(5));
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert!(lines[0].contains("none of 3 addresses"), "{lines:?}");
    for address in [first, second] {
        assert!(
            lines
                .iter()
                .any(|line| line.contains(&format!("{address}: no complete answer within 0.15 s"))),
            "{lines:?}"
        );
    }
    assert!(
        lines
            .iter()
            .any(|line| line.contains("x: not an address: write HOST:PORT")),
        "{lines:?}"
    );
    assert_eq!(error.code(), Code::TransportTimeout);
}

#[tokio::test]
async fn whoever_answers_must_be_the_right_one() {
    let fleet = Fleet::new();
    let (node, node_address) = fleet.relay("node/n1");
    let (other, other_address) = Fleet::new().relay("relay/r1");
    let _both = [accept_all(&node), accept_all(&other)];
    let dialer = fleet.dialer();
    let (error, _) = failed(&dialer, &given(&[&node_address])).await;
    let DialError::AllFailed(attempts) = &error else {
        panic!("{error}")
    };
    assert!(
        matches!(
            attempts[0].cause,
            Cause::Peer(PeerRefused::WrongRole {
                seen: noderelay_pki::RoleKind::Node,
                ..
            })
        ),
        "{error}"
    );
    assert_eq!(error.code(), Code::TransportTls);
    let (error, _) = failed(&dialer, &given(&[&other_address])).await;
    assert!(
        error.to_string().contains("no CA of the fleet signed the certificate"),
        "{error}"
    );

    let (relay, address) = fleet.relay("relay/r1");
    let _serving = accept_all(&relay);
    let west = Expect::Relay {
        cluster: Some("west".parse().unwrap()),
    };
    let error = soon(dialer.dial(&given(&[&address]), west))
        .await
        .map(|link| link.remote)
        .unwrap_err();
    assert!(
        error.to_string().contains("instead of a relay of cluster west"),
        "{error}"
    );
}

#[tokio::test]
async fn a_relay_that_does_not_know_us_says_so() {
    let fleet = Fleet::new();
    // It shows a certificate that we trust, and trusts another CA than ours.
    let party = fleet.party("relay/r1");
    party.trust.set(Fleet::new().trust());
    let (relay, address) = serve(&party);
    let refused = tokio::spawn(async move { relay.accept().await.unwrap().await.unwrap_err() });
    let link = soon(fleet.dialer().dial(&given(&[&address]), RELAY)).await.unwrap();
    // From the client's side the handshake was complete; the refusal comes a moment later.
    soon(link.connection.closed()).await;
    assert_eq!(link.lost(), Some(Lost::Alert(40)));
    assert!(
        link.lost()
            .unwrap()
            .to_string()
            .contains("our certificate is not accepted")
    );
    let seen = Lost::from(&soon(refused).await.unwrap());
    assert!(
        matches!(&seen, Lost::Handshake(text) if text.contains("no CA of the fleet signed")),
        "{seen}"
    );
}

#[tokio::test]
async fn our_own_expired_certificate_is_named_before_anything_is_dialled() {
    let fleet = Fleet::new();
    let party = fleet.party("user/alice");
    party
        .credentials
        .set(fleet.credentials("user/alice", Duration::from_secs(13 * 3600), 0));
    let dialer = Dialer::new(party, crate::client_transport());
    let (error, lines) = failed(&dialer, &given(&[&"127.0.0.1:1"])).await;
    assert!(
        lines[0].contains("our own certificate") && lines[0].contains("expired"),
        "{lines:?}"
    );
    assert_eq!(error.code(), Code::IdentityExpired);
    let error = fleet
        .dialer()
        .dial(&[], RELAY)
        .await
        .map(|link| link.remote)
        .unwrap_err();
    assert_eq!(
        (error.code(), error.to_string().as_str()),
        (Code::TransportNoRelay, "no relay address is known")
    );
}

#[tokio::test]
async fn a_certificate_with_all_groups_fits_through_the_handshake() {
    let fleet = Fleet::new();
    let (relay, address) = fleet.relay("relay/r1");
    let party = fleet.party("user/alice");
    party
        .credentials
        .set(fleet.credentials("user/alice", Duration::ZERO, 128));
    let dialer = Dialer::new(party, crate::client_transport());
    let addresses = given(&[&address]);
    let (link, connection) = tokio::join!(soon(dialer.dial(&addresses, RELAY)), next(&relay));
    link.unwrap();
    let client = crate::accepted(&connection, &fleet.party("relay/r1"), &USERS, Timestamp::now()).unwrap();
    assert_eq!(client.groups().len(), 128);
}

#[tokio::test]
async fn addresses_that_are_none() {
    let resolver = Resolver::new(Arc::new(|_, _| Ok(vec![])), 100 * MS);
    for bad in [
        "",
        ":443",
        "host",
        "host:",
        "host:0x1",
        "host:65536",
        "::1:443",
        "[::1]",
        "[::1:443",
        "a]b:1",
    ] {
        assert_eq!(resolver.resolve(bad).await, Err(ResolveError::Form), "{bad}");
    }
    assert_eq!(resolver.resolve("[::1]:443").await.unwrap().len(), 1);
    assert_eq!(resolver.resolve("10.0.0.1:443").await.unwrap().len(), 1);
    assert!(matches!(
        resolver.resolve("empty.example:443").await,
        Err(ResolveError::Failed(_))
    ));
    // Both families take turns.
    let mixed: Vec<SocketAddr> = ["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1", "2.2.2.2:1"]
        .iter()
        .map(|a| a.parse().unwrap())
        .collect();
    let resolver = Resolver::new(Arc::new(move |_, _| Ok(mixed.clone())), 500 * MS);
    let order: Vec<bool> = resolver
        .resolve("x:1")
        .await
        .unwrap()
        .iter()
        .map(SocketAddr::is_ipv6)
        .collect();
    assert_eq!(order, [true, false, true, false, true]);
}

#[tokio::test]
async fn an_address_leads_to_the_relay_of_the_fleet_file_or_nowhere() {
    let fleet = Fleet::new();
    let party = fleet.party("relay/r1");
    let key = {
        let chain = party.credentials.get().chain().to_vec();
        let peer = party.peer(Some(&chain), noderelay_pki::Usage::Server, &RELAY, Timestamp::now());
        peer.unwrap().key_fingerprint().to_owned()
    };
    let (relay, address) = serve(&party);
    let _serving = accept_all(&relay);
    let door = |name: &str, key: Option<String>| {
        let identity = format!("spiffe://fleet.example/cluster/east/relay/{name}");
        let identity = noderelay_pki::Identity::parse(&identity).unwrap();
        vec![(address.to_string(), Expect::ThisRelay { identity, key })]
    };
    for (doors, seen) in [
        (
            door("r2", None),
            "reached spiffe://fleet.example/cluster/east/relay/r1 instead of",
        ),
        (
            door("r1", Some("ab".repeat(32))),
            "instead of spiffe://fleet.example/cluster/east/relay/r1 with key abab",
        ),
    ] {
        let error = soon(fleet.dialer().dial_each(&doors)).await.map(drop).unwrap_err();
        assert_eq!(error.code(), Code::IdentityWrongName, "{error}");
        assert!(error.to_string().contains(seen), "{error}");
    }
    for doors in [door("r1", None), door("r1", Some(key))] {
        drop(soon(fleet.dialer().dial_each(&doors)).await.unwrap());
    }
}
