//! What the tests of this crate share: short ways to ask.

pub(crate) mod random;

use jiff::Timestamp;
use noderelay_pki::identity::{Identity, Role};
use noderelay_pki::name::{AccountName, ClusterName, GroupName, NodeName, ProfileName, TrustDomain, UserName};

use crate::survey::Declared;
use crate::{Action, Denial, Path, Permit, PolicyError, PolicySet, Question};

pub(crate) const NODES: &str = "
rules:
  - {nodes: 'alpha/gpu-*', tenant: acme, labels: {pool: gpu, 'k8s.io/arch': amd64}}
  - {nodes: 'alpha/lost-*', tenant: orphan}
  - {nodes: 'alpha/cpu-*', tenant: platform}
  - {nodes: 'beta/*', tenant: platform}
";

/// No policies.
pub(crate) const NONE: [(&str, &[u8]); 0] = [];

pub(crate) fn set(text: &str) -> Result<PolicySet, PolicyError> {
    PolicySet::parse(
        7,
        [("policies/test.cedar".to_owned(), text.as_bytes().to_vec())],
        NODES.as_bytes(),
    )
}

/// Clusters alpha and beta, and these groups of alpha.
pub(crate) fn declared(groups: &[&str]) -> Declared {
    let cluster = |name| ClusterName::parse(name).unwrap();
    Declared {
        trust_domain: TrustDomain::parse("example.org").unwrap(),
        clusters: vec![cluster("alpha"), cluster("beta")],
        groups: groups
            .iter()
            .map(|group| (cluster("alpha"), GroupName::parse(group).unwrap()))
            .collect(),
        persons: Vec::new(),
    }
}

/// A question that owns its parts.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) principal: Identity,
    pub(crate) groups: Vec<GroupName>,
    pub(crate) action: Action,
    pub(crate) cluster: ClusterName,
    pub(crate) node: NodeName,
    pub(crate) profile: ProfileName,
    pub(crate) path: Path,
    pub(crate) fresh: bool,
    pub(crate) reason: Option<String>,
    pub(crate) grant: bool,
    pub(crate) now: Timestamp,
}

pub(crate) fn identity(cluster: &str, role: Role) -> Identity {
    Identity::new(
        TrustDomain::parse("example.org").unwrap(),
        ClusterName::parse(cluster).unwrap(),
        role,
    )
}

pub(crate) fn user(cluster: &str, name: &str) -> Identity {
    identity(cluster, Role::User(UserName::parse(name).unwrap()))
}

pub(crate) fn break_glass(cluster: &str, name: &str) -> Identity {
    identity(cluster, Role::BreakGlass(AccountName::parse(name).unwrap()))
}

impl Ask {
    /// Alice of alpha, with these groups, asks for a diagnostic shell on alpha/gpu-1.
    pub(crate) fn alice(groups: &[&str]) -> Self {
        Self {
            principal: user("alpha", "alice@example.org"),
            groups: groups.iter().map(|group| GroupName::parse(group).unwrap()).collect(),
            action: Action::Shell,
            cluster: ClusterName::parse("alpha").unwrap(),
            node: NodeName::parse("gpu-1").unwrap(),
            profile: ProfileName::parse("diagnostic").unwrap(),
            path: Path::Relay,
            fresh: true,
            reason: None,
            grant: false,
            now: "2030-05-06T07:08:09.123Z".parse().unwrap(),
        }
    }

    pub(crate) fn on(self, node: &str) -> Self {
        Self {
            node: NodeName::parse(node).unwrap(),
            ..self
        }
    }

    pub(crate) fn profile(self, profile: &str) -> Self {
        Self {
            profile: ProfileName::parse(profile).unwrap(),
            ..self
        }
    }

    pub(crate) fn reason(self, reason: &str) -> Self {
        Self {
            reason: Some(reason.to_owned()),
            ..self
        }
    }

    pub(crate) fn granted(self) -> Self {
        Self { grant: true, ..self }
    }

    pub(crate) fn question(&self) -> Question<'_> {
        Question {
            principal: &self.principal,
            groups: &self.groups,
            action: self.action,
            cluster: &self.cluster,
            node: &self.node,
            profile: &self.profile,
            path: self.path,
            fresh: self.fresh,
            reason: self.reason.as_deref(),
            grant: self.grant,
            now: self.now,
        }
    }

    pub(crate) fn of(&self, set: &PolicySet) -> Result<Permit, Denial> {
        set.decide(&self.question())
    }
}
