//! What the survey calls permitted or denied a node decides so, whatever it is asked beyond.

use noderelay_pki::name::NodeName;
use proptest::prelude::*;

use super::*;
use crate::testing::random::any_policy;
use crate::testing::{Ask, declared, set, user};
use crate::{Action, Path, PolicySet, Tier};

/// All answers, with the questions that they stand for.
fn all(
    set: &PolicySet,
    declared: &Declared,
    mut each: impl FnMut(&Subject, &NodeClass, Action, &Plan, usize, usize, Option<&Cell>),
) {
    let side = Side::new(set, declared);
    let plan = Plan::of(&[&side], &[declared]).unwrap();
    for cluster in &plan.clusters {
        for class in &cluster.nodes {
            let ground = side.ground(class).unwrap().unwrap();
            for subject in &cluster.subjects {
                let place = side.place(subject, class, &plan.profiles[0]).unwrap();
                for action in Action::ALL {
                    let answers = side.answers(&ground, &place, action, &plan.profiles).unwrap();
                    for profile in 0..plan.profiles.len() {
                        for context in 0..8 {
                            let cell = answers.as_ref().map(|answers| &answers[profile][context]);
                            each(subject, class, action, &plan, profile, context, cell);
                        }
                    }
                }
            }
        }
    }
}

fn outcome(set: &PolicySet, group: Option<&str>, pattern: &str, profile: &str, context: usize) -> Outcome {
    let mut found = None;
    all(
        set,
        &declared(&["oncall", "dev"]),
        |subject, class, action, plan, at, seen, cell| {
            let is_group = match group {
                Some(group) => subject.kind == SubjectKind::Group && subject.groups[0].as_str() == group,
                None => subject.kind == SubjectKind::Nobody,
            };
            let is_it = is_group && class.label.starts_with(pattern) && action == Action::Shell;
            if is_it && plan.profiles[at].as_str() == profile && seen == context {
                found = Some(cell.map_or(Outcome::Denied, |cell| cell.outcome));
            }
        },
    );
    found.unwrap()
}

#[test]
fn what_depends_on_more_is_sometimes() {
    let one = |condition: &str| {
        let text = format!("permit (principal in Group::\"alpha/oncall\", action, resource) {condition};");
        outcome(&set(&text).unwrap(), Some("oncall"), "alpha/gpu-*", "other-0", 1)
    };
    assert_eq!(one(""), Outcome::Permitted);
    assert_eq!(one("when { context.bundle.fresh }"), Outcome::Permitted);
    assert_eq!(one("when { context.grant }"), Outcome::Denied);
    assert_eq!(
        one("when { context.grant && context.time < datetime(\"2030-01-01\") }"),
        Outcome::Denied
    );
    for sometimes in [
        "when { context.time < datetime(\"2030-01-01\") }",
        "when { context.path == \"api\" }",
        "when { context.path != \"api\" }",
        "when { principal.name like \"a*\" }",
        "when { resource.name like \"gpu-1*\" }",
        "when { context has path }",
        "when { principal has name }",
        "unless { context.time > datetime(\"2030-01-01\") }",
    ] {
        assert_eq!(one(sometimes), Outcome::Sometimes, "{sometimes}");
    }
    let text =
        "permit (principal, action, resource); forbid (principal, action, resource) when { context.path == \"api\" };";
    assert_eq!(
        outcome(&set(text).unwrap(), None, "alpha/gpu-*", "other-0", 0),
        Outcome::Sometimes
    );
    let words = "permit (principal, action, resource) when { context has reason && context.reason like \"INC-*\" };";
    let words = set(words).unwrap();
    assert_eq!(outcome(&words, None, "alpha/gpu-*", "other-0", 0), Outcome::Denied);
    assert_eq!(outcome(&words, None, "alpha/gpu-*", "other-0", 2), Outcome::Sometimes);
}

#[test]
fn a_rule_that_may_fail_leaves_nothing_certain() {
    let text = r#"permit (principal, action, resource);
        permit (principal, action, resource) when { context.time.offset(duration("1h")) > context.time };"#;
    assert_eq!(
        outcome(&set(text).unwrap(), None, "alpha/gpu-*", "other-0", 0),
        Outcome::Sometimes
    );
    let broken = r#"permit (principal, action, resource);
        permit (principal, action, resource) when { 9223372036854775807 + 1 > 0 };"#;
    assert_eq!(
        outcome(&set(broken).unwrap(), None, "alpha/gpu-*", "other-0", 0),
        Outcome::Denied
    );
}

