//! How a session begins and ends inside the inner TLS, data and resume apart.
//!
//! ```text
//! client: OPEN ──> node: OPENED … EXIT | DENIED | CLOSED
//! client: STANDBY ──> node: STANDING_BY | CLOSED, and then OPEN as if it were the first
//! ```
//!
//! Repeats of cluster, node and purpose in OPEN are compared with what the node is: a mismatch is
//! [`crate::Code::ProtocolWrongNode`]. Profiles, groups and grants are judged elsewhere.

use bytes::Bytes;
use noderelay_pki::name::{ClusterName, NodeName, ProfileName};

use super::Control;
use super::check::Check;
use super::outer::Purpose;
use super::sequenced::Size;
use crate::code::Code;
use crate::error::ProtocolError;
use crate::frame::Type;
use crate::id::{OpenId, SessionId};
use crate::limits::{
    MAX_ARGV, MAX_ENV, MAX_ENV_NAME, MAX_ENV_VALUE, MAX_GRANT, MAX_GRANTS, MAX_LONG_NAME, MAX_OPEN, MAX_SHORT_TEXT,
    MAX_TERM, MAX_TEXT, WINDOW_MAX, WINDOW_TERMINAL,
};

/// What kind of work. Unknown kinds are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum Kind {
    /// Not given: refused.
    Unspecified = 0,
    /// The account's login shell.
    Shell = 1,
    /// One command.
    Exec = 2,
}

/// The path that a client says it took. A claim: nothing is decided by it alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum ClaimedPath {
    /// Not said.
    Unspecified = 0,
    /// Through the API server.
    Api = 1,
    /// Through relays.
    Relay = 2,
    /// Straight to the node.
    Direct = 3,
}

/// How strictly a session is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum RecordLevel {
    /// Not given: refused.
    Unspecified = 0,
    /// Recorded; a full disk leads to a marked gap, never to a refusal.
    Required = 1,
    /// Recorded whole, or refused or ended.
    Strict = 2,
}

/// Which of the parts that a session needs is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum Missing {
    /// Not said.
    Unspecified = 0,
    /// A way to the node.
    Path = 1,
    /// A certificate that is accepted.
    Identity = 2,
    /// A rule of the policy.
    Rule = 3,
    /// A grant, or an activation.
    Grant = 4,
    /// A recording.
    Recording = 5,
    /// Something on the node itself: bundle, account, shell.
    Node = 6,
}

/// One environment variable that the client asks for; the node has an allow-list.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct EnvVar {
    /// Name, as bytes.
    #[prost(bytes = "bytes", tag = "1")]
    pub name: Bytes,
    /// Value, as bytes.
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
}

impl EnvVar {
    pub(super) fn check(&self, check: Check) -> Result<(), ProtocolError> {
        check.no_nul("env.name", &self.name, MAX_ENV_NAME)?;
        if self.name.is_empty() || self.name.contains(&b'=') {
            return Err(check.bad("env.name", "empty, or with an equals sign"));
        }
        check.no_nul("env.value", &self.value, MAX_ENV_VALUE)
    }
}

/// The terminal of a session.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Terminal {
    /// `TERM`, as bytes.
    #[prost(bytes = "bytes", tag = "1")]
    pub term: Bytes,
    /// Columns.
    #[prost(uint32, tag = "2")]
    pub cols: u32,
    /// Rows.
    #[prost(uint32, tag = "3")]
    pub rows: u32,
    /// Width in pixels, 0 when unknown.
    #[prost(uint32, tag = "4")]
    pub xpixel: u32,
    /// Height in pixels, 0 when unknown.
    #[prost(uint32, tag = "5")]
    pub ypixel: u32,
}

impl Terminal {
    /// The size that a pty can take, `None` when there is none to set.
    #[must_use]
    pub fn size(&self) -> Option<Size> {
        Size::clamp(self.cols, self.rows, self.xpixel, self.ypixel)
    }
}

/// The wish for a session.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Open {
    /// 16 random bytes: the same principal, key and id again return the same session.
    #[prost(bytes = "bytes", tag = "1")]
    pub open_id: Bytes,
    /// What kind of work.
    #[prost(enumeration = "Kind", tag = "2")]
    pub kind: i32,
    /// The command, one entry for each argument; empty for a shell.
    #[prost(bytes = "bytes", repeated, tag = "3")]
    pub argv: Vec<Bytes>,
    /// Environment that the client asks for.
    #[prost(message, repeated, tag = "4")]
    pub env: Vec<EnvVar>,
    /// The terminal, when there is to be one.
    #[prost(message, optional, tag = "5")]
    pub terminal: Option<Terminal>,
    /// The profile, empty for the one that the policy names.
    #[prost(string, tag = "6")]
    pub profile: String,
    /// Signed grants.
    #[prost(bytes = "bytes", repeated, tag = "7")]
    pub grants: Vec<Bytes>,
    /// The text that the person gave.
    #[prost(string, tag = "8")]
    pub reason: String,
    /// The cluster, again.
    #[prost(string, tag = "9")]
    pub cluster: String,
    /// The node, again.
    #[prost(string, tag = "10")]
    pub node: String,
    /// The purpose, again.
    #[prost(enumeration = "Purpose", tag = "11")]
    pub purpose: i32,
    /// The command is one line for the login shell (`-c`).
    #[prost(bool, tag = "12")]
    pub login_line: bool,
    /// The local user that the caller expects (`-l`), empty when it does not say; checked against the profile's account.
    #[prost(string, tag = "13")]
    pub local_user: String,
    /// The path that the client says it took.
    #[prost(enumeration = "ClaimedPath", tag = "14")]
    pub claimed_path: i32,
    /// The client's own id for finding this session in other logs. A claim.
    #[prost(string, tag = "15")]
    pub correlation_id: String,
}

