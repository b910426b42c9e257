//! `noderelay pki`: a cluster CA by hand, for tests, for providers without Kubernetes, and for looking at certificates.
//!
//! Keys are written before certificates and with mode 0600; nothing that exists is overwritten.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use jiff::Timestamp;
use noderelay_client::setup;
use noderelay_pki::ca::{CaSpec, CertificateAuthority, LeafSpec};
use noderelay_pki::identity::{Identity, Role};
use noderelay_pki::key::PrivateKey;
use noderelay_pki::name::{ClusterName, GroupName, NodeName, RelayName, TrustDomain, UserName};
use noderelay_pki::text::Period;
use noderelay_pki::{files, pem};

use crate::args::{Output, PkiCommand, SubjectArgs};
use crate::out;

/// Runs one of the commands.
pub fn run(command: PkiCommand) -> Result<()> {
    match command {
        PkiCommand::Init {
            dir,
            trust_domain,
            cluster,
            valid_for,
        } => {
            let (trust_domain, cluster) = (TrustDomain::parse(&trust_domain)?, ClusterName::parse(&cluster)?);
            let life = Period::parse(&valid_for)?.duration();
            let ca = CertificateAuthority::create(CaSpec::new(trust_domain, cluster, Timestamp::now(), life))?;
            ca.save(&dir)?;
            out::line(&format!(
                "CA of cluster {} in {}: ca.pem for the fleet file, ca.key to keep offline",
                ca.cluster(),
                dir.display()
            ))
        }
        PkiCommand::Issue {
            ca,
            out: path,
            groups,
            valid_for,
            subject,
        } => {
            let ca = load_ca(&ca)?;
            let groups = groups
                .iter()
                .map(|g| GroupName::parse(g))
                .collect::<Result<Vec<_>, _>>()?;
            let life = valid_for
                .map(|text| Period::parse(&text))
                .transpose()?
                .map(Period::duration);
            issue(&ca, role(&subject)?, groups, life, &path)
        }
        PkiCommand::Inspect { file, output } => inspect(&file, output.output),
    }
}

/// Reads a CA folder as `pki init` writes it.
pub fn load_ca(dir: &Path) -> Result<CertificateAuthority> {
    use noderelay_pki::ca::{CERTIFICATE_FILE, KEY_FILE};
    Ok(CertificateAuthority::load(
        &dir.join(CERTIFICATE_FILE),
        &dir.join(KEY_FILE),
    )?)
}

fn issue(
    ca: &CertificateAuthority,
    role: Role,
    groups: Vec<GroupName>,
    life: Option<Duration>,
    path: &Path,
) -> Result<()> {
    for file in [setup::with_ending(path, "key"), setup::with_ending(path, "crt")] {
        if file.symlink_metadata().is_ok() {
            bail!(
                "{} exists already; move it away or choose another --out",
                file.display()
            );
        }
    }
    if let Some(folder) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).with_context(|| format!("folder {}", folder.display()))?;
    }
    let now = Timestamp::now();
    let key = PrivateKey::generate()?;
    let identity = Identity::new(ca.trust_domain().clone(), ca.cluster().clone(), role);
    let mut spec = LeafSpec::new(identity, key.public_key_der(), now);
    spec.groups = groups;
    if let Some(life) = life {
        spec.not_after = noderelay_pki::time::after(now, life);
    }
    setup::issue_spec(ca, &key, &spec, path)?;
    out::line(&format!("{} until {}", spec.identity, setup::until(&spec)))
}

fn role(subject: &SubjectArgs) -> Result<Role> {
    Ok(match (&subject.user, &subject.node, &subject.relay) {
        (Some(name), None, None) => Role::User(UserName::parse(name)?),
        (None, Some(name), None) => Role::Node(NodeName::parse(name)?),
        (None, None, Some(name)) => Role::Relay(RelayName::parse(name)?),
        _ => bail!("exactly one of --user, --node and --relay is needed"),
    })
}

fn inspect(file: &Path, output: Output) -> Result<()> {
    let named = || file.display().to_string();
    let chain = pem::certificates(&files::read_bounded(file, files::MAX_PEM_FILE)?).with_context(named)?;
    let first = chain
        .first()
        .with_context(|| format!("{} holds no certificate", file.display()))?;
    let facts = noderelay_pki::inspect::facts(first).with_context(named)?;
    match output {
        Output::Table => out::text(&facts.to_string()),
        Output::Json => out::json(&facts),
    }
}
