//! Our relay as a process of its own; this process is its clients and its nodes.

use std::fs::File;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use jiff::Timestamp;
use netsim_tests::attached;
use netsim_tests::running::{Running, eventually};
use noderelay_client::setup::{self, Layout, Spec};
use noderelay_link::{Dialer, Link, Stream, Times, agent_transport, client_transport};
use noderelay_pki::ca::{CERTIFICATE_FILE, CertificateAuthority, KEY_FILE};
use noderelay_pki::identity::{Identity, Role};
use noderelay_pki::name::{NodeName, UserName};
use noderelay_pki::tls::{Leg, Party, server_name};
use noderelay_pki::{Expect, RoleKind};
use noderelay_proto::control::{Purpose, RouteHeader};
use noderelay_proto::{Version, version};
use quinn::{Connection, Endpoint};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::relay::ends;

/// No bound of the relay is in the way of a benchmark that comes from one address.
const LIMITS: &str = "limits: {connections_per_person: 100000, streams_per_person: 100000, streams: 100000, \
                      opens_at_once: 1000000, opens_per_second: 100000}\n";
const PATIENCE: Duration = Duration::from_secs(20);

/// The fleet's files, the running relay, one attached node and one client.
pub(crate) struct Ours {
    pub(crate) fleet: Arc<Fleet>,
    relay: Running,
    user: Party,
    client: Link,
    _node: Arc<Link>,
}

/// Whoever can be made in this fleet.
pub(crate) struct Fleet {
    ca: CertificateAuthority,
    address: String,
    layout: Layout,
}

impl Fleet {
    async fn new(folder: &Path) -> Result<Fleet> {
        let address = UdpSocket::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let spec = Spec::demo(address.clone(), "bench")?;
        let layout = setup::fleet_of_one(&folder.join("fleet"), &spec, Timestamp::now()).await?;
        let config = layout.relay();
        let text = std::fs::read_to_string(&config)?;
        std::fs::write(&config, text + LIMITS)?;
        let folder = layout.ca();
        let ca = CertificateAuthority::load(&folder.join(CERTIFICATE_FILE), &folder.join(KEY_FILE))?;
        Ok(Fleet { ca, address, layout })
    }

    /// A party of this fleet with a new certificate.
    pub(crate) fn party(&self, role: Role) -> Result<Party> {
        attached::party(&self.ca, role)
    }

    /// A connection to the relay.
    pub(crate) async fn dial(&self, party: Party, agent: bool) -> Result<Link> {
        let transport = if agent {
            agent_transport(256, &Times::default())
        } else {
            client_transport()
        };
        let expect = Expect::Relay {
            cluster: Some(self.ca.cluster().clone()),
        };
        Ok(Dialer::new(party, transport)
            .dial(std::slice::from_ref(&self.address), expect)
            .await?)
    }

    /// An attached agent that gets no streams.
    pub(crate) async fn agent(&self, number: usize, socket: &Endpoint) -> Result<Connection> {
        attached::idle(&self.ca, NodeName::parse(&node_name(number))?, self.address()?, socket).await
    }

    pub(crate) fn address(&self) -> Result<SocketAddr> {
        Ok(self.address.parse()?)
    }

    fn identity(&self, role: Role) -> Identity {
        Identity::new(self.ca.trust_domain().clone(), self.ca.cluster().clone(), role)
    }
}

impl Ours {
    pub(crate) async fn start(binaries: &Path, folder: &Path) -> Result<Ours> {
        let fleet = Arc::new(Fleet::new(folder).await?);
        let log = folder.join("relay.log");
        let mut command = Command::new(binaries.join("noderelay-relay"));
        command
            .arg("--config")
            .arg(fleet.layout.relay())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?);
        let mut relay = Running::start(&mut command)?;
        let address = fleet.address()?;
        eventually("the relay listens", PATIENCE, || {
            relay.still_serves(&log)?;
            // Its port can't be bound any more once it listens.
            Ok(UdpSocket::bind(address).is_err().then_some(()))
        })?;
        let party = fleet.party(node(0)?)?;
        let acceptor = TlsAcceptor::from(party.server(Expect::Roles(&[RoleKind::User]), Leg::Inner, version::INNER)?);
        let link = Arc::new(fleet.dial(party, true).await?);
        attached::hold(&link.connection).await?;
        tokio::spawn(serve(link.clone(), acceptor));
        let user = fleet.party(Role::User(UserName::parse("bench")?))?;
        let client = fleet.dial(user.clone(), false).await?;
        Ok(Ours {
            fleet,
            relay,
            user,
            client,
            _node: link,
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.relay.child.id()
    }

    /// A stream to the node, with nothing inside.
    pub(crate) async fn open(&self) -> Result<Stream> {
        let mut stream = self.client.open(&self.header()?).await?;
        stream.write_all(&[BARE]).await?;
        Ok(stream)
    }

    /// A stream to the node with TLS inside, as a session has it.
    pub(crate) async fn open_inner(&self) -> Result<impl AsyncRead + AsyncWrite + Unpin> {
        let mut stream = self.client.open(&self.header()?).await?;
        stream.write_all(&[INNER]).await?;
        let expect = Expect::Exactly(self.fleet.identity(node(0)?));
        let config = self.user.client(expect, Leg::Inner, version::INNER)?;
        Ok(TlsConnector::from(config).connect(server_name(), stream).await?)
    }

    fn header(&self) -> Result<RouteHeader> {
        Ok(RouteHeader::new(
            Version::V1,
            self.fleet.ca.cluster().as_str(),
            node_name(0),
            Purpose::Session,
        ))
    }
}

/// The first byte behind the route header: what is inside.
const BARE: u8 = b'b';
const INNER: u8 = b'i';

/// The name of the node with this number.
fn node_name(number: usize) -> String {
    format!("node-{number}")
}

fn node(number: usize) -> Result<Role> {
    Ok(Role::Node(NodeName::parse(&node_name(number))?))
}

async fn serve(link: Arc<Link>, acceptor: TlsAcceptor) {
    while let Ok((send, recv)) = link.connection.accept_bi().await {
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            let mut stream = Stream::new(send, recv);
            // Exactly the header: what is behind it is the ends' own.
            let _type = varint(&mut stream).await?;
            let length = varint(&mut stream).await?;
            tokio::io::copy(&mut (&mut stream).take(length), &mut tokio::io::sink()).await?;
            match stream.read_u8().await? {
                INNER => ends::node(acceptor.accept(stream).await?).await,
                _ => ends::node(stream).await,
            }
        });
    }
}

/// A variable-length integer (RFC 9000 § 16).
async fn varint(stream: &mut Stream) -> Result<u64> {
    let first = stream.read_u8().await?;
    let mut value = u64::from(first & 0x3f);
    for _ in 1..1 << (first >> 6) {
        value = value << 8 | u64::from(stream.read_u8().await?);
    }
    Ok(value)
}
