//! Who gets a new session, who the one that is there, and when an entry goes away.

use super::*;
use crate::testing::{self, Fleet};

const ATTEMPT: OpenId = OpenId::new([1; 16]);
const OTHER: OpenId = OpenId::new([2; 16]);

fn new(entry: Result<Entry, Refusal>) -> Arc<Live> {
    match entry {
        Ok(Entry::New(live)) => live,
        Ok(Entry::Again(_)) => panic!("the session was there already"),
        Err(refusal) => panic!("{refusal:?}"),
    }
}

fn again(entry: Result<Entry, Refusal>) -> Arc<Live> {
    match entry {
        Ok(Entry::Again(live)) => live,
        Ok(Entry::New(_)) => panic!("a second session"),
        Err(refusal) => panic!("{refusal:?}"),
    }
}

#[test]
fn the_same_attempt_again_is_the_same_session() {
    let fleet = Fleet::new();
    let (sessions, peer) = (Sessions::new(8), fleet.peer(fleet.user("kim")));
    let first = new(sessions.register(&peer, ATTEMPT));
    let second = again(sessions.register(&peer, ATTEMPT));
    assert!(Arc::ptr_eq(&first, &second));
    assert_eq!(sessions.count(), 1);
}

#[test]
fn another_key_principal_or_attempt_is_another_session() {
    let fleet = Fleet::new();
    let sessions = Sessions::new(8);
    let kim = fleet.peer(fleet.user("kim"));
    let others = [
        (fleet.peer(fleet.user("kim")), ATTEMPT), // the same name with another key
        (fleet.peer(fleet.user("lee")), ATTEMPT),
        (kim.clone(), OTHER),
    ];
    let first = new(sessions.register(&kim, ATTEMPT));
    let mut held = vec![first];
    for (peer, open_id) in others {
        let live = new(sessions.register(&peer, open_id));
        assert!(held.iter().all(|other| other.id != live.id));
        held.push(live);
        assert_eq!(sessions.count(), held.len());
    }
}

// The id names a session and nothing else does: one key under two names is two persons.
#[test]
fn one_key_under_another_name_is_another_attempt() {
    let fleet = Fleet::new();
    let sessions = Sessions::new(8);
    let live = new(sessions.register(&fleet.peer(fleet.user("kim")), ATTEMPT));
    let other = Attempt {
        principal: fleet.user("lee").to_string(),
        ..live.attempt.clone()
    };
    assert!(live.attempt != other);
}

#[test]
fn a_full_node_says_so_and_still_knows_its_sessions() {
    let fleet = Fleet::new();
    let (sessions, peer) = (Sessions::new(1), fleet.peer(fleet.user("kim")));
    let held = new(sessions.register(&peer, ATTEMPT));
    let Err(refusal) = sessions.register(&peer, OTHER) else {
        panic!("one session too many");
    };
    assert_eq!(refusal.code, Code::SessionLimit);
    assert!(refusal.seen.starts_with("1 sessions are open"), "{}", refusal.seen);
    drop(again(sessions.register(&peer, ATTEMPT)));
    drop(held);
    drop(new(sessions.register(&peer, OTHER)));
}

#[test]
fn the_last_holder_removes_the_entry() {
    let fleet = Fleet::new();
    let (sessions, peer) = (Sessions::new(8), fleet.peer(fleet.user("kim")));
    let (first, other) = (
        new(sessions.register(&peer, ATTEMPT)),
        new(sessions.register(&peer, OTHER)),
    );
    let second = again(sessions.register(&peer, ATTEMPT));
    drop(first);
    assert_eq!(sessions.count(), 2);
    drop(second);
    assert_eq!(sessions.count(), 1);
    let third = new(sessions.register(&peer, ATTEMPT));
    assert_eq!(sessions.count(), 2);
    drop((third, other));
    assert_eq!(sessions.count(), 0);
}

// The same attempt comes back while its predecessor is half gone: nobody holds it, and it waits to remove its entry.
#[test]
fn a_successor_survives_the_end_of_its_predecessor() {
    let fleet = Fleet::new();
    let (sessions, peer) = (Sessions::new(8), fleet.peer(fleet.user("kim")));
    let predecessor = new(sessions.register(&peer, ATTEMPT));
    let successor = new(sessions.register(&peer, OTHER));
    let (attempt, entry) = (predecessor.attempt.clone(), Arc::downgrade(&predecessor));
    std::thread::scope(|threads| {
        let mut table = lock(&sessions.table);
        let ending = threads.spawn(move || drop(predecessor));
        while entry.strong_count() > 0 {
            std::thread::yield_now();
        }
        table.live.insert(attempt, Arc::downgrade(&successor));
        drop(table);
        ending.join().unwrap();
    });
    assert!(Arc::ptr_eq(&again(sessions.register(&peer, ATTEMPT)), &successor));
}

