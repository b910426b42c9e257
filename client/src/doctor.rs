//! `noderelay doctor [NODE]`: the four parts that a shell needs, each looked at, each with a verdict and a fix.
//!
//! | part | looked at |
//! |---|---|
//! | identity | certificate and key, their end, and whether the fleet file accepts them |
//! | path | each relay of the cluster; with a NODE also the inner TLS through one of them |
//! | policy | the verified bundle and its freshness; with a NODE the question that the node would be asked |
//! | grant | whether the rule asks for one, and whether one was given |
//!
//! The policy is evaluated here with the crate that nodes use, over the bundle that is in force *here*: a node with
//! another bundle may say something else, and its word counts. No session is opened and nothing is started.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use noderelay_link::Stream;
use noderelay_pki::name::{ClusterName, ProfileName};
use noderelay_pki::text::escape;
use noderelay_pki::{Usage, time};
use noderelay_proto::code::{Code, Origin};
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};

use crate::config::Config;
use crate::creds::Creds;
use crate::dial::{self, Reached, Ways};
use crate::farewell;
use crate::faults::{self, Fault};
use crate::inner::{self, Refusal};
use crate::message::{About, MAX_SEEN, Message};
use crate::pump::words;
use crate::target::Target;
use crate::whoami::PERSONS;

mod policy;
#[cfg(test)]
mod tests;

use policy::{freshness, policy};

/// A certificate that ends within this is told beforehand.
const SOON: Duration = Duration::from_secs(2 * 3600);
/// How long the node may take to refuse our certificate after the handshake.
const REFUSAL: Duration = Duration::from_millis(500);
/// One of the four parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// A way to the node.
    Path,
    /// A certificate.
    Identity,
    /// A rule.
    Policy,
    /// A grant.
    Grant,
}

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It is there.
    Good,
    /// It is missing, or does not work.
    Failed,
    /// It could not be looked at, because another part is missing, or because no node was named.
    Unknown,
}

/// The verdict on one part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Which part.
    pub part: Part,
    /// The verdict.
    pub verdict: Verdict,
    /// The code, when it failed.
    pub code: Option<&'static str>,
    /// What was seen.
    pub seen: String,
    /// What helps.
    pub fix: Option<String>,
}

/// All four.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The node that was asked about.
    pub node: Option<String>,
    /// Its cluster.
    pub cluster: Option<String>,
    /// The policy version in force here.
    pub policy_version: Option<u64>,
    /// The four findings.
    pub findings: Vec<Finding>,
}

/// What is asked about.
#[derive(Debug, Clone, Default)]
pub struct DoctorOptions {
    /// The node, as typed.
    pub node: Option<String>,
    /// Its cluster.
    pub cluster: Option<ClusterName>,
    /// The profile.
    pub profile: Option<ProfileName>,
    /// The reason that would be given.
    pub reason: Option<String>,
    /// Whether a grant would come along.
    pub grant: bool,
    /// Relay addresses instead of those in the fleet file.
    pub relays: Vec<String>,
}

impl Report {
    /// 0 when nothing failed, else 1.
    pub fn exit_code(&self) -> u8 {
        u8::from(self.findings.iter().any(|finding| finding.verdict == Verdict::Failed))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            let (part, verdict) = match (finding.part, finding.verdict) {
                (part, Verdict::Good) => (part, "good"),
                (part, Verdict::Failed) => (part, "FAILED"),
                (part, Verdict::Unknown) => (part, "-"),
            };
            let part = match part {
                Part::Path => "path",
                Part::Identity => "identity",
                Part::Policy => "policy",
                Part::Grant => "grant",
            };
            let code = finding.code.map(|code| format!("{code}: ")).unwrap_or_default();
            writeln!(f, "{part:<9} {verdict:<7} {code}{}", finding.seen)?;
            if let Some(fix) = &finding.fix {
                writeln!(f, "{:<18}{fix}", "")?;
            }
        }
        Ok(())
    }
}

/// Looks at all four parts.
pub async fn doctor(config: &Config, options: &DoctorOptions, now: Timestamp) -> Report {
    let node = options.node.as_deref().unwrap_or_default();
    let mut report = Report {
        node: options.node.as_deref().map(|node| escape(node, 253)),
        cluster: None,
        policy_version: None,
        findings: Vec::new(),
    };
    let creds = match Creds::load(config, now).await {
        Ok(creds) => creds,
        Err(error) => {
            report.findings = without_credentials(&error.fault(), node);
            return report;
        }
    };
    report.policy_version = Some(creds.publication.policy_version());
    report.findings.push(identity(&creds, node, now));
    match target(&creds, config, options) {
        Ok(Some(target)) => {
            report.cluster = Some(target.cluster.to_string());
            let given = if options.relays.is_empty() {
                &config.relays
            } else {
                &options.relays
            };
            report.findings.push(path(&creds, &target, given).await);
            report.findings.extend(policy(&creds, &target, options, now));
        }
        Ok(None) => report.findings.extend([
            unknown(Part::Path, "name a node to have its way looked at"),
            freshness(&creds.publication, now),
            unknown(Part::Grant, "name a node to have its rule looked at"),
        ]),
        Err(fault) => report.findings.extend([
            failed(Part::Path, &fault, node),
            freshness(&creds.publication, now),
            unknown(Part::Grant, "cannot be looked at without the node"),
        ]),
    }
    report
}

