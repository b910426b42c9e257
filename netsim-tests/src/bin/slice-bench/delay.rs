//! A forwarder of UDP datagrams that holds each one back for half of a round-trip time, and the proof that it does.
//!
//! The kernel of a test machine often cannot delay packets, so the delay is made in user space:
//!
//! ```text
//! client ──> front socket ──queue──> back socket (one per client) ──> target
//! client <── front socket <──queue── back socket                  <── target
//! ```
//!
//! The delay is the same for every datagram, so each queue is first in, first out, and a burst stays a burst. Threads
//! and blocking sockets, because a runtime's timers are no finer than a millisecond. It loses, reorders and limits
//! nothing.

pub(crate) mod tcp;

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use netsim_tests::stats::{Sample, ms};
use tokio::time::Instant;

/// How often a thread looks whether it should end.
const LOOK: Duration = Duration::from_millis(50);
/// How far the measured round trip may be above what was asked for: queues, wake-ups and two processors.
pub(crate) const TOLERANCE: Duration = Duration::from_millis(3);
/// Larger than any datagram.
const BUFFER: usize = 65_536;

/// Forwards until it is dropped.
pub(crate) struct Forwarder {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    front: Option<JoinHandle<()>>,
}

/// A datagram on its way: when it is due, its bytes, and where it goes.
struct Held {
    due: Instant,
    bytes: Vec<u8>,
    to: SocketAddr,
}

