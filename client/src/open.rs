//! The wish for a session: what the user asked for, as the message that the node gets.
//!
//! Arguments travel as a list of bytes, one by one, and are never joined. Of the environment only an allow-list goes
//! along: `TERM` (with a terminal), `LANG`, `LC_*`, `COLORTERM`. A value that is too long, a name that cannot be one, and
//! what is beyond their number stay here. What the person gave is sent whole or refused here, with the limit and a way
//! around it. Pure: the environment and the random id are given in.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use bytes::Bytes;
use noderelay_pki::name::{ClusterName, NameError, NodeName, ProfileName};
use noderelay_proto::code::Code;
use noderelay_proto::control::{ClaimedPath, Control, EnvVar, Kind, Open, Purpose, Terminal};
use noderelay_proto::limits::{
    MAX_ARGV, MAX_ENV, MAX_ENV_NAME, MAX_ENV_VALUE, MAX_GRANTS, MAX_LONG_NAME, MAX_OPEN, MAX_TERM, MAX_TEXT,
};
use noderelay_proto::{OpenId, ProtocolError};
use thiserror::Error;

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

/// What the person gave does not fit into a wish.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WishError {
    /// Too many words.
    #[error(
        "the command has {seen} words, and at most {MAX_ARGV} travel: \
         give the others through standard input (… | noderelay … xargs CMD), or run a script"
    )]
    Words {
        /// How many.
        seen: usize,
    },
    /// Too many bytes.
    #[error("the command has {seen} bytes, and at most {limit} travel: give what is long through standard input")]
    Long {
        /// How many, with what travels beside the command.
        seen: usize,
        /// How many there may be.
        limit: usize,
    },
    /// A reason that nobody would read.
    #[error("--reason has {seen} bytes, and at most {MAX_TEXT} are recorded: shorten it")]
    Reason {
        /// How many.
        seen: usize,
    },
    /// No profile can have this name.
    #[error("--profile: {0}")]
    Profile(NameError),
    /// No account can have this name.
    #[error("-l: an account's name has at most {MAX_LONG_NAME} bytes, this one has {seen}")]
    Account {
        /// How many.
        seen: usize,
    },
    /// More grants than anybody needs.
    #[error("{seen} grants are given, and at most {MAX_GRANTS} travel: leave out those for other nodes")]
    Grants {
        /// How many.
        seen: usize,
    },
    /// What was given is within its limits, and still no wish.
    #[error("this program made no valid wish of it: {0}")]
    Ours(ProtocolError),
}

impl WishError {
    /// Whose fault it is.
    pub fn code(&self) -> Code {
        match self {
            Self::Ours(_) => Code::ClientInternal,
            _ => Code::ClientUsage,
        }
    }
}

impl Wish<'_> {
    /// The message.
    ///
    /// # Errors
    /// Something that the person gave is larger than it may be, or no name.
    pub fn message(&self) -> Result<Open, WishError> {
        self.check()?;
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
        match open.validate() {
            Ok(()) => Ok(open),
            // Every part is within its own limit: it is the sum.
            Err(ProtocolError::OverLimit { seen, limit, .. }) => Err(WishError::Long { seen, limit }),
            Err(error) => Err(WishError::Ours(error)),
        }
    }

    /// The limits of what a person gives, in words for that person.
    fn check(&self) -> Result<(), WishError> {
        if let Work::Exec(argv) = self.work
            && argv.len() > MAX_ARGV
        {
            return Err(WishError::Words { seen: argv.len() });
        }
        let longest = match self.work {
            Work::Shell => 0,
            Work::Line(line) => line.len(),
            Work::Exec(argv) => argv.iter().map(|argument| argument.len()).max().unwrap_or_default(),
        };
        if longest > MAX_OPEN {
            return Err(WishError::Long {
                seen: longest,
                limit: MAX_OPEN,
            });
        }
        if let Some(profile) = self.profile {
            ProfileName::parse(profile).map_err(WishError::Profile)?;
        }
        let reason = self.reason.map_or(0, str::len);
        if reason > MAX_TEXT {
            return Err(WishError::Reason { seen: reason });
        }
        let account = self.local_user.map_or(0, str::len);
        if account > MAX_LONG_NAME {
            return Err(WishError::Account { seen: account });
        }
        if self.grants.len() > MAX_GRANTS {
            return Err(WishError::Grants {
                seen: self.grants.len(),
            });
        }
        Ok(())
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
