//! What the agent answers at its admin socket: what every service does, and who is on the node.
//!
//! ```text
//! readiness   identity · bundle · relay (at least one routes to this node)
//! GET /sessions   JSON: every session that is open, without what is done in it
//! ```
//!
//! Never: changes anything, or shows what a session carries.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use jiff::Timestamp;
use noderelay_bundle::Role as Document;
use noderelay_pki::files::Watched;
use noderelay_pki::tls::Credentials;
use noderelay_service::{Health, Part, Report};
use serde::Serialize;

use crate::published::Published;
use crate::session::Node;

const IDENTITY: &str = "identity";
const BUNDLE: &str = "bundle";
const RELAY: &str = "relay";

/// A row of `/sessions`.
#[derive(Debug, Serialize)]
pub struct SessionRow {
    /// Its name, as in recording and audit events.
    pub session: String,
    /// Who.
    pub principal: String,
    /// As what.
    pub profile: String,
    /// On which account of the node.
    pub account: String,
    /// Since when.
    pub started: String,
    /// Why, as the person said.
    pub reason: Option<String>,
}

/// How the agent is.
pub struct Status {
    node: Arc<Node>,
    health: Health,
}

impl Status {
    /// Nothing is known yet.
    pub fn new(node: Arc<Node>) -> Self {
        Self {
            node,
            health: Health::new(&[IDENTITY, BUNDLE]),
        }
    }

    /// Notes what is in force.
    pub fn look(&self, published: &Published, credentials: &Watched<Credentials>, now: Timestamp) {
        let (common, in_force) = (&self.node.metrics.common, published.watch().borrow().clone());
        let publication = &in_force.publication;
        common
            .bundle_version
            .set(i64::try_from(publication.policy_version()).unwrap_or(i64::MAX));
        common
            .bundle_fresh_until
            .set(publication.expires(Document::Timestamp).as_second());
        let own = credentials.live().get();
        common.certificate_not_after.set(own.not_after().as_second());
        let freshness = publication.freshness(now);
        let stale = (!freshness.usable()).then(|| freshness.to_string());
        self.health.set(BUNDLE, published.fault().map(str::to_owned).or(stale));
        let expired = own.check(now).err().map(|error| error.to_string());
        self.health
            .set(IDENTITY, credentials.failing().map(str::to_owned).or(expired));
    }

    fn sessions(&self) -> Vec<SessionRow> {
        let row = |begun: Arc<crate::sessions::Begun>| SessionRow {
            session: begun.facts.session.to_string(),
            principal: begun.facts.principal.to_string(),
            profile: begun.facts.profile.to_string(),
            account: begun.facts.account.clone(),
            started: begun.facts.started.to_string(),
            reason: begun.facts.reason.clone(),
        };
        self.node.sessions.begun().into_iter().map(row).collect()
    }
}

impl Report for Status {
    fn parts(&self) -> Vec<Part> {
        let attached = self.node.metrics.relays_attached.get();
        let nowhere = (attached < 1).then(|| "no relay routes to this node; the log says why".to_owned());
        self.health.set(RELAY, nowhere);
        self.health.parts()
    }

    fn metrics(&self) -> String {
        let (node, number) = (&self.node, |count: usize| i64::try_from(count).unwrap_or(i64::MAX));
        node.metrics.sessions_open.set(number(node.sessions.count()));
        node.metrics.standbys.set(number(node.standbys.count()));
        node.metrics.text()
    }
}

/// The agent's own questions.
pub fn routes(status: Arc<Status>) -> Router {
    Router::new().route("/sessions", get(sessions)).with_state(status)
}

async fn sessions(State(status): State<Arc<Status>>) -> impl IntoResponse {
    match serde_json::to_string_pretty(&status.sessions()) {
        Ok(text) => {
            let shown = noderelay_pki::text::escape_json(&text) + "\n";
            ([(header::CONTENT_TYPE, "application/json")], shown).into_response()
        }
        Err(cause) => (StatusCode::INTERNAL_SERVER_ERROR, cause.to_string()).into_response(),
    }
}
