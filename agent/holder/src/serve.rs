//! The session while it lasts: one task that moves bytes between command and agent, and ends both in order.
//!
//! ```text
//! runs ── the command ends ──────────────────────────────────> drains ──> finished: END, EXIT ──> over
//!   └── limit, TERMINATE, recording broken: input stops, HUP ─── KILL ──> drains ──> finished: CLOSED ──> over
//! ```
//!
//! * One turn ([`Session::turn`]) does everything that can be done now: frames in, input on, output on (recorded first),
//!   children reaped, limits judged, frames out. Nothing in it waits, so no direction can hold up another.
//! * The command's end is not the output's end: what is in the terminal or pipe is read first ([`drain`]).
//! * The recording is closed before EXIT or CLOSED is said. EXIT and the tail before it are kept until they are
//!   acknowledged or the window is over.
//! * CLOSED stands in place of EXIT when the node ended the session: the command's own end was not its own then.

mod drain;
mod ending;
mod frames;

use std::time::Duration;

use bytes::Bytes;
use noderelay_audit::Stream;
use noderelay_child::wait::{self, Ended};
use noderelay_proto::control::{Adopt, Adopted, Closed, Start};
use noderelay_proto::session::{Inbox, Outbox};
use noderelay_proto::{Code, FromHolder, ToClient, ToNode};
use tokio::signal::unix::{Signal as Listen, SignalKind, signal as listen};
use tokio::task::JoinHandle;

use crate::adopt::Door;
use crate::entry::log;
use crate::input::Input;
use crate::limits::Limits;
use crate::link::Link;
use crate::processes::{self, Reach};
use crate::shell::{Shell, Took};
use crate::time::{Alarm, now};
use drain::Drain;
use ending::Ending;
use nix::sys::signal::Signal;

/// Version of the link between agent and holder.
const LINK_VERSION: u32 = 1;
/// The recording's bytes are on the disk this long after they were written, at the latest.
const SYNC: Duration = Duration::from_secs(2);
/// Data frames in one turn: enough to fill the socket, few enough that an interrupt is heard soon.
const FRAMES: usize = 4;

/// One session.
#[derive(Debug)]
pub(crate) struct Session {
    start: Start,
    shell: Shell,
    link: Option<Link>,
    door: Option<Door>,
    outbox: Outbox<ToClient>,
    inbox: Inbox<ToNode>,
    input: Input,
    limits: Limits,
    ending: Option<Ending>,
    exited: Option<Ended>,
    drain: Drain,
    /// Output goes into the recording only: nobody can or may see it.
    muted: bool,
    finished: bool,
    closed: Option<Closed>,
    /// When what the command left behind in its session is killed.
    sweep_at: Option<Duration>,
    sync_at: Option<Duration>,
    /// The disk is at it, on a thread of its own: it may take its time, keys may not.
    syncing: Option<JoinHandle<()>>,
    /// The agent said that nobody wants the rest.
    dismissed: bool,
}

enum Woken {
    Stop,
    Child,
    Synced,
    Other,
}

impl Session {
    pub(crate) fn new(start: Start, shell: Shell, link: Link, door: Option<Door>, unix: i64) -> Self {
        let now = now();
        Self {
            limits: Limits::new(&start, now, unix),
            outbox: Outbox::new(start.window),
            inbox: Inbox::new(start.window),
            start,
            shell,
            link: Some(link),
            door,
            input: Input::default(),
            ending: None,
            exited: None,
            drain: Drain::new(now),
            muted: false,
            finished: false,
            closed: None,
            sweep_at: None,
            sync_at: None,
            syncing: None,
            dismissed: false,
        }
    }

    /// Holds the session to its end.
    pub(crate) async fn run(mut self) {
        let mut children = listener(SignalKind::child());
        let mut stop = listener(SignalKind::terminate());
        let mut alarm = Alarm::new();
        // The command may have ended before anybody listened.
        self.reap();
        loop {
            let more = self.turn();
            if self.is_over() {
                // Before the link: whoever sees the link end finds the door closed.
                self.door = None;
                break;
            }
            if more {
                // Lets the runtime look at sockets and signals: an interrupt must be heard in the middle of a flood.
                tokio::task::yield_now().await;
            }
            let wants_output = !self.is_blocked() && !self.finished;
            alarm.set(self.wake_at());
            let woken = tokio::select! {
                biased;
                () = heard(&mut stop) => Woken::Stop,
                () = done(self.syncing.as_mut()) => Woken::Synced,
                () = heard(&mut children) => Woken::Child,
                () = arrived(self.link.as_ref()) => Woken::Other,
                () = self.shell.writable(), if self.input.is_waiting() && !self.finished => Woken::Other,
                () = self.shell.readable(), if wants_output => Woken::Other,
                () = knocked(self.door.as_mut()) => Woken::Other,
                () = alarm.rings() => Woken::Other,
            };
            match woken {
                Woken::Other => {}
                Woken::Child => self.reap(),
                Woken::Synced => self.finish_sync(),
                Woken::Stop => {
                    self.end(
                        Code::SessionKilled,
                        "the process that holds the session was told to stop".into(),
                    );
                }
            }
        }
    }

