//! Every kind of bad publication is refused with its own code, and the last good one stays in force.

use crate::common::{Forge, NOW, at, now, refusal, sha, sign, store, write};
use noderelay_bundle::source::Files;
use noderelay_bundle::{BundleError, Store};
use noderelay_pki::name::ClusterName;
use serde_json::{Value, json};

/// Loads a good version 5, then checks that the bad one is refused with `code` and that version 5 is still there, here and
/// after a restart.
async fn stays(code: &str, change: impl FnOnce(&mut Forge, Vec<u8>) -> Files) {
    let mut forge = Forge::new();
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state");
    let bundles = Store::open(&state).unwrap();
    let root = forge.root_file();
    bundles.pin(&root).unwrap();
    bundles
        .load_from(&forge.version(5).files_under(root.clone()), now())
        .await
        .unwrap();
    forge.version(6);
    let bad = change(&mut forge, root);
    assert_eq!(refusal(&bundles, &bad, now()).await, code);
    for store in [bundles, Store::open(&state).unwrap()] {
        let last = store.last_good(now()).await.unwrap().unwrap();
        assert_eq!(last.policy_version(), 5, "{code}");
        assert!(last.freshness(now()).fresh());
        assert_eq!(refusal(&store, &bad, now()).await, code);
    }
}

#[tokio::test]
async fn a_good_publication_signed_by_two_of_three_loads() {
    let forge = Forge::new();
    let (directory, store) = store(&forge);
    let place = directory.path().join("publication");
    write(&forge.files(), &place);
    let loaded = store.load(&place, now()).await.unwrap();
    assert_eq!((loaded.policy_version(), loaded.versions().root), (1, 1));
    assert!(loaded.freshness(now()).fresh());
    assert!(!loaded.demo());
    assert_eq!(loaded.file("nodes.yaml"), Some(b"rules: []\n".as_slice()));
    assert_eq!(loaded.file("targets.json"), None);
    assert_eq!(
        loaded.files("policies/").map(|(name, _)| name).collect::<Vec<_>>(),
        ["policies/a.cedar"]
    );
    assert_eq!(loaded.fleet().relays(&ClusterName::parse("east").unwrap()).len(), 1);
    assert_eq!(
        store.load(&place, now()).await.unwrap().versions(),
        loaded.versions(),
        "the same again is good"
    );
}

#[tokio::test]
async fn nothing_is_loaded_before_a_root_is_pinned() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path().join("s").as_path()).unwrap();
    assert_eq!(refusal(&store, &Forge::new().files(), now()).await, "bundle.not_pinned");
}

#[tokio::test]
async fn unsigned_is_refused() {
    stays("bundle.unsigned", |forge, root| {
        forge.files_with(root, &[], &forge.pipeline)
    })
    .await;
}

#[tokio::test]
async fn below_the_threshold_is_refused() {
    stays("bundle.below_threshold", |forge, root| {
        forge.files_with(root, &[&forge.target_keys[1]], &forge.pipeline)
    })
    .await;
}

#[tokio::test]
async fn one_key_twice_is_refused() {
    let key_twice = |forge: &mut Forge, root| {
        let key = &forge.target_keys[2];
        forge.files_with(root, &[key, key], &forge.pipeline)
    };
    stays("bundle.key_twice", key_twice).await;
}

#[tokio::test]
async fn one_key_under_two_ids_is_refused() {
    // The same public key in another spelling has another id in TUF; a root that names it is refused whole.
    let mut forge = Forge::new();
    let (_directory, store) = store(&forge);
    let twin = forge.root_keys[0].public().tuf();
    let mut upper = twin.clone();
    upper["keyval"]["public"] = Value::from(twin["keyval"]["public"].as_str().unwrap().to_uppercase());
    let mut extra = twin;
    extra["comment"] = "x".into();
    for (spelling, code) in [(upper, "bundle.malformed"), (extra, "bundle.unknown_field")] {
        let id = sha(&noderelay_bundle::strict::canonical(&spelling));
        forge.name_keys();
        forge.root["version"] = 2.into();
        forge.root["keys"][&id] = spelling;
        forge.root["roles"]["targets"]["keyids"]
            .as_array_mut()
            .unwrap()
            .push(id.into());
        let mut files = forge.files();
        files.insert("metadata/2.root.json".into(), forge.root_file());
        assert_eq!(refusal(&store, &files, now()).await, code);
    }
}

