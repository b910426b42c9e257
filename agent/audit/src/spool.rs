//! Where the lines of a recording go: a file on disk; and while the disk refuses, bounded memory and then a stated gap.
//!
//! ```text
//! put ── write(2) at the end of the last whole line ──> file
//!   └─ refused: level strict   → broken for good, every later call says why
//!               level required → ring of the newest lines; retried with the next lines and at each sync
//!                                works again → gap entry (cause, span, what was lost), then the lines of the ring
//! a disk that refuses from the start (required): an anonymous file in memory, moved to its place when the disk allows
//! ```
//!
//! Never: a half-written line before a whole one, unbounded memory, or a loss without a gap entry.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::{Gap, line};

/// Lines kept while writing fails: minutes of a person's terminal, and harmless for a node with 100 sessions.
pub(crate) const RING: usize = 4 * 1024 * 1024;

/// Largest recording that is held in memory because the disk refused from the start.
pub(crate) const MEMORY_FILE: u64 = 16 * 1024 * 1024;

/// Pause between attempts while writing fails, in the session's time.
const RETRY: Duration = Duration::from_secs(1);

/// The lines of one recording on their way to the file.
#[derive(Debug)]
pub(crate) struct Spool {
    file: File,
    /// End of the last whole line.
    end: u64,
    strict: bool,
    /// Set while the file is only in memory: where it belongs.
    belongs_at: Option<PathBuf>,
    broken: Option<String>,
    waiting: VecDeque<Vec<u8>>,
    waiting_bytes: usize,
    gap: Option<Gap>,
    /// The open gap has its entry; what waits has still to follow.
    gap_stated: bool,
    retry_at: Duration,
    lost_any: bool,
    sync_failed: bool,
}

impl Spool {
    /// A new file with its first line, both synced; nothing is left behind when that fails. Its folder is looked at and used
    /// through one handle: it is no link, and nobody else writes there.
    ///
    /// The file is locked for as long as somebody writes it, in this process or in the one that it is handed to: so it shows
    /// when a writer died. A file system without locks is used without.
    pub(crate) fn create(path: &Path, first: &[u8]) -> io::Result<File> {
        let folder = folder_of(path)?;
        let name = path.file_name().unwrap_or_default();
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let file = File::from(openat(&folder, name, flags, Mode::from_bits_truncate(0o600))?);
        let _ = file.try_lock();
        let synced = file
            .write_all_at(first, 0)
            .and_then(|()| file.sync_all())
            // Makes the file's name survive a power cut.
            .and_then(|()| folder.sync_all());
        if let Err(cause) = synced {
            // The cause is what counts; an empty file that cannot be removed either is no recording (no header).
            let _ = unlinkat(&folder, name, UnlinkatFlags::NoRemoveDir);
            return Err(cause);
        }
        Ok(file)
    }

    /// An anonymous file in memory with its first line.
    pub(crate) fn create_in_memory(first: &[u8]) -> io::Result<File> {
        let file = memory_file()?;
        file.write_all_at(first, 0)?;
        Ok(file)
    }

    /// Continues a file whose whole lines end at `end`.
    pub(crate) fn continue_at(file: File, end: u64, strict: bool, belongs_at: Option<PathBuf>) -> Self {
        Self {
            file,
            end,
            strict,
            belongs_at,
            broken: None,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            gap: None,
            gap_stated: false,
            retry_at: Duration::ZERO,
            lost_any: false,
            sync_failed: false,
        }
    }

    /// Writes whole lines. Fails only under level strict, with the cause.
    pub(crate) fn put(&mut self, at: Duration, lines: &[u8]) -> Result<(), String> {
        if lines.is_empty() {
            return Ok(());
        }
        if let Some(cause) = &self.broken {
            return Err(cause.clone());
        }
        if self.gap.is_none() {
            match self.write(lines) {
                Ok(()) => return Ok(()),
                Err(cause) => self.failed(at, &cause)?,
            }
        }
        self.keep(lines);
        if at >= self.retry_at {
            self.settle(at);
        }
        Ok(())
    }

    /// Tries to write what waits, and to move a recording out of memory.
    pub(crate) fn settle(&mut self, at: Duration) {
        self.retry_at = at.saturating_add(RETRY);
        self.leave_memory(at);
        while let Some(gap) = &mut self.gap {
            // A loss is stated before the lines that survived it, a mere delay after them.
            if gap.lost_entries > 0 || (self.waiting.is_empty() && !self.gap_stated) {
                gap.until_us = micros(at);
                let mut stated = Vec::new();
                line::json(&mut stated, at, 'g', gap);
                if self.write(&stated).is_err() {
                    return;
                }
                self.gap_stated = true;
                if let Some(gap) = &mut self.gap {
                    (gap.lost_entries, gap.lost_bytes, gap.from_us) = (0, 0, micros(at));
                }
            }
            let Some(lines) = self.waiting.pop_front() else {
                self.gap = None;
                self.gap_stated = false;
                return;
            };
            if self.write(&lines).is_err() {
                self.waiting.push_front(lines);
                return;
            }
            self.waiting_bytes -= lines.len();
        }
    }

