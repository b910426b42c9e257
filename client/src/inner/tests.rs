//! The inner TLS and the opening of a session over memory, with nodes that answer well, badly or not.

use std::time::Duration;

use noderelay_proto::ToClient;
use noderelay_proto::code::{Class, Code, Origin};
use noderelay_proto::control::{Closed, Denied, Missing};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

use super::{Refusal, Session, open};
use crate::testing::{Fleet, Node, terms};

async fn both<A, B>(client: impl Future<Output = A>, node: impl Future<Output = B>) -> (A, B) {
    let both = async { tokio::join!(client, node) };
    tokio::time::timeout(Duration::from_secs(20), both)
        .await
        .expect("hangs")
}

fn refused<S: std::fmt::Debug>(result: Result<Session<S>, Refusal>) -> Refusal {
    result.unwrap_err()
}

#[tokio::test]
async fn a_session_opens_and_what_follows_is_kept() {
    let fleet = Fleet::new();
    let (ours, theirs) = duplex(64 * 1024);
    let (user, node) = (fleet.party(fleet.user()), fleet.party(fleet.node("gpu-7")));
    let script = async {
        let mut node = Node::accept_usual(theirs, &node).await.unwrap();
        let open = node.opened().await;
        node.output(b"hello").await;
        (open, node)
    };
    let expected = fleet.node("gpu-7");
    let client = open(ours, &user, &expected, fleet.wish("gpu-7"));
    let (session, (seen, _node)) = both(client, script).await;
    let mut session = session.unwrap();
    assert_eq!(seen, fleet.wish("gpu-7"));
    assert_eq!(
        (session.opened.policy_version, session.opened.node.as_str()),
        (3, "gpu-7")
    );
    while session.frames.buffer().is_empty() {
        session.stream.read_buf(session.frames.buffer()).await.unwrap();
    }
    assert!(matches!(session.frames.next(), Ok(Some(ToClient::Data(bytes))) if bytes == "hello"));
}

// A relay that swaps nodes does no more than refuse: the next one is tried.
#[tokio::test]
async fn another_node_than_the_one_asked_for_gets_nothing() {
    let fleet = Fleet::new();
    let (ours, theirs) = duplex(64 * 1024);
    let (user, node) = (fleet.party(fleet.user()), fleet.party(fleet.node("gpu-8")));
    let script = async {
        let refused = Node::accept_usual(theirs, &node).await;
        refused.map(|_| ()).unwrap_err()
    };
    let expected = fleet.node("gpu-7");
    let (result, _) = both(open(ours, &user, &expected, fleet.wish("gpu-7")), script).await;
    let refusal = refused(result);
    assert_eq!(
        (refusal.fault.code, refusal.fault.class, refusal.fault.origin),
        (Code::IdentityWrongName, Class::Refused, Origin::Client)
    );
    assert!(refusal.fault.seen.contains("gpu-8"), "{}", refusal.fault.seen);
}

#[tokio::test]
async fn a_node_of_another_ca_is_refused() {
    let (fleet, foreign) = (Fleet::new(), Fleet::new());
    let (ours, theirs) = duplex(64 * 1024);
    let (user, node) = (
        fleet.party(fleet.user()),
        foreign.party_trusting(foreign.node("gpu-7"), &fleet),
    );
    let script = async { Node::accept_usual(theirs, &node).await.is_err() };
    let expected = fleet.node("gpu-7");
    let (result, _) = both(open(ours, &user, &expected, fleet.wish("gpu-7")), script).await;
    assert_eq!(refused(result).fault.code, Code::IdentityUnknownCa);
}

#[tokio::test]
async fn a_node_that_does_not_accept_us_is_final_and_named() {
    let (fleet, foreign) = (Fleet::new(), Fleet::new());
    let (ours, theirs) = duplex(64 * 1024);
    let (user, node) = (
        foreign.party_trusting(foreign.user(), &fleet),
        fleet.party(fleet.node("gpu-7")),
    );
    let script = async { Node::accept_usual(theirs, &node).await.is_err() };
    let expected = fleet.node("gpu-7");
    let (result, node_refused) = both(open(ours, &user, &expected, fleet.wish("gpu-7")), script).await;
    assert!(node_refused);
    let fault = refused(result).fault;
    assert_eq!((fault.class, fault.origin), (Class::Final, Origin::Agent), "{fault:?}");
    assert!(fault.seen.contains("does not accept our certificate"), "{}", fault.seen);
}

