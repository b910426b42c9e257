//! How QUIC reaches the kernel: the sockets and timers that quinn gets instead of its own tokio ones.
//!
//! A keystroke passes four processes each way, and what it costs is wake-ups. Two kinds of them carry nothing:
//!
//! * A socket that waits for "writable" as well is woken each time the other side takes a packet. This one waits for
//!   packets only; it asks for "writable" when a send was refused, and only until it is answered.
//! * A timer that is moved to an earlier time wakes the thread that moves it (tokio writes to its own event descriptor).
//!   QUIC moves its loss timer away with each acknowledgement and back with each packet. This one stays armed for the
//!   earliest time it was set to, and when that comes looks whether it is still meant.
//!
//! Bulk is handed to the kernel in batches (`batch`); what it does not take in one call it gets one by one (`offload`).
//!
//! What it never does: know anything of QUIC, hold a packet back that comes alone, or drop one that the kernel took.

use std::fmt;
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use quinn::udp::{RecvMeta, Transmit, UdpSocketState};
use quinn::{AsyncTimer, AsyncUdpSocket, UdpPoller};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::{Sleep, sleep, sleep_until};

use crate::transport::LARGEST_DATAGRAM;

mod batch;
mod offload;

use batch::{Batch, IP_PACKET, Sent};
use offload::{Offload, Outcome};

/// When the system has no descriptor left to ask with, a refused packet is tried again after this long.
const AGAIN: Duration = Duration::from_millis(10);

/// The runtime for every endpoint of the outer leg.
#[derive(Debug)]
pub struct Runtime;

impl quinn::Runtime for Runtime {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        Box::pin(Timer {
            sleep: Box::pin(sleep_until(at.into())),
            meant: at,
        })
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        tokio::spawn(future);
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        let socket = Arc::new(Socket::new(socket)?);
        tokio::spawn(flush(Arc::downgrade(&socket), socket.kept.clone()));
        Ok(socket)
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }
}

struct Timer {
    /// Armed for no later than what is meant.
    sleep: Pin<Box<Sleep>>,
    meant: Instant,
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timer")
            .field("meant", &self.meant)
            .finish_non_exhaustive()
    }
}

impl AsyncTimer for Timer {
    fn reset(mut self: Pin<&mut Self>, at: Instant) {
        self.meant = at;
        if self.sleep.deadline().into_std() > at {
            self.sleep.as_mut().reset(at.into());
        }
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context) -> Poll<()> {
        loop {
            ready!(Future::poll(self.sleep.as_mut(), cx));
            if self.sleep.deadline().into_std() >= self.meant {
                return Poll::Ready(());
            }
            let meant = self.meant.into();
            self.sleep.as_mut().reset(meant);
        }
    }
}

#[derive(Debug)]
struct Socket {
    socket: UdpSocket,
    /// Only waits: tokio calls it a pipe's end.
    incoming: Receiver,
    /// What the kernel can do, and receiving.
    state: UdpSocketState,
    /// The last packet was refused for want of room.
    full: AtomicBool,
    outgoing: Mutex<Outgoing>,
    offload: Offload,
    /// Something waits.
    kept: Arc<Notify>,
}

#[derive(Debug)]
struct Outgoing {
    /// Datagrams that wait for more of their kind.
    batch: Batch,
    state: UdpSocketState,
}

impl Socket {
    fn new(socket: UdpSocket) -> io::Result<Socket> {
        // Sets it to non-blocking, too.
        let state = UdpSocketState::new((&socket).into())?;
        let outgoing = Outgoing {
            batch: Batch::default(),
            state: UdpSocketState::new((&socket).into())?,
        };
        let incoming = Receiver::from_owned_fd_unchecked(socket.try_clone()?.into())?;
        Ok(Socket {
            socket,
            incoming,
            state,
            full: AtomicBool::new(false),
            outgoing: Mutex::new(outgoing),
            offload: Offload::default(),
            kept: Arc::default(),
        })
    }

    /// What waits; whoever panicked with it left it whole.
    fn outgoing(&self) -> MutexGuard<'_, Outgoing> {
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, transmit: &Transmit<'_>) -> io::Result<Sent> {
        let Outgoing { batch, state } = &mut *self.outgoing();
        batch.send(transmit, |transmit| self.kernel(state, transmit))
    }

    fn flush(&self) -> io::Result<()> {
        let Outgoing { batch, state } = &mut *self.outgoing();
        batch.flush(|transmit| self.kernel(state, transmit))
    }

    fn kernel(&self, state: &mut UdpSocketState, transmit: &Transmit<'_>) -> io::Result<()> {
        let outcome = self.offload.send(transmit, tokio::time::Instant::now, |transmit| {
            state.try_send((&self.socket).into(), transmit)
        })?;
        // It takes a refused call for a kernel that is too old for marks of congestion, and never sets them again.
        if outcome == Outcome::Alone
            && let Ok(new) = UdpSocketState::new((&self.socket).into())
        {
            *state = new;
        }
        Ok(())
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // What the kernel does not take now is lost like any datagram.
        let _ = self.flush();
        // There is nobody left to flush for.
        self.kept.notify_one();
    }
}

