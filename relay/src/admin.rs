//! What an operator and a probe may ask a relay: health, readiness, metrics, attached agents.
//!
//! ```text
//! GET /healthz   200 while the process serves at all
//! GET /readyz    200 when every named part is ready, else 503; one line per part: `name: ok` or `name: what is wrong`
//! GET /metrics   Prometheus text
//! GET /agents    JSON: every agent, those that wait behind another one marked
//! ```
//!
//! It is a Unix socket of mode 0600 and nothing else: the list names machines, and later calls will change state.
//!
//! Never: listens on the network, or changes anything.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use jiff::Timestamp;
use serde::Serialize;
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;

use crate::metrics;

/// A named part of readiness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Its name; stable, scripts look for it.
    pub name: &'static str,
    /// What is wrong with it, if anything.
    pub trouble: Option<String>,
}

/// A row of `/agents`.
#[derive(Debug, Clone, Serialize)]
pub struct AgentRow {
    /// Cluster of the node.
    pub cluster: String,
    /// The node.
    pub node: String,
    /// Which run of the agent.
    pub instance: String,
    /// Where it dials from.
    pub address: String,
    /// When it registered.
    pub since: Timestamp,
    /// Whether it waits behind another live agent of that name: a copied key, or a machine that was moved.
    pub parked: bool,
}

/// Whoever can answer.
pub trait Report: Send + Sync + 'static {
    /// The parts of readiness.
    fn parts(&self) -> Vec<Part>;
    /// The text of `/metrics`.
    fn metrics(&self) -> String;
    /// Attached and waiting agents.
    fn agents(&self) -> Vec<AgentRow>;
}

/// The socket can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// Something that is no socket has its name.
    #[error("{} exists and is not a socket; give `admin` another path or remove it", .0.display())]
    NotASocket(PathBuf),
    /// Another process answers on it.
    #[error("another process serves {}; two relays need two admin sockets", .0.display())]
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
                if std::os::unix::net::UnixStream::connect(path).is_ok() {
                    return Err(AdminError::InUse(path.to_owned()));
                }
                fs::remove_file(path).map_err(failed)?;
            }
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
            Err(cause) => return Err(failed(cause)),
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(failed)?;
        Ok(Self {
            listener: Some(listener),
            path: path.to_owned(),
        })
    }

    /// Answers until `stop`.
    pub async fn serve(mut self, report: Arc<dyn Report>, stop: CancellationToken) -> io::Result<()> {
        let Some(listener) = self.listener.take() else {
            return Ok(());
        };
        let router = Router::new()
            .route("/healthz", get(|| async { "ok\n" }))
            .route("/readyz", get(readyz))
            .route("/metrics", get(metrics_text))
            .route("/agents", get(agents))
            .with_state(report);
        let serve = axum::serve(listener, router);
        // Not graceful: a scraper that holds its connection open must not hold the relay.
        tokio::select! {
            served = serve.into_future() => served,
            () = stop.cancelled() => Ok(()),
        }
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        // Whoever removed it already did our work.
        let _ = fs::remove_file(&self.path);
    }
}

async fn readyz(State(report): State<Arc<dyn Report>>) -> impl IntoResponse {
    let parts = report.parts();
    let ready = parts.iter().all(|part| part.trouble.is_none());
    let text: String = parts
        .iter()
        .map(|part| format!("{}: {}\n", part.name, part.trouble.as_deref().unwrap_or("ok")))
        .collect();
    (
        if ready {
            StatusCode::OK
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        },
        text,
    )
}

async fn metrics_text(State(report): State<Arc<dyn Report>>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], report.metrics())
}

async fn agents(State(report): State<Arc<dyn Report>>) -> impl IntoResponse {
    match serde_json::to_string_pretty(&report.agents()) {
        Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text + "\n").into_response(),
        Err(cause) => (StatusCode::INTERNAL_SERVER_ERROR, cause.to_string()).into_response(),
    }
}

#[cfg(test)]
mod tests;
