//! Which first packets are taken, and what strangers can make the relay remember.

use std::time::Duration;

use super::*;

const BOUNDS: Bounds = Bounds {
    unproven: 2,
    handshakes: 4,
    failures: Rate {
        burst: 3,
        per_second: 0.5,
    },
};

fn address(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

fn accepted(gate: &Gate, from: IpAddr, proven: bool, now: Instant) -> Handshake {
    match gate.judge(from, proven, now) {
        Verdict::Accept(handshake) => handshake,
        other => panic!("{other:?}"),
    }
}

#[test]
fn b089_under_load_an_address_has_to_be_proven_and_there_is_an_end() {
    let (gate, now) = (Gate::new(BOUNDS), Instant::now());
    let mut held = vec![
        accepted(&gate, address(1), false, now),
        accepted(&gate, address(2), false, now),
    ];
    assert!(matches!(gate.judge(address(3), false, now), Verdict::Retry));
    held.push(accepted(&gate, address(3), true, now));
    held.push(accepted(&gate, address(4), true, now));
    assert!(matches!(gate.judge(address(5), true, now), Verdict::Ignore));
    assert_eq!(gate.under_way(), 4);
    // Each that ends makes room, however it ends.
    held.pop().unwrap().failed(now);
    drop(held);
    assert_eq!(gate.under_way(), 0);
    accepted(&gate, address(6), false, now);
}

#[test]
fn an_address_whose_handshakes_fail_is_refused_until_it_was_quiet_and_others_are_not() {
    let (gate, now) = (Gate::new(BOUNDS), Instant::now());
    for _ in 0..3 {
        accepted(&gate, address(1), true, now).failed(now);
    }
    assert!(matches!(gate.judge(address(1), true, now), Verdict::Refuse));
    accepted(&gate, address(2), true, now);
    // One try comes back every two seconds; it fails, and the next one is refused again.
    let later = now + Duration::from_secs(2);
    accepted(&gate, address(1), true, later).failed(later);
    assert!(matches!(gate.judge(address(1), true, later), Verdict::Refuse));
    // Nothing is kept about it once it has been quiet.
    let much_later = later + Duration::from_secs(60);
    accepted(&gate, address(1), true, much_later);
    assert!(gate.state().failed.is_empty());
}

#[test]
fn a_thousand_agents_behind_one_address_are_welcome() {
    let (gate, now) = (Gate::new(BOUNDS), Instant::now());
    for _ in 0..1_000 {
        drop(accepted(&gate, address(1), true, now));
    }
    assert!(gate.state().failed.is_empty());
}

#[test]
fn one_party_is_an_ipv4_address_or_an_ipv6_network() {
    let parse = |text: &str| -> IpAddr { text.parse().unwrap() };
    assert_eq!(party(parse("2001:db8:1:2:3:4:5:6")), party(parse("2001:db8:1:2::9")));
    assert_ne!(party(parse("2001:db8:1:2::9")), party(parse("2001:db8:1:3::9")));
    assert_eq!(party(parse("::ffff:192.0.2.1")), address(1));
    assert_ne!(party(address(1)), party(address(2)));
}

#[test]
fn failures_from_everywhere_do_not_fill_memory() {
    let (gate, now) = (Gate::new(BOUNDS), Instant::now());
    for number in 0..(3 * MAX_ADDRESSES) {
        let [.., a, b, c] = u32::try_from(number).unwrap().to_be_bytes();
        accepted(&gate, IpAddr::from([10, a, b, c]), true, now).failed(now);
    }
    assert!(gate.state().failed.len() <= MAX_ADDRESSES);
}
