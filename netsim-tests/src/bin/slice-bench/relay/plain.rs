//! The rival: what one writes with quinn in an afternoon. It checks nobody, counts nothing, and knows one node.
//!
//! quinn's own sockets and defaults, 256 streams a connection; each chunk that is read is written on.

use std::io::{BufRead as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use netsim_tests::running::Running;
use quinn::{Connection, Endpoint, RecvStream, SendStream, TransportConfig};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

use crate::relay::ends;

const NAME: &str = "plain.example";

/// The running rival and this process's two connections to it.
pub(crate) struct Plain {
    client: Connection,
    relay: Running,
    _endpoint: Endpoint,
}

impl Plain {
    pub(crate) async fn start() -> Result<Plain> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg("--serve-plain")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut relay = Running::start(&mut command)?;
        let mut told = std::io::BufReader::new(relay.child.stdout.take().context("no output")?);
        let mut line = String::new();
        told.read_line(&mut line)?;
        let (address, certificate) = line.trim().split_once(' ').context("it said nothing")?;
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from(hex::decode(certificate)?))?;
        let mut config = quinn::ClientConfig::with_root_certificates(Arc::new(roots))?;
        config.transport_config(transport());
        let mut endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into())?;
        endpoint.set_default_client_config(config);
        let address: SocketAddr = address.parse()?;
        let node = endpoint.connect(address, NAME)?.await?;
        // The first one that is accepted is the node.
        node.open_uni().await?.write_all(b"node").await?;
        let client = endpoint.connect(address, NAME)?.await?;
        tokio::spawn(async move {
            while let Ok((send, recv)) = node.accept_bi().await {
                tokio::spawn(ends::node(tokio::io::join(recv, send)));
            }
        });
        Ok(Plain {
            client,
            relay,
            _endpoint: endpoint,
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.relay.child.id()
    }

    pub(crate) async fn open(&self) -> Result<(SendStream, RecvStream)> {
        Ok(self.client.open_bi().await?)
    }
}

fn transport() -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config.max_concurrent_bidi_streams(256u32.into());
    Arc::new(config)
}

/// The rival's own process: serves until its standard input ends.
pub(crate) fn serve() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
        let certificate = made.cert.der().clone();
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let mut config = quinn::ServerConfig::with_single_cert(vec![certificate.clone()], key.into())?;
        config.transport_config(transport());
        let endpoint = Endpoint::server(config, (Ipv4Addr::LOCALHOST, 0).into())?;
        let told = format!("{} {}\n", endpoint.local_addr()?, hex::encode(&certificate));
        std::io::stdout().write_all(told.as_bytes())?;
        std::io::stdout().flush()?;
        let serving = tokio::spawn(accept(endpoint));
        tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await??;
        serving.abort();
        Ok(())
    })
}

async fn accept(endpoint: Endpoint) -> Result<()> {
    let node = endpoint.accept().await.context("closed")?.await?;
    node.accept_uni().await?;
    while let Some(incoming) = endpoint.accept().await {
        let node = node.clone();
        tokio::spawn(async move {
            let client = incoming.await?;
            while let Ok(near) = client.accept_bi().await {
                let node = node.clone();
                tokio::spawn(async move {
                    let far = node.open_bi().await?;
                    tokio::try_join!(copy(near.1, far.0), copy(far.1, near.0))
                });
            }
            anyhow::Ok(())
        });
    }
    Ok(())
}

async fn copy(mut from: RecvStream, mut to: SendStream) -> Result<()> {
    while let Some(chunk) = from.read_chunk(usize::MAX, true).await? {
        to.write_chunk(chunk.bytes).await?;
    }
    to.finish()?;
    Ok(())
}
