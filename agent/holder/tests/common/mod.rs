//! An agent and client in one, for one holder: starts it, speaks the session's side of the protocol, reads the recording.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use noderelay_audit::event::{Level, SessionId, SessionKind, SessionStarted};
use noderelay_audit::read::{Event, Reader};
use noderelay_audit::{End, Header, Recording, Stream};
use noderelay_holder::launch::{HolderHandle, launch};
use noderelay_pki::identity::Identity;
use noderelay_proto::control::{
    Account, Closed, EnvVar, Exit, Notice, RecordLevel, Resize, Signal, SignalName, Start, Terminal, Terminate,
};
use noderelay_proto::limits::{WINDOW_BULK, WINDOW_TERMINAL};
use noderelay_proto::session::{Inbox, Outbox};
use noderelay_proto::{Code, Frames, FromHolder, ToClient, ToHolder, ToNode};
use tokio::io::Interest;

pub const RIG: &str = env!("CARGO_BIN_EXE_noderelay-holder-rig");
/// Nothing here takes this long.
pub const SOON: Duration = Duration::from_secs(60);
pub const TOKEN: [u8; 32] = [7; 32];

pub struct Session {
    pub dir: tempfile::TempDir,
    pub holder: HolderHandle,
    pub frames: Frames<FromHolder>,
    pub inbox: Inbox<ToClient>,
    pub outbox: Outbox<ToNode>,
    pub out: Vec<u8>,
    pub err: Vec<u8>,
    pub exit: Option<Exit>,
    pub ended: bool,
    pub closed: Option<Closed>,
    pub failed: Option<(Code, String)>,
    pub notices: Vec<Notice>,
    pub pongs: Vec<u64>,
    pub pid: u32,
    /// Set to be a client that reads nothing for a while.
    pub acknowledges: bool,
    pub gone: bool,
    todo: VecDeque<ToNode>,
    sending: BytesMut,
    /// From the call of `launch` to STARTED.
    pub started_after: Duration,
}

/// A START for a command without a terminal; change what a test needs.
pub fn start(argv: &[&str]) -> Start {
    Start {
        session: Bytes::copy_from_slice(&[1; 16]),
        token: Bytes::copy_from_slice(&TOKEN),
        argv: argv.iter().map(|arg| Bytes::copy_from_slice(arg.as_bytes())).collect(),
        login: false,
        line: false,
        account: None,
        env: vec![],
        terminal: None,
        window: WINDOW_BULK,
        deadline_unix: None,
        idle_secs: None,
        hup_grace_ms: 300,
        window_secs: 60,
        recorded: RecordLevel::Strict.into(),
        started_unix_ms: 0,
        resume_key: Bytes::new(),
    }
}

/// A START for a command with a terminal.
pub fn start_terminal(argv: &[&str]) -> Start {
    let terminal = Terminal {
        term: "xterm".into(),
        cols: 132,
        rows: 43,
        xpixel: 0,
        ypixel: 0,
    };
    Start {
        terminal: Some(terminal),
        window: WINDOW_TERMINAL,
        ..start(argv)
    }
}

pub fn variable(name: &str, value: &[u8]) -> EnvVar {
    EnvVar {
        name: Bytes::copy_from_slice(name.as_bytes()),
        value: Bytes::copy_from_slice(value),
    }
}

pub fn account(shell: &str) -> Account {
    let me = noderelay_child::passwd::find_uid(Path::new("/"), nix::unistd::geteuid().as_raw()).unwrap();
    Account {
        name: me.name,
        uid: me.uid,
        gid: me.gid,
        groups: me.groups,
        home: Bytes::from_static(b"/"),
        shell: Bytes::copy_from_slice(shell.as_bytes()),
    }
}

fn header(start: &Start) -> Header {
    let session = SessionStarted {
        session: SessionId(start.session.as_ref().try_into().unwrap()),
        cluster: "c".parse().unwrap(),
        node: "n".parse().unwrap(),
        principal: Identity::parse("spiffe://example.org/cluster/c/user/ada").unwrap(),
        key_fingerprint: "00".into(),
        groups: vec![],
        kind: SessionKind::Exec,
        argv: vec![],
        profile: "login".parse().unwrap(),
        account: "root".into(),
        policy_version: 1,
        rules: vec![],
        reason: None,
        level: if start.recorded == i32::from(RecordLevel::Strict) {
            Level::Strict
        } else {
            Level::Required
        },
        started: jiff::Timestamp::now(),
        claimed: Default::default(),
    };
    let terminal = start.terminal.as_ref().map(|terminal| noderelay_audit::Terminal {
        cols: terminal.cols as u16,
        rows: terminal.rows as u16,
        term: String::from_utf8(terminal.term.to_vec()).unwrap(),
    });
    Header::new(session, terminal)
}