impl Open {
    /// The open id.
    ///
    /// # Errors
    /// When it has not 16 bytes; never after decoding.
    pub fn id(&self) -> Result<OpenId, ProtocolError> {
        OpenId::from_slice(&self.open_id).ok_or_else(|| Check(Self::TYPE).bad("open_id", "wrong number of bytes"))
    }
}

impl Control for Open {
    const TYPE: Type = Type::Open;
    const LAST_FIELD: u32 = 15;
    const REPEATED: &'static [(u32, usize)] = &[(3, MAX_ARGV), (4, MAX_ENV), (7, MAX_GRANTS)];

    fn validate(&self) -> Result<(), ProtocolError> {
        let check = Check(Self::TYPE);
        check.exactly("open_id", &self.open_id, 16)?;
        let kind = check.known::<Kind>("kind", self.kind)?;
        check.strings("argv", &self.argv, MAX_ARGV, MAX_OPEN)?;
        match (kind, self.argv.len(), self.login_line) {
            (Kind::Shell, 0, false) | (Kind::Exec, 1, true) => {}
            (Kind::Exec, 1.., false) => {}
            _ => return Err(check.bad("argv", "does not fit the kind")),
        }
        check.most("env", self.env.len(), MAX_ENV)?;
        self.env.iter().try_for_each(|variable| variable.check(check))?;
        if let Some(terminal) = &self.terminal {
            check.no_nul("terminal.term", &terminal.term, MAX_TERM)?;
        }
        check.name_or_empty::<ProfileName>("profile", &self.profile)?;
        check_grants(check, &self.grants)?;
        check.most("reason", self.reason.len(), MAX_TEXT)?;
        check_target(check, &self.cluster, &self.node, self.purpose)?;
        check.no_nul("local_user", self.local_user.as_bytes(), MAX_LONG_NAME)?;
        check_claimed_path(check, self.claimed_path)?;
        check.most("correlation_id", self.correlation_id.len(), MAX_SHORT_TEXT)?;
        check.most("the whole message", prost::Message::encoded_len(self), MAX_OPEN)
    }
}

/// The session exists.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Opened {
    /// The session id, 16 bytes.
    #[prost(bytes = "bytes", tag = "1")]
    pub session: Bytes,
    /// Version of the policy that permitted it.
    #[prost(uint64, tag = "2")]
    pub policy_version: u64,
    /// The profile in force.
    #[prost(string, tag = "3")]
    pub profile: String,
    /// The local account that the command runs as.
    #[prost(string, tag = "4")]
    pub account: String,
    /// How it is recorded.
    #[prost(enumeration = "RecordLevel", tag = "5")]
    pub recorded: i32,
    /// The session's end, seconds since 1970.
    #[prost(int64, optional, tag = "6")]
    pub deadline_unix: Option<i64>,
    /// The idle limit in seconds.
    #[prost(uint32, optional, tag = "7")]
    pub idle_secs: Option<u32>,
    /// The node's name.
    #[prost(string, tag = "8")]
    pub node: String,
    /// The node's cluster.
    #[prost(string, tag = "9")]
    pub cluster: String,
    /// The window in both directions from now on; at least the one that held since OPEN.
    #[prost(uint64, tag = "10")]
    pub window: u64,
    /// All of the client's offsets below this are consumed (not 0 when OPEN was repeated).
    #[prost(uint64, tag = "11")]
    pub consumed: u64,
    /// The bundle is a demo's, or one signer alone can change it: say so.
    #[prost(bool, tag = "12")]
    pub demo: bool,
    /// How long the session waits for a client that is gone, in seconds.
    #[prost(uint32, tag = "13")]
    pub resume_window_secs: u32,
}

impl Opened {
    /// The session id.
    ///
    /// # Errors
    /// When it has not 16 bytes; never after decoding.
    pub fn session_id(&self) -> Result<SessionId, ProtocolError> {
        session_id(Self::TYPE, &self.session)
    }
}

impl Control for Opened {
    const TYPE: Type = Type::Opened;
    const LAST_FIELD: u32 = 13;

