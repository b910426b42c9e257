//! Standard output of commands that answer with text. Session output never passes here: it belongs to the remote command.
//!
//! | what happens to the output | the command |
//! |---|---|
//! | it is written | goes on |
//! | nobody reads it any more (`… \| head`) | [`NobodyReads`]: says nothing, exit code [`NOBODY_READS`] |
//! | it can't be written (a full disk) | fails with what the system said |
//!
//! It never takes an answer for given that was not.

use std::io::{self, Write as _};

use anyhow::{Result, anyhow};
use noderelay_pki::text::{escape, escape_each_line, escape_json, escape_lines};

/// 128 + SIGPIPE: what a shell shows of other tools in the same place.
pub const NOBODY_READS: u8 = 141;

/// Most characters of one line of ours on standard error.
const MAX_LINE: usize = 2000;

/// The reader of standard output has gone.
#[derive(Debug)]
pub struct NobodyReads;

impl std::fmt::Display for NobodyReads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("nobody reads the output any more")
    }
}

impl std::error::Error for NobodyReads {}

/// One line. May hold text from elsewhere.
pub fn line(text: &str) -> Result<()> {
    bytes(format!("{}\n", escape(text, usize::MAX)).as_bytes())
}

/// Text that ends its own lines. May hold text from elsewhere within them.
pub fn text(text: &str) -> Result<()> {
    bytes(escape_each_line(text).as_bytes())
}

/// Bytes as they are.
pub fn bytes(bytes: &[u8]) -> Result<()> {
    let mut stdout = io::stdout().lock();
    written(stdout.write_all(bytes).and_then(|()| stdout.flush()))
}

/// One JSON document, which a terminal may show.
pub fn json(value: &impl serde::Serialize) -> Result<()> {
    bytes(format!("{}\n", escape_json(&serde_json::to_string_pretty(value)?)).as_bytes())
}

/// What became of something that was written to standard output.
pub fn written(result: io::Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(NobodyReads.into()),
        Err(error) => Err(anyhow!(
            "standard output can't be written: {error}; look where it leads, a full disk is the usual cause"
        )),
        Ok(()) => Ok(()),
    }
}

/// One line on standard error: `noderelay: TEXT`. May hold text from elsewhere. When nobody reads it, there is nobody to tell.
pub fn say(text: &str) {
    let _ = writeln!(io::stderr(), "noderelay: {}", escape_lines(text, MAX_LINE));
}
