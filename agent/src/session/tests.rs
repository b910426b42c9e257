//! A client over memory, a node with its real holder, and what is in force changing under an open session.

use bytes::{Bytes, BytesMut};
use noderelay_audit::Reader;
use noderelay_audit::read::Event as Recorded;
use noderelay_pki::tls::{self, Leg};
use noderelay_pki::verify::Expect;
use noderelay_proto::control::{Purpose, RouteHeader, Standby, StandingBy};
use noderelay_proto::message::{Opening, ToNode};
use noderelay_proto::version::{self, Version};
use tokio::io::{AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf, duplex};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_rustls::{TlsConnector, client};

use super::*;
use crate::framed::{FrameReader, FrameWriter};
use crate::testing::{self, Fleet, Publisher};

const FOR_ALL: &str = "permit (principal, action, resource);";
const FOR_NOBODY: &str = "forbid (principal, action, resource);";
const LIMITS: &str = "{resume_window: 60s, hup_grace: 300ms}";

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), what)
        .await
        .expect("hangs")
}

/// Lets every task run that can run now.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

struct Rig {
    fleet: Fleet,
    publisher: Publisher,
    in_force: watch::Sender<Arc<InForce>>,
    node: Arc<Node>,
    slots: Arc<Semaphore>,
    /// As the link's task has it: one more for each stream over which something runs.
    carried: Arc<()>,
    _folder: tempfile::TempDir,
}

impl Rig {
    async fn new(limits: &str) -> Self {
        let (fleet, now) = (Fleet::new(), Timestamp::now());
        let publisher = Publisher::new(&fleet, FOR_ALL, now).await;
        let in_force = watch::Sender::new(publisher.in_force(now).await);
        let folder = tempfile::tempdir().unwrap();
        let node = Arc::new(testing::node(&fleet, folder.path(), limits, in_force.subscribe()));
        Self {
            fleet,
            publisher,
            in_force,
            node,
            slots: Arc::new(Semaphore::new(1)),
            carried: Arc::new(()),
            _folder: folder,
        }
    }

    async fn publish(&self, policy: &str) {
        let now = Timestamp::now();
        self.publisher.publish(policy, now).await;
        self.in_force.send_replace(self.publisher.in_force(now).await);
    }

    fn kim(&self) -> Party {
        self.fleet.party(self.fleet.user("kim"))
    }

    fn open(&self, line: &str) -> Open {
        let argv = ["sh", "-c", line].map(|word| Bytes::copy_from_slice(word.as_bytes()));
        Open {
            kind: Kind::Exec.into(),
            argv: argv.to_vec(),
            ..self.fleet.open("gpu-7")
        }
    }

    /// A stream as a relay hands it on: the client's end, and the node's behind the header.
    async fn stream(&self) -> (DuplexStream, ForUs<DuplexStream>) {
        let (mut theirs, ours) = duplex(256 * 1024);
        let header = RouteHeader::new(Version::V1, "alpha", "gpu-7", Purpose::Session);
        let mut bytes = BytesMut::new();
        Opening::from(header).encode(&mut bytes);
        theirs.write_all(&bytes).await.unwrap();
        match accept::route(ours, &self.node.own).await {
            Ok(ours) => (theirs, ours),
            Err((_, error)) => panic!("{error}"),
        }
    }

    async fn guest(&self, party: &Party, theirs: DuplexStream) -> Guest {
        let config = party
            .client(Expect::Exactly(self.fleet.node("gpu-7")), Leg::Inner, version::INNER)
            .unwrap();
        let inside = TlsConnector::from(config).connect(tls::server_name(), theirs);
        let (read, write) = tokio::io::split(inside.await.unwrap());
        Guest {
            reader: FrameReader::new(read),
            writer: FrameWriter::new(write),
        }
    }

    /// Somebody comes with a wish and is served.
    async fn come(&self, party: &Party, open: &Open) -> (Guest, JoinHandle<()>) {
        let (theirs, ours) = self.stream().await;
        let served = self.serve(ours);
        let mut guest = soon(self.guest(party, theirs)).await;
        guest.writer.send(&ToNode::Open(open.clone())).await.unwrap();
        (guest, served)
    }

