//! Rollback, expiry, clocks, root rotation, restarts.

use crate::common::{Forge, at, now, pinned, refusal, sign, store, write};
use noderelay_bundle::signing::{Algorithm, SigningKey};
use noderelay_bundle::source::Files;
use noderelay_bundle::{Freshness, Role, Store};

#[tokio::test]
async fn b056_the_floor_outlives_expiry_and_restart() {
    let mut forge = Forge::new();
    let root = forge.root_file();
    let (directory, store) = pinned(&root);
    let state = directory.path().join("state");
    store
        .load_from(&forge.version(7).files_under(root.clone()), now())
        .await
        .unwrap();
    drop(store);

    // A long time later, in a new process, version 7 has expired.
    let later = at("2027-06-01T00:00:00Z");
    let store = Store::open(&state).unwrap();
    let last = store.last_good(later).await.unwrap().unwrap();
    assert!(matches!(
        last.freshness(later),
        Freshness::Expired {
            what: Role::Targets,
            ..
        }
    ));
    forge.targets["expires"] = "2028-01-01T00:00:00Z".into();
    forge.snapshot["expires"] = "2028-01-01T00:00:00Z".into();
    forge.timestamp["expires"] = "2028-01-01T00:00:00Z".into();
    assert_eq!(
        refusal(&store, &forge.version(5).files_under(root.clone()), later).await,
        "bundle.rollback"
    );
    assert_eq!(
        refusal(&store, &forge.version(7).files_under(root.clone()), later).await,
        "bundle.changed"
    );
    let eight = store
        .load_from(&forge.version(8).files_under(root.clone()), later)
        .await
        .unwrap();
    assert_eq!((eight.policy_version(), eight.freshness(later).fresh()), (8, true));
    assert_eq!(
        refusal(&store, &forge.version(7).files_under(root), later).await,
        "bundle.rollback"
    );
}

#[tokio::test]
async fn each_role_has_its_own_floor() {
    let mut forge = Forge::new();
    let root = forge.root_file();
    let (_directory, store) = pinned(&root);
    store
        .load_from(&forge.version(7).files_under(root.clone()), now())
        .await
        .unwrap();
    for part in ["targets", "snapshot", "timestamp"] {
        forge.version(8);
        match part {
            "targets" => forge.targets["version"] = 6.into(),
            "snapshot" => forge.snapshot["version"] = 6.into(),
            _ => forge.timestamp["version"] = 6.into(),
        }
        let seen = store
            .load_from(&forge.files_under(root.clone()), now())
            .await
            .unwrap_err()
            .to_string();
        assert!(seen.contains(part) && seen.contains("version 6"), "{seen}");
    }
}

#[tokio::test]
async fn a_wiped_node_starts_from_the_floor_of_its_certificate() {
    let mut forge = Forge::new();
    let (_directory, store) = store(&forge);
    store.raise_floor(7).await.unwrap();
    store.raise_floor(3).await.unwrap();
    let files = forge.version(6).files();
    assert_eq!(refusal(&store, &files, now()).await, "bundle.rollback");
    forge.version(7);
    store.load_from(&forge.files(), now()).await.unwrap();
}

#[tokio::test]
async fn b055_clock_steps_never_brick_loading_and_are_never_kept() {
    let forge = Forge::new();
    let root = forge.root_file();
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state");
    Store::open(&state).unwrap().pin(&root).unwrap();
    let files = forge.files_under(root);
    // 1970, two days, ten minutes and two seconds back, right, far ahead, and back again: a new process each time.
    for (clock, expected) in [
        ("1970-01-01T00:00:00Z", "clock_implausible"),
        ("2026-11-30T12:00:00Z", "fresh"),
        ("2026-11-30T11:59:58Z", "fresh"),
        ("2026-11-30T11:50:00Z", "fresh"),
        ("2026-11-30T10:59:58Z", "fresh"),
        ("2026-11-28T12:00:00Z", "clock_implausible"),
        ("2099-01-01T00:00:00Z", "expired"),
        ("2026-12-02T12:00:00Z", "stale"),
        ("2026-11-30T12:00:00Z", "fresh"),
    ] {
        let store = Store::open(&state).unwrap();
        let loaded = store.load_from(&files, at(clock)).await.unwrap();
        assert_eq!(loaded.freshness(at(clock)).code(), expected, "{clock}");
        assert_eq!(
            loaded.freshness(at(clock)).usable(),
            ["fresh", "stale"].contains(&expected)
        );
        let last = store.last_good(at(clock)).await.unwrap().unwrap();
        assert_eq!(last.freshness(at(clock)).code(), expected, "{clock}");
    }
}