#[test]
fn groups_users_nodes_and_profiles_that_only_policies_name_are_asked_about() {
    let text = r#"
        @profile("root") permit (principal in Group::"alpha/a", action, resource) when { principal in Group::"alpha/b" };
        permit (principal == User::"alpha/kim", action, resource == Node::"alpha/gpu-7") when { context.profile == "login" };
    "#;
    let set = set(text).unwrap();
    let (mut subjects, mut nodes, mut profiles) = (Vec::new(), Vec::new(), Vec::new());
    all(&set, &declared(&["c"]), |subject, class, _, plan, _, _, _| {
        if subject.identity.cluster.as_str() == "alpha" {
            subjects.push(subject.label());
            nodes.push(class.label.clone());
        }
        profiles = plan.profiles.iter().map(ToString::to_string).collect();
    });
    subjects.sort();
    subjects.dedup();
    nodes.sort();
    nodes.dedup();
    assert_eq!(
        subjects,
        [
            "anyone of alpha, in no group too",
            "group alpha/a",
            "group alpha/b",
            "group alpha/c",
            "members of alpha/a and alpha/b and alpha/c at once",
            "members of alpha/a and alpha/b at once",
            "user alpha/kim",
        ]
    );
    assert_eq!(
        nodes,
        [
            "alpha/cpu-* (tenant platform)",
            "alpha/gpu-* (tenant acme)",
            "alpha/gpu-7 (tenant acme)",
            "alpha/lost-* (tenant orphan)",
        ]
    );
    assert_eq!(profiles, ["login", "root", "other-0"]);
}

#[test]
fn more_questions_than_are_allowed_are_refused_with_their_number() {
    let set = set("permit (principal, action, resource);").unwrap();
    let groups: Vec<_> = (0..600_000).map(|n| format!("g{n}")).collect();
    let declared = declared(&groups.iter().map(String::as_str).collect::<Vec<_>>());
    let side = Side::new(&set, &declared);
    let Err(SurveyError::TooMany {
        questions,
        nodes,
        profiles,
        ..
    }) = Plan::of(&[&side], &[&declared])
    else {
        panic!("all of them would be asked");
    };
    assert!(questions > MAX_QUESTIONS);
    assert_eq!((nodes, profiles), (4, 1));
}

proptest! {
    // Each case asks every question that there is.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_certain_here_is_what_a_node_decides(
        policies in prop::collection::vec(any_policy(), 0..7),
        picks in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>(), 0..3_usize, any::<bool>(), any::<bool>()), 40),
    ) {
        let text = policies.concat();
        let set = set(&text).unwrap();
        let mut answers = Vec::new();
        all(&set, &declared(&["oncall", "dev"]), |subject, class, action, plan, profile, context, cell| {
            // What nobody is permitted is most of it: one of many is looked at.
            if cell.is_some() || answers.len() % 50 == 0 {
                answers.push((subject.clone(), class.clone(), action, plan.profiles[profile].clone(), context, cell.cloned()));
            }
        });
        for (pick, late, path, words, other) in picks {
            let (subject, class, action, profile, context, cell) = pick.get(&answers);
            let outcome = cell.as_ref().map_or(Outcome::Denied, |cell| cell.outcome);
            let mut principal = subject.identity.clone();
            if !subject.is_named() && other {
                principal = user(principal.cluster.as_str(), "zoe");
            }
            let mut node = class.node.clone();
            if !class.named && other {
                node = NodeName::parse(&class.label.split_once('/').unwrap().1.split(' ').next().unwrap().replace('*', "77")).unwrap();
            }
            let ask = Ask {
                principal,
                groups: subject.groups.clone(),
                action: *action,
                cluster: class.cluster.clone(),
                node,
                profile: profile.clone(),
                path: Path::ALL[path],
                fresh: context & 1 != 0,
                reason: is_reason(*context).then(|| if words { "INC-7" } else { "why not" }.to_owned()),
                grant: is_with_grant(*context),
                now: if late { "2030-12-31T23:00:00Z" } else { "2030-01-01T01:00:00Z" }.parse().unwrap(),
            };
            let decided = ask.of(&set);
            match (outcome, &decided) {
                (Outcome::Sometimes, _) | (Outcome::Denied, Err(_)) => {}
                (Outcome::Permitted, Ok(permit)) => {
                    let cell = cell.as_ref().unwrap();
                    if cell.depends.is_empty() {
                        prop_assert_eq!(Some(permit.obligations()), cell.obligations.as_ref());
                        prop_assert!(permit.obligations().tier != Tier::BreakGlass);
                    }
                }
                _ => prop_assert!(false, "{:?} and {:?} of {:?}\n{}", outcome, decided, ask, text),
            }
        }
    }
}

#[test]
fn nobodys_name_is_one_that_no_policy_names() {
    let set = set("permit (principal == User::\"alpha/somebody-0\", action, resource);").unwrap();
    all(&set, &declared(&[]), |subject, _, _, _, _, _, cell| {
        let named = subject.identity.role.name() == "somebody-0" && subject.identity.cluster.as_str() == "alpha";
        assert_eq!(named, subject.is_named());
        assert_eq!(named, cell.is_some());
    });
}