#[tokio::test]
async fn keys_of_another_role_do_not_count() {
    stays("bundle.unsigned", |forge, root| {
        forge.files_with(
            root,
            &[&forge.root_keys[0], &forge.root_keys[1], &forge.pipeline],
            &forge.pipeline,
        )
    })
    .await;
    stays("bundle.below_threshold", |forge, root| {
        forge.files_with(root, &[&forge.root_keys[0], &forge.target_keys[0]], &forge.pipeline)
    })
    .await;
    stays("bundle.unsigned", |forge, root| {
        forge.files_with(
            root,
            &[&forge.target_keys[0], &forge.target_keys[1]],
            &forge.target_keys[0],
        )
    })
    .await;
}

#[tokio::test]
async fn a_signature_over_other_bytes_does_not_count() {
    stays("bundle.unsigned", |forge, root| {
        let mut files = forge.files_under(root);
        let text = String::from_utf8(files["metadata/6.targets.json"].clone()).unwrap();
        files.insert(
            "metadata/6.targets.json".into(),
            text.replace("2027-02-01", "2028-02-01").into_bytes(),
        );
        files
    })
    .await;
}

#[tokio::test]
async fn b059_duplicate_keys_are_refused_even_when_signed() {
    for (file, from, to) in [
        (
            "metadata/6.targets.json",
            r#""version":6"#,
            r#""version":6,"version":7"#,
        ),
        (
            "metadata/6.targets.json",
            r#""hashes":{"#,
            r#""hashes":{"sha256":"00","#,
        ),
        (
            "metadata/timestamp.json",
            r#""expires":"#,
            r#""expires":"2099-01-01T00:00:00Z","expires":"#,
        ),
        ("metadata/timestamp.json", r#""signed":"#, r#""signed":{},"signed":"#),
        (
            "metadata/timestamp.json",
            r#""version":6}"#,
            r#""version":6,"\u0076ersion":7}"#,
        ),
    ] {
        stays("bundle.duplicate_key", |forge, root| {
            replaced(forge.files_under(root), file, from, to)
        })
        .await;
    }
}

#[tokio::test]
async fn b058_other_spellings_of_the_same_content_are_refused() {
    for (from, to) in [
        (r#"{"signatures""#, " {\"signatures\""),
        (r#""version":6"#, r#""version": 6"#),
        ("timestamp", "timest\\u0061mp"),
        ("snapshot.json", "snapshot.j\u{455}on"),
    ] {
        stays("bundle.not_canonical", |forge, root| {
            replaced(forge.files_under(root), "metadata/timestamp.json", from, to)
        })
        .await;
    }
    stays("bundle.not_canonical", |forge, root| {
        let mut files = forge.files_under(root);
        files.get_mut("metadata/timestamp.json").unwrap().push(b'\n');
        files
    })
    .await;
}

#[tokio::test]
async fn b058_unknown_fields_are_refused_though_signed() {
    stays("bundle.unknown_field", |forge, root| {
        forge.targets["allow"] = "everything".into();
        forge.files_under(root)
    })
    .await;
    stays("bundle.unknown_field", |forge, root| {
        forge.timestamp["x"] = json!({"y": 1});
        forge.files_under(root)
    })
    .await;
    stays("bundle.unknown_field", |forge, root| {
        forge.targets["delegations"] = json!({"keys": {}, "roles": []});
        forge.files_under(root)
    })
    .await;
}

#[tokio::test]
async fn b057_odd_versions_are_refused() {
    for odd in [
        "0",
        "9007199254740992",
        "9223372036854775808",
        "18446744073709551615",
        "\"7\"",
        "true",
    ] {
        stays("bundle.bad_version", |forge, root| {
            forge.timestamp["version"] = serde_json::from_str(odd).unwrap();
            forge.files_under(root)
        })
        .await;
    }
    for odd in ["-1", "1.0", "18446744073709551616", "null", "7e0"] {
        stays("bundle.malformed", |forge, root| {
            replaced(
                forge.files_under(root),
                "metadata/timestamp.json",
                r#""version":6}}"#,
                &format!(r#""version":{odd}}}}}"#),
            )
        })
        .await;
    }
}

#[tokio::test]
async fn b060_times_have_one_grammar() {
    for odd in [
        "2026-12-31T23:59:60Z",
        "2016-12-31T23:59:60Z",
        "2026-12-30T12:30:60Z",
        "2026-12-30T24:00:00Z",
        "2026-12-30t12:00:00Z",
        "2026-12-30T12:00:00z",
        "2026-12-30T12:00:00.000000000001Z",
        "2026-12-30T12:00:00.5Z",
        "2026-12-30T12:00:00-00:00",
        "2026-12-30T12:00:00+23:59",
        "10000-01-01T00:00:00Z",
        "+10000-01-01T00:00:00Z",
        "2026-02-29T00:00:00Z",
        "2026-12-30 12:00:00Z",
        "2026-12-30T12:00Z",
        "",
    ] {
        stays("bundle.bad_time", |forge, root| {
            forge.targets["expires"] = odd.into();
            forge.files_under(root)
        })
        .await;
    }
}

#[tokio::test]
async fn missing_emptied_and_half_copied_directories_are_refused() {
    stays("bundle.missing", |_, _| Files::new()).await;
    for part in [
        "timestamp",
        "6.snapshot",
        "6.targets",
        ".fleet.yaml",
        ".policies/a.cedar",
    ] {
        stays("bundle.missing", |forge, root| {
            let mut files = forge.files_under(root);
            let before = files.len();
            files.retain(|path, _| !path.contains(part));
            assert_eq!(files.len(), before - 1, "{part}");
            files
        })
        .await;
    }
    stays("bundle.malformed", |forge, root| {
        let mut files = forge.files_under(root);
        files.get_mut("metadata/timestamp.json").unwrap().truncate(100);
        files
    })
    .await;
    stays("bundle.malformed", |forge, root| {
        let mut files = forge.files_under(root);
        files.insert("metadata/timestamp.json".into(), vec![]);
        files
    })
    .await;
    stays("bundle.mixed_up", |forge, root| {
        let mut files = forge.files_under(root);
        files
            .iter_mut()
            .find(|(path, _)| path.ends_with("nodes.yaml"))
            .unwrap()
            .1
            .truncate(3);
        files
    })
    .await;
}

#[tokio::test]
async fn files_of_two_publications_are_not_mixed() {
    // Another content of the same length.
    stays("bundle.mixed_up", |forge, root| {
        let mut files = forge.files_under(root);
        *files
            .iter_mut()
            .find(|(path, _)| path.ends_with("nodes.yaml"))
            .unwrap()
            .1 = b"rules: {}\n".to_vec();
        files
    })
    .await;
    // A snapshot that is signed, of that version, but not the one that the timestamp names.
    stays("bundle.mixed_up", |forge, root| {
        let mut files = forge.files_under(root.clone());
        forge.snapshot["expires"] = "2027-03-01T00:00:00Z".into();
        files.insert(
            "metadata/6.snapshot.json".into(),
            forge.files_under(root)["metadata/6.snapshot.json"].clone(),
        );
        files
    })
    .await;
}

#[tokio::test]
async fn oversized_is_refused_before_it_is_read() {
    for path in [
        "metadata/timestamp.json",
        "metadata/6.snapshot.json",
        "metadata/6.targets.json",
        "metadata/2.root.json",
    ] {
        stays("bundle.too_large", |forge, root| {
            let mut files = forge.files_under(root);
            files.insert(path.into(), vec![b' '; 2 * 1024 * 1024]);
            files
        })
        .await;
    }
    stays("bundle.too_large", |forge, root| {
        forge.targets["targets"] = json!({"fleet.yaml": {"length": 1u64 << 40, "hashes": {"sha256": sha(b"")}}});
        forge.files_under(root)
    })
    .await;
    stays("bundle.too_large", |forge, root| {
        let mut files = forge.files_under(root);
        files
            .iter_mut()
            .find(|(path, _)| path.ends_with("nodes.yaml"))
            .unwrap()
            .1
            .extend([b' '; 100]);
        files
    })
    .await;
}

#[tokio::test]
async fn file_names_cannot_leave_the_directory() {
    for name in [
        "../../etc/passwd",
        "/etc/passwd",
        "a/../b",
        "policies//a.cedar",
        ".hidden",
        "a/b/c",
        "",
        "a b",
    ] {
        stays("bundle.malformed", |forge, root| {
            forge.targets["targets"] = json!({name: {"length": 0, "hashes": {"sha256": sha(b"")}}});
            forge.files_under(root)
        })
        .await;
    }
}

#[tokio::test]
async fn signed_content_that_is_not_usable_is_refused() {
    stays("bundle.content", |forge, root| {
        forge.content.remove("fleet.yaml");
        forge.files_under(root)
    })
    .await;
    for (name, text) in [
        ("fleet.yaml", "trust_domain: example\nclusters: []\n"),
        ("fleet.yaml", "trust_domain: example\ntrust_domain: other\n"),
        ("fleet.yaml", "\u{0}"),
        ("principals.yaml", "persons: [{name: Ada}, {name: Ada}]"),
        ("principals.yaml", "groups: [{cluster: west, group: oncall}]"),
        ("principals.yaml", "surprise: 1"),
    ] {
        stays("bundle.content", |forge, root| {
            forge.content.insert(name.into(), text.as_bytes().to_vec());
            forge.files_under(root)
        })
        .await;
    }
}

#[tokio::test]
async fn another_fleet_is_named_as_such() {
    let forge = Forge::new();
    let (directory, store) = store(&forge);
    let other = Forge::new();
    assert_eq!(refusal(&store, &other.files(), now()).await, "bundle.other_root");
    assert!(matches!(
        store.pin(&other.root_file()),
        Err(BundleError::OtherRoot { .. })
    ));
    let place = directory.path().join("publication");
    write(&forge.files(), &place);
    let fresh = Store::open(&directory.path().join("fresh")).unwrap();
    assert!(matches!(
        fresh.pin_fingerprint(&place, &"00".repeat(32)),
        Err(BundleError::OtherRoot { .. })
    ));
    assert_eq!(fresh.pinned().unwrap(), None);
    let fingerprint = sha(&std::fs::read(place.join("metadata/1.root.json")).unwrap());
    assert_eq!(fresh.pin_fingerprint(&place, &fingerprint), Ok(fingerprint));
}

#[tokio::test]
async fn expired_is_refused_while_another_is_in_force() {
    stays("bundle.expired", |forge, root| {
        forge.targets["issued"] = "2026-10-01T00:00:00Z".into();
        forge.targets["expires"] = NOW.into();
        forge.files_under(root)
    })
    .await;
    stays("bundle.malformed", |forge, root| {
        forge.targets["expires"] = "2020-01-01T00:00:00Z".into();
        forge.files_under(root)
    })
    .await;
}

#[tokio::test]
async fn a_root_needs_its_own_threshold() {
    let forge = Forge::new();
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path().join("s").as_path()).unwrap();
    let one = sign(&forge.root, &[&forge.root_keys[0]]);
    assert_eq!(store.pin(&one).unwrap_err().code(), "bundle.below_threshold");
    let mut zero = forge.root.clone();
    zero["roles"]["targets"]["threshold"] = 0.into();
    let zero = sign(&zero, &[&forge.root_keys[0], &forge.root_keys[1]]);
    assert_eq!(store.pin(&zero).unwrap_err().code(), "bundle.malformed");
    let mut missing = forge.root.clone();
    missing["roles"].as_object_mut().unwrap().remove("snapshot");
    let missing = sign(&missing, &[&forge.root_keys[0], &forge.root_keys[1]]);
    assert_eq!(store.pin(&missing).unwrap_err().code(), "bundle.malformed");
    let mut rsa = forge.root.clone();
    let id = forge.pipeline.id().to_string();
    rsa["keys"][&id]["keytype"] = "rsa".into();
    assert_eq!(
        store
            .pin(&sign(&rsa, &[&forge.root_keys[0], &forge.root_keys[1]]))
            .unwrap_err()
            .code(),
        "bundle.malformed"
    );
}

#[tokio::test]
async fn strings_from_a_publication_are_shown_escaped() {
    let mut forge = Forge::new();
    let (_directory, store) = store(&forge);
    forge.timestamp["x"] = 1.into();
    let bad = replaced(
        forge.files(),
        "metadata/timestamp.json",
        r#""x":"#,
        "\"\\u001b[31m\\u202e\":",
    );
    let seen = store.load_from(&bad, at(NOW)).await.unwrap_err().to_string();
    assert!(!seen.contains('\u{1b}') && !seen.contains('\u{202e}'), "{seen:?}");
}

fn replaced(mut files: Files, file: &str, from: &str, to: &str) -> Files {
    let text = String::from_utf8(files[file].clone()).unwrap();
    assert!(text.contains(from), "{from} is not in {text}");
    files.insert(file.into(), text.replacen(from, to, 1).into_bytes());
    files
}