    /// Does all that can be done now. Says whether it stopped at a bound: then there is more to do at once. What could not
    /// be done wakes [`Session::run`] when it can.
    fn turn(&mut self) -> bool {
        let now = now();
        self.admit(now);
        let mut more = self.hear(now);
        self.feed(now);
        more |= self.collect(now);
        self.judge(now);
        self.acknowledge(now);
        self.flush(now);
        self.drain.blocked(self.is_blocked());
        more
    }

    /// With something else on its way an acknowledgement costs nothing; alone it may wait a little.
    fn acknowledge(&mut self, now: Duration) {
        let due = if self.link.as_ref().is_some_and(Link::is_waiting) {
            self.inbox.take_ack()
        } else {
            self.inbox.ack_due(now)
        };
        if let Some(offset) = due {
            self.say(&ToClient::Ack(offset));
        }
    }

    /// Input on to the command.
    fn feed(&mut self, now: Duration) {
        if !self.input.is_waiting() {
            return;
        }
        let units = self.input.write(&mut self.shell);
        if let Err(error) = self.inbox.consumed(units, now) {
            self.end(Code::AgentInternal, error.to_string());
        }
    }

    /// Output on to the agent: recorded first. Says whether there may be more.
    fn collect(&mut self, now: Duration) -> bool {
        for _ in 0..FRAMES {
            if self.is_blocked() || self.finished {
                return false;
            }
            let room = if self.muted { usize::MAX } else { self.outbox.room() };
            match self.shell.read(room, self.exited.is_some()) {
                Took::Bytes(stream, bytes) => {
                    self.limits.command_wrote(now);
                    self.drain.heard();
                    if self.syncing.is_none() {
                        self.sync_at.get_or_insert(now.saturating_add(SYNC));
                    }
                    if !self.muted {
                        self.produce(stream, bytes);
                    }
                }
                Took::Unrecorded(error) => {
                    self.muted = true;
                    self.end(Code::RecordingFailed, error.to_string());
                }
                Took::Nothing => return false,
                Took::End => {
                    self.drain.end();
                    return false;
                }
            }
        }
        true
    }

    fn produce(&mut self, stream: Stream, bytes: Bytes) {
        let message = match stream {
            Stream::Stdout => ToClient::Data(bytes),
            Stream::Stderr => ToClient::DataErr(bytes),
        };
        self.push(message);
    }

    /// Keeps a sequenced message until it is acknowledged, and sends it.
    fn push(&mut self, message: ToClient) {
        match self.outbox.push(message.clone()) {
            Ok(_) => self.say(&message),
            Err(error) => {
                self.muted = true;
                self.end(Code::AgentInternal, error.to_string());
            }
        }
    }

    fn say(&mut self, message: &ToClient) {
        if let Some(link) = &mut self.link {
            link.send(&FromHolder::Session(message.clone()));
        }
    }

    /// Whether output is held back because nobody takes it. When the node has ended the session, nobody has to.
    fn is_blocked(&self) -> bool {
        !self.muted && (self.outbox.is_full() || self.link.as_ref().is_some_and(Link::is_full))
    }

    /// Takes away children that have ended.
    fn reap(&mut self) {
        while let wait::Next::Ended(pid, ended) = wait::next() {
            if pid == self.shell.pid() {
                self.exited = Some(ended);
                self.input.close();
                self.drain.start(now());
            }
        }
    }

