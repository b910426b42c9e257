//! What a session leaves behind: its status, and what the user has to be told.

use std::time::Duration;

use noderelay_proto::code::{Code, Origin};

use super::{SessionOptions, banner};
use crate::exit::Remote;
use crate::faults::Fault;
use crate::message::{About, Message};
use crate::pump::Ended;
use crate::signals::Caught;
use crate::status::Status;

/// Notes in `status` how a session ended; gives what has to be said. Without its client the node lets the command live on
/// for `window`.
pub(super) fn ended(ended: &Ended, window: Duration, options: &SessionOptions, status: &mut Status) -> Option<Message> {
    match ended {
        Ended::Exit(remote) => {
            status.origin = Origin::Remote.name();
            status.exit_code = remote.exit_code();
            if let Remote::Signal { number, .. } = remote {
                status.signal = Some(*number);
            }
            let note = remote.note()?;
            Some(Message::from(Code::Ok, Origin::Remote, &note, about(options, status)))
        }
        Ended::Closed(fault) => Some(failed(fault, options, status)),
        Ended::Fault(fault) => {
            let mut fault = fault.clone();
            if fault.is_transport() && !window.is_zero() {
                fault.seen = format!(
                    "{}; the node hangs the command up after {}",
                    fault.seen.trim_end_matches('.'),
                    banner::words(window)
                );
            }
            Some(failed(&fault, options, status))
        }
        Ended::Left => {
            failed(&Fault::new(Code::SessionLeft, Origin::Client, ""), options, status);
            (!options.quiet).then(|| {
                Message::new(
                    Code::SessionLeft,
                    "the session was left with the local key",
                    about(options, status),
                )
            })
        }
        Ended::Signalled(caught) => Some(interrupted(*caught, options, status)),
        // As usual in a pipeline whose reader has enough: nothing is said.
        Ended::OutputClosed => {
            let fault = Fault::new(Code::ClientLocalIo, Origin::Client, "nobody reads the output any more");
            let message = failed(&fault, options, status);
            options.verbose.then_some(message)
        }
    }
}

/// Notes a failure; gives its message.
pub(super) fn failed(fault: &Fault, options: &SessionOptions, status: &mut Status) -> Message {
    status.code = fault.code.name();
    status.origin = fault.origin.name();
    status.exit_code = crate::exit::FAILED;
    Message::from(fault.code, fault.origin, &fault.seen, about(options, status))
}

/// Notes that a signal ended the client; gives the message.
pub(super) fn interrupted(caught: Caught, options: &SessionOptions, status: &mut Status) -> Message {
    let seen = format!("ended by {}", caught.name());
    failed(
        &Fault::new(Code::ClientInterrupted, Origin::Client, seen),
        options,
        status,
    )
}

fn about<'a>(options: &'a SessionOptions, status: &Status) -> About<'a> {
    About {
        node: &options.node,
        open: status.session.is_some(),
    }
}

/// A note about the remote command has no fix: it is one line.
pub(super) fn message_lines(message: &Message, status: &Status) -> String {
    if status.origin == Origin::Remote.name() || message.code == Code::SessionLeft {
        return format!("noderelay: {}\n", message.seen);
    }
    message.lines("\n")
}

/// Writes to standard error. When nobody reads it, there is nobody to tell.
pub(super) fn say(text: &str) {
    use std::io::Write;
    let _ = std::io::stderr().write_all(text.as_bytes());
}
