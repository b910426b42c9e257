//! What an agent makes of a relay's words, and how long it waits before it dials again. Links are tested with real relays.

use noderelay_proto::control::{Drain, Registered};

use super::*;

fn registered(parked: bool) -> ToAgent {
    Registered {
        parked,
        ..Registered::default()
    }
    .into()
}

#[tokio::test]
async fn the_wiring_hears_what_a_registration_came_to() {
    let (said, mut heard) = mpsc::channel(4);
    report(registered(false), "r1", &said);
    report(registered(true), "r2", &said);
    report(Drain::default().into(), "r1", &said);
    drop(said);
    assert_eq!(heard.recv().await, Some(Said::Attached("r1".into())));
    assert_eq!(heard.recv().await, Some(Said::Parked("r2".into())));
    assert_eq!(heard.recv().await, None);
}

#[test]
fn agents_that_lost_a_relay_together_come_back_apart() {
    let wait = Duration::from_secs(8);
    let waits: Vec<_> = (0..200).map(|_| jittered(wait)).collect();
    assert!(
        waits.iter().all(|w| (wait * 3 / 4..wait * 5 / 4).contains(w)),
        "{waits:?}"
    );
    assert!(waits.iter().any(|w| *w != waits[0]));
}
