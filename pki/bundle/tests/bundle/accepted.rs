//! What verifies and cannot be used is never kept; what has not changed is not asked about again.

use crate::common::{Forge, at, now, pinned, write};
use noderelay_bundle::{Accepted, BundleError, Publication, Store};

/// Why the caller of these tests cannot use a publication.
#[derive(Debug, PartialEq, Eq)]
enum Unusable {
    Bundle(&'static str),
    DoesNotParse,
}

impl std::fmt::Display for Unusable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

impl From<BundleError> for Unusable {
    fn from(error: BundleError) -> Self {
        Self::Bundle(error.code())
    }
}

/// A caller that knows the word `permit` only.
fn parse(publication: &Publication) -> Result<u64, Unusable> {
    let good = publication.policies().all(|(_, text)| text.starts_with(b"permit"));
    good.then(|| publication.policy_version()).ok_or(Unusable::DoesNotParse)
}

#[tokio::test]
async fn what_verifies_but_is_not_usable_is_never_kept_and_raises_no_floor() {
    let mut forge = Forge::new();
    let root = forge.root_file();
    let (directory, store) = pinned(&root);
    let state = directory.path().join("state");
    let one = forge.version(1).files_under(root.clone());
    let loaded = store.load_accepted_from(&one, now(), parse).await.unwrap();
    assert!(matches!(loaded, Accepted::New(_, 1)), "{loaded:?}");
    let kept = |name| std::fs::read(state.join(name)).unwrap();
    let (trust, last) = (kept("trust.json"), kept("last-good.json"));

    let usable = forge.content.clone();
    let broken = b"allow everything;\n".to_vec();
    forge.content.insert("policies/a.cedar".into(), broken);
    let two = forge.version(2).files_under(root.clone());
    // In this process, again in this process, and in another one.
    for store in [&store, &store, &Store::open(&state).unwrap()] {
        let refused = store.load_accepted_from(&two, now(), parse).await.unwrap_err();
        assert_eq!(refused, Unusable::DoesNotParse);
        assert_eq!(kept("trust.json"), trust, "no floor is raised");
        assert_eq!(kept("last-good.json"), last);
    }
    let again = Store::open(&state).unwrap();
    let (good, made) = again.last_good_accepted(now(), parse).await.unwrap().unwrap();
    assert_eq!((good.policy_version(), made), (1, 1));
    // The floors are still those of version 1: it loads, and so does the mended version 2.
    let loaded = again.load_accepted_from(&one, now(), parse).await.unwrap();
    assert!(matches!(loaded, Accepted::Same(_)), "{loaded:?}");
    forge.content = usable;
    let mended = forge.version(2).files_under(root);
    let loaded = again.load_accepted_from(&mended, now(), parse).await.unwrap();
    assert!(matches!(loaded, Accepted::New(_, 2)), "{loaded:?}");
    let refused = again.load_accepted_from(&one, now(), parse).await.unwrap_err();
    assert_eq!(refused, Unusable::Bundle("bundle.rollback"));
}

#[tokio::test]
async fn a_disk_that_takes_nothing_holds_up_no_publication_and_opens_no_way_back() {
    let mut forge = Forge::new();
    let root = forge.root_file();
    let (directory, store) = pinned(&root);
    let state = directory.path().join("state");
    let last = state.join("last-good.json");
    // For whoever runs the tests, root included: a file can't take the place of a folder.
    std::fs::create_dir(&last).unwrap();
    let [one, two, three] = [1, 2, 3].map(|version| forge.version(version).files_under(root.clone()));
    for (files, version) in [(&one, 1), (&three, 3)] {
        let loaded = store.load_accepted_from(files, now(), parse).await.unwrap();
        assert!(
            matches!(loaded, Accepted::New(_, made) if made == version),
            "{loaded:?}"
        );
        let why = store.unkept().expect("it is not kept");
        assert!(why.contains("last-good.json"), "{why}");
    }
    let refused = store.load_accepted_from(&two, now(), parse).await.unwrap_err();
    assert_eq!(refused, Unusable::Bundle("bundle.rollback"), "its floor counts here");
    let loaded = store.load_accepted_from(&three, now(), parse).await.unwrap();
    assert!(matches!(loaded, Accepted::Same(_)), "{loaded:?}");
    assert!(store.unkept().is_some());
    // As soon as the disk takes something, it is kept, though nothing new came.
    std::fs::remove_dir(&last).unwrap();
    let loaded = store.load_accepted_from(&three, now(), parse).await.unwrap();
    assert!(matches!(loaded, Accepted::Same(_)), "{loaded:?}");
    assert_eq!(store.unkept(), None);
    let again = Store::open(&state).unwrap();
    assert_eq!(again.last_good(now()).await.unwrap().unwrap().policy_version(), 3);
    let refused = again.load_accepted_from(&two, now(), parse).await.unwrap_err();
    assert_eq!(refused, Unusable::Bundle("bundle.rollback"));
}

#[tokio::test]
async fn what_could_not_be_kept_never_takes_the_place_of_something_newer() {
    let mut forge = Forge::new();
    let root = forge.root_file();
    let (directory, store) = pinned(&root);
    let state = directory.path().join("state");
    let last = state.join("last-good.json");
    std::fs::create_dir(&last).unwrap();
    let [three, four] = [3, 4].map(|version| forge.version(version).files_under(root.clone()));
    store.load_accepted_from(&three, now(), parse).await.unwrap();
    assert!(store.unkept().is_some());
    // Another process, on a disk that takes something again, is ahead.
    std::fs::remove_dir(&last).unwrap();
    let other = Store::open(&state).unwrap();
    other.load_accepted_from(&four, now(), parse).await.unwrap();
    let loaded = store.load_accepted_from(&three, now(), parse).await.unwrap();
    assert!(matches!(loaded, Accepted::Same(_)), "{loaded:?}");
    assert_eq!(store.unkept(), None);
    let again = Store::open(&state).unwrap();
    assert_eq!(again.last_good(now()).await.unwrap().unwrap().policy_version(), 4);
    let again = Store::open(&state).unwrap();
    let refused = again.load_accepted_from(&three, now(), parse).await.unwrap_err();
    assert_eq!(refused, Unusable::Bundle("bundle.rollback"));
}

#[tokio::test]
async fn a_program_begins_with_the_last_good_one_when_the_directory_is_bad_and_says_why() {
    let forge = Forge::new();
    let root = forge.root_file();
    let (directory, store) = pinned(&root);
    let place = directory.path().join("publication");
    // Nothing there, and nothing kept.
    let refused = store.begin(&place, now(), parse).await.unwrap_err();
    assert_eq!(refused, Unusable::Bundle("bundle.missing"));
    write(&forge.files_under(root), &place);
    let begun = store.begin(&place, now(), parse).await.unwrap();
    assert_eq!((begun.made, begun.refused), (1, None));
    // The same store again: nothing has changed.
    let begun = store.begin(&place, now(), parse).await.unwrap();
    assert_eq!((begun.made, begun.refused), (1, None));
    std::fs::remove_dir_all(&place).unwrap();
    let again = Store::open(&directory.path().join("state")).unwrap();
    let begun = again.begin(&place, now(), parse).await.unwrap();
    assert_eq!((begun.publication.policy_version(), begun.made), (1, 1));
    assert_eq!(begun.refused, Some(Unusable::Bundle("bundle.missing")));
    // What can't be used is no last good one.
    let again = Store::open(&directory.path().join("state")).unwrap();
    let refuse = |_: &Publication| Err::<(), _>(Unusable::DoesNotParse);
    let refused = again.begin(&place, now(), refuse).await.unwrap_err();
    assert_eq!(refused, Unusable::Bundle("bundle.missing"));
}

#[tokio::test]
async fn a_last_good_one_that_this_program_cannot_use_is_not_handed_out_and_stays_for_another() {
    let forge = Forge::new();
    let root = forge.root_file();
    let (directory, store) = pinned(&root);
    let state = directory.path().join("state");
    let files = forge.files_under(root);
    store.load_from(&files, now()).await.unwrap();
    let older = Store::open(&state).unwrap();
    let refuse = |_: &Publication| Err::<(), _>(Unusable::DoesNotParse);
    let refused = older.last_good_accepted(now(), refuse).await.unwrap_err();
    assert_eq!(refused, Unusable::DoesNotParse);
    // It is not held as if it had been accepted.
    let refused = older.load_accepted_from(&files, now(), refuse).await.unwrap_err();
    assert_eq!(refused, Unusable::DoesNotParse);
    let newer = Store::open(&state).unwrap();
    assert!(newer.last_good_accepted(now(), parse).await.unwrap().is_some());
}

#[tokio::test]
async fn an_unchanged_directory_is_not_asked_about_again_and_a_new_timestamp_says_that_the_content_is_the_same() {
    let mut forge = Forge::new();
    let root = forge.root_file();
    let (directory, store) = pinned(&root);
    let place = directory.path().join("publication");
    write(&forge.files_under(root.clone()), &place);
    let first = store
        .load_accepted(&place, now(), parse)
        .await
        .unwrap()
        .into_publication();
    let never = |_: &Publication| -> Result<(), Unusable> { panic!("asked again") };
    let again = store.load_accepted(&place, now(), never).await.unwrap();
    assert!(matches!(again, Accepted::Same(_)), "{again:?}");

    // The signatures of P-256 differ each time, so the snapshot names other bytes with the same content.
    forge.snapshot["version"] = 2.into();
    forge.timestamp["version"] = 2.into();
    forge.timestamp["expires"] = "2026-12-02T11:00:00Z".into();
    write(&forge.files_under(root.clone()), &place);
    let Accepted::New(newer, _) = store.load_accepted(&place, now(), parse).await.unwrap() else {
        panic!("a newer timestamp is news")
    };
    assert!(newer.same_content(&first));
    assert_eq!(
        newer.expires(noderelay_bundle::Role::Timestamp),
        at("2026-12-02T11:00:00Z")
    );
    write(&forge.version(3).files_under(root), &place);
    let other = store
        .load_accepted(&place, now(), parse)
        .await
        .unwrap()
        .into_publication();
    assert!(!other.same_content(&first));
}

#[tokio::test]
async fn policies_are_named_without_their_folder() {
    let mut forge = Forge::new();
    forge.content.insert("policies/b.cedar".into(), b"forbid\n".to_vec());
    let root = forge.root_file();
    let (_directory, store) = pinned(&root);
    let loaded = store.load_from(&forge.files_under(root), now()).await.unwrap();
    let seen: Vec<_> = loaded
        .policies()
        .map(|(name, text)| (name, text.first().copied()))
        .collect();
    assert_eq!(seen, [("a.cedar", Some(b'p')), ("b.cedar", Some(b'f'))]);
}