/// Hands on what a socket kept, once those who send had their turn and nothing more has come; ends with the socket.
async fn flush(socket: Weak<Socket>, kept: Arc<Notify>) {
    loop {
        kept.notified().await;
        let mut seen = None;
        loop {
            let Some(socket) = socket.upgrade() else { return };
            let round = socket.outgoing().batch.round;
            if seen == Some(round) {
                if socket.flush().is_ok() {
                    break;
                }
                // The kernel has no room for now.
                sleep(AGAIN).await;
            }
            seen = Some(round);
            drop(socket);
            yield_now().await;
        }
    }
}

impl AsyncUdpSocket for Socket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Writable {
            socket: self,
            asked: None,
        })
    }

    fn try_send(&self, transmit: &Transmit) -> io::Result<()> {
        match self.send(transmit) {
            Ok(Sent::All) => Ok(()),
            Ok(Sent::Kept) => {
                self.kept.notify_one();
                Ok(())
            }
            Err(error) => {
                self.full
                    .store(error.kind() == io::ErrorKind::WouldBlock, Ordering::Relaxed);
                Err(error)
            }
        }
    }

    fn poll_recv(
        &self,
        cx: &mut Context,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.incoming.poll_read_ready(cx))?;
            let mut received = 0;
            let tried = self.incoming.try_io(|| {
                received = self.state.recv((&self.socket).into(), buffers, meta)?;
                // Fewer than there was room for: there were no more, and the next one reports itself.
                match received < buffers.len().min(meta.len()) {
                    true => Err(io::ErrorKind::WouldBlock.into()),
                    false => Ok(()),
                }
            });
            match tried {
                Err(error) if received == 0 && error.kind() != io::ErrorKind::WouldBlock => {
                    return Poll::Ready(Err(error));
                }
                _ if received > 0 => return Poll::Ready(Ok(received)),
                _ => {}
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    fn may_fragment(&self) -> bool {
        self.state.may_fragment()
    }

    fn max_transmit_segments(&self) -> usize {
        if self.offload.joins(tokio::time::Instant::now) {
            self.state.max_gso_segments()
        } else {
            1
        }
    }

    fn max_receive_segments(&self) -> usize {
        // quinn makes room for this many datagrams of the largest size in each buffer; the kernel never joins more than fit
        // into one IP packet.
        self.state
            .gro_segments()
            .min(IP_PACKET.div_ceil(usize::from(LARGEST_DATAGRAM)))
    }
}

/// Waits until a socket that refused a packet takes one.
#[derive(Debug)]
struct Writable {
    socket: Arc<Socket>,
    asked: Option<Asked>,
}

/// How one learns that there is room.
#[derive(Debug)]
enum Asked {
    /// "Writable" of a descriptor of its own.
    Descriptor(Sender),
    /// There is no descriptor left to ask with: the packet is tried again a little later. As an error it would end the
    /// connection's task, and its streams would wait for ever.
    Later(Pin<Box<Sleep>>),
}

impl Asked {
    fn with(copy: io::Result<UdpSocket>) -> Asked {
        match copy.and_then(|copy| Sender::from_owned_fd_unchecked(copy.into())) {
            Ok(sender) => Asked::Descriptor(sender),
            Err(_) => Asked::Later(Box::pin(sleep(AGAIN))),
        }
    }

    fn poll(&mut self, cx: &mut Context) -> Poll<io::Result<()>> {
        match self {
            Asked::Descriptor(sender) => sender.poll_write_ready(cx),
            Asked::Later(sleep) => Future::poll(sleep.as_mut(), cx).map(Ok),
        }
    }
}

impl UdpPoller for Writable {
    fn poll_writable(self: Pin<&mut Self>, cx: &mut Context) -> Poll<io::Result<()>> {
        let Writable { socket, asked } = self.get_mut();
        // quinn asks before each packet.
        if socket.full.load(Ordering::Relaxed) {
            let asking = asked.get_or_insert_with(|| Asked::with(socket.socket.try_clone()));
            let answer = ready!(asking.poll(cx));
            socket.full.store(false, Ordering::Relaxed);
            *asked = None;
            return Poll::Ready(answer);
        }
        *asked = None;
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests;
