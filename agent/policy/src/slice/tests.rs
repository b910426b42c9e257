//! The cut for a node answers every question about that node as the whole set does, and no other.

use noderelay_pki::name::{ClusterName, NodeName};
use proptest::prelude::*;

use crate::DenialKind;
use crate::testing::random::{any_policy, any_question};
use crate::testing::{Ask, set, user};

fn names(cluster: &str, node: &str) -> (ClusterName, NodeName) {
    (ClusterName::parse(cluster).unwrap(), NodeName::parse(node).unwrap())
}

#[test]
fn what_cannot_hold_on_the_node_is_left_out() {
    let set = set(r#"
        @id("all") permit (principal, action, resource);
        @id("alpha") permit (principal in Group::"alpha/x", action, resource in Cluster::"alpha");
        @id("beta") permit (principal, action, resource in Cluster::"beta");
        @id("acme") forbid (principal is User in Group::"alpha/x", action, resource is Node in Tenant::"acme");
        @id("platform") forbid (principal, action, resource in Tenant::"platform");
        @id("this") permit (principal == User::"alpha/kim", action, resource == Node::"alpha/gpu-1");
        @id("that") permit (principal, action, resource == Node::"alpha/gpu-2");
        @id("theirs") permit (principal in Group::"beta/x", action, resource);
        @id("fire") permit (principal is BreakGlass, action, resource);
    "#)
    .unwrap();
    let (cluster, node) = names("alpha", "gpu-1");
    let cut = set.for_node(&cluster, &node);
    assert_eq!(
        cut.rules().collect::<Vec<_>>(),
        ["acme", "all", "alpha", "fire", "this"]
    );
    assert_eq!(set.rules().count(), 9);
}

#[test]
fn questions_about_other_nodes_are_denied() {
    let set = set("permit (principal, action, resource);").unwrap();
    let (cluster, node) = names("alpha", "gpu-1");
    let cut = set.for_node(&cluster, &node);
    assert!(Ask::alice(&[]).of(&cut).is_ok());
    for ask in [
        Ask::alice(&[]).on("gpu-2"),
        Ask {
            principal: user("beta", "alice"),
            cluster: ClusterName::parse("beta").unwrap(),
            ..Ask::alice(&[])
        },
    ] {
        assert!(ask.of(&set).is_ok());
        assert_eq!(ask.of(&cut).unwrap_err().kind, DenialKind::PolicyError);
    }
}

proptest! {
    /// The same permit, by the same rules under the same obligations, or the same refusal in the same words.
    #[test]
    fn a_slice_decides_as_the_whole_set(
        policies in prop::collection::vec(any_policy(), 0..12),
        asks in prop::collection::vec(any_question(), 1..12),
    ) {
        let set = set(&policies.concat()).unwrap();
        for ask in asks {
            let cut = set.for_node(&ask.cluster, &ask.node);
            let whole = ask.of(&set);
            let sliced = ask.of(&cut);
            match (&whole, &sliced) {
                (Ok(one), Ok(other)) => {
                    prop_assert_eq!(one.rules(), other.rules());
                    prop_assert_eq!(one.obligations(), other.obligations());
                    prop_assert_eq!(one.version(), other.version());
                }
                (Err(one), Err(other)) => prop_assert_eq!(one, other),
                _ => prop_assert!(false, "{:?} and {:?} of {}", whole, sliced, policies.concat()),
            }
        }
    }
}