#[test]
fn the_newest_leg_counts() {
    let fleet = Fleet::new();
    let live = new(Sessions::new(8).register(&fleet.peer(fleet.user("kim")), ATTEMPT));
    let first = live.new_leg();
    assert!(!live.superseded(first));
    let second = live.new_leg();
    assert!(live.superseded(first));
    assert!(!live.superseded(second));
    let third = live.new_leg();
    live.no_leg(third);
    assert!(!live.superseded(second), "the third came to nothing");
    live.no_leg(first);
    assert!(live.superseded(first), "there is a newer one");
}

#[tokio::test]
async fn a_repeated_attempt_waits_for_the_first_and_gets_its_answer() {
    let fleet = Fleet::new();
    let (sessions, peer) = (Sessions::new(8), fleet.peer(fleet.user("kim")));
    let first = new(sessions.register(&peer, ATTEMPT));
    let second = again(sessions.register(&peer, ATTEMPT));
    // Not for ever.
    let refusal = second.outcome(Duration::from_millis(10)).await.err().unwrap();
    assert_eq!(refusal.code, Code::AgentNotReady);

    let waiting = tokio::spawn(async move { second.outcome(Duration::from_secs(60)).await.err() });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    let refusal = Refusal::node(Code::ShellNoAccount, "the first one's");
    first.settle(Err(refusal.clone()));
    assert_eq!(waiting.await.unwrap(), Some(refusal.clone()));
    // Settled is settled.
    first.settle(Err(Refusal::node(Code::AgentInternal, "")));
    let third = again(sessions.register(&peer, ATTEMPT));
    assert_eq!(third.outcome(Duration::ZERO).await.err(), Some(refusal));
}

/// A session whose command was started.
fn begun() -> Arc<Begun> {
    Arc::new(Begun {
        open: Open::default(),
        opened: Opened::default(),
        facts: testing::started(1),
        token: Bytes::new(),
        pid: 0,
        holder: None,
    })
}

#[test]
fn what_was_begun_and_has_ended_is_not_begun_again() {
    let fleet = Fleet::new();
    let (sessions, peer) = (Sessions::new(8), fleet.peer(fleet.user("kim")));
    let first = new(sessions.register(&peer, ATTEMPT));
    let id = first.id.to_string();
    first.settle(Ok(begun()));
    drop(again(sessions.register(&peer, ATTEMPT)));
    drop(first);
    let Err(refusal) = sessions.register(&peer, ATTEMPT) else {
        panic!("a second command");
    };
    assert_eq!(refusal.code, Code::SessionUnknown);
    assert!(refusal.seen.contains(&id), "{}", refusal.seen);
    // It takes no place, and other attempts, and the same one of another key, are none of its business.
    assert_eq!(sessions.count(), 0);
    drop(new(sessions.register(&peer, OTHER)));
    drop(new(sessions.register(&fleet.peer(fleet.user("kim")), ATTEMPT)));
    // What was refused may be tried again: nothing was run.
    let refused = new(sessions.register(&peer, OTHER));
    refused.settle(Err(Refusal::node(Code::ShellNoAccount, "none")));
    drop(refused);
    drop(new(sessions.register(&peer, OTHER)));
}

#[test]
fn what_was_begun_is_remembered_for_a_while_and_in_bounded_number() {
    let (mut table, now) = (Table::default(), Instant::now());
    let numbered = |number: usize| {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&number.to_be_bytes());
        let attempt = Attempt {
            open_id: OpenId::new(id),
            principal: "kim".into(),
            key: "key".into(),
        };
        (attempt, SessionId::new(id))
    };
    let mut begin = |number: usize, now: Instant| {
        let (attempt, id) = numbered(number);
        table.remember(&attempt, id, now);
        let known = |number: usize| table.begun(&numbered(number).0) == Some(numbered(number).1);
        (known(0), known(MOST_REMEMBERED), table.begun.len())
    };
    for number in 0..MOST_REMEMBERED {
        assert!(begin(number, now).0, "{number}");
    }
    assert_eq!(begin(MOST_REMEMBERED, now), (false, true, MOST_REMEMBERED));
    let later = now + REMEMBERED;
    assert!(begin(MOST_REMEMBERED + 1, later - Duration::from_millis(1)).1);
    assert_eq!(begin(MOST_REMEMBERED + 2, later), (false, false, 2));
}