    fn validate(&self) -> Result<(), ProtocolError> {
        let check = Check(Self::TYPE);
        check.exactly("session", &self.session, 16)?;
        check.name::<ProfileName>("profile", &self.profile)?;
        check.most("account", self.account.len(), MAX_LONG_NAME)?;
        check.known::<RecordLevel>("recorded", self.recorded)?;
        check.name::<NodeName>("node", &self.node)?;
        check.name::<ClusterName>("cluster", &self.cluster)?;
        if (WINDOW_TERMINAL..=WINDOW_MAX).contains(&self.window) {
            Ok(())
        } else {
            Err(check.bad("window", "outside its bounds"))
        }
    }
}

/// No session.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Denied {
    /// The code.
    #[prost(uint32, tag = "1")]
    pub code: u32,
    /// Which part is missing.
    #[prost(enumeration = "Missing", tag = "2")]
    pub missing: i32,
    /// What was seen.
    #[prost(string, tag = "3")]
    pub seen: String,
    /// Version of the policy that was asked, 0 when none was.
    #[prost(uint64, tag = "4")]
    pub policy_version: u64,
}

impl Control for Denied {
    const TYPE: Type = Type::Denied;
    const LAST_FIELD: u32 = 4;

    fn validate(&self) -> Result<(), ProtocolError> {
        let check = Check(Self::TYPE);
        if self.missing != 0 {
            check.known::<Missing>("missing", self.missing)?;
        }
        if self.code == Code::Ok.number() {
            return Err(check.bad("code", "a refusal that says ok"));
        }
        check.most("seen", self.seen.len(), MAX_TEXT)
    }
}

/// The session is over without EXIT, or the client leaves for good.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Closed {
    /// The code.
    #[prost(uint32, tag = "1")]
    pub code: u32,
    /// What was seen.
    #[prost(string, tag = "2")]
    pub seen: String,
}

impl Control for Closed {
    const TYPE: Type = Type::Closed;
    const LAST_FIELD: u32 = 2;

    fn validate(&self) -> Result<(), ProtocolError> {
        Check(Self::TYPE).most("seen", self.seen.len(), MAX_TEXT)
    }
}

/// No wish yet: the connection is made ahead of time, and waits.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Standby {
    /// The cluster, again.
    #[prost(string, tag = "1")]
    pub cluster: String,
    /// The node, again.
    #[prost(string, tag = "2")]
    pub node: String,
    /// The purpose, again.
    #[prost(enumeration = "Purpose", tag = "3")]
    pub purpose: i32,
}

impl Control for Standby {
    const TYPE: Type = Type::Standby;
    const LAST_FIELD: u32 = 3;

    fn validate(&self) -> Result<(), ProtocolError> {
        check_target(Check(Self::TYPE), &self.cluster, &self.node, self.purpose)
    }
}

/// The node waits for OPEN on this connection.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct StandingBy {
    /// For how many seconds.
    #[prost(uint32, tag = "1")]
    pub secs: u32,
}

impl Control for StandingBy {
    const TYPE: Type = Type::StandingBy;
    const LAST_FIELD: u32 = 1;

    fn validate(&self) -> Result<(), ProtocolError> {
        Ok(())
    }
}

/// Something is going to end, or happened beside the data (somebody watches).
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Notice {
    /// What is going to end the session.
    #[prost(uint32, tag = "1")]
    pub code: u32,
    /// In how many seconds.
    #[prost(uint32, tag = "2")]
    pub seconds_left: u32,
    /// What was seen.
    #[prost(string, tag = "3")]
    pub seen: String,
}

impl Control for Notice {
    const TYPE: Type = Type::Notice;
    const LAST_FIELD: u32 = 3;

    fn validate(&self) -> Result<(), ProtocolError> {
        Check(Self::TYPE).most("seen", self.seen.len(), MAX_TEXT)
    }
}

pub(super) fn session_id(frame: Type, bytes: &[u8]) -> Result<SessionId, ProtocolError> {
    SessionId::from_slice(bytes).ok_or_else(|| Check(frame).bad("session", "wrong number of bytes"))
}

pub(super) fn check_target(check: Check, cluster: &str, node: &str, purpose: i32) -> Result<(), ProtocolError> {
    check.name::<ClusterName>("cluster", cluster)?;
    check.name::<NodeName>("node", node)?;
    check.known::<Purpose>("purpose", purpose).map(|_| ())
}

pub(super) fn check_grants(check: Check, grants: &[Bytes]) -> Result<(), ProtocolError> {
    check.most("grants", grants.len(), MAX_GRANTS)?;
    grants
        .iter()
        .try_for_each(|grant| check.most("grants", grant.len(), MAX_GRANT))
}

pub(super) fn check_claimed_path(check: Check, value: i32) -> Result<(), ProtocolError> {
    if value == 0 {
        Ok(())
    } else {
        check.known::<ClaimedPath>("claimed_path", value).map(|_| ())
    }
}
