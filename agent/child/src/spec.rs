//! The orders for a child: what to become, as whom, where, with which environment; and their encoding.
//!
//! The encoding only ever travels between two processes of one build over a socket pair: lengths and bytes, little endian,
//! nothing optional. It is still read strictly, because what follows is done as root.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use crate::Account;

/// Largest encoded [`Spec`]: a whole argument list of the protocol with room to spare.
pub(crate) const MAX_SPEC: usize = 1 << 20;

/// What the child becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The first shell of [`Spec::shells`] that starts; `login` makes it a login shell (`-bash`).
    Shell {
        /// Whether it reads the profile files.
        login: bool,
    },
    /// The same shell with `-c LINE`.
    Line(OsString),
    /// A program and its arguments, exactly as given; a name without `/` is looked up in the session's `PATH`.
    Command(Vec<OsString>),
}

/// Everything a child needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// What to become.
    pub what: What,
    /// The whole environment, but for `SHELL`.
    pub environment: Vec<(OsString, OsString)>,
    /// Directories to start in; the first that can be entered is taken, `/` if none can.
    pub directories: Vec<PathBuf>,
    /// Shells in the order in which they are tried.
    pub shells: Vec<PathBuf>,
    /// Whom to become; `None` stays who the process is.
    pub account: Option<Account>,
    /// Whether the standard descriptors are a terminal that becomes the controlling one.
    pub terminal: bool,
}

/// The order in which shells are tried: the account's own, then what nearly every node system has. A shell that refuses
/// everybody (`nologin`, `false`) is no shell: whether somebody may come in is decided by the policy alone.
pub fn shells(account: &Account) -> Vec<PathBuf> {
    let refuses = |shell: &PathBuf| {
        shell.file_name().is_none_or(|name| {
            ["nologin", "false", "true", "sync", "halt", "shutdown"]
                .iter()
                .any(|refusing| name == *refusing)
        })
    };
    let mut all = Vec::new();
    let own = Some(account.shell.clone()).filter(|shell| shell.is_absolute() && !refuses(shell));
    let usual = [
        "/bin/bash",
        "/usr/bin/bash",
        "/bin/sh",
        "/usr/bin/sh",
        "/bin/ash",
        "/bin/dash",
        "/bin/busybox",
    ];
    for shell in own.into_iter().chain(usual.map(PathBuf::from)) {
        if !all.contains(&shell) {
            all.push(shell);
        }
    }
    all
}

/// The bytes are not an encoded [`Spec`].
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("malformed orders")]
pub(crate) struct Malformed;

impl Spec {
    /// The orders of a session of `account`: its own shells and home directory.
    pub fn new(what: What, account: Account, environment: Vec<(OsString, OsString)>, terminal: bool) -> Self {
        let shells = shells(&account);
        Self {
            what,
            environment,
            directories: vec![account.home.clone()],
            shells,
            account: Some(account),
            terminal,
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Writer(Vec::new());
        match &self.what {
            What::Shell { login } => {
                out.number(0);
                out.number(u32::from(*login));
            }
            What::Line(line) => {
                out.number(1);
                out.text(line);
            }
            What::Command(argv) => {
                out.number(2);
                out.list(argv, |out, arg| out.text(arg));
            }
        }
        out.list(&self.environment, |out, (name, value)| {
            out.text(name);
            out.text(value);
        });
        out.list(&self.directories, |out, path| out.text(path.as_os_str()));
        out.list(&self.shells, |out, path| out.text(path.as_os_str()));
        out.list(self.account.as_slice(), |out, account| {
            out.text(OsStr::new(&account.name));
            out.number(account.uid);
            out.number(account.gid);
            out.list(&account.groups, |out, gid| out.number(*gid));
            out.text(account.home.as_os_str());
            out.text(account.shell.as_os_str());
        });
        out.number(u32::from(self.terminal));
        out.0
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Reader(bytes);
        let what = match input.number()? {
            0 => What::Shell { login: input.flag()? },
            1 => What::Line(input.text()?),
            2 => What::Command(input.list(Reader::text)?),
            _ => return Err(Malformed),
        };
        let environment = input.list(|input| Ok((input.text()?, input.text()?)))?;
        let directories = input.list(|input| input.text().map(PathBuf::from))?;
        let shells = input.list(|input| input.text().map(PathBuf::from))?;
        let mut accounts = input.list(|input| {
            Ok(Account {
                name: input.text()?.into_string().map_err(|_| Malformed)?,
                uid: input.number()?,
                gid: input.number()?,
                groups: input.list(Reader::number)?,
                home: input.text()?.into(),
                shell: input.text()?.into(),
            })
        })?;
        let account = accounts.pop();
        let terminal = input.flag()?;
        if !input.0.is_empty() || !accounts.is_empty() {
            return Err(Malformed);
        }
        Ok(Self {
            what,
            environment,
            directories,
            shells,
            account,
            terminal,
        })
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, number: u32) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn text(&mut self, text: &OsStr) {
        // Anything longer than the limit makes the whole thing longer than the limit, which the sender checks.
        self.number(u32::try_from(text.len()).unwrap_or(u32::MAX));
        self.0.extend_from_slice(text.as_bytes());
    }

    fn list<T>(&mut self, items: &[T], mut each: impl FnMut(&mut Self, &T)) {
        self.number(u32::try_from(items.len()).unwrap_or(u32::MAX));
        for item in items {
            each(self, item);
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn number(&mut self) -> Result<u32, Malformed> {
        let (bytes, rest) = self.0.split_first_chunk::<4>().ok_or(Malformed)?;
        self.0 = rest;
        Ok(u32::from_le_bytes(*bytes))
    }

    fn flag(&mut self) -> Result<bool, Malformed> {
        match self.number()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }

    /// Bytes without NUL: they all end up in calls that take C strings.
    fn text(&mut self) -> Result<OsString, Malformed> {
        let length = usize::try_from(self.number()?).map_err(|_| Malformed)?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        if bytes.contains(&0) {
            return Err(Malformed);
        }
        Ok(OsString::from_vec(bytes.to_vec()))
    }

    fn list<T>(&mut self, mut each: impl FnMut(&mut Self) -> Result<T, Malformed>) -> Result<Vec<T>, Malformed> {
        let count = usize::try_from(self.number()?).map_err(|_| Malformed)?;
        // Every item has four bytes or more, so the bytes at hand bound what is allocated.
        if count > self.0.len() / 4 {
            return Err(Malformed);
        }
        (0..count).map(|_| each(self)).collect()
    }
}

#[cfg(test)]
mod tests;