impl Session {
    /// Starts a holder and waits until it has said STARTED or START_FAILED.
    pub async fn begin(start: Start) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let recordings = dir.path().to_owned();
        Self::begin_in(start, dir, &recordings).await
    }

    /// The same with the recording elsewhere.
    pub async fn begin_in(start: Start, dir: tempfile::TempDir, recordings: &Path) -> Self {
        let recording = Recording::create(recordings, &header(&start)).unwrap().into_file();
        let window = start.window;
        let home = dir.path().join("session");
        let began = tokio::time::Instant::now();
        let holder = launch(Path::new(RIG), &["holder"], &home, start, recording).unwrap();
        let mut session = Self {
            dir,
            holder,
            frames: Frames::new(),
            inbox: Inbox::new(window),
            outbox: Outbox::new(window),
            out: vec![],
            err: vec![],
            exit: None,
            ended: false,
            closed: None,
            failed: None,
            notices: vec![],
            pongs: vec![],
            pid: 0,
            acknowledges: true,
            gone: false,
            todo: VecDeque::new(),
            sending: BytesMut::new(),
            started_after: Duration::ZERO,
        };
        session
            .until("started", |session| session.pid > 0 || session.failed.is_some())
            .await;
        session.started_after = began.elapsed();
        session
    }

    pub fn say(&mut self, message: ToNode) {
        self.todo.push_back(message);
    }

    pub fn keys(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(60_000) {
            self.say(ToNode::Data(Bytes::copy_from_slice(part)));
        }
    }

    pub fn resize(&mut self, cols: u32, rows: u32) {
        self.say(ToNode::Resize(Resize {
            cols,
            rows,
            xpixel: 0,
            ypixel: 0,
        }));
    }

    pub fn signal(&mut self, name: SignalName) {
        self.say(ToNode::Signal(Signal { signal: name.into() }));
    }

    pub fn tell(&mut self, message: ToHolder) {
        message.encode(&mut self.sending);
    }

    pub fn terminate(&mut self, code: Code) {
        self.tell(ToHolder::Terminate(Terminate {
            code: code.number(),
            seen: "a test".into(),
        }));
    }

    /// Works until the condition holds.
    pub async fn until(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        let work = async {
            while !done(self) {
                assert!(!self.gone, "the holder went away before: {what}; log: {}", self.log());
                self.turn().await;
            }
        };
        if tokio::time::timeout(SOON, work).await.is_err() {
            let tail = self.out.len().saturating_sub(300);
            panic!(
                "not in time: {what}; {} bytes of output, which ends {:?}",
                self.out.len(),
                String::from_utf8_lossy(&self.out[tail..])
            );
        }
    }

    /// Works until EXIT or CLOSED.
    pub async fn end(&mut self) {
        self.until("the end", |session| session.exit.is_some() || session.closed.is_some())
            .await;
    }

    /// Works until the holder has gone, then gives its recording.
    pub async fn recorded(&mut self) -> Recorded {
        self.until("gone", |session| session.gone).await;
        recorded(self.dir.path())
    }

    /// Works for as long.
    pub async fn work_for(&mut self, time: Duration) {
        let _ = tokio::time::timeout(time, async {
            while !self.gone {
                self.turn().await;
            }
            std::future::pending::<()>().await
        })
        .await;
    }

    pub async fn turn(&mut self) {
        while let Some(message) = self.todo.pop_front() {
            if self.outbox.push(message.clone()).is_err() {
                self.todo.push_front(message);
                break;
            }
            ToHolder::Session(message).encode(&mut self.sending);
        }
        while let Some(message) = self.frames.next().unwrap() {
            self.on(message);
        }
        let interest = if self.sending.is_empty() {
            Interest::READABLE
        } else {
            Interest::READABLE | Interest::WRITABLE
        };
        let ready = self.holder.stream.ready(interest).await.unwrap();
        if ready.is_writable() && !self.sending.is_empty() {
            match self.holder.stream.try_write(&self.sending) {
                Ok(written) => self.sending.advance(written),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => self.sending.clear(),
            }
        }
        if ready.is_readable() {
            self.frames.buffer().reserve(70_000);
            match self.holder.stream.try_read_buf(self.frames.buffer()) {
                Ok(0) => self.gone = true,
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => self.gone = true,
            }
        }
        while let Some(message) = self.frames.next().unwrap() {
            self.on(message);
        }
    }

    fn on(&mut self, message: FromHolder) {
        match message {
            FromHolder::Started(started) => self.pid = started.pid,
            FromHolder::StartFailed(failed) => self.failed = Some((Code::from_number(failed.code), failed.seen)),
            FromHolder::Adopted(adopted) => self.pid = adopted.pid,
            FromHolder::Session(ToClient::Ack(offset)) => drop(self.outbox.ack(offset).unwrap()),
            FromHolder::Session(ToClient::Closed(closed)) => self.closed = Some(closed),
            FromHolder::Session(ToClient::Notice(notice)) => self.notices.push(notice),
            FromHolder::Session(ToClient::Pong(number)) => self.pongs.push(number),
            FromHolder::Session(frame) => {
                assert!(self.exit.is_none(), "EXIT is the last");
                let Some(received) = self.inbox.on_frame(frame).unwrap() else {
                    return;
                };
                match received.frame {
                    ToClient::Data(bytes) => self.out.extend_from_slice(&bytes),
                    ToClient::DataErr(bytes) => self.err.extend_from_slice(&bytes),
                    ToClient::End => self.ended = true,
                    ToClient::Exit(exit) => self.exit = Some(exit),
                    other => panic!("{other:?}"),
                }
                if self.acknowledges {
                    self.acknowledge();
                }
            }
        }
    }

    /// The window of both directions.
    pub fn inbox_window(&self) -> u64 {
        self.outbox.capacity() + self.outbox.in_flight()
    }

    /// What has arrived and is not acknowledged.
    pub fn unacknowledged(&self) -> u64 {
        self.inbox.next_offset() - self.inbox.consumed_offset()
    }

    /// Acknowledges all that has arrived.
    pub fn acknowledge(&mut self) {
        let units = self.unacknowledged();
        self.inbox.consumed(units, Duration::ZERO).unwrap();
        if let Some(offset) = self.inbox.take_ack() {
            self.tell(ToHolder::Session(ToNode::Ack(offset)));
        }
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.out).unwrap()
    }

    pub fn code(&self) -> Option<Code> {
        self.closed.as_ref().map(|closed| Code::from_number(closed.code))
    }

    pub fn home(&self) -> PathBuf {
        self.dir.path().join("session")
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.home().join("holder.log")).unwrap_or_default()
    }
}

