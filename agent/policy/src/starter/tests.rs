//! The texts that ship are valid and say what their comments say.

use noderelay_pki::name::ClusterName;

use super::*;
use crate::testing::{Ask, user};
use crate::{Action, DenialKind, PolicySet, RecordLevel, Tier};

fn parse(policies: Vec<(String, String)>, rules: &str) -> PolicySet {
    let policies: Vec<_> = policies
        .into_iter()
        .map(|(name, text)| (name, text.into_bytes()))
        .collect();
    PolicySet::parse(1, policies, rules.as_bytes()).unwrap()
}

fn cluster(name: &str) -> ClusterName {
    ClusterName::parse(name).unwrap()
}

#[test]
fn the_starter_policies_give_diagnostic_access_and_root_by_grant() {
    for name in ["alpha", "a", "west-1.example.org"] {
        let cluster = cluster(name);
        let set = parse(policies(&cluster), &node_rules(&cluster));
        let oncall = || Ask {
            principal: user(name, "alice"),
            cluster: cluster.clone(),
            ..Ask::alice(&[ON_CALL_GROUP])
        };
        let standing = oncall().of(&set).unwrap();
        assert_eq!(
            (standing.obligations().tier, standing.rules()),
            (Tier::Standing, &["on-call-diagnostic".to_owned()][..])
        );
        let root = || oncall().profile("root");
        assert_eq!(root().of(&set).unwrap_err().kind, DenialKind::NeedsGrant);
        assert_eq!(
            root().reason("INC-7").of(&set).unwrap_err().kind,
            DenialKind::NeedsGrant
        );
        let granted = root().reason("INC-7").granted().of(&set).unwrap();
        assert_eq!(
            (granted.obligations().tier, granted.obligations().record),
            (Tier::Grant, RecordLevel::Strict)
        );
        assert!(
            Ask {
                groups: vec![],
                ..oncall()
            }
            .of(&set)
            .is_err()
        );
        assert!(
            Ask {
                action: Action::Forward,
                ..oncall()
            }
            .of(&set)
            .is_err()
        );
    }
}

#[test]
fn tenants_stay_apart() {
    let alpha = cluster("alpha");
    let set = parse(
        policies(&alpha),
        "rules: [{nodes: 'alpha/gpu-*', tenant: acme}, {nodes: 'alpha/*', tenant: platform}]",
    );
    assert!(Ask::alice(&[ON_CALL_GROUP]).on("cpu-1").of(&set).is_ok());
    let denial = Ask::alice(&[ON_CALL_GROUP]).of(&set).unwrap_err();
    assert_eq!(denial.kind, DenialKind::Forbidden);
    assert!(denial.seen.contains("tenants-apart"), "{denial}");
}

#[test]
fn the_starter_policies_of_two_clusters_leave_each_other_alone() {
    let (alpha, beta) = (cluster("alpha"), cluster("beta"));
    let of = |cluster: &ClusterName| {
        policies(cluster)
            .into_iter()
            .map(|(name, text)| {
                (
                    format!("{cluster}-{name}"),
                    text.replace("@id(\"", &format!("@id(\"{cluster}-")),
                )
            })
            .collect::<Vec<_>>()
    };
    let set = parse(
        [of(&alpha), of(&beta)].concat(),
        "rules: [{nodes: '*/*', tenant: platform}]",
    );
    for name in [alpha, beta] {
        let ask = |groups: &[&str]| Ask {
            principal: user(name.as_str(), "alice"),
            cluster: name.clone(),
            ..Ask::alice(groups)
        };
        assert!(ask(&[ON_CALL_GROUP]).of(&set).is_ok(), "{name}");
        assert_eq!(ask(&["others"]).of(&set).unwrap_err().kind, DenialKind::Forbidden);
    }
}

#[test]
fn the_demo_lets_its_operators_in_and_nobody_else() {
    let demo = cluster("demo");
    let set = parse(demo_policies(&demo), &demo_node_rules(&demo));
    let ask = |groups: &[&str]| Ask {
        principal: user("demo", "me"),
        cluster: demo.clone(),
        ..Ask::alice(groups).on("local").profile(DEMO_PROFILE)
    };
    for action in Action::ALL {
        let permitted = Ask {
            action,
            ..ask(&[DEMO_GROUP])
        }
        .of(&set)
        .is_ok();
        assert_eq!(permitted, matches!(action, Action::Shell | Action::Exec), "{action}");
    }
    assert_eq!(ask(&[]).of(&set).unwrap_err().kind, DenialKind::NoRule);
    assert_eq!(
        ask(&[DEMO_GROUP]).profile("root").of(&set).unwrap_err().kind,
        DenialKind::WrongProfile
    );
}
