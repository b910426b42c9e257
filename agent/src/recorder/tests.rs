//! No recording, no shell: what the recording says first, and what is said when there is none.

use std::os::unix::fs::PermissionsExt as _;

use noderelay_audit_event::{Claimed, SessionId, SessionKind};
use noderelay_policy::Action;

use super::*;
use crate::authorize::{Wish, authorize};
use crate::testing::{Fleet, Publisher, places};

async fn permit(fleet: &Fleet, policy: &str) -> Permit {
    let now = Timestamp::now();
    let in_force = Publisher::new(fleet, policy, now).await.in_force(now).await;
    let wish = Wish {
        action: Action::Shell,
        profile: "diagnostic".parse().unwrap(),
        path: noderelay_policy::Path::Relay,
        reason: None,
    };
    let peer = fleet.peer(fleet.user("kim"));
    authorize(&in_force, &fleet.own("gpu-7"), &peer, &wish, now).unwrap()
}

fn started(permit: &Permit) -> SessionStarted {
    SessionStarted {
        session: SessionId([9; 16]),
        cluster: permit.cluster().clone(),
        node: permit.node().clone(),
        principal: permit.principal().clone(),
        key_fingerprint: "ab".repeat(32),
        groups: Vec::new(),
        kind: SessionKind::Shell,
        argv: Vec::new(),
        profile: permit.obligations().profile.clone(),
        account: "nobody".into(),
        policy_version: permit.version(),
        rules: permit.rules().to_vec(),
        reason: None,
        level: level(permit),
        started: start_of(Timestamp::now()),
        claimed: Claimed::default(),
    }
}

#[tokio::test]
async fn the_level_is_that_of_the_permit() {
    let fleet = Fleet::new();
    for (word, expected) in [("required", Level::Required), ("strict", Level::Strict)] {
        let policy = format!("@record(\"{word}\") permit (principal, action, resource);");
        assert_eq!(level(&permit(&fleet, &policy).await), expected);
    }
}

#[tokio::test]
async fn the_recording_begins_with_what_was_decided() {
    let fleet = Fleet::new();
    let permit = permit(&fleet, "permit (principal, action, resource);").await;
    let (folder, started) = (tempfile::tempdir().unwrap(), started(&permit));
    let header = header(started.clone(), &fleet.open("gpu-7"));
    let recording = open(&places(folder.path()), &header).unwrap();
    assert_eq!(recording.header(), &Header::new(started, None));
    assert_eq!(recording.level(), level(&permit));
}

#[tokio::test]
async fn where_nothing_can_be_recorded_nothing_starts() {
    let fleet = Fleet::new();
    let permit = permit(&fleet, "permit (principal, action, resource);").await;
    let folder = tempfile::tempdir().unwrap();
    let places = places(folder.path());
    let recordings = folder.path().join("recordings");
    std::fs::set_permissions(&recordings, std::fs::Permissions::from_mode(0o777)).unwrap();
    let header = |level| {
        let started = SessionStarted {
            level,
            ..started(&permit)
        };
        header(started, &fleet.open("gpu-7"))
    };
    let Err(refusal) = open(&places, &header(Level::Strict)) else {
        panic!("a recording where others may write");
    };
    assert_eq!(
        (refusal.code, refusal.missing),
        (Code::RecordingUnavailable, Missing::Recording)
    );
    assert!(refusal.seen.contains("open to others (mode 0777)"), "{}", refusal.seen);
    // A level that must not refuse goes on in memory, and says why in its header.
    let recording = open(&places, &header(Level::Required)).unwrap();
    let cause = &recording.header().held_in_memory.as_ref().unwrap().cause;
    assert!(cause.contains("open to others"), "{cause}");
    assert_eq!(std::fs::read_dir(&recordings).unwrap().count(), 0);
}

#[test]
fn the_start_is_shared_to_the_millisecond() {
    let precise: Timestamp = "2026-11-30T12:00:00.123456789Z".parse().unwrap();
    assert_eq!(start_of(precise), "2026-11-30T12:00:00.123Z".parse().unwrap());
}
