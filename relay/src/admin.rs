//! What the relay adds to the admin socket of every service.
//!
//! ```text
//! GET /agents    JSON: every agent, those that wait behind another one marked
//! ```
//!
//! Never: changes anything.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use jiff::Timestamp;
use serde::Serialize;

use crate::state::Relay;

/// A row of `/agents`.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct AgentRow {
    /// Cluster of the node.
    pub(crate) cluster: String,
    /// The node.
    pub(crate) node: String,
    /// Which run of the agent.
    pub(crate) instance: String,
    /// Where it dials from.
    pub(crate) address: String,
    /// When it registered.
    pub(crate) since: Timestamp,
    /// Whether it waits behind another live agent of that name: a copied key, or a machine that was moved.
    pub(crate) parked: bool,
}

/// The relay's own questions.
pub(crate) fn routes(relay: Arc<Relay>) -> Router {
    Router::new().route("/agents", get(agents)).with_state(relay)
}

async fn agents(State(relay): State<Arc<Relay>>) -> impl IntoResponse {
    match serde_json::to_string_pretty(&relay.agents()) {
        Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text + "\n").into_response(),
        Err(cause) => (StatusCode::INTERNAL_SERVER_ERROR, cause.to_string()).into_response(),
    }
}
