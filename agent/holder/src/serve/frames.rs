//! What the agent says, message by message.

use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use noderelay_child::pty;
use noderelay_proto::control::{SignalName, Terminate, Terms};
use noderelay_proto::session::Received;
use noderelay_proto::{Code, ToClient, ToHolder, ToNode};

use super::Session;
use crate::link::Link;
use crate::shell::size;

/// Messages taken in one turn, so that output is not held up by a flood of them.
const MESSAGES: usize = 64;

impl Session {
    /// Takes what has arrived. Says whether there may be more.
    pub(super) fn hear(&mut self, now: Duration) -> bool {
        for _ in 0..MESSAGES {
            match self.link.as_mut().map(Link::next) {
                None => return false,
                Some(Ok(None)) => {
                    if self.link.as_ref().is_some_and(Link::is_silent) && !self.finished && !self.limits.is_alone() {
                        self.limits.accompanied(false, now);
                        let window = self.start.window_secs;
                        let _ = self
                            .shell
                            .note(&format!("the client is gone; it may come back for {window} s"));
                    }
                    return false;
                }
                Some(Ok(Some(message))) => self.on_message(message, now),
                Some(Err(gone)) => {
                    self.lose(&gone.to_string(), now);
                    return false;
                }
            }
        }
        true
    }

    fn on_message(&mut self, message: ToHolder, now: Duration) {
        match message {
            ToHolder::Terminate(Terminate { code, seen }) => self.end(Code::from_number(code), seen),
            ToHolder::Terms(terms) => self.on_terms(terms, now),
            ToHolder::Session(ToNode::Ack(offset)) => match self.outbox.ack(offset) {
                Ok(freed) if freed > 0 => self.limits.tail_taken(self.finished, now),
                Ok(_) => {}
                Err(error) => self.end(error.code(), error.to_string()),
            },
            // Who asks without reading gets no answers: they would pile up.
            ToHolder::Session(ToNode::Ping(_)) if self.link.as_ref().is_some_and(Link::is_full) => {}
            ToHolder::Session(ToNode::Ping(number)) => self.say(&ToClient::Pong(number)),
            ToHolder::Session(ToNode::Pong(_)) => {}
            ToHolder::Session(message) => match self.inbox.on_frame(message) {
                Ok(None) => {}
                Ok(Some(Received { frame, .. })) => self.on_input(frame, now),
                Err(error) => self.end(error.code(), error.to_string()),
            },
            ToHolder::Start(_) | ToHolder::Adopt(_) => self.lose("it said START or ADOPT twice", now),
        }
    }

    fn on_terms(&mut self, terms: Terms, now: Duration) {
        self.limits.set(terms, now, jiff::Timestamp::now().as_second());
    }

    fn on_input(&mut self, frame: ToNode, now: Duration) {
        match frame {
            ToNode::Data(bytes) => {
                self.limits.user_acted(now);
                self.input.data(bytes);
            }
            ToNode::End => self.input.end(),
            ToNode::Resize(resize) => {
                self.input.done();
                if let Some(size) = resize.size().map(size).and_then(pty::Size::usable)
                    && !self.finished
                    && let Err(error) = self.shell.resize(size)
                {
                    self.muted = true;
                    self.end(Code::RecordingFailed, error.to_string());
                }
            }
            ToNode::Signal(signal) => {
                self.limits.user_acted(now);
                self.input.done();
                self.on_signal(signal.signal());
            }
            // The decoder lets no other frame through in this direction.
            _ => {}
        }
    }

    /// Signals go to whoever is in front of the terminal, or to the command with all that it started.
    fn on_signal(&mut self, name: SignalName) {
        if self.exited.is_some() || self.ending.is_some() {
            return;
        }
        let Some((signal, word)) = known(name) else { return };
        if let Err(error) = self.shell.note_signal(word) {
            self.muted = true;
            self.end(Code::RecordingFailed, error.to_string());
            return;
        }
        if let Some(group) = self.shell.front().map(Pid::from_raw)
            && killpg(group, signal).is_err()
        {
            let _ = kill(group, signal);
        }
    }
}

fn known(name: SignalName) -> Option<(Signal, &'static str)> {
    Some(match name {
        SignalName::Unspecified => return None,
        SignalName::Int => (Signal::SIGINT, "INT"),
        SignalName::Term => (Signal::SIGTERM, "TERM"),
        SignalName::Hup => (Signal::SIGHUP, "HUP"),
        SignalName::Quit => (Signal::SIGQUIT, "QUIT"),
        SignalName::Usr1 => (Signal::SIGUSR1, "USR1"),
        SignalName::Usr2 => (Signal::SIGUSR2, "USR2"),
        SignalName::Kill => (Signal::SIGKILL, "KILL"),
        SignalName::Tstp => (Signal::SIGTSTP, "TSTP"),
        SignalName::Cont => (Signal::SIGCONT, "CONT"),
        SignalName::Stop => (Signal::SIGSTOP, "STOP"),
        SignalName::Alrm => (Signal::SIGALRM, "ALRM"),
        SignalName::Pipe => (Signal::SIGPIPE, "PIPE"),
        SignalName::Winch => (Signal::SIGWINCH, "WINCH"),
    })
}