    /// Asks the disk to keep what was written. Fails only under level strict.
    pub(crate) fn sync(&mut self, at: Duration) -> Result<(), String> {
        if let Some(cause) = &self.broken {
            return Err(cause.clone());
        }
        self.settle(at);
        match self.file.sync_data() {
            Ok(()) => self.sync_failed = false,
            Err(cause) if self.strict => {
                let cause = cause.to_string();
                self.broken = Some(cause.clone());
                return Err(cause);
            }
            Err(cause) if !self.sync_failed => {
                self.sync_failed = true;
                self.lost_any = true;
                let mut notice = Vec::new();
                line::text(
                    &mut notice,
                    at,
                    'm',
                    &format!("the disk did not keep what was written before this: {cause}"),
                );
                self.put(at, &notice)?;
            }
            Err(_) => {}
        }
        Ok(())
    }

    /// Whether something was lost on the way.
    pub(crate) fn lost_any(&self) -> bool {
        self.lost_any
    }

    /// Why the recording is not on disk as a whole, if it is not.
    pub(crate) fn unsaved(&self) -> Option<String> {
        match (&self.gap, &self.belongs_at) {
            (Some(gap), _) => Some(gap.cause.clone()),
            (None, Some(path)) => Some(format!("it is only in memory; it belongs at {}", path.display())),
            (None, None) => self.broken.clone(),
        }
    }

    pub(crate) fn into_file(self) -> File {
        self.file
    }

    fn failed(&mut self, at: Duration, cause: &io::Error) -> Result<(), String> {
        let cause = cause.to_string();
        if self.strict {
            self.broken = Some(cause.clone());
            return Err(cause);
        }
        let from_us = micros(at);
        self.gap = Some(Gap {
            from_us,
            until_us: from_us,
            lost_entries: 0,
            lost_bytes: 0,
            cause,
        });
        self.retry_at = at.saturating_add(RETRY);
        Ok(())
    }

    /// Keeps lines in the ring; the oldest make room.
    fn keep(&mut self, lines: &[u8]) {
        self.waiting.push_back(lines.to_vec());
        self.waiting_bytes += lines.len();
        while self.waiting_bytes > RING
            && let Some(oldest) = self.waiting.pop_front()
        {
            self.waiting_bytes -= oldest.len();
            self.lost_any = true;
            if let Some(gap) = &mut self.gap {
                gap.lost_entries += oldest.iter().filter(|&&byte| byte == b'\n').count() as u64;
                gap.lost_bytes += oldest.len() as u64;
            }
        }
    }

    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        let length = lines.len() as u64;
        if self.belongs_at.is_some() && self.end + length > MEMORY_FILE {
            return Err(io::Error::new(
                io::ErrorKind::StorageFull,
                "the memory for a recording is used up",
            ));
        }
        match self.file.write_all_at(lines, self.end) {
            Ok(()) => {
                self.end += length;
                Ok(())
            }
            Err(cause) => {
                // The next attempt writes at the same place; a cut here keeps readers from seeing half a line.
                let _ = self.file.set_len(self.end);
                Err(cause)
            }
        }
    }

    /// Moves a recording out of memory to its place on disk, if the disk allows it now.
    fn leave_memory(&mut self, at: Duration) {
        let Some(path) = &self.belongs_at else { return };
        let Ok(file) = self.copy_to(path) else { return };
        self.file = file;
        self.belongs_at = None;
        if self.gap.is_none() {
            let cause = "the disk refused at the start".to_owned();
            self.gap = Some(Gap {
                from_us: 0,
                until_us: micros(at),
                lost_entries: 0,
                lost_bytes: 0,
                cause,
            });
        }
    }

    fn copy_to(&self, path: &Path) -> io::Result<File> {
        let mut content = vec![0; usize::try_from(self.end).unwrap_or(usize::MAX)];
        self.file.read_exact_at(&mut content, 0)?;
        Self::create(path, &content)
    }
}

fn micros(at: Duration) -> u64 {
    u64::try_from(at.as_micros()).unwrap_or(u64::MAX)
}

/// The folder that a file belongs into. Whoever else may write there could take the file away or put another in its place.
fn folder_of(path: &Path) -> io::Result<File> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
    let folder = File::options()
        .read(true)
        .custom_flags(flags.bits())
        .open(parent.unwrap_or(Path::new(".")))?;
    let mode = folder.metadata()?.mode() & 0o7777;
    if mode & 0o022 != 0 {
        let seen = format!("others may write into its folder (mode {mode:04o})");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, seen));
    }
    Ok(folder)
}

#[cfg(target_os = "linux")]
fn memory_file() -> io::Result<File> {
    use nix::sys::memfd::{MFdFlags, memfd_create};
    Ok(File::from(memfd_create(c"noderelay-recording", MFdFlags::MFD_CLOEXEC)?))
}

#[cfg(not(target_os = "linux"))]
fn memory_file() -> io::Result<File> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "recordings are held in memory on Linux only",
    ))
}