#[tokio::test]
async fn b055_a_clock_set_back_does_not_revive_what_expired() {
    let mut forge = Forge::new();
    let root = forge.root_file();
    let (_directory, store) = pinned(&root);
    // The pipeline signed after the targets had expired: it is later than that, whatever the clock shows.
    forge.timestamp["issued"] = "2027-02-01T00:10:00Z".into();
    forge.timestamp["expires"] = "2027-02-02T00:10:00Z".into();
    let clock = at("2027-01-31T23:50:00Z");
    let loaded = store.load_from(&forge.files_under(root), clock).await.unwrap();
    assert_eq!(loaded.effective_time(clock), at("2027-02-01T00:10:00Z"));
    assert!(matches!(
        loaded.freshness(clock),
        Freshness::Expired {
            what: Role::Targets,
            ..
        }
    ));
}

#[tokio::test]
async fn a_fresh_node_takes_an_expired_publication_for_break_glass_only() {
    let forge = Forge::new();
    let (_directory, store) = store(&forge);
    let later = at("2027-03-01T00:00:00Z");
    let loaded = store.load_from(&forge.files(), later).await.unwrap();
    let freshness = loaded.freshness(later);
    assert!(
        matches!(
            freshness,
            Freshness::Expired {
                what: Role::Targets,
                ..
            }
        ) && !freshness.usable()
    );
}

#[tokio::test]
async fn a_stale_timestamp_is_stale_and_nothing_more() {
    let forge = Forge::new();
    let (_directory, store) = store(&forge);
    let later = at("2026-12-01T11:00:00Z");
    let loaded = store.load_from(&forge.files(), later).await.unwrap();
    let freshness = loaded.freshness(later);
    assert!(freshness.usable() && !freshness.fresh() && matches!(freshness, Freshness::Stale { .. }));
}

/// Rotates: a new first root key, a new first targets key; the root is signed by `signers` of old and new.
fn rotated(forge: &mut Forge, version: u64, floors: Option<u64>) -> Vec<u8> {
    let new = |_| SigningKey::generate(Algorithm::Ed25519).unwrap();
    let old = std::mem::replace(&mut forge.root_keys[0], new(()));
    forge.target_keys[0] = new(());
    forge.root["version"] = version.into();
    if let Some(floor) = floors {
        forge.root["floors"] = serde_json::json!({"targets": floor, "snapshot": floor, "timestamp": floor});
    }
    forge.name_keys();
    // Two of the old three (old, 1) and two of the new three (new, 1).
    sign(&forge.root, &[&old, &forge.root_keys[0], &forge.root_keys[1]])
}

#[tokio::test]
async fn a_root_is_rotated_with_both_thresholds() {
    let mut forge = Forge::new();
    let first = forge.root_file();
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state");
    let store = Store::open(&state).unwrap();
    let pinned = store.pin(&first).unwrap();
    store.load_from(&forge.files_under(first.clone()), now()).await.unwrap();
    forge.version(9);
    let stolen = forge.files_with(
        first.clone(),
        &[&forge.target_keys[0], &forge.target_keys[1]],
        &forge.pipeline,
    );

    let second = rotated(&mut forge, 2, None);
    // Only by the new keys, or only by the old ones: not enough.
    let only_new = sign(&forge.root, &[&forge.root_keys[0], &forge.root_keys[2]]);
    let mut files = forge.version(2).files_under(first.clone());
    files.insert("metadata/2.root.json".into(), only_new);
    assert_eq!(refusal(&store, &files, now()).await, "bundle.root_chain");
    files.insert("metadata/2.root.json".into(), second.clone());
    let loaded = store.load_from(&files, now()).await.unwrap();
    assert_eq!((loaded.versions().root, loaded.policy_version()), (2, 2));
    assert_eq!(store.pinned().unwrap(), Some(pinned));

    // A third one, and a node that has seen only the first.
    let third = rotated(&mut forge, 3, None);
    let mut files = forge.version(3).files_under(first.clone());
    files.extend([
        ("metadata/2.root.json".into(), second),
        ("metadata/3.root.json".into(), third),
    ]);
    let late = Store::open(&directory.path().join("late")).unwrap();
    late.pin(&first).unwrap();
    for store in [&store, &late, &Store::open(&state).unwrap()] {
        assert_eq!(store.load_from(&files, now()).await.unwrap().versions().root, 3);
    }
    // Documents of the old root are worth nothing any more, even without its files.
    let mut old: Files = stolen;
    old.retain(|path, _| path != "metadata/2.root.json");
    assert_eq!(refusal(&store, &old, now()).await, "bundle.below_threshold");
    // After a restart the last good one is still there, under root 3.
    let last = Store::open(&state).unwrap().last_good(now()).await.unwrap().unwrap();
    assert_eq!(last.versions().root, 3);
}

