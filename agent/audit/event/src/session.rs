//! The facts of one session: who, where, what, under which policy, and how it ended.
//!
//! The same types head a recording, so that log and recording say the same thing in the same words.
//! Never: a decision, a secret, a byte of what was typed or shown.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use noderelay_pki::identity::Identity;
use noderelay_pki::name::{ClusterName, GroupName, NodeName, ProfileName};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The name of a session: 128 random bits. A name, never a capability.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub [u8; 16]);

impl From<[u8; 16]> for SessionId {
    fn from(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not a session id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a session id is 32 lower-case hexadecimal digits")]
pub struct NotASessionId;

impl FromStr for SessionId {
    type Err = NotASessionId;

    fn from_str(text: &str) -> Result<Self, NotASessionId> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Ok(byte - b'0'),
            b'a'..=b'f' => Ok(byte - b'a' + 10),
            _ => Err(NotASessionId),
        };
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        if pairs.len() != 16 || !rest.is_empty() {
            return Err(NotASessionId);
        }
        let mut id = [0; 16];
        for (byte, [high, low]) in id.iter_mut().zip(pairs) {
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Ok(Self(id))
    }
}

impl Serialize for SessionId {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SessionId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}

/// What kind of work a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SessionKind {
    /// A login shell.
    Shell,
    /// One command with its arguments.
    Exec,
    /// One line, run by the login shell.
    Line,
}

/// What a recording must survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Recorded on disk, else in bounded memory with a stated gap; never refuses a session.
    Required,
    /// No recording, no session: refuses to start, and ends a session whose recording breaks.
    Strict,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Required => "required",
            Self::Strict => "strict",
        })
    }
}

/// One argument of a command, without loss: text where it is text, base64 where it is not.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Argument {
    /// UTF-8.
    Text(String),
    /// Bytes that are not UTF-8.
    Bytes(Base64),
}

/// Bytes, written as `{"base64": "…"}`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Base64 {
    #[serde(with = "base64_text")]
    base64: Vec<u8>,
}

impl Argument {
    /// The exact bytes of the argument.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Bytes(bytes) => &bytes.base64,
        }
    }
}

impl From<&[u8]> for Argument {
    fn from(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Bytes(Base64 {
                base64: bytes.to_owned(),
            }),
        }
    }
}

impl From<&str> for Argument {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl fmt::Debug for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.as_bytes().escape_ascii())
    }
}

/// What the client claims about itself; nobody vouched for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claimed {
    /// The path that the client says it came by: `api`, `relay`, `direct`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The client's own mark for finding this session in other logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
}

/// A session that was permitted and is recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionStarted {
    /// The session's name.
    pub session: SessionId,
    /// The cluster of the node.
    pub cluster: ClusterName,
    /// The node.
    pub node: NodeName,
    /// Who works, as verified from the certificate.
    pub principal: Identity,
    /// SHA-256 of the principal's public key, lower-case hex.
    pub key_fingerprint: String,
    /// The principal's groups, as verified from the certificate.
    pub groups: Vec<GroupName>,
    /// Shell, command or line.
    pub kind: SessionKind,
    /// The command; empty for a shell.
    pub argv: Vec<Argument>,
    /// The profile under which it runs.
    pub profile: ProfileName,
    /// The account of the node under which it runs.
    pub account: String,
    /// Version of the policy that permitted it.
    pub policy_version: u64,
    /// The rules that permitted it.
    pub rules: Vec<String>,
    /// The reason that the person gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The recording level that the policy asks for.
    pub level: Level,
    /// When it started.
    pub started: Timestamp,
    /// What the client merely claims.
    #[serde(default)]
    pub claimed: Claimed,
}

/// The end of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionEnded {
    /// The session's name.
    pub session: SessionId,
    /// Why it ended: a name from the closed list of codes.
    pub code: String,
    /// The work's own exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u32>,
    /// The signal that ended the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<u32>,
    /// Bytes that the client sent to the work.
    pub bytes_in: u64,
    /// Bytes that the work sent to the client.
    pub bytes_out: u64,
    /// Whether the recording is complete, without a gap.
    pub recording_complete: bool,
}

/// An authenticated principal that was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denied {
    /// The cluster of the node.
    pub cluster: ClusterName,
    /// The node.
    pub node: NodeName,
    /// Who asked, as verified from the certificate.
    pub principal: Identity,
    /// SHA-256 of the principal's public key, lower-case hex.
    pub key_fingerprint: String,
    /// What was asked for: the name of an action.
    pub action: String,
    /// The profile that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<ProfileName>,
    /// Why it was refused: a name from the closed list of codes.
    pub code: String,
    /// What was seen.
    pub seen: String,
    /// Version of the policy that refused it.
    pub policy_version: u64,
    /// What the client merely claims.
    #[serde(default)]
    pub claimed: Claimed,
}

/// Refusals of one principal beyond those that were written one by one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DenialsCounted {
    /// The cluster of the node.
    pub cluster: ClusterName,
    /// The node.
    pub node: NodeName,
    /// Who asked, as verified from the certificate.
    pub principal: Identity,
    /// How many more there were within a minute.
    pub count: u64,
}

/// Serde for bytes as base64.
mod base64_text {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        STANDARD.decode(String::deserialize(from)?).map_err(de::Error::custom)
    }
}
