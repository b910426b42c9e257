//! `noderelay policy`: the policy repository, its signatures, its publication. The very crates that the agent uses.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use jiff::Timestamp;
use noderelay_bundle::author::{self, Draft, InitSpec, Signers, Validity};
use noderelay_bundle::fleet::{CertificateAuthority, Cluster, FleetFile, RelayEntry};
use noderelay_bundle::principals::{Group, PrincipalsFile};
use noderelay_bundle::signing::SigningKey;
use noderelay_bundle::{Publication, Role};
use noderelay_pki::files;
use noderelay_pki::identity::RoleKind;
use noderelay_pki::name::{ClusterName, GroupName, RelayName, TrustDomain};
use noderelay_policy::{PolicySet, starter};
use serde::Serialize;

use super::key::public;
use crate::args::{Output, PolicyCommand, SignRole};
use crate::out;

/// Largest certificate file.
const MAX_PEM: usize = 64 * 1024;
/// Largest root.
const MAX_ROOT: usize = 1024 * 1024;

/// Runs one of the commands.
pub async fn run(command: PolicyCommand) -> Result<()> {
    let now = Timestamp::now();
    match command {
        PolicyCommand::Init {
            dir,
            trust_domain,
            root_keys,
            signers,
            threshold,
            root_threshold,
            pipeline,
            clusters,
            relays,
        } => {
            let trust_domain = TrustDomain::parse(&trust_domain)?;
            let clusters = self::clusters(&clusters, &relays)?;
            let keys = |files: &[std::path::PathBuf]| files.iter().map(|f| public(f)).collect::<Result<Vec<_>>>();
            let spec = InitSpec {
                root: Signers {
                    threshold: root_threshold,
                    keys: keys(&root_keys)?,
                },
                targets: Signers {
                    threshold,
                    keys: keys(&signers)?,
                },
                pipeline: Signers::one(&public(&pipeline)?),
                demo: false,
                valid: Validity::default(),
                files: content(&trust_domain, clusters)?,
                trust_domain,
            };
            author::init(&dir, &spec)?;
            out::line(&format!(
                "policy repository in {}: read policies/, then `noderelay policy sign`",
                dir.display()
            ))
        }
        PolicyCommand::Sign { dir, key, role } => {
            let role = match role {
                SignRole::Root => Role::Root,
                SignRole::Targets => Role::Targets,
            };
            check_policies(&dir)?;
            signed(&author::sign(&dir, &SigningKey::load(&key)?, role, now)?)
        }
        PolicyCommand::Publish { dir, key, to } => {
            check_policies(&dir)?;
            let publication = author::publish(&dir, &to, &SigningKey::load(&key)?, now).await?;
            out::line(&format!(
                "policy version {} published to {}",
                publication.policy_version(),
                to.display()
            ))
        }
        PolicyCommand::Verify {
            publication,
            root,
            output,
        } => {
            let root = root.unwrap_or_else(|| publication.join("metadata/1.root.json"));
            let root = files::read_bounded(&root, MAX_ROOT)?;
            let publication = author::verify(&publication, &root).await?;
            parse(&publication)?;
            verified(&publication, now, output.output)
        }
    }
}

/// What a signer or the pipeline would put its name under is read as a node reads it first.
fn check_policies(dir: &Path) -> Result<()> {
    let mut policies = Vec::new();
    let folder = dir.join("policies");
    for entry in std::fs::read_dir(&folder).with_context(|| format!("folder {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.ends_with(".cedar") {
            policies.push((name, files::read_bounded(&path, MAX_ROOT)?));
        }
    }
    let rules = files::read_bounded(&dir.join("nodes.yaml"), MAX_ROOT)?;
    PolicySet::parse(0, &policies, &rules)?;
    Ok(())
}

fn parse(publication: &Publication) -> Result<PolicySet> {
    Ok(noderelay_client::bundle::policy(publication)?)
}

