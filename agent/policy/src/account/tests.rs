//! An account says what the decision says, and names the rules with their places and the node with its rule.

use crate::DenialKind;
use crate::testing::{Ask, set};

const RULES: &str = r#"
permit (principal in Group::"alpha/oncall", action, resource) when { context.profile == "diagnostic" };
@id("granted") @max_duration("1h") permit (principal in Group::"alpha/oncall", action, resource) when { context.grant };
@id("root") @profile("root") permit (principal in Group::"alpha/oncall", action, resource);
@id("apart") forbid (principal, action, resource in Tenant::"platform");
"#;

#[test]
fn the_rules_that_decided_are_named_with_their_places() {
    let set = set(RULES).unwrap();
    let names = |cited: &[super::Cited]| cited.iter().map(|cited| cited.rule.clone()).collect::<Vec<_>>();
    let standing = set.account(&Ask::alice(&["oncall"]).question());
    assert!(standing.outcome.is_ok());
    assert_eq!(names(&standing.decided), ["test.1"]);
    let place = standing.decided[0].place.as_ref().unwrap();
    assert_eq!(
        (place.file.as_str(), place.policy, &place.id),
        ("policies/test.cedar", 1, &None)
    );
    assert_eq!(names(&standing.also), ["root"]);
    assert_eq!(standing.also[0].profile.as_deref(), Some("root"));

    // What is outranked by a grant is told, too.
    let granted = set.account(&Ask::alice(&["oncall"]).granted().question());
    assert_eq!(
        (names(&granted.decided), names(&granted.also)),
        (vec!["granted".to_owned()], vec!["root".to_owned(), "test.1".to_owned()])
    );

    let forbidden = set.account(&Ask::alice(&["oncall"]).on("cpu-1").question());
    assert_eq!(forbidden.outcome.unwrap_err().kind, DenialKind::Forbidden);
    assert_eq!(names(&forbidden.decided), ["apart"]);
    assert!(forbidden.also.is_empty());
}

#[test]
fn the_node_is_named_with_the_rule_that_says_what_it_is() {
    let set = set(RULES).unwrap();
    let gpu = set.account(&Ask::alice(&["oncall"]).question());
    assert_eq!(gpu.node_rule, Some((1, "alpha/gpu-*".to_owned())));
    assert_eq!(
        (gpu.node.tenant.as_str(), gpu.node.labels["pool"].as_str()),
        ("acme", "gpu")
    );
    let other = set.account(&Ask::alice(&["oncall"]).on("other").question());
    assert_eq!(
        (other.node_rule, other.outcome.unwrap_err().kind),
        (None, DenialKind::Unassigned)
    );
    assert!(other.decided.is_empty() && other.also.is_empty());
}

#[test]
fn whoever_is_not_evaluated_has_no_rules_to_name() {
    let set = set("permit (principal, action, resource);").unwrap();
    let foreign = Ask {
        principal: crate::testing::user("beta", "alice"),
        ..Ask::alice(&[])
    };
    let account = set.account(&foreign.question());
    assert_eq!(account.outcome.unwrap_err().kind, DenialKind::ForeignPrincipal);
    assert!(account.decided.is_empty() && account.also.is_empty());
}