#[tokio::test]
async fn a_root_version_must_be_the_next() {
    let mut forge = Forge::new();
    let first = forge.root_file();
    let (_directory, store) = pinned(&first);
    let third = rotated(&mut forge, 3, None);
    let mut files = forge.files_under(first);
    files.insert("metadata/2.root.json".into(), third);
    assert_eq!(refusal(&store, &files, now()).await, "bundle.root_chain");
}

#[tokio::test]
async fn a_root_is_kept_though_the_rest_is_bad() {
    let mut forge = Forge::new();
    let first = forge.root_file();
    let (directory, store) = pinned(&first);
    let before = forge.files_under(first.clone());
    store.load_from(&before, now()).await.unwrap();
    forge.version(9);
    let old_signers = forge.files_with(
        first.clone(),
        &[&forge.target_keys[0], &forge.target_keys[1]],
        &forge.pipeline,
    );
    let second = rotated(&mut forge, 2, None);
    let only_roots = Files::from([("metadata/2.root.json".to_owned(), second)]);
    assert_eq!(refusal(&store, &only_roots, now()).await, "bundle.missing");
    // The last good one stays in force, but nothing new is taken from the key that was rotated away.
    assert!(store.last_good(now()).await.unwrap().is_some());
    let again = Store::open(&directory.path().join("state")).unwrap();
    assert_eq!(refusal(&again, &old_signers, now()).await, "bundle.below_threshold");
}

#[tokio::test]
async fn b057_a_poisoned_floor_is_reset_by_the_root_and_stays_closed_to_older_documents() {
    let mut forge = Forge::new();
    let first = forge.root_file();
    let (directory, store) = pinned(&first);
    store
        .load_from(&forge.version(5).files_under(first.clone()), now())
        .await
        .unwrap();
    // A thief of keys publishes the largest version there is.
    store
        .load_from(&forge.version((1 << 53) - 1).files_under(first.clone()), now())
        .await
        .unwrap();
    assert_eq!(
        refusal(&store, &forge.version(9).files_under(first.clone()), now()).await,
        "bundle.rollback"
    );
    // The root signers rotate the keys and say where the floor lies.
    let second = rotated(&mut forge, 2, Some(8));
    let under = |forge: &mut Forge, version| {
        let mut files = forge.version(version).files_under(first.clone());
        files.insert("metadata/2.root.json".into(), second.clone());
        files
    };
    assert_eq!(refusal(&store, &under(&mut forge, 5), now()).await, "bundle.rollback");
    let nine = store.load_from(&under(&mut forge, 9), now()).await.unwrap();
    assert_eq!(nine.policy_version(), 9);
    assert_eq!(refusal(&store, &under(&mut forge, 8), now()).await, "bundle.rollback");
    // A new node takes the floor from the root as well.
    let fresh = Store::open(&directory.path().join("fresh")).unwrap();
    fresh.pin(&first).unwrap();
    assert_eq!(refusal(&fresh, &under(&mut forge, 7), now()).await, "bundle.rollback");
}

