//! Reading principals files.

use super::*;

const GOOD: &str = "\
persons:
  - name: Ada
    usernames:
      - {cluster: east, user: ada@example.com}
      - {cluster: west, user: ada}
    keys:
      - {key: 'ed25519:0101010101010101010101010101010101010101010101010101010101010101', uses: [approve, custody]}
  - name: Bob
    usernames:
      - {cluster: east, user: bob@example.com}
groups:
  - {cluster: east, group: oncall}
mappings:
  - {at: west, from: east, users: [bob@example.com], groups: [oncall]}
";

fn changed(from: &str, to: &str) -> Result<PrincipalsFile, BundleError> {
    assert!(GOOD.contains(from));
    PrincipalsFile::parse(GOOD.replacen(from, to, 1).as_bytes())
}

#[test]
fn a_person_is_found_by_each_of_the_exact_usernames() {
    let file = PrincipalsFile::parse(GOOD.as_bytes()).unwrap();
    let cluster = |name: &str| ClusterName::parse(name).unwrap();
    let user = |name: &str| UserName::parse(name).unwrap();
    let name = |c: &str, u: &str| file.person_of(&cluster(c), &user(u)).map(|p| p.name.as_str());
    assert_eq!(name("east", "ada@example.com"), Some("Ada"));
    assert_eq!(name("west", "ada"), Some("Ada"));
    assert_eq!(name("east", "ada"), None);
    assert_eq!(name("east", "Ada@example.com"), None, "never case-folded");
    let key = &file.persons[0].keys[0].key;
    assert_eq!(
        file.holder_of(key, KeyUse::Approve).map(|p| p.name.as_str()),
        Some("Ada")
    );
    let oncall = GroupName::parse("oncall").unwrap();
    assert!(file.uses_group(&cluster("east"), &oncall));
    assert!(
        !file.uses_group(&cluster("west"), &oncall),
        "a group belongs to its home cluster"
    );
}

#[test]
fn foreign_principals_need_a_mapping() {
    let file = PrincipalsFile::parse(GOOD.as_bytes()).unwrap();
    let (east, west) = (ClusterName::parse("east").unwrap(), ClusterName::parse("west").unwrap());
    let (ada, bob) = (
        UserName::parse("ada@example.com").unwrap(),
        UserName::parse("bob@example.com").unwrap(),
    );
    let oncall = [GroupName::parse("oncall").unwrap()];
    assert!(file.accepts(&west, &east, &bob, &[]));
    assert!(!file.accepts(&west, &east, &ada, &[]));
    assert!(file.accepts(&west, &east, &ada, &oncall));
    assert!(
        !file.accepts(&east, &west, &bob, &oncall),
        "a mapping has one direction"
    );
    assert!(file.accepts(&east, &east, &ada, &[]));
}

#[test]
fn one_person_twice_is_refused() {
    for (from, to) in [
        ("name: Bob", "name: Ada"),
        ("user: bob@example.com}", "user: ada@example.com}"),
        (
            "uses: [approve, custody]}",
            "uses: [approve]}\n      - {key: 'ed25519:0101010101010101010101010101010101010101010101010101010101010101', uses: [custody]}",
        ),
        (
            "groups:\n  - {cluster: east, group: oncall}",
            "groups:\n  - {cluster: east, group: oncall}\n  - {cluster: east, group: oncall}",
        ),
    ] {
        let seen = changed(from, to).unwrap_err().to_string();
        assert!(seen.contains("twice") || seen.contains("belongs to"), "{seen}");
    }
}

#[test]
fn odd_content_is_refused() {
    for (from, to) in [
        ("name: Bob", "name: ''"),
        ("name: Bob", "name: \"Bob\\e[31m\""),
        ("user: ada}", "user: \"ada\\u202e\"}"),
        ("cluster: west", "cluster: West"),
        ("uses: [approve, custody]", "uses: []"),
        ("uses: [approve, custody]", "uses: [approve, everything]"),
        ("ed25519:01", "ed25519:0X"),
        ("groups:", "group:"),
        ("at: west", "at: east"),
    ] {
        assert_eq!(changed(from, to).unwrap_err().code(), "bundle.content", "{to}");
    }
}
