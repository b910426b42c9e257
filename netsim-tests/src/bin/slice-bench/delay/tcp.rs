//! The same delay for a rival that travels over TCP.
//!
//! The kernel accepts a connection to the forwarder at once, without the round trip that a real handshake costs, so it
//! is added: the client's first bytes are taken up one round trip late, and the target sees the connection when the
//! third packet of a real handshake would have arrived.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

use anyhow::{Context as _, Result};
use netsim_tests::stats::{Sample, ms};
use tokio::time::Instant;

use super::judge;

/// One read, and so one held piece, at most.
const PIECE: usize = 65_536;

/// Accepts connections until it is dropped; those that are open end with their clients.
pub(crate) struct TcpForwarder {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

/// Connections of a proof.
const CONNECTIONS: usize = 5;

/// Bytes on their way, and when they are due.
type Held = (Instant, Vec<u8>);

impl TcpForwarder {
    pub(crate) fn start(target: SocketAddr, rtt: Duration) -> Result<TcpForwarder> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot bind the forwarder's socket")?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let accepting = spawn(move || {
            for client in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                if let Ok(client) = client {
                    spawn(move || carry(&client, target, rtt));
                }
            }
        });
        Ok(TcpForwarder {
            address,
            stop,
            accepting: Some(accepting),
        })
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }
}

impl Drop for TcpForwarder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Accepting ends only with one more connection.
        let woken = TcpStream::connect(self.address).is_ok();
        if let (true, Some(accepting)) = (woken, self.accepting.take()) {
            let _ = accepting.join();
        }
    }
}

/// Measures the forwarder itself: the first exchange of a connection, which has the handshake in it, and later ones.
pub(super) fn prove(rtt: Duration, tolerance: Duration) -> Result<String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let far = listener.local_addr()?;
    let echo = spawn(move || {
        for stream in listener.incoming().take(CONNECTIONS).flatten() {
            echo_back(stream);
        }
    });
    let forwarder = TcpForwarder::start(far, rtt)?;
    let (mut first, mut later) = (Vec::new(), Vec::new());
    for _ in 0..CONNECTIONS {
        let started = Instant::now();
        let mut near = TcpStream::connect(forwarder.address)?;
        near.set_nodelay(true)?;
        near.set_read_timeout(Some(rtt * 3 + Duration::from_secs(2)))?;
        exchange(&mut near)?;
        first.push(started.elapsed());
        for _ in 0..2 {
            let started = Instant::now();
            exchange(&mut near)?;
            later.push(started.elapsed());
        }
    }
    let _ = echo.join();
    let first = Sample::of(first).context("nothing came back")?.median();
    let later = Sample::of(later).context("nothing came back")?.median();
    // It waits twice as often, so it may be late twice as much.
    judge("a first exchange with its handshake", rtt * 2, first, tolerance * 2)?;
    judge("an exchange", rtt, later, tolerance)?;
    Ok(format!(
        "… over TCP: asked for {:.0} ms, measured {:.2} ms, with handshake {:.2} ms",
        ms(rtt),
        ms(later),
        ms(first)
    ))
}

fn echo_back(mut stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let mut buffer = [0; 100];
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        let _ = stream.write_all(buffer.get(..length).unwrap_or_default());
    }
}

fn exchange(stream: &mut TcpStream) -> Result<()> {
    stream.write_all(b"x")?;
    stream
        .read_exact(&mut [0])
        .context("nothing came back through the delay forwarder")
}

/// Both directions of one connection.
fn carry(client: &TcpStream, target: SocketAddr, rtt: Duration) {
    let (sending, sent) = channel();
    let (answering, answers) = channel();
    let Ok(from_client) = client.try_clone() else { return };
    let _ = client.set_nodelay(true);
    sleep(rtt);
    spawn(move || collect(&from_client, rtt / 2, &sending));
    sleep(rtt / 2);
    let Ok(target) = TcpStream::connect(target) else {
        let _ = client.shutdown(Shutdown::Both);
        return;
    };
    let _ = target.set_nodelay(true);
    let Ok(from_target) = target.try_clone() else { return };
    spawn(move || collect(&from_target, rtt / 2, &answering));
    spawn(move || deliver(&sent, &target));
    deliver(&answers, client);
}

fn collect(mut stream: &TcpStream, delay: Duration, queue: &Sender<Held>) {
    let mut buffer = vec![0; PIECE];
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        let bytes = buffer.get(..length).unwrap_or_default().to_vec();
        if queue.send((Instant::now() + delay, bytes)).is_err() {
            return;
        }
    }
}

/// Writes each piece when it is due; the end of the queue is the end of the direction.
fn deliver(queue: &Receiver<Held>, mut stream: &TcpStream) {
    for (due, bytes) in queue {
        sleep(due.saturating_duration_since(Instant::now()));
        if stream.write_all(&bytes).is_err() {
            break;
        }
    }
    let _ = stream.shutdown(Shutdown::Write);
}
