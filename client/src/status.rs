//! `--status FILE`: one JSON object that tells programs how a session ended.
//!
//! The exit code alone cannot tell a remote 255 from a failure of ours; `origin` and `code` can. The file is replaced
//! in one step, so a reader never sees half of it; a pipe or device is written to as it is, and waited for a moment only:
//! a reader that never comes holds nobody up. It is written for every end, also when there was never a connection. Where
//! that cannot work, the session does not begin.

use std::fs::File;
use std::io::{Error, ErrorKind, Result, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use noderelay_pki::files;
use noderelay_proto::code::Origin;
use serde::Serialize;
use tokio::time::Instant;

/// How long the reader of a pipe may take to come, and to make room.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks at such a pipe.
const PAUSE: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests;

/// How a session ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    /// A name of the closed set of codes; `ok` when the remote command ended by itself or by a signal.
    pub code: &'static str,
    /// Who said so: client, relay, agent or remote.
    pub origin: &'static str,
    /// The exit code of the client.
    pub exit_code: u8,
    /// The signal that ended the remote command.
    pub signal: Option<u8>,
    /// The path: relay.
    pub path: Option<&'static str>,
    /// The relay that carried the session.
    pub relay: Option<String>,
    /// The session, 32 hexadecimal digits.
    pub session: Option<String>,
    /// The node that was asked for.
    pub node: String,
    /// Its cluster.
    pub cluster: Option<String>,
    /// The version of the policy that permitted or refused it.
    pub policy_version: Option<u64>,
    /// Bytes of standard input that were sent.
    pub bytes_in: u64,
    /// Bytes of output that were written here.
    pub bytes_out: u64,
    /// How often the session changed its path.
    pub resumed: u32,
}

impl Status {
    /// A status that knows nothing but the node.
    pub fn new(node: &str) -> Self {
        Self {
            code: "ok",
            origin: Origin::Client.name(),
            exit_code: 0,
            signal: None,
            path: None,
            relay: None,
            session: None,
            node: node.to_owned(),
            cluster: None,
            policy_version: None,
            bytes_in: 0,
            bytes_out: 0,
            resumed: 0,
        }
    }

    /// Whether [`Status::write`] will be able to, as far as can be known beforehand: nobody should learn only after the
    /// command ran that its outcome has no place. A pipe or device is not touched.
    ///
    /// # Errors
    /// The file's folder is missing or takes no new file, or the file is a folder itself.
    pub fn check(file: &Path) -> Result<()> {
        match std::fs::metadata(file) {
            Ok(there) if there.is_dir() => Err(Error::other("it is a folder; name a file in it")),
            Ok(there) if there.file_type().is_socket() => Err(Error::other("it is a socket; name a file or a pipe")),
            Ok(there) if !there.is_file() => Ok(()),
            _ => files::could_write(file).map_err(Error::other),
        }
    }

    /// Takes away what an earlier run wrote: a run that is killed must not leave the outcome of another one behind.
    ///
    /// # Errors
    /// The file is there and can't be removed.
    pub fn forget(file: &Path) -> Result<()> {
        match std::fs::symlink_metadata(file) {
            Ok(there) if there.is_file() => std::fs::remove_file(file),
            _ => Ok(()),
        }
    }

    /// Whether [`Status::write`] may wait, for the reader of a pipe.
    pub fn may_wait(file: &Path) -> bool {
        std::fs::metadata(file).is_ok_and(|there| !there.is_file())
    }

    /// Writes the object and a newline to `file`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, file: &Path) -> Result<()> {
        let mut text = serde_json::to_vec(self)?;
        text.push(b'\n');
        if Self::may_wait(file) {
            write_through(file, &text, PATIENCE)
        } else {
            files::write_atomic(file, &text, 0o644).map_err(Error::other)
        }
    }
}

/// Writes to a pipe or device that is there, without waiting for it longer than `patience`.
fn write_through(file: &Path, text: &[u8], patience: Duration) -> Result<()> {
    let until = Instant::now() + patience;
    let unblocked = nix::fcntl::OFlag::O_NONBLOCK.bits();
    let nobody = || {
        Error::other(format!(
            "nobody read this pipe within {patience:?}; start its reader first"
        ))
    };
    let later = |busy: bool, error: Error| match (busy, Instant::now() < until) {
        (true, true) => {
            std::thread::sleep(PAUSE);
            Ok(())
        }
        (true, false) => Err(nobody()),
        (false, _) => Err(error),
    };
    let mut open = loop {
        match File::options().write(true).custom_flags(unblocked).open(file) {
            Ok(open) => break open,
            Err(error) => later(error.raw_os_error() == Some(nix::libc::ENXIO), error)?,
        }
    };
    let mut left = text;
    while !left.is_empty() {
        match open.write(left) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => left = left.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => later(error.kind() == ErrorKind::WouldBlock, error)?,
        }
    }
    Ok(())
}
