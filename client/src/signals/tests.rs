//! What each signal does, with and without a terminal.

use noderelay_proto::control::SignalName;

use super::{Caught, Reaction, Reactions};

#[test]
fn without_a_terminal_signals_go_to_the_command_and_the_second_leaves() {
    for (caught, sent) in [
        (Caught::Int, SignalName::Int),
        (Caught::Term, SignalName::Term),
        (Caught::Hup, SignalName::Hup),
        (Caught::Quit, SignalName::Quit),
    ] {
        let mut reactions = Reactions::new(false, false);
        assert_eq!(reactions.on(Caught::Usr1), Reaction::Forward(SignalName::Usr1));
        assert_eq!(reactions.on(caught), Reaction::Forward(sent));
        assert_eq!(reactions.on(Caught::Winch), Reaction::Ignore);
        assert_eq!(reactions.on(Caught::Int), Reaction::Leave);
    }
}

#[test]
fn with_a_terminal_term_and_hup_leave_at_once() {
    let mut reactions = Reactions::new(true, true);
    assert_eq!(reactions.on(Caught::Int), Reaction::Forward(SignalName::Int));
    assert_eq!(reactions.on(Caught::Int), Reaction::Forward(SignalName::Int));
    assert_eq!(reactions.on(Caught::Winch), Reaction::Resize);
    assert_eq!(reactions.on(Caught::Cont), Reaction::Resize);
    assert_eq!(reactions.on(Caught::Term), Reaction::Leave);
    assert_eq!(reactions.on(Caught::Hup), Reaction::Leave);
}

/// A terminal at the far end alone: there is no key here that leaves.
#[test]
fn without_keys_the_second_signal_leaves_a_terminal_too() {
    let mut reactions = Reactions::new(true, false);
    assert_eq!(reactions.on(Caught::Int), Reaction::Forward(SignalName::Int));
    assert_eq!(reactions.on(Caught::Winch), Reaction::Resize);
    assert_eq!(reactions.on(Caught::Int), Reaction::Leave);
}