    fn serve(&self, ours: ForUs<DuplexStream>) -> JoinHandle<()> {
        let (node, carried) = (Arc::clone(&self.node), Arc::clone(&self.carried));
        // Whoever came before and holds no slot any more left it to us.
        let slot = Arc::clone(&self.slots).try_acquire_owned();
        let slot = slot.unwrap_or_else(|_| Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap());
        tokio::spawn(async move { serve(&node, ours, slot, carried).await })
    }

    /// Somebody comes ahead of time.
    async fn come_early(&self, party: &Party) -> (Guest, JoinHandle<()>) {
        let (theirs, ours) = self.stream().await;
        let served = self.serve(ours);
        let mut guest = soon(self.guest(party, theirs)).await;
        let standby = Standby {
            cluster: "alpha".into(),
            node: "gpu-7".into(),
            purpose: Purpose::Session.into(),
        };
        guest.writer.send(&ToNode::from(standby)).await.unwrap();
        (guest, served)
    }

    /// The code at the end of the one recording.
    fn recorded(&self) -> Option<String> {
        let mut files = std::fs::read_dir(self.node.places.recordings()).unwrap();
        let mut reader = Reader::open(&files.next().unwrap().unwrap().path()).unwrap();
        reader.find_map(|timed| match timed.unwrap().event {
            Recorded::End(end) => Some(end.code),
            _ => None,
        })
    }
}

type Inside = client::TlsStream<DuplexStream>;

struct Guest {
    reader: FrameReader<ReadHalf<Inside>, ToClient>,
    writer: FrameWriter<WriteHalf<Inside>>,
}

impl Guest {
    async fn next(&mut self) -> ToClient {
        soon(self.reader.demand()).await.unwrap()
    }

    async fn opened(&mut self) -> Opened {
        match self.next().await {
            ToClient::Opened(opened) => opened,
            other => panic!("{other:?}"),
        }
    }

    /// The next output, which is short.
    async fn says(&mut self, text: &str) {
        match self.next().await {
            ToClient::Data(data) => assert_eq!(data, text),
            other => panic!("{other:?}"),
        }
    }

    async fn says_opened_and_begun(&mut self) {
        self.opened().await;
        self.says("begun\n").await;
    }

    /// Why the session ended, or was denied.
    async fn closed(&mut self) -> Code {
        loop {
            match self.next().await {
                ToClient::Closed(closed) => return Code::from_number(closed.code),
                ToClient::Denied(denied) => return Code::from_number(denied.code),
                ToClient::Exit(exit) => panic!("{exit:?}"),
                _ => {}
            }
        }
    }
}

const LONG: &str = "echo begun; exec sleep 1000";

#[tokio::test]
async fn the_same_attempt_again_is_the_same_session_and_nobody_elses() {
    let rig = Rig::new(LIMITS).await;
    let (kim, open) = (rig.kim(), rig.open(LONG));
    let (mut first, served) = rig.come(&kim, &open).await;
    let opened = first.opened().await;
    first.says("begun\n").await;
    // Another key, though of the same person and with the same attempt: another session.
    let (mut other, _) = rig.come(&rig.kim(), &open).await;
    assert_ne!(other.opened().await.session, opened.session);
    // The same attempt with other words is none.
    let (mut liar, _) = rig.come(&kim, &rig.open("echo something else")).await;
    assert_eq!(liar.closed().await, Code::SessionDuplicate);
    let (mut second, _) = rig.come(&kim, &open).await;
    assert_eq!(second.opened().await.session, opened.session);
    // What nobody acknowledged comes again; no second command ran.
    second.says("begun\n").await;
    // The old leg is told what became of it, not that the session is lost.
    assert_eq!(first.closed().await, Code::SessionSuperseded);
    soon(served).await.unwrap();
    assert_eq!(rig.node.sessions.count(), 2);
    rig.publish(FOR_NOBODY).await;
    assert_eq!(second.closed().await, Code::SessionPolicy);
}

