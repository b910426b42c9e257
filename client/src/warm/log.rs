//! The log of the warm process: two files of a bounded size, the older one replaced when the newer one is full.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Largest size of one of the two files: days of an ordinary process.
const MAX: u64 = 256 * 1024;

/// Writes to the log. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Log(Arc<Mutex<Open>>);

#[derive(Debug)]
struct Open {
    path: PathBuf,
    file: File,
    size: u64,
}

impl Log {
    /// The log in this folder, goes on where it was.
    ///
    /// # Errors
    /// The file can't be opened.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let path = folder.join("log");
        let file = open(&path)?;
        let size = file.metadata()?.len();
        Ok(Self(Arc::new(Mutex::new(Open { path, file, size }))))
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if log.size > 0 && log.size + bytes.len() as u64 > MAX {
            fs::rename(&log.path, log.path.with_extension("1"))?;
            log.file = open(&log.path)?;
            log.size = 0;
        }
        let written = log.file.write(bytes)?;
        log.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).file.flush()
    }
}

#[cfg(test)]
mod tests;
