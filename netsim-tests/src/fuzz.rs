//! Every fuzz body of the project, with its corpus: the one list.
//!
//! ```text
//! */src/fuzz.rs ── a function over bytes ──> BODIES ─┬─ tests/fuzz.rs       over the corpus, and some mutants of it: always
//! */corpus/     ── bytes to begin with ─────>        ├─ bin/fuzz            mutants, for as long as one likes
//!                                                    └─ fuzz/target.rs      libFuzzer, guided by coverage
//! ```
//!
//! A body panics when what it was given breaks a promise. It opens no file, waits for nobody, and is done within milliseconds.

pub mod mutate;

use std::fs;
use std::path::{Path, PathBuf};

/// One body.
#[derive(Debug)]
pub struct Body {
    /// Its name, which is the name of its fuzz target as well.
    pub name: &'static str,
    /// The function as it is written in the list.
    pub path: &'static str,
    /// The function.
    pub run: fn(&[u8]),
    /// The folder of its corpus, from the root of the project.
    pub corpus: &'static str,
}

macro_rules! bodies {
    ($($name:ident $function:path, $corpus:literal;)*) => {
        /// All of them.
        pub const BODIES: &[Body] = &[$(Body {
            name: stringify!($name),
            path: stringify!($function),
            run: $function,
            corpus: $corpus,
        },)*];
    };
}

bodies! {
    pki_certificate    noderelay_pki::fuzz::certificate,      "pki/corpus/certificate";
    pki_claims         noderelay_pki::fuzz::claims,           "pki/corpus/claims";
    pki_names          noderelay_pki::fuzz::names,            "pki/corpus/names";
    pki_pem            noderelay_pki::fuzz::pem,              "pki/corpus/pem";
    pki_text           noderelay_pki::fuzz::text,             "pki/corpus/text";
    bundle_fleet       noderelay_bundle::fuzz::fleet,         "pki/bundle/corpus/fleet";
    bundle_metadata    noderelay_bundle::fuzz::metadata,      "pki/bundle/corpus/metadata";
    bundle_principals  noderelay_bundle::fuzz::principals,    "pki/bundle/corpus/principals";
    bundle_public_key  noderelay_bundle::fuzz::public_key,    "pki/bundle/corpus/public-key";
    bundle_signing_key noderelay_bundle::fuzz::signing_key,   "pki/corpus/pem";
    proto_number       noderelay_proto::fuzz::number,         "relay/proto/corpus/payloads";
    proto_payloads     noderelay_proto::fuzz::payloads,       "relay/proto/corpus/payloads";
    proto_refusal      noderelay_proto::fuzz::refusal,        "relay/proto/corpus/refusal";
    proto_registration noderelay_proto::fuzz::registration,   "relay/proto/corpus/streams";
    proto_session      noderelay_proto::fuzz::session,        "relay/proto/corpus/streams";
    proto_streams      noderelay_proto::fuzz::streams,        "relay/proto/corpus/streams";
    relay_config       noderelay_relay::fuzz::config,         "relay/corpus/config";
    relay_first_bytes  noderelay_relay::fuzz::first_bytes,    "relay/proto/corpus/streams";
    service_filter     noderelay_service::fuzz::filter,       "relay/service/corpus/filter";
    agent_config       noderelay_agent::fuzz::config,         "agent/corpus/config";
    audit_event        noderelay_audit_event::fuzz::line,     "agent/audit/event/corpus/line";
    audit_filter       noderelay_audit::fuzz::filter,         "agent/audit/corpus/output";
    audit_recording    noderelay_audit::fuzz::recording,      "agent/audit/corpus/recording";
    audit_written      noderelay_audit::fuzz::written,        "agent/audit/corpus/output";
    child_accounts     noderelay_child::fuzz::accounts,       "agent/child/corpus/accounts";
    child_orders       noderelay_child::fuzz::orders,         "agent/child/corpus/orders";
    holder_notes       noderelay_holder::fuzz::notes,         "agent/holder/corpus/notes";
    policy_nodes       noderelay_policy::fuzz::nodes,         "agent/policy/corpus/nodes";
    policy_policies    noderelay_policy::fuzz::policies,      "agent/policy/corpus/policies";
    client_config      noderelay_client::fuzz::config,        "client/corpus/config";
    client_from_node   noderelay_client::fuzz::from_node,     "relay/proto/corpus/streams";
    client_from_warm   noderelay_client::fuzz::from_warm,     "relay/proto/corpus/streams";
    client_keys        noderelay_client::fuzz::keys,          "client/corpus/typed";
    client_modes       noderelay_client::fuzz::modes,         "agent/audit/corpus/output";
    client_screen      noderelay_client::fuzz::screen,        "client/corpus/shown";
}

/// Runs the body of that name: what a fuzz target does.
pub fn run(name: &str, bytes: &[u8]) {
    let body = BODIES.iter().find(|body| body.name == name);
    (body.unwrap_or_else(|| panic!("no fuzz body {name}")).run)(bytes);
}

impl Body {
    /// Name and bytes of each file of its corpus, sorted.
    pub fn corpus(&self) -> Vec<(String, Vec<u8>)> {
        let folder = root().join(self.corpus);
        let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut files: Vec<_> = files
            .map(|file| {
                let file = file.unwrap();
                let name = file.file_name().to_string_lossy().into_owned();
                (name, fs::read(file.path()).unwrap())
            })
            .collect();
        files.sort();
        files
    }
}

/// The root of the project.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}
