//! Good input with a few bytes changed: nothing panics, and no changed document loads.

use crate::common::{Forge, fleet_yaml, now, store};
use noderelay_bundle::fuzz;
use noderelay_bundle::source::Files;
use proptest::prelude::*;
use std::sync::LazyLock;

static FORGE: LazyLock<(Forge, Files)> = LazyLock::new(|| {
    let forge = Forge::new();
    let files = forge.files_under(forge.root_file());
    (forge, files)
});
static FLEET: LazyLock<Vec<u8>> = LazyLock::new(|| fleet_yaml().into_bytes());
const PRINCIPALS: &[u8] = b"persons:\n  - name: Ada\n    usernames: [{cluster: east, user: ada}]\ngroups:\n  - {cluster: east, group: 'on call'}\nmappings: [{at: a, from: b, users: [c]}]\n";

fn mutated(bytes: &[u8], changes: &[(usize, u8)], cut: Option<usize>) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for (at, byte) in changes {
        let at = at % bytes.len();
        bytes[at] = *byte;
    }
    if let Some(cut) = cut {
        bytes.truncate(cut % (bytes.len() + 1));
    }
    bytes
}

fn changes() -> impl Strategy<Value = Vec<(usize, u8)>> {
    let printable = prop_oneof![any::<u8>(), 0x20u8..0x7f];
    proptest::collection::vec((any::<usize>(), printable), 1..4)
}

proptest! {
    #[test]
    fn metadata_never_panics(which in any::<usize>(), changes in changes(), cut in proptest::option::of(any::<usize>())) {
        let metadata: Vec<_> = FORGE.1.iter().filter(|(path, _)| path.starts_with("metadata")).collect();
        fuzz::metadata(&mutated(metadata[which % metadata.len()].1, &changes, cut));
    }

    #[test]
    fn yaml_never_panics(changes in changes(), cut in proptest::option::of(any::<usize>())) {
        fuzz::fleet(&mutated(&FLEET, &changes, cut));
        fuzz::principals(&mutated(PRINCIPALS, &changes, cut));
        fuzz::public_key(&mutated(FORGE.0.pipeline.public().to_string().as_bytes(), &changes, cut));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A publication in which any one file differs by a few bytes never loads as something else.
    #[test]
    fn a_changed_file_never_loads(which in any::<usize>(), changes in changes()) {
        let (forge, good) = &*FORGE;
        let mut files = good.clone();
        files.retain(|path, _| path != "metadata/1.root.json");
        let path = files.keys().nth(which % files.len()).unwrap().clone();
        let bad = mutated(&files[&path], &changes, None);
        prop_assume!(bad != files[&path]);
        files.insert(path, bad);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (_directory, store) = store(forge);
        prop_assert!(runtime.block_on(store.load_from(&files, now())).is_err());
    }
}
