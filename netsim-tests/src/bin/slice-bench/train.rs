//! The work that the shipped programs are optimised for: what a session does, without a rival and without figures.
//!
//! ```text
//! whole commands ─> keystrokes ─> a command's output and input in bulk        all through the product as a user starts it
//! bulk through a relay of its own, both ways, and through the bare relay beside it, which is compared with it later
//! ```
//!
//! A build that counts what it does (see `cargo xtask dist`) writes its counts when a program ends in order: everything that is
//! started here is ended so. It measures nothing.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Result, bail};
use netsim_tests::document::Machine;
use netsim_tests::echo::{FAR, Session};
use netsim_tests::running::{shown, timed};

use crate::options::Options;
use crate::product::Product;
use crate::relay;
use crate::report::{Frames, Report, Subject, say};

/// Bytes of bulk through a session.
const BULK: &str = "32M";

/// Does all of it.
pub(crate) fn train(options: &Options, folder: &Path) -> Result<()> {
    let product = Product::start(&options.binaries, folder)?;
    say("whole commands");
    for _ in 0..options.rounds.commands {
        timed(&mut product.command(None, &["true"]))?;
    }
    say("keystrokes");
    let mut session = Session::open(&mut product.terminal(&FAR))?;
    for number in 0..options.rounds.echo_turns * options.rounds.echoes {
        session.once(b'a' + u8::try_from(number % 26)?)?;
    }
    drop(session);
    say("bulk through a session");
    done(&mut product.command(None, &["head", "-c", BULK, "/dev/zero"]))?;
    let zeros = format!("head -c {BULK} /dev/zero | \"$0\" \"$@\"");
    let sink = product.command(None, &["sh", "-c", "cat >/dev/null"]);
    let mut piped = Command::new("sh");
    piped.args(["-c", &zeros]).arg(sink.get_program()).args(sink.get_args());
    done(&mut piped)?;
    drop(product);
    say("bulk through a relay, and through a bare one");
    let subject = Subject::Relay(Frames::Usual);
    let mut unread = Report::new(subject, Machine::look(), options.rounds);
    relay::measure(options, Frames::Usual, folder, &mut unread)
}

fn done(command: &mut Command) -> Result<()> {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status()?;
    if !status.success() {
        bail!("{} ended with {status}", shown(command));
    }
    Ok(())
}
