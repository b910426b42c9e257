//! A UDP socket that wakes its owner for packets only.
//!
//! tokio's own socket asks the kernel for read *and* write readiness. Whenever the other side takes a packet, the kernel
//! then reports "writable again", and every packet sent wakes its sender once more for nothing: with a keystroke on its way
//! through four processes that is the larger part of the delay. Here write readiness is asked for only after the kernel
//! refused a packet, on a duplicate of the descriptor that lives until it is ready.
//!
//! Everything else (batching, ECN, path MTU) is quinn-udp's, as in quinn's own socket.

use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use quinn::udp::{RecvMeta, Transmit, UdpSocketState};
use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime, UdpPoller};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// tokio, with [`Quiet`] sockets.
#[derive(Debug)]
pub(crate) struct QuietRuntime;

impl Runtime for QuietRuntime {
    fn new_timer(&self, at: std::time::Instant) -> Pin<Box<dyn AsyncTimer>> {
        TokioRuntime.new_timer(at)
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        TokioRuntime.spawn(future);
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        socket.set_nonblocking(true)?;
        let state = UdpSocketState::new((&socket).into())?;
        Ok(Arc::new(Quiet {
            io: AsyncFd::with_interest(socket, Interest::READABLE)?,
            state,
        }))
    }

    fn now(&self) -> std::time::Instant {
        TokioRuntime.now()
    }
}

#[derive(Debug)]
struct Quiet {
    io: AsyncFd<UdpSocket>,
    state: UdpSocketState,
}

impl AsyncUdpSocket for Quiet {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Writable {
            socket: self,
            waiting: None,
        })
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.state.send(self.io.get_ref().into(), transmit)
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut ready = ready!(self.io.poll_read_ready(cx))?;
            if let Ok(received) = ready.try_io(|io| self.state.recv(io.get_ref().into(), buffers, meta)) {
                return Poll::Ready(received);
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.get_ref().local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.state.max_gso_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.state.gro_segments()
    }

    fn may_fragment(&self) -> bool {
        self.state.may_fragment()
    }
}

/// Waits until a socket that refused a packet takes one again.
#[derive(Debug)]
struct Writable {
    socket: Arc<Quiet>,
    waiting: Option<AsyncFd<UdpSocket>>,
}

impl UdpPoller for Writable {
    fn poll_writable(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.waiting.is_none() {
            let twin = self.socket.io.get_ref().try_clone()?;
            self.waiting = Some(AsyncFd::with_interest(twin, Interest::WRITABLE)?);
        }
        if let Some(waiting) = &self.waiting {
            let _ready = ready!(waiting.poll_write_ready(cx))?;
        }
        self.waiting = None;
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests;