/// The part that is missing first, then what cannot be looked at without it.
fn without_credentials(fault: &Fault, node: &str) -> Vec<Finding> {
    let missing = if fault.code == Code::ClientBundle {
        Part::Policy
    } else {
        Part::Identity
    };
    let others = [Part::Identity, Part::Path, Part::Policy, Part::Grant]
        .into_iter()
        .filter(|part| *part != missing)
        .map(|part| unknown(part, "cannot be looked at without the above"));
    std::iter::once(failed(missing, fault, node)).chain(others).collect()
}

/// The node that is asked about, if one is.
fn target(creds: &Creds, config: &Config, options: &DoctorOptions) -> Result<Option<Target>, Fault> {
    let find = |node: &str| {
        Target::find(
            node,
            options.cluster.as_ref(),
            config.cluster.as_ref(),
            creds.publication.fleet(),
        )
    };
    options.node.as_deref().map(find).transpose()
}

fn identity(creds: &Creds, node: &str, now: Timestamp) -> Finding {
    let credentials = creds.party.credentials.get();
    let refused = creds
        .party
        .trust
        .get()
        .verify(credentials.chain(), Usage::Client, &PERSONS, now);
    if let Err(refused) = refused {
        return failed(
            Part::Identity,
            &Fault::new(
                noderelay_link::identity_code(&refused),
                Origin::Client,
                refused.to_string(),
            ),
            node,
        );
    }
    let left = time::between(now, credentials.not_after());
    let identity = credentials.identity();
    let seen = format!(
        "{} {} of cluster {}, {} left (until {})",
        identity.kind(),
        identity.role.name(),
        identity.cluster,
        words(left),
        time::format(credentials.not_after())
    );
    let fix = (left < SOON).then(|| "It ends soon: get a new certificate before you need one.".to_owned());
    Finding {
        fix,
        ..good(Part::Identity, &seen)
    }
}

/// Every relay is tried, and the node through the first that works.
async fn path(creds: &Creds, target: &Target, given: &[String]) -> Finding {
    let ways = Ways::new(creds.publication.fleet(), &target.cluster, given);
    if ways.is_empty() {
        let none = format!("the fleet file names no relay for cluster {}", target.cluster);
        return failed(
            Part::Path,
            &Fault::new(Code::TransportNoRelay, Origin::Client, none),
            target.node.as_str(),
        );
    }
    let mut seen = Vec::new();
    let mut reached = false;
    let mut faults = Vec::new();
    for (label, way) in ways.each() {
        match through(way, creds, target).await {
            Ok(answer) => {
                reached = true;
                seen.push(answer);
            }
            Err(fault) => {
                seen.push(format!("{label}: {} ({})", fault.code.name(), fault.seen));
                faults.push(fault);
            }
        }
    }
    let seen = escape(&seen.join("; "), 3 * MAX_SEEN);
    // What came from the node itself says most.
    let worst = faults.iter().find(|fault| !fault.is_transport()).or(faults.first());
    match worst {
        Some(fault) if !reached => Finding {
            seen,
            ..failed(Part::Path, fault, target.node.as_str())
        },
        _ => good(Part::Path, &seen),
    }
}

/// The node's answer through one relay, in words.
async fn through(way: Ways, creds: &Creds, target: &Target) -> Result<String, Fault> {
    let started = Instant::now();
    let attempt = |stream| handshake(stream, creds, target);
    let reached = dial::through_relays(&creds.party, way, target, &|_| {}, attempt).await;
    let answer = reached.map(|Reached { relay, link, .. }| {
        let took = started.elapsed().as_millis();
        format!("node answers through relay {relay} at {} ({took} ms)", link.remote)
    });
    farewell::told().await;
    answer.map_err(|refusal| refusal.fault)
}

/// The inner TLS without a session: the node shows its certificate, and has a moment to refuse ours.
async fn handshake(stream: Stream, creds: &Creds, target: &Target) -> Result<(), Refusal> {
    let mut stream = inner::connect(stream, &creds.party, &target.identity, &[], inner::HANDSHAKE).await?;
    // An error here is the same as the one that reading gives.
    let _ = stream.shutdown().await;
    match timeout(REFUSAL, stream.read(&mut [0; 1])).await {
        Ok(Err(error)) => {
            let fault = faults::of_stream(&error);
            // That it ends now is what we asked for.
            if fault.is_transport() {
                Ok(())
            } else {
                Err(fault.into())
            }
        }
        _ => Ok(()),
    }
}

fn good(part: Part, seen: &str) -> Finding {
    Finding {
        part,
        verdict: Verdict::Good,
        code: None,
        seen: escape(seen, 3 * MAX_SEEN),
        fix: None,
    }
}

fn unknown(part: Part, seen: &str) -> Finding {
    Finding {
        verdict: Verdict::Unknown,
        ..good(part, seen)
    }
}

fn failed(part: Part, fault: &Fault, node: &str) -> Finding {
    let message = Message::from(fault.code, fault.origin, &fault.seen, About { node, open: false });
    Finding {
        part,
        verdict: Verdict::Failed,
        code: Some(fault.code.name()),
        seen: message.seen,
        fix: Some(message.fix),
    }
}
