//! What is made of a refused call, with a kernel played by the test.

use std::net::Ipv4Addr;

use super::*;

/// A kernel over a path that takes datagrams of so many bytes.
struct Kernel {
    largest: usize,
    /// What it says to joined calls that it cannot cut.
    joined: Option<i32>,
    room: usize,
    taken: Vec<Vec<u8>>,
}

impl Kernel {
    fn new(largest: usize, joined: Option<i32>) -> Self {
        Self {
            largest,
            joined,
            room: usize::MAX,
            taken: Vec::new(),
        }
    }

    fn take(&mut self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.room = self.room.checked_sub(1).ok_or(io::ErrorKind::WouldBlock)?;
        let size = transmit.segment_size.unwrap_or(transmit.contents.len());
        let refuse = |number| Err(io::Error::from_raw_os_error(number));
        match (transmit.segment_size, self.joined) {
            (Some(_), Some(number)) => refuse(number),
            // Before Linux 6.14 the kernel said EINVAL to a joined call and EMSGSIZE to a datagram alone.
            (Some(_), None) if size > self.largest => refuse(EINVAL),
            (None, _) if size > self.largest => refuse(EMSGSIZE),
            _ => {
                self.taken.extend(transmit.contents.chunks(size).map(<[u8]>::to_vec));
                Ok(())
            }
        }
    }
}

fn send(offload: &Offload, kernel: &mut Kernel, size: Option<usize>, contents: &[u8]) -> io::Result<Outcome> {
    let transmit = Transmit {
        destination: (Ipv4Addr::LOCALHOST, 9).into(),
        ecn: None,
        contents,
        segment_size: size,
        src_ip: None,
    };
    offload.send(&transmit, Instant::now, |transmit| kernel.take(transmit))
}

/// The field's fault: one path gets smaller, and nothing is joined any more, on any connection of the socket, until it is made anew.
#[test]
fn b072_a_path_that_got_smaller_does_not_end_the_joining_of_datagrams() {
    let (offload, mut kernel) = (Offload::default(), Kernel::new(1_252, None));
    // Nine that are too large now, and a last one that is not.
    let contents = vec![7; 9 * 1_452 + 300];
    assert_eq!(
        send(&offload, &mut kernel, Some(1_452), &contents).unwrap(),
        Outcome::Alone
    );
    assert_eq!(kernel.taken, [vec![7; 300]]);
    assert!(offload.joins(Instant::now));
    kernel.taken.clear();
    assert_eq!(
        send(&offload, &mut kernel, Some(1_200), &[8; 5 * 1_200]).unwrap(),
        Outcome::Taken
    );
    assert_eq!(kernel.taken, vec![vec![8; 1_200]; 5]);
}

#[test]
fn a_kernel_that_cannot_join_gets_each_datagram_alone_and_is_asked_again_after_a_rest() {
    for number in [EIO, EINVAL] {
        let (offload, mut kernel) = (Offload::default(), Kernel::new(1_452, Some(number)));
        let contents: Vec<u8> = (0..4u8).flat_map(|number| vec![number; 1_000]).collect();
        assert_eq!(
            send(&offload, &mut kernel, Some(1_000), &contents).unwrap(),
            Outcome::Alone
        );
        assert_eq!(kernel.taken.concat(), contents);
        let now = Instant::now();
        assert!(!offload.joins(|| now));
        assert!(!offload.joins(|| now + REST / 2));
        assert!(offload.joins(|| now + REST));
        assert!(offload.joins(|| now), "it is on again");
    }
}

#[test]
fn without_room_nothing_counts_as_taken_and_what_else_is_refused_is_lost() {
    let (offload, mut kernel) = (Offload::default(), Kernel::new(1_452, Some(EIO)));
    kernel.room = 3;
    let error = send(&offload, &mut kernel, Some(1_000), &[1; 5_000]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    assert!(offload.joins(Instant::now));
    // A probe that is too large for the interface; and a network that cannot be reached, for many and for one.
    let mut kernel = Kernel::new(1_452, None);
    assert_eq!(send(&offload, &mut kernel, None, &[1; 1_453]).unwrap(), Outcome::Taken);
    let mut kernel = Kernel::new(1_452, Some(101));
    assert_eq!(
        send(&offload, &mut kernel, Some(1_000), &[1; 5_000]).unwrap(),
        Outcome::Taken
    );
    assert!(kernel.taken.is_empty());
    assert!(offload.joins(Instant::now));
}
