//! The wish for a session: what the user asked for, as the message that the node gets.
//!
//! Arguments travel as a list of bytes, one by one, and are never joined. Of the environment only an allow-list goes
//! along: `TERM` (with a terminal), `LANG`, `LC_*`, `COLORTERM`. A value that is too long, or a name that cannot be one,
//! stays here. Pure: the environment and the random id are given in.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use bytes::Bytes;
use noderelay_pki::name::{ClusterName, NodeName};
use noderelay_proto::control::{ClaimedPath, Control, EnvVar, Kind, Open, Purpose, Terminal};
use noderelay_proto::limits::{MAX_ENV, MAX_ENV_NAME, MAX_ENV_VALUE, MAX_TERM};
use noderelay_proto::{OpenId, ProtocolError};

use crate::terminal::Size;

#[cfg(test)]
mod tests;

/// What shall run on the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// The login shell.
    Shell,
    /// One command with its arguments.
    Exec(Vec<OsString>),
    /// One line, for the login shell to run.
    Line(OsString),
}

/// Whether the remote side gets a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WantTerminal {
    /// For a shell when standard input is a terminal.
    #[default]
    Auto,
    /// Always (`-t`).
    Force,
    /// Never (`-T`).
    Never,
}

impl WantTerminal {
    /// Decides.
    pub fn decide(self, work: &Work, stdin_is_terminal: bool) -> bool {
        match self {
            Self::Auto => *work == Work::Shell && stdin_is_terminal,
            Self::Force => true,
            Self::Never => false,
        }
    }
}

/// Everything that the message says.
#[derive(Debug)]
pub struct Wish<'a> {
    /// Of this wish; the same again returns the same session.
    pub id: OpenId,
    /// The node.
    pub node: &'a NodeName,
    /// Its cluster.
    pub cluster: &'a ClusterName,
    /// What shall run.
    pub work: &'a Work,
    /// The size of the local terminal, if there is to be a remote one. A local one without size is 0×0.
    pub terminal: Option<Option<Size>>,
    /// The environment of this process.
    pub environment: Vec<(OsString, OsString)>,
    /// The profile, if one was named.
    pub profile: Option<&'a str>,
    /// The text that the person gave.
    pub reason: Option<&'a str>,
    /// Signed grants.
    pub grants: &'a [Bytes],
    /// The local user that the caller expects.
    pub local_user: Option<&'a str>,
}

impl Wish<'_> {
    /// The message.
    ///
    /// # Errors
    /// Something that the user gave breaks a bound of the protocol.
    pub fn message(&self) -> Result<Open, ProtocolError> {
        let (kind, argv, login_line) = match self.work {
            Work::Shell => (Kind::Shell, Vec::new(), false),
            Work::Exec(argv) => (Kind::Exec, argv.iter().map(|argument| bytes(argument)).collect(), false),
            Work::Line(line) => (Kind::Exec, vec![bytes(line)], true),
        };
        let terminal = self.terminal.map(|size| Terminal {
            term: self
                .variable("TERM")
                .filter(|term| term.len() <= MAX_TERM)
                .unwrap_or_default(),
            cols: size.map_or(0, |size| size.cols.into()),
            rows: size.map_or(0, |size| size.rows.into()),
            xpixel: size.map_or(0, |size| size.xpixel.into()),
            ypixel: size.map_or(0, |size| size.ypixel.into()),
        });
        let open = Open {
            open_id: self.id.to_bytes(),
            kind: kind.into(),
            argv,
            env: self.allowed(),
            terminal,
            profile: self.profile.unwrap_or_default().to_owned(),
            grants: self.grants.to_vec(),
            reason: self.reason.unwrap_or_default().to_owned(),
            cluster: self.cluster.to_string(),
            node: self.node.to_string(),
            purpose: Purpose::Session.into(),
            login_line,
            local_user: self.local_user.unwrap_or_default().to_owned(),
            claimed_path: ClaimedPath::Relay.into(),
            correlation_id: String::new(),
        };
        open.validate()?;
        Ok(open)
    }

    fn variable(&self, name: &str) -> Option<Bytes> {
        self.environment
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| bytes(value))
    }

    fn allowed(&self) -> Vec<EnvVar> {
        let fits = |name: &OsStr, value: &OsStr| {
            let key = name.as_bytes();
            let wanted = matches!(key, b"LANG" | b"COLORTERM") || key.starts_with(b"LC_");
            wanted && key.len() <= MAX_ENV_NAME && value.len() <= MAX_ENV_VALUE
        };
        let variables = self
            .environment
            .iter()
            .filter(|(name, value)| fits(name, value))
            .map(|(name, value)| EnvVar {
                name: bytes(name),
                value: bytes(value),
            });
        variables.take(MAX_ENV).collect()
    }
}

fn bytes(text: &OsStr) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}
