//! A node that opens a session and does not end it as it should: the node's key and certificate are real, attached to the real
//! relay, with the agent's own way of accepting a client.

use std::sync::mpsc;
use std::thread::JoinHandle;

use bytes::Bytes;
use jiff::Timestamp;
use noderelay_agent::accept::{self, Arrived, Own};
use noderelay_link::{Dialer, Stream, Times, agent_transport};
use noderelay_pki::Expect;
use noderelay_pki::ca::{CERTIFICATE_FILE, CertificateAuthority, KEY_FILE};
use noderelay_pki::identity::Role;
use noderelay_pki::name::NodeName;
use noderelay_pki::tls::Party;
use noderelay_proto::control::Opened;
use noderelay_proto::{InstanceId, ToClient, ToNode};
use tokio::sync::oneshot;

use crate::attached;
use crate::fleet::Fleet;

/// What the node does once it has opened a session and shown `half`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// It ends TLS and stream as after an exit.
    EndCleanly,
    /// The same after the frame that ends the output.
    EndOutput,
    /// It lets go of the stream, which breaks it.
    Reset,
    /// It closes its link to the relay.
    Leave,
}

/// The node, until it is dropped.
pub struct Node {
    stop: Option<oneshot::Sender<()>>,
    serving: Option<JoinHandle<()>>,
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.serving.take().map(JoinHandle::join);
        assert!(
            std::thread::panicking() || matches!(ended, Some(Ok(()))),
            "the node failed"
        );
    }
}

/// Attaches to the fleet's relay as its node, and serves one session on a thread of its own. Returns once it is attached.
pub fn node(fleet: &Fleet, act: Act) -> Node {
    let address = fleet.address();
    let party = party(fleet);
    let (attached, is_attached) = mpsc::channel();
    let (stop, stopped) = oneshot::channel();
    let serving = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            tokio::select! {
                biased;
                _ = stopped => {}
                () = serve(&address, party, act, attached) => {}
            }
        });
    });
    is_attached.recv().expect("the relay takes the registration");
    Node {
        stop: Some(stop),
        serving: Some(serving),
    }
}

fn party(fleet: &Fleet) -> Party {
    let ca = fleet.layout.ca();
    let ca = CertificateAuthority::load(&ca.join(CERTIFICATE_FILE), &ca.join(KEY_FILE)).expect("the CA");
    attached::party(&ca, Role::Node(NodeName::parse("local").expect("a name"))).expect("a certificate")
}

async fn serve(address: &str, party: Party, act: Act, attached: mpsc::Sender<()>) {
    let dialer = Dialer::new(party.clone(), agent_transport(256, &Times::default()));
    let link = dialer
        .dial(&[address.to_owned()], Expect::Relay { cluster: None })
        .await
        .expect("the relay");
    let instance = InstanceId::new([7; 16]);
    let control = attached::register(&link.connection, instance).await.expect("the node");
    attached.send(()).expect("the test");
    let own = Own {
        cluster: party.credentials.get().identity().cluster.clone(),
        node: NodeName::parse("local").expect("a name"),
    };
    let (send, recv) = link.connection.accept_bi().await.expect("a client");
    let Ok(stream) = accept::route(Stream::new(send, recv), &own).await else {
        panic!("a stream for somebody else");
    };
    let arrived = accept::accept(stream, &party, &own, Timestamp::now).await;
    let Arrived::Session(accepted) = arrived.expect("a client") else {
        panic!("a client without a wish");
    };
    let mut writer = accepted.writer;
    let opened = Opened {
        session: Bytes::from_static(&[9; 16]),
        policy_version: 1,
        profile: "login".into(),
        account: "root".into(),
        recorded: 1,
        node: own.node.to_string(),
        cluster: own.cluster.to_string(),
        window: noderelay_proto::limits::WINDOW_BULK,
        ..Opened::default()
    };
    writer.queue(&ToClient::from(opened));
    let shown = ToClient::Data(Bytes::from_static(b"half"));
    writer.send(&shown).await.expect("the client listens");
    let mut reader = accepted.reader;
    // What breaks a stream takes along what was not yet read.
    while !matches!(reader.demand().await.expect("the client reads"), ToNode::Ack(_)) {}
    match act {
        Act::EndCleanly => writer.finish().await.expect("the client listens"),
        Act::EndOutput => {
            writer.queue(&ToClient::End);
            writer.finish().await.expect("the client listens");
        }
        Act::Reset => drop((writer, reader)),
        Act::Leave => return link.close(noderelay_proto::Code::Ok).await,
    }
    // Attached until the test has seen enough.
    std::future::pending::<()>().await;
    drop(control);
}
