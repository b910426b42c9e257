//! The bound, the words beyond it, and seats that come back.

use super::Seats;
use crate::warm::keeper::CARRIED;

#[test]
fn as_many_as_there_are_then_a_refusal_and_each_seat_comes_back() {
    let seats = Seats::new("sessions", CARRIED);
    let mut taken: Vec<_> = (0..512).map(|_| seats.take().unwrap()).collect();
    assert_eq!(seats.taken(), 512);
    let full = seats.take().unwrap_err().to_string();
    assert_eq!(full, "it has 512 sessions at once, as many as it takes");
    taken.pop();
    assert_eq!(seats.taken(), 511);
    taken.push(seats.take().unwrap());
    assert!(seats.take().is_err());
    drop(taken);
    assert_eq!(seats.taken(), 0);
    // A task that is ended gives its seat back as well.
    let seat = seats.take().unwrap();
    let ended = std::thread::spawn(move || {
        let _seat = seat;
        std::panic::resume_unwind(Box::new("ended"));
    });
    assert!(ended.join().is_err());
    assert_eq!(seats.taken(), 0);
}
