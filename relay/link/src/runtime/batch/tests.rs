//! What the kernel is given, in which order, and what is kept.

use proptest::prelude::*;

use super::*;

const SIZE: usize = 1_472;

fn address(number: u8) -> SocketAddr {
    (std::net::Ipv4Addr::LOCALHOST, 1_000 + u16::from(number)).into()
}

/// What came to the kernel: whom for, the size of a datagram, the bytes.
type Given = (SocketAddr, Option<usize>, Vec<u8>);

/// A kernel with room for this many calls.
#[derive(Default)]
struct Kernel {
    given: Vec<Given>,
    room: Option<usize>,
}

impl Kernel {
    fn take(&mut self, transmit: &Transmit<'_>) -> io::Result<()> {
        if let Some(room) = &mut self.room {
            *room = room.checked_sub(1).ok_or(io::ErrorKind::WouldBlock)?;
        }
        let size = transmit.segment_size;
        let count = size.map_or(1, |size| transmit.contents.len().div_ceil(size));
        assert!(
            transmit.contents.len() <= PAYLOAD,
            "{} bytes in one call",
            transmit.contents.len()
        );
        assert!(count <= SEGMENTS, "{count} datagrams in one call");
        self.given
            .push((transmit.destination, size, transmit.contents.to_vec()));
        Ok(())
    }
}

fn send(batch: &mut Batch, kernel: &mut Kernel, to: u8, size: Option<usize>, contents: &[u8]) -> io::Result<Sent> {
    let transmit = Transmit {
        destination: address(to),
        ecn: None,
        contents,
        segment_size: size,
        src_ip: None,
    };
    batch.send(&transmit, |transmit| kernel.take(transmit))
}

/// A full batch, filled with one byte.
fn full(byte: u8) -> Vec<u8> {
    vec![byte; FULL * SIZE]
}

#[test]
fn full_batches_are_joined_until_one_packet_is_full() {
    let (mut batch, mut kernel) = (Batch::default(), Kernel::default());
    for byte in 0..4 {
        assert_eq!(
            send(&mut batch, &mut kernel, 1, Some(SIZE), &full(byte)).unwrap(),
            Sent::Kept
        );
        assert!(kernel.given.is_empty());
    }
    // 44 fit, and 40 are kept.
    assert_eq!(
        send(&mut batch, &mut kernel, 1, Some(SIZE), &full(4)).unwrap(),
        Sent::Kept
    );
    let joined: Vec<u8> = (0..4).flat_map(full).collect();
    assert_eq!(kernel.given, [(address(1), Some(SIZE), joined)]);
    batch.flush(|transmit| kernel.take(transmit)).unwrap();
    assert_eq!(kernel.given.len(), 2);
    batch.flush(|transmit| kernel.take(transmit)).unwrap();
    assert_eq!(kernel.given.len(), 2, "nothing is sent twice");
}

#[test]
fn what_comes_alone_is_never_kept_and_overtakes_nothing() {
    let (mut batch, mut kernel) = (Batch::default(), Kernel::default());
    for (size, contents) in [
        (None, vec![9]),
        (None, vec![]),
        (Some(SIZE), vec![9; FULL * SIZE - 1]),
        (Some(SIZE), vec![9; 3 * SIZE]),
    ] {
        kernel.given.clear();
        assert_eq!(
            send(&mut batch, &mut kernel, 1, Some(SIZE), &full(1)).unwrap(),
            Sent::Kept
        );
        assert_eq!(send(&mut batch, &mut kernel, 1, size, &contents).unwrap(), Sent::All);
        assert_eq!(
            kernel.given,
            [(address(1), Some(SIZE), full(1)), (address(1), size, contents)]
        );
    }
}

#[test]
fn batches_of_two_peers_or_two_sizes_are_not_joined() {
    for (to, size) in [(2, SIZE), (1, SIZE - 20)] {
        let (mut batch, mut kernel) = (Batch::default(), Kernel::default());
        send(&mut batch, &mut kernel, 1, Some(SIZE), &full(1)).unwrap();
        assert_eq!(
            send(&mut batch, &mut kernel, to, Some(size), &vec![2; FULL * size]).unwrap(),
            Sent::Kept
        );
        assert_eq!(kernel.given, [(address(1), Some(SIZE), full(1))]);
    }
}

#[test]
fn ten_large_datagrams_are_cut_to_what_one_packet_holds() {
    let (mut batch, mut kernel) = (Batch::default(), Kernel::default());
    let contents: Vec<u8> = (0..10u8).flat_map(|number| vec![number; 8_952]).collect();
    send(&mut batch, &mut kernel, 1, Some(8_952), &contents).unwrap();
    batch.flush(|transmit| kernel.take(transmit)).unwrap();
    let lengths: Vec<_> = kernel.given.iter().map(|(_, _, bytes)| bytes.len()).collect();
    assert_eq!(lengths, [7 * 8_952, 3 * 8_952]);
    assert_eq!(
        kernel
            .given
            .into_iter()
            .flat_map(|(_, _, bytes)| bytes)
            .collect::<Vec<_>>(),
        contents
    );
}

#[test]
fn without_room_in_the_kernel_what_was_kept_stays_and_the_rest_is_given_back() {
    let (mut batch, mut kernel) = (Batch::default(), Kernel::default());
    send(&mut batch, &mut kernel, 1, Some(SIZE), &full(1)).unwrap();
    kernel.room = Some(0);
    let refused = send(&mut batch, &mut kernel, 2, None, &[9]).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
    assert!(batch.flush(|transmit| kernel.take(transmit)).is_err());
    // Kept as it was, it is joined still.
    assert_eq!(
        send(&mut batch, &mut kernel, 1, Some(SIZE), &full(2)).unwrap(),
        Sent::Kept
    );
    kernel.room = None;
    send(&mut batch, &mut kernel, 2, None, &[9]).unwrap();
    let joined: Vec<u8> = (1..3).flat_map(full).collect();
    assert_eq!(
        kernel.given,
        [(address(1), Some(SIZE), joined), (address(2), None, vec![9])]
    );
}

proptest! {
    #[test]
    fn every_datagram_is_given_once_and_in_order(
        sends in proptest::collection::vec((0u8..3, 0usize..5, 1usize..15, any::<bool>()), 1..60),
    ) {
        let (mut batch, mut kernel) = (Batch::default(), Kernel::default());
        let mut expected = Vec::new();
        for (number, (to, size, count, whole)) in sends.into_iter().enumerate() {
            let size = [1, 100, 1_200, 1_452, 8_952][size];
            let length = (count * size).saturating_sub(usize::from(!whole));
            let contents = vec![number as u8; length];
            send(&mut batch, &mut kernel, to, Some(size), &contents).unwrap();
            for datagram in contents.chunks(size) {
                expected.push((address(to), datagram.to_vec()));
            }
        }
        batch.flush(|transmit| kernel.take(transmit)).unwrap();
        let given: Vec<_> = kernel
            .given
            .iter()
            .flat_map(|(to, size, bytes)| bytes.chunks(size.unwrap()).map(|datagram| (*to, datagram.to_vec())))
            .collect();
        prop_assert_eq!(given, expected);
    }
}
