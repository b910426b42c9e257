//! `noderelay policy init`: a policy repository to begin with.
//!
//! ```text
//! --cluster, --relay ─> the fleet file      each cluster ─> starter policies with their tests, node rules
//! keys, thresholds ─> who signs
//! ```
//!
//! What it writes is a proposal: nothing of it counts before its signers have read and signed it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use noderelay_bundle::author::{self, InitSpec, Signers, Validity};
use noderelay_bundle::fleet::{CertificateAuthority, Cluster, FleetFile, RelayEntry};
use noderelay_bundle::principals::{Group, PrincipalsFile};
use noderelay_pki::files;
use noderelay_pki::identity::RoleKind;
use noderelay_pki::name::{ClusterName, GroupName, RelayName, TrustDomain};
use noderelay_policy::starter;

use crate::args::PolicyInitArgs;
use crate::commands::key::public;
use crate::out;

/// Largest certificate file.
const MAX_PEM: usize = 64 * 1024;

/// Writes the repository.
pub(super) fn run(args: PolicyInitArgs) -> Result<()> {
    let trust_domain = TrustDomain::parse(&args.trust_domain)?;
    let mut clusters = clusters(&args.clusters)?;
    add_relays(&mut clusters, &args.relays)?;
    let names: Vec<_> = clusters.iter().map(|cluster| cluster.name.clone()).collect();
    let spec = InitSpec {
        root: signers(args.root_threshold, &args.root_keys)?,
        targets: signers(args.threshold, &args.signers)?,
        pipeline: Signers::one(&public(&args.pipeline)?),
        demo: false,
        valid: Validity::default(),
        files: content(&trust_domain, clusters)?,
        trust_domain,
    };
    author::init(&args.dir, &spec)?;
    write_tests(&args.dir, &names)?;
    out::line(&format!(
        "policy repository in {}: read policies/ and tests/, then `noderelay policy sign`",
        args.dir.display()
    ))
}

fn signers(threshold: u64, files: &[PathBuf]) -> Result<Signers> {
    Ok(Signers {
        threshold,
        keys: files.iter().map(|file| public(file)).collect::<Result<_>>()?,
    })
}

/// The files of the repository.
fn content(trust_domain: &TrustDomain, clusters: Vec<Cluster>) -> Result<Vec<(String, Vec<u8>)>> {
    let mut files = policies(&clusters);
    files.insert("nodes.yaml".to_owned(), node_rules(&clusters).into_bytes());
    let group = |cluster: &Cluster| -> Result<Group> {
        Ok(Group {
            cluster: cluster.name.clone(),
            group: GroupName::parse(starter::ON_CALL_GROUP)?,
        })
    };
    let principals = PrincipalsFile {
        persons: Vec::new(),
        groups: clusters.iter().map(group).collect::<Result<_>>()?,
        mappings: Vec::new(),
    };
    let fleet = FleetFile {
        trust_domain: trust_domain.clone(),
        clusters,
        routes: Vec::new(),
        witnesses: Vec::new(),
        recipients: Vec::new(),
        webhooks: Vec::new(),
    };
    files.insert("fleet.yaml".to_owned(), fleet.to_yaml()?.into_bytes());
    files.insert("principals.yaml".to_owned(), principals.to_yaml()?.into_bytes());
    Ok(files.into_iter().collect())
}

/// The starter policies of each cluster; of several clusters with its name in front, in files and rules.
fn policies(clusters: &[Cluster]) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for Cluster { name: cluster, .. } in clusters {
        for (mut name, mut text) in starter::policies(cluster) {
            if clusters.len() > 1 {
                name = format!("{cluster}-{name}");
                text = text.replace("@id(\"", &format!("@id(\"{cluster}-"));
            }
            files.insert(format!("policies/{name}"), text.into_bytes());
        }
    }
    files
}

/// A test table for each cluster. They stay in the repository: nothing of them is published.
fn write_tests(dir: &Path, clusters: &[ClusterName]) -> Result<()> {
    let folder = dir.join(super::test::FOLDER);
    std::fs::create_dir_all(&folder).with_context(|| format!("folder {}", folder.display()))?;
    for cluster in clusters {
        let name = match clusters.len() {
            1 => "starter.yaml".to_owned(),
            _ => format!("{cluster}-starter.yaml"),
        };
        files::write_atomic(&folder.join(name), starter::test_table(cluster).as_bytes(), 0o644)?;
    }
    Ok(())
}

/// The node rules of all clusters in one list.
fn node_rules(clusters: &[Cluster]) -> String {
    let mut rules = String::new();
    for cluster in clusters {
        let of_cluster = starter::node_rules(&cluster.name);
        // The list continues: only the first cluster's text brings the key.
        let body = if rules.is_empty() {
            &of_cluster[..]
        } else {
            of_cluster.split_once("rules:\n").map_or("", |(_, body)| body)
        };
        rules.push_str(body);
    }
    rules
}

/// `NAME=CA-CERTIFICATE` for each cluster.
fn clusters(clusters: &[String]) -> Result<Vec<Cluster>> {
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
    Ok(all)
}

/// `CLUSTER/NAME=HOST:PORT` for each address of a relay.
fn add_relays(clusters: &mut [Cluster], relays: &[String]) -> Result<()> {
    for text in relays {
        let parts = text
            .split_once('=')
            .and_then(|(who, address)| Some((who.split_once('/')?, address)));
        let ((cluster, name), address) =
            parts.with_context(|| format!("--relay {text}: CLUSTER/NAME=HOST:PORT is needed"))?;
        let (cluster, name) = (ClusterName::parse(cluster)?, RelayName::parse(name)?);
        let Some(cluster) = clusters.iter_mut().find(|c| c.name == cluster) else {
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
    Ok(())
}
