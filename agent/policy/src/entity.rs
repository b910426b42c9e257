//! Entities and context for one question: the only place where names become Cedar identifiers.
//!
//! What belongs to a cluster has the identifier `CLUSTER/NAME`. A cluster name contains no `/`, so the first one ends
//! the cluster and two different pairs never have the same identifier, whatever the names hold.
//!
//! Never: parsing text that holds a name; identifiers are built from parts, so no name can end its quotes.

use std::collections::BTreeSet;
use std::str::FromStr as _;
use std::sync::LazyLock;

use cedar_policy::{
    Context, Entities, Entity, EntityId, EntityTypeName, EntityUid, Request, RestrictedExpression as Value,
};
use noderelay_pki::identity::Role;
use noderelay_pki::name::{ClusterName, GroupName, NodeName, ProfileName};

use crate::nodes::NodeFacts;
use crate::question::{Action, Question};

/// Who, what and where of a question, for any number of evaluations.
pub(crate) struct Case {
    pub(crate) entities: Entities,
    principal: EntityUid,
    groups: Vec<EntityUid>,
    action: EntityUid,
    resource: EntityUid,
}

/// How it is asked; explanations try other ways.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) profile: &'a ProfileName,
    pub(crate) grant: bool,
    pub(crate) reason: Option<&'a str>,
    pub(crate) fresh: bool,
}

impl<'a> Asked<'a> {
    pub(crate) fn of(question: &Question<'a>) -> Self {
        Self {
            profile: question.profile,
            grant: question.grant,
            reason: question.reason.filter(|reason| !reason.is_empty()),
            fresh: question.fresh,
        }
    }
}

impl Case {
    pub(crate) fn new(question: &Question<'_>, facts: &NodeFacts) -> Result<Self, String> {
        Self::with(question, facts, Known::ALL)
    }

    /// As [`Case::new`], of a principal or a node that stands for others: what is not known is left out, so that a policy
    /// which looks at it fails, and the survey knows that its outcome depends on it.
    pub(crate) fn with(question: &Question<'_>, facts: &NodeFacts, known: Known) -> Result<Self, String> {
        let types = TYPES.as_ref().map_err(Clone::clone)?;
        let home = &question.principal.cluster;
        // Emergency accounts are in no group, whatever their certificate says.
        let (kind, groups) = match question.principal.role {
            Role::BreakGlass(_) => (&types.break_glass, BTreeSet::new()),
            _ => (&types.user, question.groups.iter().collect::<BTreeSet<_>>()),
        };
        let principal = within(kind, home, question.principal.role.name());
        let resource = within(&types.node, question.cluster, question.node.as_str());
        let tenant = uid(&types.tenant, &facts.tenant);
        let cluster = uid(&types.cluster, question.cluster.as_str());
        let named = |cluster: &ClusterName, name: &str| {
            [
                (
                    "cluster".to_owned(),
                    Value::new_entity_uid(uid(&types.cluster, cluster.as_str())),
                ),
                ("name".to_owned(), Value::new_string(name.to_owned())),
            ]
        };
        let parents: Vec<_> = groups
            .iter()
            .map(|group| within(&types.group, home, group.as_str()))
            .collect();
        let labels = facts
            .labels
            .iter()
            .map(|(name, value)| (name.clone(), Value::new_string(value.clone())));
        let node_attributes = named(question.cluster, question.node.as_str())
            .into_iter()
            .filter(|(attribute, _)| known.node || attribute != "name")
            .chain([("tenant".to_owned(), Value::new_string(facts.tenant.clone()))]);
        let text = |e: &dyn std::fmt::Display| e.to_string();
        let mut entities = vec![
            Entity::new_with_tags(
                principal.clone(),
                named(home, question.principal.role.name())
                    .into_iter()
                    .filter(|(attribute, _)| known.user || attribute != "name"),
                parents.iter().cloned(),
                [],
            )
            .map_err(|e| text(&e))?,
            Entity::new_with_tags(
                resource.clone(),
                node_attributes,
                [cluster.clone(), tenant.clone()],
                labels,
            )
            .map_err(|e| text(&e))?,
            Entity::with_uid(tenant),
        ];
        for (group, parent) in groups.iter().zip(&parents) {
            entities.push(
                Entity::new_with_tags(parent.clone(), named(home, group.as_str()), [], []).map_err(|e| text(&e))?,
            );
        }
        let clusters = BTreeSet::from([home, question.cluster]);
        entities.extend(
            clusters
                .into_iter()
                .map(|name| Entity::with_uid(uid(&types.cluster, name.as_str()))),
        );
        let entities = Entities::from_entities(entities, None).map_err(|e| text(&e))?;
        Ok(Self {
            entities,
            principal,
            groups: parents,
            action: uid(&types.action, question.action.as_str()),
            resource,
        })
    }

    /// Who asks, with the groups.
    pub(crate) fn principals(&self) -> impl Iterator<Item = &EntityUid> {
        [&self.principal].into_iter().chain(&self.groups)
    }

