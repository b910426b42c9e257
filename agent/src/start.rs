//! Spends a [`Permit`] and a [`Recording`], both by value, on a holder with the session's command under it.
//!
//! There is no other way to start anything: without the two this does not compile. The holder is a process of its own that
//! outlives the agent; the recording's file is handed to it, open. [`Launcher::again`] finds a holder that runs already.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use noderelay_audit::Recording;
use noderelay_audit_event::SessionStarted;
use noderelay_child::Account;
use noderelay_holder::ToHolderHalf;
use noderelay_holder::launch::{self, HolderHandle};
use noderelay_policy::{Obligations, Permit, RecordLevel};
use noderelay_proto::code::Code;
use noderelay_proto::control::{self, Adopt, Kind, Open, Opened, Start, Terms};
use noderelay_proto::id::SessionId;
use noderelay_proto::limits::{WINDOW_BULK, WINDOW_TERMINAL};
use noderelay_proto::message::{FromHolder, ToHolder};
use tokio::net::unix::pipe::Receiver;

use crate::config::Limits;
use crate::framed::{FrameReader, FrameWriter};
use crate::places::Places;
use crate::pump::terminate;
use crate::refusal::Refusal;
use crate::sessions::{Begun, random};

/// A holder answers within milliseconds; a node that swaps may need longer.
const ANSWER: Duration = Duration::from_secs(20);

/// How the agent starts holders.
#[derive(Debug, Clone)]
pub struct Launcher {
    /// The program that is started as holder and child: the agent's own.
    pub program: PathBuf,
    /// The words that lead to the holder.
    pub words: Vec<OsString>,
    /// Where sessions have their folders.
    pub places: Places,
    /// Waits.
    pub limits: Limits,
}

/// What a holder says.
pub type HolderReader = FrameReader<Receiver, FromHolder>;

/// The agent's end of a holder.
pub struct Holder {
    /// What the holder says.
    pub reader: HolderReader,
    /// What the holder is told.
    pub writer: FrameWriter<ToHolderHalf>,
}

/// What a session runs as and is recorded as.
pub struct Facts<'a> {
    /// What stands in the record.
    pub started: &'a SessionStarted,
    /// The wish.
    pub open: &'a Open,
    /// The account.
    pub account: &'a Account,
    /// The key that a return is proven with.
    pub resume_key: &'a [u8],
    /// Whether the publication is a demo's.
    pub demo: bool,
}

impl Launcher {
    /// Starts the session.
    ///
    /// # Errors
    /// `shell.*` with the cause; nothing is left running then.
    pub async fn start(
        &self,
        permit: Permit,
        recording: Recording,
        facts: Facts<'_>,
        id: SessionId,
    ) -> Result<(Holder, Begun), Refusal> {
        let versioned = |refusal| Refusal {
            policy_version: permit.version(),
            ..refusal
        };
        let token = Bytes::copy_from_slice(&random::<32>()?);
        let start = self.orders(&permit, &facts, id, token.clone());
        let opened = self.opened(&permit, &facts, &start);
        let handle = launch::launch(
            &self.program,
            &self.words,
            &self.places.session(id),
            start,
            recording.into_file(),
        )
        .map_err(|e| versioned(Refusal::node(Code::ShellFailed, e.to_string())))?;
        let process = handle.process;
        let mut holder = Holder::of(handle).map_err(versioned)?;
        let first = holder.first().await;
        if first.is_err() {
            // Whatever it is doing: nothing may go on that nobody was told of.
            let order = terminate(Code::ShellFailed, "");
            let _ = tokio::time::timeout(ANSWER, holder.writer.send(&order)).await;
        }
        match first.map_err(versioned)? {
            FromHolder::Started(started) => {
                let begun = Begun {
                    open: facts.open.clone(),
                    opened,
                    facts: facts.started.clone(),
                    token,
                    pid: started.pid,
                    holder: process,
                };
                Ok((holder, begun))
            }
            FromHolder::StartFailed(failed) => {
                Err(versioned(Refusal::node(Code::from_number(failed.code), failed.seen)))
            }
            other => Err(versioned(out_of_order(&other))),
        }
    }

    /// Finds the holder of a session that has begun; gives what of the client's offsets it has consumed, too.
    ///
    /// # Errors
    /// `session.holder_lost` when there is none any more.
    pub async fn again(&self, begun: &Begun) -> Result<(Holder, u64), Refusal> {
        let id = begun
            .opened
            .session_id()
            .map_err(|e| Refusal::node(e.code(), e.to_string()))?;
        let adopt = Adopt {
            session: id.to_bytes(),
            token: begun.token.clone(),
            version: 1,
        };
        let handle = launch::find(&self.places.session(id), adopt)
            .map_err(|e| Refusal::node(Code::SessionHolderLost, e.to_string()))?;
        let mut holder = Holder::of(handle)?;
        match holder.first().await? {
            FromHolder::Adopted(adopted) => Ok((holder, adopted.consumed)),
            other => Err(out_of_order(&other)),
        }
    }

