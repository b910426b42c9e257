//! Every code has a fix, and what came from elsewhere is shown escaped and cut.

use noderelay_proto::code::{Code, Origin};

use super::{About, Message, one_line};

const NODE: About<'static> = About {
    node: "gpu-7",
    open: true,
};

#[test]
fn every_code_has_a_fix_and_two_lines() {
    for &code in Code::ALL {
        let message = Message::new(code, "what was seen", NODE);
        let lines: Vec<_> = message.lines("\n").lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), 2, "{code:?}");
        assert_eq!(lines[0], format!("noderelay: {}: what was seen", code.name()));
        assert!(
            lines[1].starts_with("  ") && lines[1].len() > 12 && lines[1].len() < 220,
            "{code:?}: {}",
            lines[1]
        );
    }
    assert!(
        Message::new(Code::Unknown(77), "", NODE)
            .lines("\n")
            .contains("unknown (77)")
    );
}

#[test]
fn text_from_elsewhere_is_escaped_and_cut() {
    let message = Message::from(
        Code::PolicyDenied,
        Origin::Agent,
        &format!("\x1b]0;title\x07\u{202e}{}", "a".repeat(5000)),
        About {
            node: "\x1b[2J",
            open: true,
        },
    );
    let lines = message.lines("\n");
    assert!(!lines.contains('\x1b') && !lines.contains('\u{202e}') && !lines.contains('\x07'));
    assert!(lines.len() < 700, "{}", lines.len());
}

#[test]
fn without_anything_seen_the_summary_stands_there() {
    assert_eq!(
        Message::new(Code::SessionIdle, "", NODE).seen,
        Code::SessionIdle.summary()
    );
}

#[test]
fn raw_terminals_get_carriage_returns() {
    assert!(
        Message::new(Code::SessionIdle, "x", NODE)
            .lines("\r\n")
            .ends_with("\r\n")
    );
}

#[test]
fn a_list_of_ours_becomes_one_line() {
    for (text, line) in [
        (
            "none could be reached\n  a:1: refused\n  b:1: silent\n",
            "none could be reached: a:1: refused; b:1: silent",
        ),
        ("bad:\n x", "bad: x"),
        ("plain", "plain"),
        ("", ""),
    ] {
        assert_eq!(one_line(text), line);
    }
}

#[test]
fn an_open_session_that_falls_silent_is_not_blamed_on_a_firewall_and_an_interrupted_opening_is_not_called_nothing() {
    for code in [Code::TransportTimeout, Code::ProtocolTimeout] {
        assert!(Message::new(code, "", NODE).fix.contains("may still run"), "{code:?}");
        assert!(
            Message::new(code, "", About { open: false, ..NODE })
                .fix
                .contains("UDP")
        );
    }
    let opening = Message::new(Code::ClientInterrupted, "", About { open: false, ..NODE });
    assert!(opening.fix.contains("what the node began"), "{}", opening.fix);
}

#[test]
fn a_session_that_was_never_open_leaves_no_question_how_its_command_ended() {
    let never = About { open: false, ..NODE };
    for code in [Code::TransportLost, Code::TransportClosed, Code::TransportReset] {
        assert!(Message::new(code, "", NODE).fix.contains("may still run"));
        let fix = Message::new(code, "", never).fix;
        assert!(
            fix.contains("No session was opened") && fix.contains("--relay"),
            "{fix}"
        );
    }
}
