//! Fuzz bodies: what a node, a relay or the warm process says, what is typed, and the configuration. They never panic, and
//! nothing that a peer says reaches the terminal unescaped, other than the output of the remote command.
//!
//! Plain functions over any bytes: ordinary tests run them over `client/corpus/` and over mutated input, a fuzzer over anything.

use std::io::{self, Read as _};
use std::path::Path;

use bytes::Bytes;
use jiff::Timestamp;
use noderelay_pki::text::is_invisible;
use noderelay_proto::code::{Code, Origin};
use noderelay_proto::{Frames, FromWarm, ToClient};

use crate::config::{Config, Places, is_address};
use crate::escape::{DEFAULT, Event, Keys};
use crate::exit::Remote;
use crate::faults::Fault;
use crate::message::{About, Message, one_line};
use crate::modes::{Modes, Tracker};
use crate::pump::report;
use crate::screen::{Screen, Side};
use crate::session::banner;
use crate::stdio::Output;
use crate::warm::carried;
use crate::warm::shown::Shown;

/// What is typed, cut anywhere: the same keys, and every byte that is no local key goes to the node.
pub fn keys(bytes: &[u8]) {
    assert_eq!(
        events(None, bytes, bytes.len().max(1)),
        sent(bytes),
        "without a key everything is sent"
    );
    for escape in [DEFAULT, b'\r', b'.'] {
        let whole = events(Some(escape), bytes, bytes.len().max(1));
        assert_eq!(whole, events(Some(escape), bytes, 1), "the cut makes no difference");
        let length: usize = whole
            .iter()
            .map(|event| if let Event::Send(bytes) = event { bytes.len() } else { 2 })
            .sum();
        assert!(length <= bytes.len(), "nothing is made up");
        if !bytes.contains(&escape) {
            assert_eq!(whole, sent(bytes), "everything is sent");
        }
    }
}

/// Output for the terminal, cut anywhere: the same modes are on, and the reset leaves none on.
pub fn modes(bytes: &[u8]) {
    let modes = Modes::default();
    let mut tracker = Tracker::new(modes.clone());
    tracker.feed(bytes);
    let reset = modes.reset();
    let cut = Modes::default();
    let mut piecewise = Tracker::new(cut.clone());
    bytes.chunks(1).for_each(|byte| piecewise.feed(byte));
    assert_eq!(reset, cut.reset(), "the cut makes no difference");
    tracker.feed(&reset);
    assert_eq!(modes.reset(), b"", "the reset leaves nothing on: {reset:?}");
}

/// Output of a node and lines of ours on their way to two pipes, as an order, a length and bytes each: everything arrives in its
/// order, and counts once.
pub fn screen(bytes: &[u8]) {
    // Less than a pipe holds, so that nobody has to read meanwhile.
    let bytes = bytes.get(..bytes.len().min(16 * 1024)).unwrap_or_default();
    let shown = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .and_then(|runtime| runtime.block_on(show(bytes)));
    assert!(shown.is_ok(), "pipes take it: {shown:?}");
}

async fn show(bytes: &[u8]) -> io::Result<()> {
    let (mut out, out_end) = io::pipe()?;
    let (mut err, err_end) = io::pipe()?;
    let mut screen = Screen::new(
        Output::new(out_end.into()),
        Output::new(err_end.into()),
        Some(Tracker::new(Modes::default())),
    );
    let (mut expected, mut lines, mut units) = ([Vec::new(), Vec::new()], 0, 0);
    let mut rest = bytes;
    while let [order, length, more @ ..] = rest {
        let (part, more) = more.split_at(usize::from(*length).min(more.len()));
        rest = more;
        let [out, err] = &mut expected;
        match order % 4 {
            0 if !part.is_empty() => {
                screen.push(Side::Out, Bytes::copy_from_slice(part));
                out.extend_from_slice(part);
                units += part.len() as u64;
            }
            1 if !part.is_empty() => {
                screen.push(Side::Err, Bytes::copy_from_slice(part));
                err.extend_from_slice(part);
                units += part.len() as u64;
            }
            2 => {
                screen.mark();
                units += 1;
            }
            3 if lines < crate::screen::MAX_LINES => {
                let line = String::from_utf8_lossy(part).into_owned();
                err.extend_from_slice(line.as_bytes());
                screen.say(line);
                lines += 1;
            }
            _ => {}
        }
    }
    let mut counted = 0;
    while !screen.is_empty() {
        counted += screen.advance().await?;
    }
    assert_eq!(counted, units, "everything counts once");
    drop(screen);
    let mut seen = [Vec::new(), Vec::new()];
    let [seen_out, seen_err] = &mut seen;
    out.read_to_end(seen_out)?;
    err.read_to_end(seen_err)?;
    assert_eq!(seen, expected, "everything arrives in its order");
    Ok(())
}