    /// Gives an order to the holder of a session whose client is gone, by the holder's own door: what the holder says from
    /// then on comes by the link that is given back. The other half of that link is closed: nobody accompanies the session.
    pub async fn tell(&self, begun: &Begun, order: &[ToHolder]) -> Option<HolderReader> {
        match self.again(begun).await {
            Ok((mut holder, _)) => {
                order.iter().for_each(|order| holder.writer.queue(order));
                match tokio::time::timeout(ANSWER, holder.writer.finish()).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => tracing::warn!(%error, "a session's holder did not take an order"),
                    Err(_) => tracing::warn!("a session's holder took no order within {ANSWER:?}"),
                }
                Some(holder.reader)
            }
            Err(refusal) => {
                tracing::info!(seen = %refusal.seen, "no holder to give an order to");
                None
            }
        }
    }

    fn orders(&self, permit: &Permit, facts: &Facts<'_>, id: SessionId, token: Bytes) -> Start {
        let (obligations, open) = (permit.obligations(), facts.open);
        let started = facts.started.started;
        let kind = Kind::try_from(open.kind);
        Start {
            session: id.to_bytes(),
            token,
            argv: open.argv.clone(),
            login: kind == Ok(Kind::Shell),
            line: open.login_line,
            account: Some(wire(facts.account)),
            env: open.env.clone(),
            terminal: open.terminal.clone(),
            window: if open.terminal.is_some() {
                WINDOW_TERMINAL
            } else {
                WINDOW_BULK
            },
            deadline_unix: obligations
                .max_duration
                .map(|d| noderelay_pki::time::after(started, d).as_second()),
            idle_secs: obligations.idle.map(seconds),
            hup_grace_ms: u32::try_from(self.limits.hup_grace.duration().as_millis()).unwrap_or(u32::MAX),
            window_secs: seconds(self.limits.resume_window.duration()),
            recorded: level(obligations.record).into(),
            started_unix_ms: started.as_millisecond(),
            resume_key: Bytes::copy_from_slice(facts.resume_key),
        }
    }

    fn opened(&self, permit: &Permit, facts: &Facts<'_>, start: &Start) -> Opened {
        Opened {
            session: start.session.clone(),
            policy_version: permit.version(),
            profile: permit.obligations().profile.to_string(),
            account: facts.account.name.clone(),
            recorded: start.recorded,
            deadline_unix: start.deadline_unix,
            idle_secs: start.idle_secs,
            node: permit.node().to_string(),
            cluster: permit.cluster().to_string(),
            window: start.window,
            consumed: 0,
            demo: facts.demo,
            resume_window_secs: start.window_secs,
        }
    }
}

/// The terms that changed obligations mean for an open session, if they are tighter than those it has.
pub fn tightened(opened: &Opened, facts: &SessionStarted, obligations: &Obligations) -> Option<Terms> {
    let deadline = obligations
        .max_duration
        .map(|d| noderelay_pki::time::after(facts.started, d).as_second());
    let terms = Terms {
        deadline_unix: [opened.deadline_unix, deadline].into_iter().flatten().min(),
        idle_secs: [opened.idle_secs, obligations.idle.map(seconds)]
            .into_iter()
            .flatten()
            .min(),
    };
    (terms.deadline_unix != opened.deadline_unix || terms.idle_secs != opened.idle_secs).then_some(terms)
}

impl Holder {
    fn of(handle: HolderHandle) -> Result<Self, Refusal> {
        let (read, write) = handle.into_split().map_err(|e| {
            Refusal::node(
                Code::SessionHolderLost,
                format!("the socket to the session's holder: {e}"),
            )
        })?;
        Ok(Self {
            reader: FrameReader::new(read),
            writer: FrameWriter::new(write),
        })
    }

    async fn first(&mut self) -> Result<FromHolder, Refusal> {
        match tokio::time::timeout(ANSWER, self.reader.demand()).await {
            Ok(Ok(message)) => Ok(message),
            Ok(Err(error)) => Err(Refusal::node(
                Code::SessionHolderLost,
                format!("the session's holder: {error}"),
            )),
            Err(_) => Err(Refusal::node(
                Code::ShellFailed,
                format!("the holder did not answer within {ANSWER:?}"),
            )),
        }
    }
}

fn out_of_order(message: &FromHolder) -> Refusal {
    Refusal::node(
        Code::AgentInternal,
        format!("the session's holder answered with {}", message.frame()),
    )
}

fn level(level: RecordLevel) -> control::RecordLevel {
    match level {
        RecordLevel::Required => control::RecordLevel::Required,
        RecordLevel::Strict => control::RecordLevel::Strict,
    }
}

fn seconds(d: Duration) -> u32 {
    u32::try_from(d.as_secs()).unwrap_or(u32::MAX)
}

fn wire(account: &Account) -> control::Account {
    use std::os::unix::ffi::OsStrExt as _;
    control::Account {
        name: account.name.clone(),
        uid: account.uid,
        gid: account.gid,
        groups: account.groups.clone(),
        home: Bytes::copy_from_slice(account.home.as_os_str().as_bytes()),
        shell: Bytes::copy_from_slice(account.shell.as_os_str().as_bytes()),
    }
}
