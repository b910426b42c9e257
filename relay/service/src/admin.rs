//! The socket at which an operator asks a running program how it is: a Unix socket of mode 0600 and nothing else, since the
//! answers name machines and people.
//!
//! ```text
//! GET /healthz      200 while the process serves at all
//! GET /readyz       200 when every named part is ready, else 503; one line per part: `name: ok` or `name: what is wrong`
//! GET /metrics      Prometheus text
//! GET /log          the filter of the log that is in force
//! PUT /log?for=10m  another one, from the body, for that time (10 minutes when it is not said)
//! DELETE /log       the one that the program was started with
//! …                 what the program itself adds
//! ```
//!
//! Never: listens on the network, ends anything, or is needed by anything.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::IntoResponse;
use axum::routing::get;
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect, listen, socket};
use nix::sys::stat::{Mode, fchmod};
use noderelay_pki::text::{Period, escape_lines};
use prometheus_client::encoding::prometheus_text;
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;

use crate::health::Part;
use crate::log::{self, Log};

/// Longest filter of a log that is read.
const MAX_FILTER: usize = 4096;

/// For how long a filter is changed when that is not said.
const FOR: Duration = Duration::from_secs(600);

/// Whoever can answer.
pub trait Report: Send + Sync + 'static {
    /// The parts of readiness.
    fn parts(&self) -> Vec<Part>;
    /// The text of `/metrics`.
    fn metrics(&self) -> String;
}

/// The socket can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// Something that is no socket has its name.
    #[error("{} exists and is not a socket; give `admin` another path or remove it", .0.display())]
    NotASocket(PathBuf),
    /// Another process answers on it.
    #[error("another process serves {}; each program needs an admin socket of its own", .0.display())]
    InUse(PathBuf),
    /// The system refused.
    #[error("can't open the admin socket {}: {cause}", path.display())]
    Io {
        /// Which socket.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
}

/// The open socket; its file goes when it is dropped.
#[derive(Debug)]
pub struct Admin {
    listener: Option<UnixListener>,
    path: PathBuf,
    /// Device and number of the socket's file: another program may have put its own there since.
    file: (u64, u64),
}

impl Admin {
    /// Opens the socket; one that a dead process left behind is replaced.
    pub fn bind(path: &Path) -> Result<Self, AdminError> {
        let failed = |cause| AdminError::Io {
            path: path.to_owned(),
            cause,
        };
        match fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => return Err(AdminError::NotASocket(path.to_owned())),
            Ok(_) => {
                if is_served(path).map_err(failed)? {
                    return Err(AdminError::InUse(path.to_owned()));
                }
                fs::remove_file(path).map_err(failed)?;
            }
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
            Err(cause) => return Err(failed(cause)),
        }
        let listener = private(path).map_err(failed)?;
        let ours = fs::symlink_metadata(path).map_err(failed)?;
        Ok(Self {
            listener: Some(listener),
            path: path.to_owned(),
            file: (ours.dev(), ours.ino()),
        })
    }

    /// Answers until `stop`; `more` is what the program itself adds.
    ///
    /// # Errors
    /// The socket fails.
    pub async fn serve(mut self, report: Arc<dyn Report>, more: Router, stop: CancellationToken) -> io::Result<()> {
        let Some(listener) = self.listener.take() else {
            return Ok(());
        };
        let mut router = Router::new()
            .route("/healthz", get(|| async { "ok\n" }))
            .route("/readyz", get(readyz))
            .route("/metrics", get(metrics_text))
            .with_state(report)
            .merge(more);
        if let Some(log) = log::current() {
            router = router.merge(filters(log));
        }
        let serve = axum::serve(listener, router);
        // Not graceful: a scraper that holds its connection open must not hold the program.
        tokio::select! {
            served = serve.into_future() => served,
            () = stop.cancelled() => Ok(()),
        }
    }
}

/// Whether a process listens on it. Never waits for one; who may not ask does not know, which is an error.
fn is_served(path: &Path) -> io::Result<bool> {
    let asks = stream_socket()?;
    match connect(asks.as_raw_fd(), &UnixAddr::new(path)?) {
        // Its queue is full.
        Ok(()) | Err(Errno::EAGAIN) => Ok(true),
        Err(Errno::ECONNREFUSED) => Ok(false),
        Err(other) => Err(other.into()),
    }
}

fn stream_socket() -> nix::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    socket(AddressFamily::Unix, SockType::Stream, flags, None)
}

/// A listener that nobody else can reach from its file's first moment on: Linux gives the file the mode that the socket has when it
/// is bound.
fn private(path: &Path) -> io::Result<UnixListener> {
    let socket = stream_socket()?;
    fchmod(&socket, Mode::S_IRUSR | Mode::S_IWUSR)?;
    bind(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    listen(&socket, Backlog::MAXCONN)?;
    UnixListener::from_std(socket.into())
}

impl Drop for Admin {
    fn drop(&mut self) {
        let there = fs::symlink_metadata(&self.path);
        if there.is_ok_and(|file| (file.dev(), file.ino()) == self.file) {
            // Whoever removed it already did our work.
            let _ = fs::remove_file(&self.path);
        }
    }
}

async fn readyz(State(report): State<Arc<dyn Report>>) -> impl IntoResponse {
    let parts = report.parts();
    let ready = parts.iter().all(|part| part.trouble.is_none());
    let line = |part: &Part| {
        let trouble = part.trouble.as_deref().unwrap_or("ok");
        format!("{}: {}\n", part.name, escape_lines(trouble, 1000))
    };
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (status, parts.iter().map(line).collect::<String>())
}

async fn metrics_text(State(report): State<Arc<dyn Report>>) -> impl IntoResponse {
    (
        [(header::CONTENT_TYPE, prometheus_text::CONTENT_TYPE)],
        report.metrics(),
    )
}

fn filters(log: &'static Log) -> Router {
    Router::new()
        .route("/log", get(show_log).put(change_log).delete(restore_log))
        .layer(DefaultBodyLimit::max(MAX_FILTER))
        .with_state(log)
}

async fn show_log(State(log): State<&'static Log>) -> String {
    log.filter() + "\n"
}

async fn change_log(State(log): State<&'static Log>, uri: Uri, filter: String) -> (StatusCode, String) {
    let changed =
        span(uri.query()).and_then(|span| log.change(filter.trim(), span).map_err(|refused| refused.to_string()));
    match changed {
        Ok(()) => (StatusCode::OK, log.filter() + "\n"),
        Err(refused) => (StatusCode::BAD_REQUEST, escape_lines(&refused, 1000) + "\n"),
    }
}

/// For how long, as a query says: `for=30m`.
fn span(query: Option<&str>) -> Result<Duration, String> {
    let Some(query) = query else { return Ok(FOR) };
    let text = query
        .strip_prefix("for=")
        .ok_or_else(|| format!("?{query} is not understood; write ?for=30m"))?;
    let span = Period::parse(text).map_err(|error| error.to_string())?.duration();
    if span.is_zero() || span > log::LONGEST {
        return Err(format!("the filter can be changed for up to 24h, not for {text}"));
    }
    Ok(span)
}

async fn restore_log(State(log): State<&'static Log>) -> String {
    log.restore();
    log.filter() + "\n"
}

#[cfg(test)]
mod tests;
