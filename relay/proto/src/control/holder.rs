//! What agent and holder say to each other over their private socket, data apart.
//!
//! ```text
//! agent: START ──> holder: STARTED … EXIT | START_FAILED | CLOSED
//! agent: TERMS, TERMINATE ──> holder
//! restarted agent: ADOPT ──> holder: ADOPTED, then replay
//! ```
//!
//! The holder's words only; what it does is in the crate `noderelay-holder`. Tokens and keys never show in `Debug`.

use bytes::Bytes;

use super::Control;
use super::check::Check;
use super::inner::{EnvVar, RecordLevel, Terminal, session_id};
use crate::error::ProtocolError;
use crate::frame::Type;
use crate::id::SessionId;
use crate::limits::{
    MAX_ARGV, MAX_GROUPS, MAX_LONG_NAME, MAX_OPEN, MAX_START_ENV, MAX_TERM, MAX_TEXT, WINDOW_MAX, WINDOW_TERMINAL,
};

/// The local account that a command runs as.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Account {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// User id.
    #[prost(uint32, tag = "2")]
    pub uid: u32,
    /// Primary group id.
    #[prost(uint32, tag = "3")]
    pub gid: u32,
    /// Supplementary group ids.
    #[prost(uint32, repeated, tag = "4")]
    pub groups: Vec<u32>,
    /// Home directory.
    #[prost(bytes = "bytes", tag = "5")]
    pub home: Bytes,
    /// Login shell.
    #[prost(bytes = "bytes", tag = "6")]
    pub shell: Bytes,
}

/// What to run, as whom, until when. The first frame to a holder.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[prost(skip_debug)]
pub struct Start {
    /// The session id, 16 bytes.
    #[prost(bytes = "bytes", tag = "1")]
    pub session: Bytes,
    /// What a restarted agent must show to take the session up again. Secret, 32 bytes.
    #[prost(bytes = "bytes", tag = "2")]
    pub token: Bytes,
    /// The command; empty for the account's login shell.
    #[prost(bytes = "bytes", repeated, tag = "3")]
    pub argv: Vec<Bytes>,
    /// Run it as a login shell.
    #[prost(bool, tag = "4")]
    pub login: bool,
    /// `argv` is one line for the account's shell.
    #[prost(bool, tag = "5")]
    pub line: bool,
    /// The account; none: stay who the holder is.
    #[prost(message, optional, tag = "6")]
    pub account: Option<Account>,
    /// The whole environment.
    #[prost(message, repeated, tag = "7")]
    pub env: Vec<EnvVar>,
    /// The terminal, when there is to be one.
    #[prost(message, optional, tag = "8")]
    pub terminal: Option<Terminal>,
    /// The window in both directions.
    #[prost(uint64, tag = "9")]
    pub window: u64,
    /// The session's end, seconds since 1970.
    #[prost(int64, optional, tag = "10")]
    pub deadline_unix: Option<i64>,
    /// The idle limit in seconds, judged on user traffic.
    #[prost(uint32, optional, tag = "11")]
    pub idle_secs: Option<u32>,
    /// From HUP to KILL, in milliseconds.
    #[prost(uint32, tag = "12")]
    pub hup_grace_ms: u32,
    /// How long to go on without a client or agent, in seconds.
    #[prost(uint32, tag = "13")]
    pub window_secs: u32,
    /// How strictly the session is recorded.
    #[prost(enumeration = "RecordLevel", tag = "14")]
    pub recorded: i32,
    /// When the recording started, milliseconds since 1970.
    #[prost(int64, tag = "15")]
    pub started_unix_ms: i64,
    /// The session's resume key. Secret, 32 bytes; empty when the session can't be resumed.
    #[prost(bytes = "bytes", tag = "16")]
    pub resume_key: Bytes,
}

impl std::fmt::Debug for Start {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Start")
            .field("session", &self.session)
            .field("argv", &self.argv)
            .field("login", &self.login)
            .field("line", &self.line)
            .field("account", &self.account)
            .field("terminal", &self.terminal)
            .field("window", &self.window)
            .field("deadline_unix", &self.deadline_unix)
            .field("idle_secs", &self.idle_secs)
            .finish_non_exhaustive()
    }
}

impl Start {
    /// The session id.
    ///
    /// # Errors
    /// When it has not 16 bytes; never after decoding.
    pub fn session_id(&self) -> Result<SessionId, ProtocolError> {
        session_id(Self::TYPE, &self.session)
    }
}

impl Control for Start {
    const TYPE: Type = Type::Start;
    const LAST_FIELD: u32 = 16;
    const REPEATED: &'static [(u32, usize)] = &[(3, MAX_ARGV), (7, MAX_START_ENV)];