#[tokio::test]
async fn a_publication_is_followed_through_a_symlink_swap() {
    // As kubelet mounts a ConfigMap: names → ..data → a directory for each generation.
    let mut forge = Forge::new();
    let root = forge.root_file();
    let (directory, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = Store::open(&directory.path().join("state")).unwrap();
    store.pin(&root).unwrap();
    let link = |to: &str, name: &str| {
        let new = place.path().join("new");
        std::os::unix::fs::symlink(to, &new).unwrap();
        std::fs::rename(new, place.path().join(name)).unwrap();
    };
    write(&forge.files_under(root.clone()), &place.path().join("..1"));
    link("..1", "..data");
    link("..data/metadata", "metadata");
    link("..data/targets", "targets");
    assert_eq!(store.load(place.path(), now()).await.unwrap().policy_version(), 1);
    write(&forge.version(2).files_under(root), &place.path().join("..2"));
    link("..2", "..data");
    std::fs::remove_dir_all(place.path().join("..1")).unwrap();
    assert_eq!(store.load(place.path(), now()).await.unwrap().policy_version(), 2);
    std::fs::remove_dir_all(place.path().join("..2")).unwrap();
    assert_eq!(
        store.load(place.path(), now()).await.unwrap_err().code(),
        "bundle.missing"
    );
    assert_eq!(store.last_good(now()).await.unwrap().unwrap().policy_version(), 2);
}

#[tokio::test]
async fn a_damaged_store_says_so_and_forgets_nothing() {
    let forge = Forge::new();
    let root = forge.root_file();
    let (directory, store) = pinned(&root);
    let state = directory.path().join("state");
    let files = forge.files_under(root);
    store.load_from(&files, now()).await.unwrap();
    // The kept copy is damaged: said when it is asked for, replaced by the next load.
    std::fs::write(state.join("last-good.json"), b"{").unwrap();
    let store = Store::open(&state).unwrap();
    assert_eq!(store.last_good(now()).await.unwrap_err().code(), "bundle.state");
    store.load_from(&files, now()).await.unwrap();
    assert!(Store::open(&state).unwrap().last_good(now()).await.unwrap().is_some());
    // What a killed process left is swept away.
    std::fs::create_dir(state.join("noderelay-tuf-left")).unwrap();
    Store::open(&state).unwrap().last_good(now()).await.unwrap();
    assert!(!state.join("noderelay-tuf-left").exists());
    // The trust file is damaged: nothing starts afresh.
    std::fs::write(state.join("trust.json"), b"{}").unwrap();
    assert_eq!(Store::open(&state).unwrap_err().code(), "bundle.state");
}

#[tokio::test]
async fn the_first_use_pins_and_only_the_first() {
    let (forge, other) = (Forge::new(), Forge::new());
    let directory = tempfile::tempdir().unwrap();
    let (place, elsewhere) = (directory.path().join("a"), directory.path().join("b"));
    write(&forge.files(), &place);
    write(&other.files(), &elsewhere);
    let store = Store::open(&directory.path().join("state")).unwrap();
    let pinned = store.pin_first_use(&place).unwrap();
    assert_eq!(store.pin_first_use(&elsewhere).unwrap(), pinned);
    store.load(&place, now()).await.unwrap();
    assert_eq!(
        store.load(&elsewhere, now()).await.unwrap_err().code(),
        "bundle.other_root"
    );
}

#[tokio::test]
async fn two_processes_load_at_the_same_time() {
    let mut forge = Forge::new();
    let root = forge.root_file();
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state");
    Store::open(&state).unwrap().pin(&root).unwrap();
    let publications: Vec<Files> = (1..=8).map(|v| forge.version(v).files_under(root.clone())).collect();
    let mut tasks = tokio::task::JoinSet::new();
    for files in publications.clone() {
        let store = Store::open(&state).unwrap();
        tasks.spawn(async move { store.load_from(&files, now()).await.is_ok() });
    }
    tasks.join_all().await;
    let store = Store::open(&state).unwrap();
    assert_eq!(store.last_good(now()).await.unwrap().unwrap().policy_version(), 8);
    assert_eq!(refusal(&store, &publications[6], now()).await, "bundle.rollback");
}

#[tokio::test]
async fn a_thousand_policies_load_verified_and_are_there_after_a_restart() {
    let mut forge = Forge::new();
    for n in 0..1000 {
        let text = format!("// {}\npermit (principal, action, resource);\n", "x".repeat(200));
        forge
            .content
            .insert(format!("policies/p{n}.cedar"), format!("// {n}\n{text}").into_bytes());
    }
    let root = forge.root_file();
    let (directory, store) = pinned(&root);
    let state = directory.path().join("state");
    let place = directory.path().join("publication");
    write(&forge.files_under(root), &place);
    let start = tokio::time::Instant::now();
    let loaded = store.load(&place, now()).await.unwrap();
    let first = start.elapsed();
    assert_eq!(loaded.files("policies/").count(), 1001);
    let start = tokio::time::Instant::now();
    store.load(&place, now()).await.unwrap();
    let unchanged = start.elapsed();
    let start = tokio::time::Instant::now();
    let again = Store::open(&state).unwrap().last_good(now()).await.unwrap().unwrap();
    eprintln!(
        "first load {first:?}, unchanged {unchanged:?}, after a restart {:?}",
        start.elapsed()
    );
    assert_eq!(again.files("policies/").count(), 1001);
}
