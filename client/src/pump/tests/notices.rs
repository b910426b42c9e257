//! What the node says beside the session, and what of it is shown.

use noderelay_proto::control::Notice;

use super::*;

fn notice(code: Code, seconds_left: u32, seen: String) -> Notice {
    let code = code.number();
    Notice {
        code,
        seconds_left,
        seen,
    }
}

#[tokio::test]
async fn notices_are_shown_escaped_and_a_flood_of_them_is_bounded() {
    let (stream, mut node) = node();
    let mut here = here(false);
    let script = async {
        for n in 0..1000 {
            let seen = format!("\x1b[2J{n}");
            node.send(notice(Code::SessionDeadline, 300, seen)).await;
        }
        node.exit(0).await;
    };
    let (_, ()) = both(pump(stream, &mut here.local, WINDOW_BULK), script).await;
    drop(here.local);
    let shown = text(here.stderr);
    assert!(
        shown.contains("session.deadline in 5 min") && !shown.contains('\x1b'),
        "{shown}"
    );
}

#[tokio::test]
async fn who_wants_to_hear_little_hears_that_evidence_is_missing() {
    let (stream, mut node) = node();
    let mut here = here(false);
    here.local.quiet = true;
    let script = async {
        for code in [Code::SessionDeadline, Code::RecordingIncomplete] {
            node.send(notice(code, 0, String::new())).await;
        }
        node.exit(0).await;
    };
    let (_, ()) = both(pump(stream, &mut here.local, WINDOW_BULK), script).await;
    drop(here.local);
    let shown = text(here.stderr);
    assert!(
        shown.contains("recording.incomplete") && !shown.contains("session.deadline"),
        "{shown}"
    );
}
