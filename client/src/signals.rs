//! Signals that reach the client, and what each does.
//!
//! | signal | with a terminal | without |
//! |---|---|---|
//! | INT, QUIT, USR1, USR2 | sent on to the remote command | sent on; a second INT or QUIT leaves |
//! | TERM, HUP | hang up the remote command and leave (255) | sent on; the second leaves |
//! | WINCH | new size | – |
//! | CONT | raw mode again, new size | – |
//!
//! Keys such as Ctrl-C are bytes in raw mode and never signals. Without a terminal the remote command has no terminal
//! either, so nobody else could turn Ctrl-C into a signal for it: it is sent on, the command ends by it, and the exit
//! code tells (130). Whoever cannot wait for that presses again. This is friendlier than ssh, which ends alone and
//! leaves the command running. Before the session is open every one of these signals ends the client.

use std::io;
use std::task::Poll;

use noderelay_proto::control::SignalName;
use tokio::signal::unix::{Signal, SignalKind, signal};

#[cfg(test)]
mod tests;

/// A signal that reached the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caught {
    /// Interrupt.
    Int,
    /// Quit.
    Quit,
    /// Terminate.
    Term,
    /// Hang-up.
    Hup,
    /// User-defined.
    Usr1,
    /// User-defined.
    Usr2,
    /// The window changed its size.
    Winch,
    /// The process was continued.
    Cont,
}

impl Caught {
    /// The signal's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Int => "SIGINT",
            Self::Quit => "SIGQUIT",
            Self::Term => "SIGTERM",
            Self::Hup => "SIGHUP",
            Self::Usr1 => "SIGUSR1",
            Self::Usr2 => "SIGUSR2",
            Self::Winch => "SIGWINCH",
            Self::Cont => "SIGCONT",
        }
    }
}

/// What a signal leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaction {
    /// Send it to the remote command.
    Forward(SignalName),
    /// Hang up and leave.
    Leave,
    /// Send the new size; the terminal may have to become raw again.
    Resize,
    /// Nothing.
    Ignore,
}

/// Decides; remembers what came before.
#[derive(Debug)]
pub struct Reactions {
    terminal: bool,
    keys: bool,
    asked: bool,
}

impl Reactions {
    /// For a session with or without a terminal at the far end, and with or without keys that leave at this end.
    pub fn new(terminal: bool, keys: bool) -> Self {
        Self {
            terminal,
            keys,
            asked: false,
        }
    }

    /// What `caught` leads to.
    pub fn on(&mut self, caught: Caught) -> Reaction {
        let name = match caught {
            Caught::Winch | Caught::Cont if self.terminal => return Reaction::Resize,
            Caught::Winch | Caught::Cont => return Reaction::Ignore,
            Caught::Usr1 => return Reaction::Forward(SignalName::Usr1),
            Caught::Usr2 => return Reaction::Forward(SignalName::Usr2),
            Caught::Term | Caught::Hup if self.terminal => return Reaction::Leave,
            Caught::Int => SignalName::Int,
            Caught::Quit => SignalName::Quit,
            Caught::Term => SignalName::Term,
            Caught::Hup => SignalName::Hup,
        };
        if !self.keys && std::mem::replace(&mut self.asked, true) {
            return Reaction::Leave;
        }
        Reaction::Forward(name)
    }
}

/// The handlers of one process. Kept from before the first connection until the end.
#[derive(Debug)]
pub struct Signals {
    source: Source,
}

#[derive(Debug)]
enum Source {
    System(Vec<(Caught, Signal)>),
    Script(tokio::sync::mpsc::Receiver<Caught>),
}

impl Signals {
    /// Installs the handlers.
    ///
    /// # Errors
    /// The system refuses a handler.
    pub fn install() -> io::Result<Self> {
        let kinds = [
            (Caught::Int, SignalKind::interrupt()),
            (Caught::Quit, SignalKind::quit()),
            (Caught::Term, SignalKind::terminate()),
            (Caught::Hup, SignalKind::hangup()),
            (Caught::Usr1, SignalKind::user_defined1()),
            (Caught::Usr2, SignalKind::user_defined2()),
            (Caught::Winch, SignalKind::window_change()),
            (
                Caught::Cont,
                SignalKind::from_raw(nix::sys::signal::Signal::SIGCONT as i32),
            ),
        ];
        let ignored = ignored();
        let mut streams = Vec::with_capacity(kinds.len());
        for (caught, kind) in kinds {
            // `nohup` and background jobs without job control start with signals ignored: that stays.
            if ignored & (1 << (kind.as_raw_value() - 1)) == 0 {
                streams.push((caught, signal(kind)?));
            }
        }
        Ok(Self {
            source: Source::System(streams),
        })
    }

    /// Signals that somebody else sends: for tests and for programs with a handling of their own.
    pub fn from_channel(channel: tokio::sync::mpsc::Receiver<Caught>) -> Self {
        Self {
            source: Source::Script(channel),
        }
    }

    /// The next signal. May be dropped at any await.
    pub async fn next(&mut self) -> Caught {
        std::future::poll_fn(|context| {
            match &mut self.source {
                Source::System(streams) => {
                    for (caught, stream) in streams {
                        if stream.poll_recv(context).is_ready() {
                            return Poll::Ready(*caught);
                        }
                    }
                }
                Source::Script(channel) => {
                    if let Poll::Ready(Some(caught)) = channel.poll_recv(context) {
                        return Poll::Ready(caught);
                    }
                }
            }
            Poll::Pending
        })
        .await
    }

    /// The next signal that ends the client while it still connects.
    pub async fn ending(&mut self) -> Caught {
        loop {
            match self.next().await {
                Caught::Winch | Caught::Cont => {}
                other => return other,
            }
        }
    }
}

/// The set of ignored signals that this process was started with, where the system tells.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .unwrap_or_default();
    u64::from_str_radix(mask.trim(), 16).unwrap_or(0)
}
