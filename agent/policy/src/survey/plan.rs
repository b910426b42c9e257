//! Who and what is asked about: declared names, and those that policies name themselves.
//!
//! Never: a node that exists. The nodes here stand for all that the same node rule makes alike.

use std::collections::{BTreeMap, BTreeSet};

use noderelay_pki::identity::{Identity, Role};
use noderelay_pki::name::{ClusterName, GroupName, NodeName, ProfileName, UserName};

use super::{Declared, MAX_QUESTIONS, Side, SurveyError};
use crate::entity::home_of;
use crate::nodes::NodeFacts;
use crate::question::Action;

/// All that is asked about.
pub(crate) struct Plan {
    pub(crate) clusters: Vec<ClusterPlan>,
    /// The last one is a profile that nobody names.
    pub(crate) profiles: Vec<ProfileName>,
    pub(crate) questions: u64,
}

/// What is asked about in one cluster.
pub(crate) struct ClusterPlan {
    pub(crate) cluster: ClusterName,
    pub(crate) subjects: Vec<Subject>,
    pub(crate) nodes: Vec<NodeClass>,
}

/// Somebody who may ask.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) kind: SubjectKind,
    pub(crate) identity: Identity,
    pub(crate) groups: Vec<GroupName>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SubjectKind {
    /// In no group.
    Nobody,
    /// In one group.
    Group,
    /// In several.
    Together,
    /// A user whom a policy names.
    User,
}

/// Nodes that are alike.
#[derive(Clone, Debug)]
pub(crate) struct NodeClass {
    pub(crate) cluster: ClusterName,
    /// One of them.
    pub(crate) node: NodeName,
    /// Whether a policy names this very node.
    pub(crate) named: bool,
    /// For people: the pattern or the name, with the tenant.
    pub(crate) label: String,
    /// What they are on each side.
    pub(crate) facts: Vec<NodeFacts>,
}

impl Subject {
    pub(crate) fn is_named(&self) -> bool {
        self.kind == SubjectKind::User
    }

    /// For people.
    pub(crate) fn label(&self) -> String {
        let home = &self.identity.cluster;
        let groups: Vec<_> = self.groups.iter().map(|group| format!("{home}/{group}")).collect();
        match (self.kind, groups.as_slice()) {
            (SubjectKind::Nobody, _) => format!("anyone of {home}, in no group too"),
            (SubjectKind::User, []) => format!("user {home}/{}", self.identity.role.name()),
            (SubjectKind::User, _) => {
                format!("user {home}/{} in {}", self.identity.role.name(), groups.join(" and "))
            }
            (_, [group]) => format!("group {group}"),
            (_, [_, _, _, _, ..]) => format!("members of {} groups of {home} at once", groups.len()),
            _ => format!("members of {} at once", groups.join(" and ")),
        }
    }
}