#[tokio::test]
async fn an_attempt_that_comes_twice_at_once_starts_one_command() {
    let rig = Rig::new(LIMITS).await;
    let (kim, open) = (rig.kim(), rig.open(LONG));
    let ((mut first, _), (mut second, _)) = tokio::join!(rig.come(&kim, &open), rig.come(&kim, &open));
    let (one, two) = tokio::join!(first.opened(), second.opened());
    assert_eq!(one.session, two.session);
    assert_eq!(std::fs::read_dir(rig.node.places.recordings()).unwrap().count(), 1);
    rig.publish(FOR_NOBODY).await;
}

#[tokio::test]
async fn an_order_reaches_a_session_whose_client_is_gone() {
    let rig = Rig::new(LIMITS).await;
    let (mut guest, served) = rig.come(&rig.kim(), &rig.open(LONG)).await;
    guest.says_opened_and_begun().await;
    drop(guest);
    settle().await;
    rig.publish(FOR_NOBODY).await;
    soon(served).await.unwrap();
    // The holder was told, and was not taken for lost.
    assert_eq!(rig.recorded().as_deref(), Some("session.policy"));
}

#[tokio::test]
async fn tightened_terms_hold_at_once() {
    for (policy, code) in [
        (
            "@max_duration(\"1s\") permit (principal, action, resource);",
            Code::SessionDeadline,
        ),
        ("@idle(\"1s\") permit (principal, action, resource);", Code::SessionIdle),
    ] {
        let rig = Rig::new(LIMITS).await;
        let (mut guest, served) = rig.come(&rig.kim(), &rig.open(LONG)).await;
        guest.says_opened_and_begun().await;
        rig.publish(policy).await;
        assert_eq!(guest.closed().await, code);
        soon(served).await.unwrap();
    }
}

#[tokio::test]
async fn looser_terms_change_nothing_for_an_open_session() {
    let rig = Rig::new(LIMITS).await;
    rig.publish("@idle(\"1s\") permit (principal, action, resource);").await;
    let (mut guest, _served) = rig.come(&rig.kim(), &rig.open(LONG)).await;
    guest.says_opened_and_begun().await;
    rig.publish(FOR_ALL).await;
    assert_eq!(guest.closed().await, Code::SessionIdle);
}

#[tokio::test]
async fn a_removed_ca_ends_the_sessions_of_its_people() {
    let rig = Rig::new(LIMITS).await;
    let (mut guest, served) = rig.come(&rig.kim(), &rig.open(LONG)).await;
    guest.says_opened_and_begun().await;
    rig.node.party.trust.set(Fleet::new().trust());
    rig.in_force.send_modify(|_| {});
    assert_eq!(guest.closed().await, Code::SessionRevoked);
    soon(served).await.unwrap();
    assert_eq!(rig.recorded().as_deref(), Some("session.revoked"));
}

