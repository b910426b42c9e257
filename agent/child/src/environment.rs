//! What a session's environment holds: built from the account, never inherited.
//!
//! From the client come `LANG`, `LC_*` and, with a terminal, `TERM`; nothing else, and nothing that does not look like a
//! value of its kind. `SHELL` is added when the shell that really starts is known. Nothing of the agent's own environment
//! is ever seen.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::Account;

/// The search path: what an operator looks for lies in `sbin` as often as in `bin`, so every account gets both.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// What a terminal is called when the client's name for it is unusable.
pub const FALLBACK_TERM: &str = "dumb";

/// Longest locale value: real ones have under 40 bytes.
const MAX_LOCALE: usize = 256;
/// Longest terminal name (ncurses stops at 128).
const MAX_TERM: usize = 64;
/// How many `LC_*` are taken; POSIX and glibc know 14.
const MAX_OFFERED: usize = 32;

/// The environment of `account`. `terminal` is the client's name for its terminal, if the session has one; `offered` is
/// what the client would like to set.
pub fn build<'a>(
    account: &Account,
    terminal: Option<&[u8]>,
    offered: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
) -> Vec<(OsString, OsString)> {
    let name = OsStr::new(&account.name);
    let home = if account.home.as_os_str().is_empty() {
        OsStr::new("/")
    } else {
        account.home.as_os_str()
    };
    let mut all: Vec<(OsString, OsString)> = [
        ("HOME", home),
        ("USER", name),
        ("LOGNAME", name),
        ("PATH", OsStr::new(PATH)),
    ]
    .into_iter()
    .map(|(name, value)| (name.into(), value.into()))
    .collect();
    if let Some(term) = terminal {
        let term = if term_is_usable(term) {
            OsStr::from_bytes(term)
        } else {
            OsStr::new(FALLBACK_TERM)
        };
        all.push(("TERM".into(), term.into()));
    }
    let mut taken = 0;
    for (name, value) in offered {
        let name = OsString::from_vec(name.to_vec());
        if !locale_is_usable(name.as_bytes(), value) || taken == MAX_OFFERED || all.iter().any(|(n, _)| *n == name) {
            continue;
        }
        taken += 1;
        all.push((name, OsString::from_vec(value.to_vec())));
    }
    all
}

/// `LANG` or `LC_` and capitals; a value without control characters and without `/` (a locale that names a path would be
/// opened as a file).
fn locale_is_usable(name: &[u8], value: &[u8]) -> bool {
    let known = name == b"LANG"
        || name.strip_prefix(b"LC_").is_some_and(|rest| {
            (1..=32).contains(&rest.len()) && rest.iter().all(|b| b.is_ascii_uppercase() || *b == b'_')
        });
    known && value.len() <= MAX_LOCALE && !value.iter().any(|b| b.is_ascii_control() || *b == b'/')
}

/// A terminal name is looked up as a file name in the terminfo tree: letters, digits and `+ . _ -` only.
fn term_is_usable(term: &[u8]) -> bool {
    (1..=MAX_TERM).contains(&term.len())
        && term.iter().all(|b| b.is_ascii_alphanumeric() || b"+._-".contains(b))
        && !term.starts_with(b".")
}

#[cfg(test)]
mod tests;
