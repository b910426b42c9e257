//! `--status FILE`: one JSON object that tells programs how a session ended.
//!
//! The exit code alone cannot tell a remote 255 from a failure of ours; `origin` and `code` can. The file is replaced
//! in one step, so a reader never sees half of it; a pipe or device is written to as it is. It is written for every
//! end, also when there was never a connection. Where that cannot work, the session does not begin.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use noderelay_pki::files;
use noderelay_proto::code::Origin;
use serde::Serialize;

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
    pub fn check(file: &Path) -> std::io::Result<()> {
        match std::fs::metadata(file) {
            Ok(there) if there.is_dir() => Err(std::io::Error::other("it is a folder; name a file in it")),
            Ok(there) if !there.is_file() => Ok(()),
            _ => files::could_write(file).map_err(std::io::Error::other),
        }
    }

    /// Writes the object and a newline to `file`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, file: &Path) -> std::io::Result<()> {
        let mut text = serde_json::to_vec(self)?;
        text.push(b'\n');
        match std::fs::metadata(file) {
            Ok(there) if !there.is_file() => File::options().write(true).open(file)?.write_all(&text),
            _ => files::write_atomic(file, &text, 0o644).map_err(std::io::Error::other),
        }
    }
}
