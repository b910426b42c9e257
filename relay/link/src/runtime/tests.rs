//! The timer rings when it is meant to, and the socket carries packets both ways.

use std::future::poll_fn;

use quinn::Runtime as _;

use super::*;

fn later(milliseconds: u64) -> Instant {
    (tokio::time::Instant::now() + Duration::from_millis(milliseconds)).into_std()
}

/// Waits for it, and says whether that was no sooner than `meant` milliseconds after now.
async fn rings(timer: &mut Pin<Box<dyn AsyncTimer>>, meant: u64) -> bool {
    let meant = later(meant);
    crate::testing::soon(poll_fn(|cx| timer.as_mut().poll(cx))).await;
    tokio::time::Instant::now().into_std() >= meant
}

#[tokio::test]
async fn a_timer_rings_for_the_time_that_it_was_last_set_to() {
    for (settings, meant) in [
        (vec![50], 50),
        (vec![50, 20], 20),
        (vec![50, 200], 200),
        (vec![50, 200, 80], 80),
        (vec![200, 20, 100], 100),
    ] {
        // Were the first setting the one that counts, nothing would ring in time.
        let mut timer = Runtime.new_timer(later(600_000));
        for setting in &settings {
            timer.as_mut().reset(later(*setting));
        }
        assert!(rings(&mut timer, meant - 5).await, "{settings:?}");
        // And again.
        timer.as_mut().reset(later(30));
        assert!(rings(&mut timer, 25).await);
    }
}