    fn validate(&self) -> Result<(), ProtocolError> {
        let check = Check(Self::TYPE);
        check.exactly("session", &self.session, 16)?;
        check.exactly("token", &self.token, 32)?;
        check.strings("argv", &self.argv, MAX_ARGV, MAX_OPEN)?;
        if self.line && self.argv.len() != 1 {
            return Err(check.bad("argv", "a line is one argument"));
        }
        if let Some(account) = &self.account {
            check.no_nul("account.name", account.name.as_bytes(), MAX_LONG_NAME)?;
            check.most("account.groups", account.groups.len(), MAX_GROUPS)?;
            check.no_nul("account.home", &account.home, MAX_LONG_NAME)?;
            check.no_nul("account.shell", &account.shell, MAX_LONG_NAME)?;
        }
        check.most("env", self.env.len(), MAX_START_ENV)?;
        self.env.iter().try_for_each(|variable| variable.check(check))?;
        if let Some(terminal) = &self.terminal {
            check.no_nul("terminal.term", &terminal.term, MAX_TERM)?;
        }
        if !(WINDOW_TERMINAL..=WINDOW_MAX).contains(&self.window) {
            return Err(check.bad("window", "outside its bounds"));
        }
        check.known::<RecordLevel>("recorded", self.recorded)?;
        if self.resume_key.is_empty() {
            Ok(())
        } else {
            check.exactly("resume_key", &self.resume_key, 32)
        }
    }
}

/// The command runs.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Started {
    /// Its process id in the holder's namespace.
    #[prost(uint32, tag = "1")]
    pub pid: u32,
}

impl Control for Started {
    const TYPE: Type = Type::Started;
    const LAST_FIELD: u32 = 1;

    fn validate(&self) -> Result<(), ProtocolError> {
        Ok(())
    }
}

/// The command could not be started.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StartFailed {
    /// The code.
    #[prost(uint32, tag = "1")]
    pub code: u32,
    /// What was seen.
    #[prost(string, tag = "2")]
    pub seen: String,
}

impl Control for StartFailed {
    const TYPE: Type = Type::StartFailed;
    const LAST_FIELD: u32 = 2;

    fn validate(&self) -> Result<(), ProtocolError> {
        Check(Self::TYPE).most("seen", self.seen.len(), MAX_TEXT)
    }
}

/// End the session now: input stops, HUP, then KILL.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Terminate {
    /// Why; becomes the code of CLOSED and stands in the recording.
    #[prost(uint32, tag = "1")]
    pub code: u32,
    /// What was seen.
    #[prost(string, tag = "2")]
    pub seen: String,
}

impl Control for Terminate {
    const TYPE: Type = Type::Terminate;
    const LAST_FIELD: u32 = 2;

    fn validate(&self) -> Result<(), ProtocolError> {
        Check(Self::TYPE).most("seen", self.seen.len(), MAX_TEXT)
    }
}

/// New terms: they replace the old ones.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Terms {
    /// The session's end, seconds since 1970.
    #[prost(int64, optional, tag = "1")]
    pub deadline_unix: Option<i64>,
    /// The idle limit in seconds.
    #[prost(uint32, optional, tag = "2")]
    pub idle_secs: Option<u32>,
}

impl Control for Terms {
    const TYPE: Type = Type::Terms;
    const LAST_FIELD: u32 = 2;

    fn validate(&self) -> Result<(), ProtocolError> {
        Ok(())
    }
}

/// A restarted agent takes the session up again.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[prost(skip_debug)]
pub struct Adopt {
    /// The session id, 16 bytes.
    #[prost(bytes = "bytes", tag = "1")]
    pub session: Bytes,
    /// The token of START. Secret.
    #[prost(bytes = "bytes", tag = "2")]
    pub token: Bytes,
    /// The agent's version of this link.
    #[prost(uint32, tag = "3")]
    pub version: u32,
}

impl std::fmt::Debug for Adopt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Adopt")
            .field("session", &self.session)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

impl Control for Adopt {
    const TYPE: Type = Type::Adopt;
    const LAST_FIELD: u32 = 3;

    fn validate(&self) -> Result<(), ProtocolError> {
        let check = Check(Self::TYPE);
        check.exactly("session", &self.session, 16)?;
        check.exactly("token", &self.token, 32)
    }
}

/// The holder's state for the agent that adopts it.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Adopted {
    /// The command's process id.
    #[prost(uint32, tag = "1")]
    pub pid: u32,
    /// The last epoch that began.
    #[prost(uint64, tag = "2")]
    pub epoch: u64,
    /// The offset behind the last sequenced frame that the holder produced.
    #[prost(uint64, tag = "3")]
    pub sent: u64,
    /// All of the client's offsets below this are consumed.
    #[prost(uint64, tag = "4")]
    pub consumed: u64,
    /// The holder's version of this link.
    #[prost(uint32, tag = "5")]
    pub version: u32,
}

impl Control for Adopted {
    const TYPE: Type = Type::Adopted;
    const LAST_FIELD: u32 = 5;

    fn validate(&self) -> Result<(), ProtocolError> {
        Ok(())
    }
}
