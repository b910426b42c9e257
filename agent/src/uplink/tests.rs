//! What an agent makes of a relay's words, with the relay's side of the link played by the test.

use noderelay_proto::control::Registered;

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
    report(&registered(false), "r1", &said);
    report(&registered(true), "r2", &said);
    report(&ToAgent::Pong(1), "r1", &said);
    drop(said);
    assert_eq!(heard.recv().await, Some(Said::Attached("r1".into())));
    assert_eq!(heard.recv().await, Some(Said::Parked("r2".into())));
    assert_eq!(heard.recv().await, None);
}
