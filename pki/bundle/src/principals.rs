//! The principals file (`principals.yaml`): who the people are behind usernames, which groups are used, whose keys approve,
//! and which foreign principals a cluster accepts.
//!
//! A person is one person: approvals and activations are compared per entry of this file, never per username or key. So a
//! name, a (cluster, username) pair and a key each belong to at most one person. Users without an entry can still work
//! where a rule for their group permits it; they can never approve.

use crate::error::BundleError;
use crate::fleet::FleetFile;
use crate::key::PublicKey;
use crate::yaml;
use noderelay_pki::name::{ClusterName, GroupName, UserName};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The name of the file in a publication.
pub const FILE: &str = "principals.yaml";

/// More persons than any fleet has; a mistaken file cannot fill a node.
const MAX_PERSONS: usize = 20_000;
const MAX_GROUPS: usize = 4_000;
const MAX_MAPPINGS: usize = 4_000;
const MAX_PER_PERSON: usize = 200;
const MAX_NAME: usize = 200;

/// The principals file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrincipalsFile {
    /// The persons.
    #[serde(default)]
    pub persons: Vec<Person>,
    /// The groups that policies use; an issuer certifies no other.
    #[serde(default)]
    pub groups: Vec<Group>,
    /// Foreign principals that clusters accept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mappings: Vec<Mapping>,
}

/// One person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Person {
    /// Name of the entry.
    pub name: String,
    /// The exact usernames, per cluster.
    #[serde(default)]
    pub usernames: Vec<Username>,
    /// The keys with which this person signs approvals and activations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<PersonKey>,
}

/// A username in one cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Username {
    /// The home cluster: whose certificate authority certifies the name.
    pub cluster: ClusterName,
    /// Exactly this name.
    pub user: UserName,
}

/// What a key of a person may sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyUse {
    /// Grants.
    Approve,
    /// Activations of break-glass accounts.
    Custody,
}

/// A key of a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PersonKey {
    /// The public key.
    pub key: PublicKey,
    /// What it may sign.
    pub uses: BTreeSet<KeyUse>,
}

/// A group in one cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The home cluster.
    pub cluster: ClusterName,
    /// Exactly this name.
    pub group: GroupName,
}

/// Foreign principals that a cluster accepts: those of the home cluster `from` that are listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mapping {
    /// The cluster that accepts.
    pub at: ClusterName,
    /// Their home cluster.
    pub from: ClusterName,
    /// Exactly these users.
    #[serde(default)]
    pub users: BTreeSet<UserName>,
    /// Members of these groups.
    #[serde(default)]
    pub groups: BTreeSet<GroupName>,
}

impl PrincipalsFile {
    /// Reads and checks a principals file.
    ///
    /// # Errors
    /// [`BundleError::Content`] with what is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Self, BundleError> {
        let file: Self = yaml::parse(FILE, bytes)?;
        file.check()?;
        Ok(file)
    }

    /// The file as YAML, for tools that write one.
    ///
    /// # Errors
    /// [`BundleError::Content`] when this is not a valid principals file.
    pub fn to_yaml(&self) -> Result<String, BundleError> {
        self.check()?;
        serde_saphyr::to_string(self).map_err(|e| BundleError::content(FILE, e.to_string()))
    }

    /// The person behind a username, if there is an entry.
    #[must_use]
    pub fn person_of(&self, cluster: &ClusterName, user: &UserName) -> Option<&Person> {
        self.persons
            .iter()
            .find(|p| p.usernames.iter().any(|u| u.cluster == *cluster && u.user == *user))
    }

    /// The person who holds a key for that use.
    #[must_use]
    pub fn holder_of(&self, key: &PublicKey, purpose: KeyUse) -> Option<&Person> {
        self.persons
            .iter()
            .find(|p| p.keys.iter().any(|k| k.key == *key && k.uses.contains(&purpose)))
    }

    /// Whether policies use this group.
    #[must_use]
    pub fn uses_group(&self, cluster: &ClusterName, group: &GroupName) -> bool {
        self.groups.iter().any(|g| g.cluster == *cluster && g.group == *group)
    }

    /// Whether the cluster `at` accepts a user of the home cluster `from` with these groups at all. Its own are always
    /// accepted; what they may do is the policy's.
    #[must_use]
    pub fn accepts(&self, at: &ClusterName, from: &ClusterName, user: &UserName, groups: &[GroupName]) -> bool {
        at == from
            || self.mappings.iter().any(|m| {
                m.at == *at
                    && m.from == *from
                    && (m.users.contains(user) || groups.iter().any(|g| m.groups.contains(g)))
            })
    }

    /// That every cluster named here is in the fleet file.
    pub(crate) fn check_against(&self, fleet: &FleetFile) -> Result<(), BundleError> {
        let usernames = self.persons.iter().flat_map(|p| p.usernames.iter().map(|u| &u.cluster));
        let groups = self.groups.iter().map(|g| &g.cluster);
        let mappings = self.mappings.iter().flat_map(|m| [&m.at, &m.from]);
        let known: BTreeSet<_> = fleet.clusters.iter().map(|c| &c.name).collect();
        match usernames.chain(groups).chain(mappings).find(|c| !known.contains(c)) {
            None => Ok(()),
            Some(cluster) => Err(BundleError::content(
                FILE,
                format!("cluster {cluster} is not in {}", crate::fleet::FILE),
            )),
        }
    }

    fn check(&self) -> Result<(), BundleError> {
        let wrong = |seen: String| Err(BundleError::content(FILE, seen));
        if self.persons.len() > MAX_PERSONS || self.groups.len() > MAX_GROUPS || self.mappings.len() > MAX_MAPPINGS {
            return wrong("too many entries".to_owned());
        }
        let mut names = BTreeSet::new();
        let mut usernames: BTreeMap<&Username, &str> = BTreeMap::new();
        let mut keys: BTreeMap<&PublicKey, &str> = BTreeMap::new();
        for person in &self.persons {
            if person.name.is_empty() || person.name.len() > MAX_NAME || person.name.chars().any(char::is_control) {
                return wrong(format!(
                    "the name of a person is empty, over-long or has control characters: {}",
                    person.name
                ));
            }
            if !names.insert(person.name.as_str()) {
                return wrong(format!("person {} twice", person.name));
            }
            if person.usernames.len() > MAX_PER_PERSON || person.keys.len() > MAX_PER_PERSON {
                return wrong(format!("person {} has too many usernames or keys", person.name));
            }
            for username in &person.usernames {
                if let Some(other) = usernames.insert(username, &person.name) {
                    let Username { cluster, user } = username;
                    return wrong(format!("{user} in {cluster} belongs to {other} and to {}", person.name));
                }
            }
            for key in &person.keys {
                if key.uses.is_empty() {
                    return wrong(format!("a key of {} has no use", person.name));
                }
                if let Some(other) = keys.insert(&key.key, &person.name) {
                    return wrong(format!("one key belongs to {other} and to {}", person.name));
                }
            }
        }
        let mut groups = BTreeSet::new();
        if let Some(twice) = self.groups.iter().find(|g| !groups.insert(*g)) {
            return wrong(format!("group {} in {} twice", twice.group, twice.cluster));
        }
        if let Some(own) = self.mappings.iter().find(|m| m.at == m.from) {
            return wrong(format!("a mapping of {} to itself", own.at));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
