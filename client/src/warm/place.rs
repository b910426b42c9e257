//! Where the warm process and its clients meet: one folder below the client's state, so one process for each configuration.
//!
//! ```text
//! STATE/warm/          0700, ours
//!   lock               held by the process as long as it serves; never removed
//!   socket             made by whoever has the lock, which makes whatever lies there a dead one's
//!   log, log.1         what it says, bounded
//! ```
//!
//! Each side checks the other: the folder and the socket belong to this user and to nobody else, and the peer's credentials
//! (from the kernel) are this user's. Never follows a link, and never connects to what is another's.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use noderelay_pki::files::{self, FileError};
use tokio::net::{UnixListener, UnixStream};

use crate::config::Config;

mod holder;

pub use holder::Holder;

/// The longest path of a socket that every system takes (macOS: 104 bytes with the zero at its end).
const MAX_PATH: usize = 103;

/// The folder of one warm process.
#[derive(Debug, Clone)]
pub struct Place(PathBuf);

/// Why a process can't serve there.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// The folder.
    #[error(transparent)]
    Folder(#[from] FileError),
    /// The folder, the lock or the socket.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Another process has the lock.
    #[error(
        "{0}: a warm process of this configuration, which noderelay warm status then shows, or somebody in its place"
    )]
    Taken(Holder),
    /// No system call takes such a path.
    #[error("{}: a socket's path has at most {MAX_PATH} bytes; set a shorter state: in the configuration", .0.display())]
    TooLong(PathBuf),
}

/// A place in which this process serves. Dropping it takes the socket away, then the lock.
#[derive(Debug)]
pub struct Occupied {
    /// Where clients come.
    pub listener: UnixListener,
    socket: PathBuf,
    _lock: File,
}

impl Place {
    /// The place of a configuration.
    pub fn of(config: &Config) -> Self {
        Self(config.state.join("warm"))
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// The socket.
    pub fn socket(&self) -> PathBuf {
        self.0.join("socket")
    }

    /// Who has the lock.
    pub fn holder(&self) -> Holder {
        Holder::of(self.lock())
    }

    fn lock(&self) -> PathBuf {
        self.0.join("lock")
    }

    /// Makes the folder.
    ///
    /// # Errors
    /// It can't be made, or is not ours alone.
    pub fn make(&self) -> Result<(), PlaceError> {
        files::private_directory(&self.0)?;
        self.ours().map_err(io_error(&self.0))
    }

    /// Takes the place: from then on nobody else serves there.
    ///
    /// # Errors
    /// Somebody does already, or it is no place to serve at.
    pub fn occupy(&self) -> Result<Occupied, PlaceError> {
        self.make()?;
        let socket = self.socket();
        if socket.as_os_str().len() > MAX_PATH {
            return Err(PlaceError::TooLong(socket));
        }
        let path = self.lock();
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&path)
            .map_err(io_error(&path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(PlaceError::Taken(self.holder())),
            Err(TryLockError::Error(source)) => return Err(PlaceError::Io { path, source }),
        }
        // Whoever served here had the lock: what is left of it is dead.
        match fs::remove_file(&socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io_error(&socket)(error)),
            _ => {}
        }
        let listener = UnixListener::bind(&socket).map_err(io_error(&socket))?;
        Ok(Occupied {
            listener,
            socket,
            _lock: lock,
        })
    }

    /// Connects to the process that serves there, if it is ours.
    ///
    /// # Errors
    /// Nobody serves there, or it is not this user's.
    pub async fn connect(&self) -> io::Result<UnixStream> {
        self.ours()?;
        let socket = self.socket();
        let facts = fs::symlink_metadata(&socket)?;
        if !facts.file_type().is_socket() || facts.uid() != us() {
            return Err(foreign("the socket"));
        }
        let stream = UnixStream::connect(&socket).await?;
        if is_ours(&stream) {
            Ok(stream)
        } else {
            Err(foreign("the process behind the socket"))
        }
    }

    /// The folder is a folder, ours, and nobody else can enter it.
    fn ours(&self) -> io::Result<()> {
        let facts = fs::symlink_metadata(&self.0)?;
        if facts.is_dir() && facts.uid() == us() && facts.mode() & 0o077 == 0 {
            Ok(())
        } else {
            Err(foreign("the folder"))
        }
    }
}

impl Drop for Occupied {
    fn drop(&mut self) {
        // Gone already is as good.
        let _ = fs::remove_file(&self.socket);
    }
}

/// Whether the process at the other end runs as this user.
pub(super) fn is_ours(stream: &UnixStream) -> bool {
    stream.peer_cred().is_ok_and(|peer| peer.uid() == us())
}

fn us() -> u32 {
    nix::unistd::geteuid().as_raw()
}

fn foreign(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!("{what} is not this user's alone"),
    )
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> PlaceError {
    move |source| PlaceError::Io {
        path: path.to_owned(),
        source,
    }
}