#[tokio::test]
async fn what_comes_in_force_between_decision_and_start_counts() {
    let rig = Rig::new(LIMITS).await;
    let ((theirs, ours), kim) = (rig.stream().await, rig.kim());
    let node = Arc::clone(&rig.node);
    let accepted = tokio::spawn(async move { accept::accept(ours, &node.party, &node.own, Timestamp::now).await });
    let mut guest = soon(rig.guest(&kim, theirs)).await;
    guest.writer.send(&ToNode::Open(rig.open(LONG))).await.unwrap();
    let Ok(Arrived::Session(accepted)) = soon(accepted).await.unwrap() else {
        panic!("not accepted");
    };
    let Accepted { client, open, .. } = *accepted;
    let (_permit, mut standing, _) = decide(&rig.node, &client, &open).unwrap();
    rig.publish(FOR_NOBODY).await;
    let begun = Begun {
        open,
        opened: Opened::default(),
        facts: testing::started(1),
        token: Bytes::new(),
        pid: 0,
        holder: None,
    };
    match soon(standing.next_order(&rig.node, &client, &begun)).await {
        ToHolder::Terminate(order) => assert_eq!(Code::from_number(order.code), Code::SessionPolicy),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn whoever_says_nothing_does_not_hold_a_slot() {
    let rig = Rig::new("{handshake: 50ms}").await;
    let (_theirs, ours) = rig.stream().await;
    soon(rig.serve(ours)).await.unwrap();
    assert_eq!(rig.node.sessions.count(), 0);
}

#[tokio::test]
async fn a_holder_that_is_killed_is_closed_for_and_leaves_no_folder() {
    let rig = Rig::new(LIMITS).await;
    let line = "trap '' HUP; sleep 1000 & echo $PPID; wait";
    let (mut guest, served) = rig.come(&rig.kim(), &rig.open(line)).await;
    guest.opened().await;
    let ToClient::Data(holder) = guest.next().await else {
        panic!("no output");
    };
    let holder: i32 = std::str::from_utf8(&holder).unwrap().trim().parse().unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(holder), nix::sys::signal::Signal::SIGKILL).unwrap();
    assert_eq!(guest.closed().await, Code::SessionHolderLost);
    drop(guest);
    soon(served).await.unwrap();
    assert_eq!(rig.recorded().as_deref(), Some("session.holder_lost"));
    assert_eq!(std::fs::read_dir(rig.node.places.sessions()).unwrap().count(), 0);
}

/// A command that notes when it is hung up on, and goes on. Gives its guest, its holder, and the file of its notes.
async fn stubborn(rig: &Rig) -> (Guest, JoinHandle<()>, i32, std::path::PathBuf) {
    let notes = rig.node.places.recordings().with_file_name("notes");
    let line = format!(
        "trap 'date +%s%3N >> {}' HUP; echo $PPID; while :; do sleep 0.02; done",
        notes.display()
    );
    let (mut guest, served) = rig.come(&rig.kim(), &rig.open(&line)).await;
    guest.opened().await;
    let ToClient::Data(holder) = guest.next().await else {
        panic!("no output");
    };
    let holder = std::str::from_utf8(&holder).unwrap().trim().parse().unwrap();
    (guest, served, holder, notes)
}

/// When the command was hung up on, in milliseconds since 1970.
fn noted(notes: &std::path::Path) -> Vec<i64> {
    let lines = std::fs::read_to_string(notes).unwrap_or_default();
    lines.lines().map(|line| line.parse().unwrap()).collect()
}

#[tokio::test]
async fn an_order_ends_a_session_whose_holder_hangs_with_its_socket_full() {
    let rig = Rig::new("{resume_window: 60s, hup_grace: 300ms}").await;
    let (mut guest, served, holder, notes) = stubborn(&rig).await;
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(holder), nix::sys::signal::Signal::SIGSTOP).unwrap();
    let data = ToNode::Data(Bytes::from(vec![b'x'; noderelay_proto::limits::MAX_DATA]));
    let takes_nothing = Duration::from_millis(300);
    while let Ok(sent) = tokio::time::timeout(takes_nothing, guest.writer.send(&data)).await {
        sent.unwrap();
    }
    let ordered = Timestamp::now().as_millisecond();
    rig.publish(FOR_NOBODY).await;
    assert_eq!(guest.closed().await, Code::SessionPolicy);
    drop(guest);
    soon(served).await.unwrap();
    let first = noted(&notes).first().copied().expect("no HUP");
    assert!(first - ordered < 1000 + BUSY, "HUP after {} ms", first - ordered);
    assert_eq!(rig.recorded().as_deref(), Some("session.holder_lost"));
    assert!(is_over(holder));
    assert_eq!(std::fs::read_dir(rig.node.places.sessions()).unwrap().count(), 0);
}

#[tokio::test]
async fn an_agent_that_stops_leaves_no_session_to_a_holder_that_heard_no_order() {
    let rig = Rig::new("{resume_window: 60s, hup_grace: 60s}").await;
    let (_guest, served, holder, notes) = stubborn(&rig).await;
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(holder), nix::sys::signal::Signal::SIGSTOP).unwrap();
    rig.publish(FOR_NOBODY).await;
    until(|| !noted(&notes).is_empty()).await;
    rig.node.stop.cancel();
    soon(served).await.unwrap();
    rig.node.streams.close();
    soon(rig.node.streams.wait()).await;
    until(|| is_over(holder)).await;
}

