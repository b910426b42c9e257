//! Identifiers cannot be confused, and what is put to the policy fits the schema.

use cedar_policy::{Context, Schema};
use proptest::prelude::*;

use super::*;
use crate::testing::{Ask, break_glass, identity, user};
use crate::{Action, Path};

#[test]
fn every_question_fits_the_schema() {
    let (schema, _) = Schema::from_cedarschema_str(crate::SCHEMA).unwrap();
    let set = crate::testing::set("").unwrap();
    for principal in [
        user("alpha", "alice"),
        user("alpha", "x/\"y\\'*"),
        break_glass("alpha", "fire"),
    ] {
        for action in Action::ALL {
            for (path, reason) in [
                (Path::Api, None),
                (Path::Relay, Some("INC-7")),
                (Path::Direct, Some("\"; permit(")),
            ] {
                let ask = Ask {
                    principal: principal.clone(),
                    action,
                    path,
                    reason: reason.map(str::to_owned),
                    ..Ask::alice(&["oncall", "oncall", "a/b::\"c\""])
                };
                let question = ask.question();
                let facts = set.node_facts(&ask.cluster, &ask.node);
                let case = Case::new(&question, &facts).unwrap();
                let request = case.request(&question, &Asked::of(&question)).unwrap();
                let context = request.context().unwrap().clone();
                let (p, a, r) = (case.principal.clone(), case.action.clone(), case.resource.clone());
                Request::new(p, a, r, context, Some(&schema)).unwrap();
                let entities: Vec<_> = case.entities.iter().cloned().collect();
                Entities::from_entities(entities, Some(&schema)).unwrap();
            }
        }
    }
    assert!(
        Request::new(
            uid_of("User"),
            uid_of("Action"),
            uid_of("Node"),
            Context::empty(),
            Some(&schema)
        )
        .is_err()
    );
}

fn uid_of(kind: &str) -> EntityUid {
    uid(&EntityTypeName::from_str(kind).unwrap(), "x")
}

#[test]
fn a_user_of_another_cluster_is_another_user() {
    let id = |cluster, name: &str| {
        let types = TYPES.as_ref().unwrap();
        within(&types.user, &identity(cluster, user(cluster, name).role).cluster, name)
    };
    assert_ne!(id("alpha", "beta/alice"), id("beta", "alice"));
    assert_eq!(id("alpha", "alice").to_string(), r#"User::"alpha/alice""#);
    assert_eq!(id("alpha", "a\"b").to_string(), r#"User::"alpha/a\"b""#);
}

proptest! {
    #[test]
    fn different_pairs_have_different_identifiers(
        c1 in "[a-c]{1,2}(\\.[a-c])?", n1 in "[a-c/.\"\\\\]{1,4}",
        c2 in "[a-c]{1,2}(\\.[a-c])?", n2 in "[a-c/.\"\\\\]{1,4}",
    ) {
        let types = TYPES.as_ref().unwrap();
        let one = within(&types.group, &ClusterName::parse(&c1).unwrap(), &n1);
        let two = within(&types.group, &ClusterName::parse(&c2).unwrap(), &n2);
        prop_assert_eq!(one == two, (c1, n1) == (c2, n2));
    }
}