impl Forwarder {
    pub(crate) fn start(target: SocketAddr, rtt: Duration) -> Result<Forwarder> {
        let front = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot bind the forwarder's socket")?;
        front.set_read_timeout(Some(LOOK))?;
        let address = front.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let run = Front {
            socket: Arc::new(front),
            target,
            delay: rtt / 2,
            stop: stop.clone(),
            backs: HashMap::new(),
        };
        Ok(Forwarder {
            address,
            stop,
            front: Some(spawn(move || run.forward())),
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(front) = self.front.take() {
            let _ = front.join();
        }
    }
}

/// How often a proof is tried: a busy moment of the machine is not a missing delay.
const ATTEMPTS: usize = 5;

/// Both forwarders measure themselves. An error when the delay is not there: never too short, and not longer than asked
/// for by more than the tolerance.
pub(crate) fn proof(rtt: Duration, tolerance: Duration) -> Result<String> {
    let mut last = None;
    for _ in 0..ATTEMPTS {
        match prove(rtt, tolerance).and_then(|udp| Ok(format!("{udp}\n{}", tcp::prove(rtt, tolerance)?))) {
            Ok(proof) => return Ok(proof),
            Err(error) => last = Some(error),
        }
    }
    Err(last.context("never tried")?)
}

/// Measures the forwarder itself: single datagrams, then a burst. An error when the delay is not there.
fn prove(rtt: Duration, tolerance: Duration) -> Result<String> {
    let echo = Echo::start()?;
    let forwarder = Forwarder::start(echo.address, rtt)?;
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect(forwarder.address())?;
    socket.set_read_timeout(Some(rtt + Duration::from_secs(2)))?;
    let mut single = Vec::new();
    for number in 0..10u8 {
        single.push(round_trips(&socket, number..=number)?);
    }
    let burst = round_trips(&socket, 0..=49)?;
    let single = Sample::of(single).context("no datagram came back")?.median();
    judge("a datagram", rtt, single, tolerance)?;
    judge("the last of a burst of 50", rtt, burst, tolerance)?;
    Ok(format!(
        "delay forwarder proves itself: asked for {:.0} ms, measured {:.2} ms, a burst of 50 {:.2} ms",
        ms(rtt),
        ms(single),
        ms(burst)
    ))
}

/// The measured delay is the one that was asked for, or nothing is measured with it.
fn judge(what: &str, asked: Duration, seen: Duration, tolerance: Duration) -> Result<()> {
    if seen < asked || seen > asked + tolerance {
        bail!(
            "the delay forwarder does not hold: asked for {:.0} ms, {what} took {:.2} ms; is the machine overloaded?",
            ms(asked),
            ms(seen)
        );
    }
    Ok(())
}

/// Sends one datagram for each number and waits until all are back.
fn round_trips(socket: &UdpSocket, numbers: std::ops::RangeInclusive<u8>) -> Result<Duration> {
    let started = Instant::now();
    let count = numbers.clone().count();
    for number in numbers {
        socket.send(&[number; 100])?;
    }
    let mut buffer = [0; 200];
    for _ in 0..count {
        socket
            .recv(&mut buffer)
            .context("a datagram did not come back through the delay forwarder")?;
    }
    Ok(started.elapsed())
}

/// What the front's thread owns.
struct Front {
    socket: Arc<UdpSocket>,
    target: SocketAddr,
    delay: Duration,
    stop: Arc<AtomicBool>,
    backs: HashMap<SocketAddr, Back>,
}

/// The way to the target for one client; dropping the queue ends its threads.
struct Back {
    queue: Sender<Held>,
}

impl Front {
    fn forward(mut self) {
        let mut buffer = vec![0; BUFFER];
        while !self.stop.load(Ordering::Relaxed) {
            let Ok((length, client)) = self.socket.recv_from(&mut buffer) else {
                continue;
            };
            let due = Instant::now() + self.delay;
            let bytes = buffer.get(..length).unwrap_or_default().to_vec();
            if !self.backs.contains_key(&client)
                && let Ok(back) = self.back(client)
            {
                self.backs.insert(client, back);
            }
            if let Some(back) = self.backs.get(&client) {
                let _ = back.queue.send(Held {
                    due,
                    bytes,
                    to: self.target,
                });
            }
        }
    }

    fn back(&self, client: SocketAddr) -> Result<Back> {
        let socket = Arc::new(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?);
        socket.set_read_timeout(Some(LOOK))?;
        let (queue, held) = channel();
        let (returning, returned) = channel();
        let (to_target, to_client, from_target) = (socket.clone(), self.socket.clone(), socket);
        spawn(move || deliver(&held, &to_target));
        spawn(move || deliver(&returned, &to_client));
        let (stop, delay) = (self.stop.clone(), self.delay);
        spawn(move || collect(&from_target, client, delay, &returning, &stop));
        Ok(Back { queue })
    }
}

/// Takes the target's answers until the forwarder ends.
fn collect(socket: &UdpSocket, client: SocketAddr, delay: Duration, queue: &Sender<Held>, stop: &AtomicBool) {
    let mut buffer = vec![0; BUFFER];
    while !stop.load(Ordering::Relaxed) {
        let Ok(length) = socket.recv(&mut buffer) else { continue };
        let bytes = buffer.get(..length).unwrap_or_default().to_vec();
        if queue
            .send(Held {
                due: Instant::now() + delay,
                bytes,
                to: client,
            })
            .is_err()
        {
            return;
        }
    }
}

/// Sends each datagram when it is due, until the queue's other end is gone.
fn deliver(queue: &Receiver<Held>, socket: &UdpSocket) {
    for held in queue {
        sleep(held.due.saturating_duration_since(Instant::now()));
        let _ = socket.send_to(&held.bytes, held.to);
    }
}

/// Sends every datagram back to where it came from; the far end of the proof.
struct Echo {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Echo {
    fn start() -> Result<Echo> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.set_read_timeout(Some(LOOK))?;
        let address = socket.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = spawn(move || {
            let mut buffer = vec![0; BUFFER];
            while !stopped.load(Ordering::Relaxed) {
                if let Ok((length, from)) = socket.recv_from(&mut buffer) {
                    let _ = socket.send_to(buffer.get(..length).unwrap_or_default(), from);
                }
            }
        });
        Ok(Echo {
            address,
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