impl Plan {
    pub(crate) fn of(sides: &[&Side<'_>], declared: &[&Declared]) -> Result<Self, SurveyError> {
        let names = Names::in_policies(sides);
        let clusters: BTreeSet<_> = declared.iter().flat_map(|d| &d.clusters).collect();
        let profiles = profiles(sides)?;
        let mut plan = Self {
            clusters: Vec::new(),
            questions: 0,
            profiles,
        };
        for cluster in clusters {
            plan.clusters.push(ClusterPlan {
                cluster: cluster.clone(),
                subjects: subjects(cluster, declared, &names)?,
                nodes: classes(cluster, sides, &names),
            });
        }
        let per_pair = (Action::ALL.len() * plan.profiles.len()) as u64;
        let pairs = plan
            .clusters
            .iter()
            .map(|c| c.subjects.len() as u64 * c.nodes.len() as u64);
        plan.questions = pairs.sum::<u64>().saturating_mul(per_pair);
        if plan.questions > MAX_QUESTIONS {
            return Err(SurveyError::TooMany {
                questions: plan.questions,
                subjects: plan.clusters.iter().map(|c| c.subjects.len()).sum(),
                nodes: plan.clusters.iter().map(|c| c.nodes.len()).sum(),
                profiles: plan.profiles.len(),
            });
        }
        Ok(plan)
    }
}

/// Names of one cluster in policies.
#[derive(Default)]
struct Named {
    groups: BTreeSet<GroupName>,
    /// Groups that one policy names, several of them.
    together: BTreeSet<Vec<GroupName>>,
    /// Users, with the groups that the same policy names.
    users: BTreeSet<(UserName, Vec<GroupName>)>,
    nodes: BTreeSet<NodeName>,
}

struct Names(BTreeMap<String, Named>);

impl Names {
    fn in_policies(sides: &[&Side<'_>]) -> Self {
        let mut all = BTreeMap::<String, Named>::new();
        for known in sides.iter().flat_map(|side| &side.known) {
            let mut groups = BTreeMap::<String, BTreeSet<GroupName>>::new();
            let mut users = Vec::new();
            for uid in known.policy.entity_literals() {
                let Some((cluster, name)) = home_of(&uid) else { continue };
                match uid.type_name().basename() {
                    "Group" => {
                        let of_cluster = groups.entry(cluster.to_owned()).or_default();
                        of_cluster.extend(GroupName::parse(name));
                    }
                    "User" => users.extend(UserName::parse(name).map(|user| (cluster.to_owned(), user))),
                    "Node" => all
                        .entry(cluster.to_owned())
                        .or_default()
                        .nodes
                        .extend(NodeName::parse(name)),
                    _ => {}
                }
            }
            for (cluster, user) in users {
                let same = groups.get(&cluster).cloned().unwrap_or_default();
                let named = all.entry(cluster).or_default();
                named.users.insert((user.clone(), Vec::new()));
                named.users.insert((user, same.into_iter().collect()));
            }
            for (cluster, groups) in groups {
                let named = all.entry(cluster).or_default();
                if groups.len() > 1 {
                    named.together.insert(groups.iter().cloned().collect());
                }
                named.groups.extend(groups);
            }
        }
        Self(all)
    }

    fn of(&self, cluster: &ClusterName) -> Option<&Named> {
        self.0.get(cluster.as_str())
    }
}

fn subjects(cluster: &ClusterName, declared: &[&Declared], names: &Names) -> Result<Vec<Subject>, SurveyError> {
    let none = Named::default();
    let named = names.of(cluster).unwrap_or(&none);
    let declared_here = declared
        .iter()
        .flat_map(|d| &d.groups)
        .filter(|(home, _)| home == cluster);
    let mut groups = named.groups.clone();
    groups.extend(declared_here.map(|(_, group)| group.clone()));
    let domain = declared.last().map(|d| d.trust_domain.clone());
    let domain = domain.ok_or_else(|| SurveyError::Internal("nothing is declared".to_owned()))?;
    let is_taken = |name: &str| named.users.iter().any(|(user, _)| user.as_str() == name);
    let stand_in = (0..).map(|n| format!("somebody-{n}")).find(|name| !is_taken(name));
    let stand_in = UserName::parse(&stand_in.unwrap_or_default()).map_err(|e| SurveyError::Internal(e.to_string()))?;
    let subject = |kind, user: &UserName, groups: Vec<GroupName>| Subject {
        kind,
        identity: Identity::new(domain.clone(), cluster.clone(), Role::User(user.clone())),
        groups,
    };
    let mut all = vec![subject(SubjectKind::Nobody, &stand_in, Vec::new())];
    let singles = groups.iter().map(|group| vec![group.clone()]);
    all.extend(singles.map(|group| subject(SubjectKind::Group, &stand_in, group)));
    let mut together = named.together.clone();
    if groups.len() > 1 {
        together.insert(groups.iter().cloned().collect());
    }
    all.extend(
        together
            .into_iter()
            .map(|groups| subject(SubjectKind::Together, &stand_in, groups)),
    );
    let users = named.users.iter();
    all.extend(users.map(|(user, groups)| subject(SubjectKind::User, user, groups.clone())));
    Ok(all)
}

/// One node for each difference that node rules or policies make.
fn classes(cluster: &ClusterName, sides: &[&Side<'_>], names: &Names) -> Vec<NodeClass> {
    let facts = |node: &NodeName| {
        let of_sides = sides.iter().map(|side| side.set.node_facts(cluster, node));
        of_sides.collect::<Vec<_>>()
    };
    let mut all = Vec::new();
    let none = BTreeSet::new();
    let literal = names.of(cluster).map_or(&none, |named| &named.nodes);
    for node in literal {
        let facts = facts(node);
        all.push(NodeClass {
            label: label(&format!("{cluster}/{node}"), &facts),
            cluster: cluster.clone(),
            node: node.clone(),
            named: true,
            facts,
        });
    }
    let mut seen = BTreeSet::new();
    for side in sides {
        for (pattern, node) in side.set.nodes.samples(cluster, literal) {
            let facts = facts(&node);
            let key: Vec<_> = facts.iter().map(|f| (f.tenant.clone(), f.labels.clone())).collect();
            if facts.iter().any(NodeFacts::is_assigned) && seen.insert(key) {
                all.push(NodeClass {
                    label: label(&pattern, &facts),
                    cluster: cluster.clone(),
                    node,
                    named: false,
                    facts,
                });
            }
        }
    }
    all
}

fn label(name: &str, facts: &[NodeFacts]) -> String {
    let mut tenants: Vec<_> = facts.iter().map(|facts| facts.tenant.as_str()).collect();
    tenants.dedup();
    format!("{name} (tenant {})", tenants.join(", then "))
}

fn profiles(sides: &[&Side<'_>]) -> Result<Vec<ProfileName>, SurveyError> {
    let mut profiles = BTreeSet::new();
    for side in sides {
        profiles.extend(side.set.profiles.iter().cloned());
        let compared = side.known.iter().filter(|known| known.reads.profile);
        let texts = compared.flat_map(|known| &known.reads.texts);
        profiles.extend(texts.filter_map(|text| ProfileName::parse(text).ok()));
    }
    let other = (0..)
        .map(|n| format!("other-{n}"))
        .filter_map(|name| ProfileName::parse(&name).ok());
    let other = other.take(profiles.len() + 1).find(|other| !profiles.contains(other));
    let other = other.ok_or_else(|| SurveyError::Internal("no name is left for a profile".to_owned()))?;
    Ok(profiles.into_iter().chain([other]).collect())
}