#[tokio::test]
async fn a_refusal_names_part_and_policy() {
    let fleet = Fleet::new();
    let (ours, theirs) = duplex(64 * 1024);
    let (user, node) = (fleet.party(fleet.user()), fleet.party(fleet.node("gpu-7")));
    let script = async {
        let mut node = Node::accept_usual(theirs, &node).await.unwrap();
        node.next().await.unwrap();
        let denied = Denied {
            code: Code::PolicyDenied.number(),
            missing: Missing::Rule.into(),
            seen: "no rule permits shell".into(),
            policy_version: 12,
        };
        node.send(denied).await;
        node.stream.shutdown().await.unwrap();
    };
    let expected = fleet.node("gpu-7");
    let (result, ()) = both(open(ours, &user, &expected, fleet.wish("gpu-7")), script).await;
    let refusal = refused(result);
    assert_eq!(
        (refusal.fault.code, refusal.policy_version),
        (Code::PolicyDenied, Some(12))
    );
    assert_eq!(
        (refusal.fault.class, refusal.fault.seen.as_str()),
        (Class::Final, "no rule permits shell")
    );
}

#[tokio::test]
async fn every_other_answer_is_told_apart() {
    let fleet = Fleet::new();
    let (user, node_party) = (fleet.party(fleet.user()), fleet.party(fleet.node("gpu-7")));
    let closed = ToClient::Closed(Closed {
        code: Code::SessionLimit.number(),
        seen: "8 sessions".into(),
    });
    let answers = [
        (Some(closed), Code::SessionLimit),
        (Some(ToClient::End), Code::ProtocolOutOfOrder),
        (Some(ToClient::Opened(terms("gpu-9", "demo"))), Code::ProtocolWrongNode),
        (None, Code::TransportClosed),
    ];
    for (answer, code) in answers {
        let (ours, theirs) = duplex(64 * 1024);
        let script = async {
            let mut node = Node::accept_usual(theirs, &node_party).await.unwrap();
            node.next().await.unwrap();
            if let Some(answer) = answer {
                node.send(answer).await;
            }
        };
        let expected = fleet.node("gpu-7");
        let (result, ()) = both(open(ours, &user, &expected, fleet.wish("gpu-7")), script).await;
        assert_eq!(refused(result).fault.code, code);
    }
}

#[tokio::test]
async fn a_node_without_a_common_version_is_told_apart() {
    let fleet = Fleet::new();
    let (user, node_party) = (fleet.party(fleet.user()), fleet.party(fleet.node("gpu-7")));
    for alpn in [&[b"noderelay-session/9".as_slice()][..], &[]] {
        let (ours, theirs) = duplex(64 * 1024);
        let script = async { Node::accept(theirs, &node_party, alpn).await.map(|_| ()) };
        let expected = fleet.node("gpu-7");
        let (result, _) = both(open(ours, &user, &expected, fleet.wish("gpu-7")), script).await;
        assert_eq!(refused(result).fault.code, Code::ProtocolVersion);
    }
}

#[tokio::test]
async fn garbage_instead_of_tls_is_a_lost_path() {
    let fleet = Fleet::new();
    let user = fleet.party(fleet.user());
    for garbage in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], &[0xff; 300], b""] {
        let (ours, mut theirs) = duplex(64 * 1024);
        let script = async {
            let _ = theirs.write_all(garbage).await;
            drop(theirs);
        };
        let expected = fleet.node("gpu-7");
        let (result, ()) = both(open(ours, &user, &expected, fleet.wish("gpu-7")), script).await;
        let fault = refused(result).fault;
        assert!(fault.is_transport(), "{fault:?}");
    }
}

#[tokio::test]
async fn a_wish_of_the_largest_size_goes_out_with_the_handshake() {
    let fleet = Fleet::new();
    let (ours, theirs) = duplex(1024 * 1024);
    let (user, node) = (fleet.party(fleet.user()), fleet.party(fleet.node("gpu-7")));
    let mut wish = fleet.wish("gpu-7");
    wish.kind = noderelay_proto::control::Kind::Exec.into();
    wish.argv = vec![vec![b'a'; 250_000].into()];
    let script = async {
        let mut node = Node::accept_usual(theirs, &node).await.unwrap();
        node.opened().await.argv[0].len()
    };
    let expected = fleet.node("gpu-7");
    let (session, length) = both(open(ours, &user, &expected, wish), script).await;
    session.unwrap();
    assert_eq!(length, 250_000);
}
