//! Accounts of the host, read from `/etc/passwd` and `/etc/group` themselves.
//!
//! A directory service behind NSS can hang for minutes just when a node is sick, so it is never asked: an account that a
//! profile names must stand in the files. What this module never does: follow `+`/`-` lines, look at passwords, or guess.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Largest file that is read. Real ones have a few hundred lines; this bounds what a broken host can make us hold.
const MAX_FILE: u64 = 8 << 20;
/// The kernel's own limit on supplementary groups (`NGROUPS_MAX`).
const MAX_GROUPS: usize = 65_536;

/// One account of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Login name.
    pub name: String,
    /// User id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
    /// All groups, the primary one among them, sorted, each once.
    pub groups: Vec<u32>,
    /// Home directory.
    pub home: PathBuf,
    /// Login shell as the file gives it; may be missing or `nologin`.
    pub shell: PathBuf,
}

/// Why an account could not be found.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// The file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is larger than any real one.
    #[error("{} is larger than {MAX_FILE} bytes; it is not read", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// No line has this name.
    #[error("no account '{name}' in {}: create it on the node or name another account in the profile", path.display())]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// The file that was searched.
        path: PathBuf,
    },
}

/// Finds the account `name` in the files below `root` (`/` on a host).
pub fn find(root: &Path, name: &str) -> Result<Account, AccountError> {
    let path = root.join("etc/passwd");
    let passwd = read(&path)?;
    let mut account = parse_passwd(&passwd)
        .find(|account| account.name == name)
        .ok_or_else(|| AccountError::Unknown {
            name: name.to_owned(),
            path,
        })?;
    account.groups = groups(root, &account);
    Ok(account)
}

/// Finds the account with the user id `uid`, the first one if there are several.
pub fn find_uid(root: &Path, uid: u32) -> Result<Account, AccountError> {
    let path = root.join("etc/passwd");
    let passwd = read(&path)?;
    let mut account = parse_passwd(&passwd)
        .find(|account| account.uid == uid)
        .ok_or_else(|| AccountError::Unknown {
            name: uid.to_string(),
            path,
        })?;
    account.groups = groups(root, &account);
    Ok(account)
}

/// The accounts of a passwd file, without their groups. Lines that are not accounts are left out.
pub fn parse_passwd(bytes: &[u8]) -> impl Iterator<Item = Account> + '_ {
    lines(bytes).filter_map(|line| {
        let mut fields = line.split(|b| *b == b':');
        let name = std::str::from_utf8(fields.next()?).ok()?;
        let _password = fields.next()?;
        let uid = number(fields.next()?)?;
        let gid = number(fields.next()?)?;
        let _gecos = fields.next()?;
        let home = PathBuf::from(OsStr::from_bytes(fields.next()?));
        let shell = PathBuf::from(OsStr::from_bytes(fields.next().unwrap_or_default()));
        if name.is_empty() || name.starts_with(['+', '-']) || fields.next().is_some() {
            return None;
        }
        Some(Account {
            name: name.to_owned(),
            uid,
            gid,
            groups: vec![gid],
            home,
            shell,
        })
    })
}

/// The ids of the groups in a group file that list `name` as a member.
pub fn parse_groups<'a>(bytes: &'a [u8], name: &'a str) -> impl Iterator<Item = u32> + 'a {
    lines(bytes).filter_map(move |line| {
        let mut fields = line.split(|b| *b == b':');
        let group = fields.next()?;
        let _password = fields.next()?;
        let gid = number(fields.next()?)?;
        let members = fields.next()?;
        let special = group.is_empty() || matches!(group.first(), Some(b'+' | b'-'));
        (!special && members.split(|b| *b == b',').any(|member| member == name.as_bytes())).then_some(gid)
    })
}

/// The groups of an account. A missing group file means the primary group alone: it gives less, never more.
fn groups(root: &Path, account: &Account) -> Vec<u32> {
    let mut groups = vec![account.gid];
    if let Ok(bytes) = read(&root.join("etc/group")) {
        groups.extend(parse_groups(&bytes, &account.name));
    }
    groups.sort_unstable();
    groups.dedup();
    groups.truncate(MAX_GROUPS);
    groups
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes
        .split(|b| *b == b'\n')
        .filter(|line| !line.is_empty() && !line.starts_with(b"#"))
}

/// Decimal digits only: `u32::from_str` would also take a leading `+`.
fn number(field: &[u8]) -> Option<u32> {
    if field.is_empty() || !field.iter().all(u8::is_ascii_digit) {
        return None;
    }
    // 2^32-1 means "no id" to the kernel's calls and can't be anybody's.
    std::str::from_utf8(field)
        .ok()?
        .parse()
        .ok()
        .filter(|id| *id != u32::MAX)
}

fn read(path: &Path) -> Result<Vec<u8>, AccountError> {
    let unreadable = |source| AccountError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(AccountError::TooLarge { path: path.to_owned() });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