/// What the warm process says, as people see it.
pub fn from_warm(bytes: &[u8]) {
    for message in messages::<FromWarm>(bytes) {
        match message {
            FromWarm::Report(report) => harmless(&Shown::from(report).to_string()),
            FromWarm::Broken(broken) => told(&carried::fault(&broken)),
            FromWarm::Answer(_) | FromWarm::Carry(_) | FromWarm::CarryEnd => {}
        }
    }
}

/// What a node says about a session, as people see it.
pub fn from_node(bytes: &[u8]) {
    for message in messages::<ToClient>(bytes) {
        match message {
            ToClient::Opened(opened) => {
                for now in [Timestamp::MIN, Timestamp::UNIX_EPOCH, Timestamp::MAX] {
                    let line = banner::line(&opened, &opened.node, now);
                    harmless(&line);
                    assert_eq!(line.lines().count(), 1, "one line: {line:?}");
                }
            }
            ToClient::Denied(denied) => said(denied.code, denied.seen),
            ToClient::Closed(closed) => said(closed.code, closed.seen),
            ToClient::Notice(notice) => harmless(&report::notice(&notice, "\n")),
            ToClient::Exit(exit) => {
                if let Some(remote) = Remote::from_exit(&exit) {
                    assert_eq!(remote.exit_code() == 0, exit.code == Some(0), "0 comes from a 0 alone");
                    harmless(&remote.note().unwrap_or_default());
                }
            }
            _ => {}
        }
    }
}

/// A configuration file. What passes is written as one that says the same.
pub fn config(bytes: &[u8]) {
    let (file, folder) = (
        Path::new("/home/ada/.config/noderelay/config.yaml"),
        Path::new("/home/ada"),
    );
    let places = Places {
        home: Some(folder.to_owned()),
        ..Places::default()
    };
    match Config::parse(bytes, file, folder, &places) {
        Ok(config) => {
            assert!(config.relays.iter().all(|relay| is_address(relay)));
            let written = serde_saphyr::to_string(&config);
            assert!(written.is_ok(), "what was read can be written: {written:?}");
            for text in written.iter() {
                let again = Config::parse(text.as_bytes(), file, folder, &places);
                assert_eq!(again.ok().as_ref(), Some(&config), "{text}");
            }
        }
        Err(error) => harmless(&error.to_string()),
    }
}

fn events(escape: Option<u8>, typed: &[u8], piece: usize) -> Vec<Event> {
    let mut keys = Keys::new(escape);
    let mut events: Vec<Event> = Vec::new();
    let pieces = typed
        .chunks(piece)
        .flat_map(|chunk| keys.feed(Bytes::copy_from_slice(chunk)));
    let mut all: Vec<Event> = pieces.collect();
    all.extend(keys.end().map(Event::Send));
    for event in all {
        match (events.last_mut(), event) {
            (Some(Event::Send(before)), Event::Send(bytes)) => {
                *before = [before.as_ref(), bytes.as_ref()].concat().into()
            }
            (_, event) => events.push(event),
        }
    }
    events
}

fn sent(bytes: &[u8]) -> Vec<Event> {
    let whole = (!bytes.is_empty()).then(|| Event::Send(Bytes::copy_from_slice(bytes)));
    whole.into_iter().collect()
}

fn messages<T: noderelay_proto::Message>(bytes: &[u8]) -> Vec<T> {
    let mut frames = Frames::<T>::new();
    frames.push(bytes);
    std::iter::from_fn(|| frames.next().ok().flatten()).collect()
}

fn said(code: u32, seen: String) {
    told(&Fault::new(Code::from_number(code), Origin::Agent, seen));
}

/// A fault on its way to a person.
fn told(fault: &Fault) {
    let about = About {
        node: &fault.seen,
        open: true,
    };
    let message = Message::from(fault.code, fault.origin, &fault.seen, about);
    let lines = message.lines("\n");
    harmless(&lines);
    assert_eq!(lines.lines().count(), 2, "what was seen, and what helps: {lines:?}");
    assert!(!one_line(&fault.seen).contains('\n'));
}

fn harmless(text: &str) {
    assert!(
        !text.contains(|c: char| c != '\n' && is_invisible(c)),
        "unescaped: {text:?}"
    );
}