    pub(crate) fn request(&self, question: &Question<'_>, asked: &Asked<'_>) -> Result<Request, String> {
        let time = question.now.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string();
        let told = [
            ("path".to_owned(), Value::new_string(question.path.as_str().to_owned())),
            ("time".to_owned(), Value::new_datetime(time)),
        ];
        self.request_with(&self.action, asked, told)
    }

    /// A request for another action, at any time and by any path: neither is told.
    pub(crate) fn open_request(&self, action: Action, asked: &Asked<'_>) -> Result<Request, String> {
        let types = TYPES.as_ref().map_err(Clone::clone)?;
        self.request_with(&uid(&types.action, action.as_str()), asked, [])
    }

    fn request_with(
        &self,
        action: &EntityUid,
        asked: &Asked<'_>,
        told: impl IntoIterator<Item = (String, Value)>,
    ) -> Result<Request, String> {
        let bundle = Value::new_record([("fresh".to_owned(), Value::new_bool(asked.fresh))]);
        let reason = asked
            .reason
            .map(|reason| ("reason".to_owned(), Value::new_string(reason.to_owned())));
        let pairs = [
            (
                "profile".to_owned(),
                Value::new_string(asked.profile.as_str().to_owned()),
            ),
            ("grant".to_owned(), Value::new_bool(asked.grant)),
            ("breakGlass".to_owned(), Value::new_bool(false)),
            ("bundle".to_owned(), bundle.map_err(|e| e.to_string())?),
        ];
        let context = Context::from_pairs(pairs.into_iter().chain(reason).chain(told)).map_err(|e| e.to_string())?;
        Request::new(
            self.principal.clone(),
            action.clone(),
            self.resource.clone(),
            context,
            None,
        )
        .map_err(|e| e.to_string())
    }
}

/// What of a case is known by name, and not only as one of many.
#[derive(Clone, Copy)]
pub(crate) struct Known {
    pub(crate) user: bool,
    pub(crate) node: bool,
}

impl Known {
    pub(crate) const ALL: Self = Self { user: true, node: true };
}

/// Where a node stands: all that a scope can say about it.
pub(crate) struct Spot {
    pub(crate) node: EntityUid,
    cluster: EntityUid,
    tenant: EntityUid,
}

impl Spot {
    pub(crate) fn of(cluster: &ClusterName, node: &NodeName, facts: &NodeFacts) -> Result<Self, String> {
        let types = TYPES.as_ref().map_err(Clone::clone)?;
        Ok(Self {
            node: within(&types.node, cluster, node.as_str()),
            cluster: uid(&types.cluster, cluster.as_str()),
            tenant: uid(&types.tenant, &facts.tenant),
        })
    }

    pub(crate) fn is(&self, kind: &EntityTypeName) -> bool {
        kind == self.node.type_name()
    }

    pub(crate) fn within(&self, uid: &EntityUid) -> bool {
        [&self.node, &self.cluster, &self.tenant].contains(&uid)
    }

    /// Whether a user of the node's cluster can be this principal, or in this group.
    pub(crate) fn is_home_of(&self, uid: &EntityUid) -> bool {
        match home_of(uid) {
            Some((home, _)) => home == self.cluster.id().unescaped(),
            None => true,
        }
    }
}

/// Cluster and name of a user, emergency account, group or node that a policy names.
pub(crate) fn home_of(uid: &EntityUid) -> Option<(&str, &str)> {
    match uid.type_name().basename() {
        "User" | "BreakGlass" | "Group" | "Node" => uid.id().unescaped().split_once('/'),
        _ => None,
    }
}

/// The identifiers of a user and of groups of one cluster.
pub(crate) fn principal_ids(
    home: &ClusterName,
    user: &str,
    groups: &[GroupName],
) -> Result<(EntityUid, Vec<EntityUid>), String> {
    let types = TYPES.as_ref().map_err(Clone::clone)?;
    let groups = groups.iter().map(|group| within(&types.group, home, group.as_str()));
    Ok((within(&types.user, home, user), groups.collect()))
}

struct Types {
    user: EntityTypeName,
    break_glass: EntityTypeName,
    group: EntityTypeName,
    node: EntityTypeName,
    cluster: EntityTypeName,
    tenant: EntityTypeName,
    action: EntityTypeName,
}

static TYPES: LazyLock<Result<Types, String>> = LazyLock::new(|| {
    let name = |text: &str| EntityTypeName::from_str(text).map_err(|e| e.to_string());
    Ok(Types {
        user: name("User")?,
        break_glass: name("BreakGlass")?,
        group: name("Group")?,
        node: name("Node")?,
        cluster: name("Cluster")?,
        tenant: name("Tenant")?,
        action: name("Action")?,
    })
});

fn uid(kind: &EntityTypeName, name: &str) -> EntityUid {
    EntityUid::from_type_name_and_id(kind.clone(), EntityId::new(name))
}

fn within(kind: &EntityTypeName, cluster: &ClusterName, name: &str) -> EntityUid {
    uid(kind, &format!("{cluster}/{name}"))
}

#[cfg(test)]
mod tests;