fn content(trust_domain: &TrustDomain, clusters: Vec<Cluster>) -> Result<Vec<(String, Vec<u8>)>> {
    let mut files = BTreeMap::new();
    let mut groups = Vec::new();
    let mut rules = String::new();
    for cluster in &clusters {
        groups.push(Group {
            cluster: cluster.name.clone(),
            group: GroupName::parse(starter::ON_CALL_GROUP)?,
        });
        let several = clusters.len() > 1;
        for (name, text) in starter::policies(&cluster.name) {
            let name = if several {
                format!("{}-{name}", cluster.name)
            } else {
                name
            };
            let text = if several {
                text.replace("@id(\"", &format!("@id(\"{}-", cluster.name))
            } else {
                text
            };
            files.insert(format!("policies/{name}"), text.into_bytes());
        }
        let of_cluster = starter::node_rules(&cluster.name);
        // The list continues: only the first cluster's text brings the key.
        let body = if rules.is_empty() {
            &of_cluster[..]
        } else {
            of_cluster.split_once("rules:\n").map_or("", |(_, b)| b)
        };
        rules.push_str(body);
    }
    let fleet = FleetFile {
        trust_domain: trust_domain.clone(),
        clusters,
        routes: Vec::new(),
        witnesses: Vec::new(),
        recipients: Vec::new(),
        webhooks: Vec::new(),
    };
    let principals = PrincipalsFile {
        persons: Vec::new(),
        groups,
        mappings: Vec::new(),
    };
    files.insert("fleet.yaml".to_owned(), fleet.to_yaml()?.into_bytes());
    files.insert("principals.yaml".to_owned(), principals.to_yaml()?.into_bytes());
    files.insert("nodes.yaml".to_owned(), rules.into_bytes());
    Ok(files.into_iter().collect())
}

fn clusters(clusters: &[String], relays: &[String]) -> Result<Vec<Cluster>> {
    let mut all = Vec::new();
    for text in clusters {
        let (name, file) = text
            .split_once('=')
            .with_context(|| format!("--cluster {text}: NAME=FILE is needed"))?;
        let certificate = String::from_utf8(files::read_bounded(Path::new(file), MAX_PEM)?)
            .with_context(|| format!("{file} is no PEM file"))?;
        all.push(Cluster {
            name: ClusterName::parse(name)?,
            owner: None,
            certificate_authorities: vec![CertificateAuthority {
                roles: BTreeSet::from([RoleKind::Node, RoleKind::Relay, RoleKind::User]),
                certificate,
            }],
            relays: Vec::new(),
        });
    }
    if all.is_empty() {
        bail!("at least one --cluster NAME=CA-CERTIFICATE is needed");
    }
    for text in relays {
        let parts = text
            .split_once('=')
            .and_then(|(who, address)| Some((who.split_once('/')?, address)));
        let ((cluster, name), address) =
            parts.with_context(|| format!("--relay {text}: CLUSTER/NAME=HOST:PORT is needed"))?;
        let (cluster, name) = (ClusterName::parse(cluster)?, RelayName::parse(name)?);
        let Some(cluster) = all.iter_mut().find(|c| c.name == cluster) else {
            bail!("--relay {text}: no --cluster {cluster} is given");
        };
        match cluster.relays.iter_mut().find(|r| r.name == name) {
            Some(relay) => relay.addresses.push(address.to_owned()),
            None => cluster.relays.push(RelayEntry {
                name,
                addresses: vec![address.to_owned()],
                owner: None,
                key_fingerprint: None,
            }),
        }
    }
    Ok(all)
}

fn signed(draft: &Draft) -> Result<()> {
    let mut told = format!(
        "{} version {}: {} signed\n",
        draft.role,
        draft.version,
        draft.signed_by.len()
    );
    if draft.signed_by.len() as u64 >= draft.threshold {
        told.push_str("enough signatures\n");
    } else {
        told.push_str(&format!("{} needed; these keys can still sign:\n", draft.threshold));
        for key in &draft.missing {
            told.push_str(&format!("  {key}\n"));
        }
    }
    out::text(&told)
}

#[derive(Serialize)]
struct Facts {
    policy_version: u64,
    root: String,
    freshness: String,
    demo: bool,
    clusters: Vec<String>,
}

fn verified(publication: &Publication, now: Timestamp, output: Output) -> Result<()> {
    let facts = Facts {
        policy_version: publication.policy_version(),
        root: publication.root_fingerprint().to_owned(),
        freshness: publication.freshness(now).code().to_owned(),
        demo: publication.demo(),
        clusters: publication
            .fleet()
            .clusters
            .iter()
            .map(|c| c.name.to_string())
            .collect(),
    };
    match output {
        Output::Json => out::json(&facts),
        Output::Table => out::line(&format!(
            "policy version {} ({}), clusters {}, root {}",
            facts.policy_version,
            facts.freshness,
            facts.clusters.join(", "),
            facts.root
        )),
    }
}