/// Runs a command to its end.
pub async fn run(start: Start, input: &[u8]) -> Session {
    let mut session = Session::begin(start).await;
    session.keys(input);
    session.say(ToNode::End);
    session.end().await;
    session
}

/// What a recording holds.
#[derive(Debug, Default)]
pub struct Recorded {
    pub out: Vec<u8>,
    pub err: Vec<u8>,
    pub sizes: Vec<(u16, u16)>,
    pub signals: Vec<String>,
    pub notices: Vec<String>,
    pub omitted: u64,
    pub end: Option<End>,
}

pub fn recorded(dir: &Path) -> Recorded {
    let file = std::fs::read_dir(dir)
        .unwrap()
        .flatten()
        .find(|entry| entry.path().extension().is_some())
        .unwrap();
    let mut reader = Reader::open(&file.path()).unwrap();
    let mut all = Recorded::default();
    while let Some(timed) = reader.next_event().unwrap() {
        assert!(all.end.is_none(), "the end is the last");
        match timed.event {
            Event::Output(Stream::Stdout, bytes) => all.out.extend(bytes),
            Event::Output(Stream::Stderr, bytes) => all.err.extend(bytes),
            Event::Resize(cols, rows) => all.sizes.push((cols, rows)),
            Event::Signal(name) => all.signals.push(name),
            Event::Notice(text) => all.notices.push(text),
            Event::Omitted(omitted) => all.omitted = omitted.bytes,
            Event::End(end) => all.end = Some(end),
            other => panic!("{other:?}"),
        }
    }
    all
}

/// Whether a process is there and not just a name in the table.
pub fn is_alive(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        stat.rsplit(')')
            .next()
            .is_some_and(|rest| !rest.trim_start().starts_with('Z'))
    })
}

/// Waits, with a limit, until something outside is so.
pub async fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let wait = async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, wait)
        .await
        .unwrap_or_else(|_| panic!("not in time: {what}"));
}