/// What a busy machine may take for what it should do at once.
const BUSY: i64 = 2000;

/// Whether a process has ended, also when nobody has waited for it yet.
fn is_over(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z "))
}

async fn until(check: impl Fn() -> bool) {
    let often = async {
        while !check() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(often).await;
}

#[tokio::test]
async fn a_holder_that_hears_its_order_is_left_to_it() {
    let rig = Rig::new("{resume_window: 60s, hup_grace: 1500ms}").await;
    let (mut guest, served, _, notes) = stubborn(&rig).await;
    rig.publish(FOR_NOBODY).await;
    assert_eq!(guest.closed().await, Code::SessionPolicy);
    drop(guest);
    soon(served).await.unwrap();
    let noted = noted(&notes);
    let (first, last) = (noted.first().unwrap(), noted.last().unwrap());
    assert!(last - first < 400, "hung up on twice: {noted:?}");
    assert_eq!(rig.recorded().as_deref(), Some("session.policy"));
}

#[tokio::test]
async fn a_client_that_came_early_holds_nothing_up_and_then_opens_a_session() {
    let rig = Rig::new("{standby: 77s, resume_window: 60s, hup_grace: 300ms}").await;
    let (mut guest, served) = rig.come_early(&rig.kim()).await;
    assert_eq!(guest.next().await, ToClient::from(StandingBy { secs: 77 }));
    settle().await;
    assert_eq!(rig.slots.available_permits(), 1, "the slot is free");
    assert_eq!(Arc::strong_count(&rig.carried), 1, "nothing runs over the link");
    assert_eq!((rig.node.standbys.count(), rig.node.sessions.count()), (1, 0));
    guest.writer.send(&ToNode::Open(rig.open(LONG))).await.unwrap();
    guest.says_opened_and_begun().await;
    assert_eq!(Arc::strong_count(&rig.carried), 2, "a session runs over the link");
    assert_eq!((rig.node.standbys.count(), rig.node.sessions.count()), (0, 1));
    rig.publish(FOR_NOBODY).await;
    assert_eq!(guest.closed().await, Code::SessionPolicy);
    drop(guest);
    soon(served).await.unwrap();
}

#[tokio::test]
async fn a_client_that_came_early_is_judged_by_the_policy_of_the_moment_in_which_it_opens() {
    let rig = Rig::new(LIMITS).await;
    let (mut guest, served) = rig.come_early(&rig.kim()).await;
    assert!(matches!(guest.next().await, ToClient::StandingBy(_)));
    rig.publish(FOR_NOBODY).await;
    guest.writer.send(&ToNode::Open(rig.open(LONG))).await.unwrap();
    assert_eq!(guest.closed().await, Code::PolicyDenied);
    soon(served).await.unwrap();
}

#[tokio::test]
async fn whoever_comes_early_waits_for_so_long_and_not_in_any_number() {
    let rig = Rig::new("{standby: 100ms, standbys_per_person: 1}").await;
    let kim = rig.kim();
    let (mut first, served) = rig.come_early(&kim).await;
    assert!(matches!(first.next().await, ToClient::StandingBy(_)));
    assert_eq!(first.closed().await, Code::AgentStandby);
    soon(served).await.unwrap();

    let rig = Rig::new("{standby: 1h, standbys_per_person: 1}").await;
    let kim = rig.kim();
    let (mut first, served) = rig.come_early(&kim).await;
    assert!(matches!(first.next().await, ToClient::StandingBy(_)));
    let (mut second, turned_away) = rig.come_early(&kim).await;
    assert_eq!(second.closed().await, Code::AgentStandby);
    soon(turned_away).await.unwrap();
    // Leaving is free, and makes room.
    drop(first);
    soon(served).await.unwrap();
    assert_eq!(rig.node.standbys.count(), 0);
    // An agent that stops waits for nobody.
    let (mut third, served) = rig.come_early(&kim).await;
    assert!(matches!(third.next().await, ToClient::StandingBy(_)));
    rig.node.stop.cancel();
    assert_eq!(third.closed().await, Code::SessionAgentStopping);
    soon(served).await.unwrap();
}
