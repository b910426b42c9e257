//! What is in force while publications come and go: always the last one that could be used.

use noderelay_pki::time::after;

use super::*;
use crate::testing::{DAY, Fleet, Publisher};

const GOOD: &str = r#"@id("one") permit (principal, action, resource);"#;
const BETTER: &str = r#"@id("two") permit (principal, action, resource);"#;
const BROKEN: &str = "permit (principal, action";

fn version(watch: &watch::Receiver<Arc<InForce>>) -> u64 {
    watch.borrow().publication.policy_version()
}

#[tokio::test]
async fn a_new_publication_is_taken_and_told() {
    let (fleet, now) = (Fleet::new(), Timestamp::now());
    let publisher = Publisher::new(&fleet, GOOD, now).await;
    let mut published = publisher.open(now).await;
    let mut watch = published.watch();
    watch.mark_unchanged();
    publisher.publish(BETTER, now).await;
    published.refresh(now).await;
    assert!(watch.has_changed().unwrap());
    assert_eq!((version(&watch), published.fault.as_deref()), (2, None));
}

// Whoever waits for changes asks the policy again for every session: not for nothing.
#[tokio::test]
async fn the_same_publication_again_is_no_change() {
    let (fleet, now) = (Fleet::new(), Timestamp::now());
    let publisher = Publisher::new(&fleet, GOOD, now).await;
    let mut published = publisher.open(now).await;
    let mut watch = published.watch();
    watch.mark_unchanged();
    let before = watch.borrow().clone();
    published.refresh(now).await;
    published.refresh(after(now, DAY)).await;
    assert!(!watch.has_changed().unwrap());
    assert!(Arc::ptr_eq(&before, &watch.borrow()));
}

#[tokio::test]
async fn once_the_node_is_known_only_its_policies_are_kept() {
    let elsewhere = r#"@id("elsewhere") permit (principal, action, resource in Cluster::"elsewhere");"#;
    let (fleet, now) = (Fleet::new(), Timestamp::now());
    let publisher = Publisher::new(&fleet, &format!("{GOOD}{elsewhere}"), now).await;
    let mut published = publisher.open(now).await;
    let watch = published.watch();
    let rules = || watch.borrow().policy.rules().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(rules(), ["elsewhere", "one"]);
    let (cluster, node) = (ClusterName::parse("alpha").unwrap(), NodeName::parse("gpu-1").unwrap());
    published.only_for(&cluster, &node);
    assert_eq!((version(&watch), rules()), (1, vec!["one".to_owned()]));
    publisher.publish(&format!("{BETTER}{elsewhere}"), now).await;
    published.refresh(now).await;
    assert_eq!((version(&watch), rules()), (2, vec!["two".to_owned()]));
}

#[tokio::test]
async fn a_policy_that_cannot_be_used_changes_nothing() {
    let (fleet, now) = (Fleet::new(), Timestamp::now());
    let publisher = Publisher::new(&fleet, GOOD, now).await;
    let mut published = publisher.open(now).await;
    let mut watch = published.watch();
    watch.mark_unchanged();
    publisher.publish(BROKEN, now).await;
    published.refresh(now).await;
    assert!(!watch.has_changed().unwrap());
    assert_eq!(version(&watch), 1);
    let fault = published.fault.clone().unwrap();
    assert!(fault.starts_with("policy of the verified publication 2"), "{fault}");
    // Mended, it is taken.
    publisher.publish(BETTER, now).await;
    published.refresh(now).await;
    assert_eq!((version(&watch), published.fault.as_deref()), (3, None));
}

#[tokio::test]
async fn a_publication_that_does_not_verify_changes_nothing() {
    let (fleet, now) = (Fleet::new(), Timestamp::now());
    let publisher = Publisher::new(&fleet, GOOD, now).await;
    let mut published = publisher.open(now).await;
    let mut watch = published.watch();
    watch.mark_unchanged();
    std::fs::write(publisher.publication().join("metadata/timestamp.json"), "{}").unwrap();
    published.refresh(now).await;
    assert!(!watch.has_changed().unwrap());
    let fault = published.fault.clone().unwrap();
    assert!(fault.contains("timestamp.json"), "{fault}");
    // A restart finds the last good one.
    drop(published);
    assert_eq!(version(&publisher.open(now).await.watch()), 1);
}

#[tokio::test]
async fn another_fleets_publication_is_not_taken() {
    let (fleet, now) = (Fleet::new(), Timestamp::now());
    let (publisher, other) = (
        Publisher::new(&fleet, GOOD, now).await,
        Publisher::new(&fleet, BETTER, now).await,
    );
    let mut published = publisher.open(now).await;
    let mut watch = published.watch();
    watch.mark_unchanged();
    std::fs::remove_dir_all(publisher.publication()).unwrap();
    std::fs::rename(other.publication(), publisher.publication()).unwrap();
    published.refresh(now).await;
    assert!(!watch.has_changed().unwrap());
    assert!(published.fault.is_some());
}