    /// Limits, kills, and the end.
    fn judge(&mut self, now: Duration) {
        if self.sync_at.take_if(|at| now >= *at).is_some() {
            self.syncing = self.shell.begin_sync();
        }
        if self.sweep_at.take_if(|at| now >= *at).is_some() {
            processes::signal(
                self.shell.pid(),
                self.ending.as_ref().map_or(Reach::Session, |e| e.reach),
                Signal::SIGKILL,
            );
        }
        if self.finished {
            return;
        }
        if self.ending.is_none()
            && let Some((code, seen)) = self.limits.over(now)
        {
            self.end(code, seen);
        }
        if self.ending.is_none()
            && let Some(notice) = self.limits.warning(now)
        {
            let _ = self.shell.note(&format!(
                "{} s left ({})",
                notice.seconds_left,
                Code::from_number(notice.code)
            ));
            self.say(&ToClient::Notice(notice));
        }
        let mut given_up = false;
        if let Some(ending) = &mut self.ending {
            if !ending.killed && self.exited.is_none() && now >= ending.kill_at {
                ending.killed = true;
                processes::signal(self.shell.pid(), ending.reach, Signal::SIGKILL);
            }
            given_up = now >= ending.give_up_at;
            // What can't be delivered is still recorded.
            self.muted |= self.exited.is_some() && (self.outbox.is_full() || self.link.is_none());
        }
        if given_up || (self.exited.is_some() && self.drain.is_over(now)) {
            self.finish(now);
        }
    }

    /// Almost everything is on the disk now; what came since is little.
    fn finish_sync(&mut self) {
        self.syncing = None;
        if !self.finished
            && let Err(error) = self.shell.sync()
        {
            self.muted = true;
            self.end(Code::RecordingFailed, error.to_string());
        }
    }

    /// Lets a restarted agent in.
    fn admit(&mut self, now: Duration) {
        let Some((mut link, Adopt { .. })) = self.door.as_mut().and_then(|door| door.admit(&self.start)) else {
            return;
        };
        let consumed = self.inbox.resume_offset();
        link.send(&FromHolder::Adopted(Adopted {
            pid: self.shell.pid(),
            epoch: 0,
            sent: self.outbox.head(),
            consumed,
            version: LINK_VERSION,
        }));
        match self.outbox.replay_from(self.outbox.acked()) {
            Ok(kept) => kept
                .into_iter()
                .for_each(|message| link.send(&FromHolder::Session(message))),
            Err(error) => log(&error.to_string()),
        }
        if let Some(closed) = &self.closed {
            link.send(&FromHolder::Session(ToClient::Closed(closed.clone())));
        }
        self.link = Some(link);
        if !self.finished {
            let _ = self.shell.note("an agent took the session up again");
            self.limits.accompanied(true, now);
        }
    }

    fn flush(&mut self, now: Duration) {
        if let Some(Err(gone)) = self.link.as_mut().map(Link::flush) {
            self.lose(&gone.to_string(), now);
        }
    }

    fn lose(&mut self, why: &str, now: Duration) {
        self.link = None;
        if !self.finished {
            let _ = self.shell.note(&format!("no agent: {why}"));
            self.limits.accompanied(false, now);
        }
    }

    fn is_over(&self) -> bool {
        let delivered = match (&self.closed, &self.link) {
            (Some(_), Some(link)) => !link.is_waiting(),
            (Some(closed), None) => closed.code == Code::SessionWindow.number(),
            (None, link) => self.outbox.is_drained() && link.as_ref().is_none_or(|link| !link.is_waiting()),
        };
        let done = delivered || self.dismissed || self.limits.window_over(now());
        self.finished && self.sweep_at.is_none() && done
    }

    fn wake_at(&self) -> Option<Duration> {
        let now = now();
        let while_running = (!self.finished).then(|| {
            let ending = self.ending.as_ref().map(|e| {
                if e.killed || self.exited.is_some() {
                    e.give_up_at
                } else {
                    e.kill_at
                }
            });
            let drain = self.exited.and_then(|_| self.drain.next(now));
            [self.shell.next(), ending, drain, self.sync_at]
                .into_iter()
                .flatten()
                .min()
        });
        let limits = match (&self.ending, self.finished) {
            (_, true) => self.limits.window_end(),
            (Some(_), false) => None,
            (None, false) => self.limits.next(now),
        };
        [while_running.flatten(), limits, self.inbox.ack_at(), self.sweep_at]
            .into_iter()
            .chain([self.door.as_ref().and_then(Door::next)])
            .flatten()
            .min()
    }
}

fn listener(kind: SignalKind) -> Option<Listen> {
    listen(kind)
        .inspect_err(|error| log(&format!("cannot listen for signals: {error}")))
        .ok()
}

async fn heard(signal: &mut Option<Listen>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

async fn done(task: Option<&mut JoinHandle<()>>) {
    match task {
        Some(task) => drop(task.await),
        None => std::future::pending().await,
    }
}

async fn arrived(link: Option<&Link>) {
    match link {
        Some(link) => link.ready().await,
        None => std::future::pending().await,
    }
}

async fn knocked(door: Option<&mut Door>) {
    match door {
        Some(door) => door.ready().await,
        None => std::future::pending().await,
    }
}