fn bound() -> (Arc<dyn AsyncUdpSocket>, SocketAddr) {
    let socket = Runtime
        .wrap_udp_socket(UdpSocket::bind("127.0.0.1:0").unwrap())
        .unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

async fn receive(socket: &Arc<dyn AsyncUdpSocket>, room: usize) -> Vec<Vec<u8>> {
    let mut space = vec![[0; 2048]; room];
    let mut meta = vec![RecvMeta::default(); room];
    let mut buffers: Vec<_> = space.iter_mut().map(|space| IoSliceMut::new(space)).collect();
    let receiving = poll_fn(|cx| socket.poll_recv(cx, &mut buffers, &mut meta));
    let received = crate::testing::soon(receiving).await.unwrap();
    let lengths: Vec<_> = meta.iter().take(received).map(|meta| meta.len).collect();
    lengths
        .into_iter()
        .zip(space)
        .map(|(len, space)| space[..len].to_vec())
        .collect()
}

fn send(socket: &Arc<dyn AsyncUdpSocket>, destination: SocketAddr, contents: &[u8]) {
    let transmit = Transmit {
        destination,
        ecn: None,
        contents,
        segment_size: None,
        src_ip: None,
    };
    socket.try_send(&transmit).unwrap();
}

#[tokio::test]
async fn no_packet_is_lost_whether_there_are_many_or_one_comes_after_another() {
    let ((a, _), (b, address)) = (bound(), bound());
    for round in 0..20u8 {
        for number in 0..5 {
            send(&a, address, &[round, number]);
        }
        // With little room the socket stays ready, with much it is cleared: nothing may hang on either.
        let mut got = Vec::new();
        while got.len() < 5 {
            got.extend(receive(&b, if round % 2 == 0 { 2 } else { 8 }).await);
        }
        assert_eq!(got, (0..5).map(|number| vec![round, number]).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_full_batch_that_nothing_follows_is_sent_all_the_same() {
    const SIZE: usize = 100;
    let ((a, _), (b, address)) = (bound(), bound());
    for round in 0..3u8 {
        let contents = vec![round; 10 * SIZE];
        a.try_send(&Transmit {
            destination: address,
            ecn: None,
            contents: &contents,
            segment_size: Some(SIZE),
            src_ip: None,
        })
        .unwrap();
        let mut got = Vec::new();
        while got.len() < contents.len() {
            got.extend(receive(&b, 16).await.concat());
        }
        assert_eq!(got, contents);
    }
    // Nor does it get lost with its socket.
    a.try_send(&Transmit {
        destination: address,
        ecn: None,
        contents: &[9; 10 * SIZE],
        segment_size: Some(SIZE),
        src_ip: None,
    })
    .unwrap();
    drop(a);
    let mut got = Vec::new();
    while got.len() < 10 * SIZE {
        got.extend(receive(&b, 16).await.concat());
    }
    assert_eq!(got, [9; 10 * SIZE]);
}

#[tokio::test]
async fn a_socket_that_refused_is_asked_and_one_that_did_not_is_not() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let socket = Arc::new(Socket::new(socket).unwrap());
    let mut poller = Writable {
        socket: socket.clone(),
        asked: None,
    };
    let mut poller = Pin::new(&mut poller);
    let waker = std::task::Waker::noop();
    assert!(matches!(
        poller.as_mut().poll_writable(&mut Context::from_waker(waker)),
        Poll::Ready(Ok(()))
    ));
    assert!(poller.asked.is_none());
    socket.full.store(true, Ordering::Relaxed);
    // Only the kernel can say that there is room again.
    assert!(
        poller
            .as_mut()
            .poll_writable(&mut Context::from_waker(waker))
            .is_pending()
    );
    assert!(poller.asked.is_some());
    crate::testing::soon(poll_fn(|cx| poller.as_mut().poll_writable(cx)))
        .await
        .unwrap();
    assert!(poller.asked.is_none() && !socket.full.load(Ordering::Relaxed));
}

#[tokio::test]
async fn without_a_descriptor_to_ask_with_a_packet_is_tried_again_after_a_rest() {
    let start = tokio::time::Instant::now();
    let mut asked = Asked::with(Err(io::Error::from_raw_os_error(24)));
    crate::testing::soon(poll_fn(|cx| asked.poll(cx))).await.unwrap();
    assert!(start.elapsed() >= AGAIN, "{:?}", start.elapsed());
}

/// Set for the test below when it runs in a network of its own.
const OWN_NETWORK: &str = "NODERELAY_TEST_OWN_NETWORK";

/// A real interface gets smaller under a socket. Changing one takes a network of one's own, and that takes root.
#[test]
fn b072_an_interface_that_got_smaller_does_not_end_the_joining_of_datagrams() {
    if std::env::var_os(OWN_NETWORK).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        return runtime.block_on(on_a_small_interface());
    }
    let root = std::process::Command::new("id").arg("-u").output();
    if root.is_ok_and(|id| id.stdout != b"0\n") {
        eprintln!("not tried: only root may change an interface");
        return;
    }
    let script =
        "mount -t sysfs none /sys && cd /sys/class/net/lo && echo 1500 >mtu && echo 0x9 >flags && cd / && exec \"$@\"";
    let output = std::process::Command::new("unshare")
        .args(["--net", "--mount", "sh", "-c", script, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "runtime::tests::b072_an_interface_that_got_smaller_does_not_end_the_joining_of_datagrams",
        ])
        .env(OWN_NETWORK, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

async fn on_a_small_interface() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let a = Arc::new(Socket::new(socket).unwrap());
    let (b, address) = bound();
    let several = a.max_transmit_segments();
    assert!(several > 1, "this kernel joins nothing");
    let send = |contents: &[u8], size| {
        a.try_send(&Transmit {
            destination: address,
            ecn: None,
            contents,
            segment_size: Some(size),
            src_ip: None,
        })
        .unwrap();
    };
    // What was right until now, with a last one that still is.
    send(&[1; 5 * 4_000 + 500], 4_000);
    send(&[2; 5 * 300], 300);
    let mut got = Vec::new();
    while got.len() < 2_000 {
        got.extend(receive(&b, 16).await.concat());
    }
    assert_eq!(got, [vec![1; 500], vec![2; 1_500]].concat());
    assert_eq!(a.max_transmit_segments(), several);
}
