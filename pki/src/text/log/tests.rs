//! Lines that get through, and lines that do not.

use super::*;

/// Takes `room` bytes, then says that the disk is full.
struct Disk<'a> {
    room: &'a mut usize,
    held: &'a mut Vec<u8>,
}

impl Write for Disk<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(*self.room);
        if count == 0 {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        *self.room -= count;
        self.held.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Err(io::Error::from(io::ErrorKind::StorageFull))
    }
}

#[test]
fn a_line_that_cannot_be_written_is_no_error_and_the_next_one_says_how_many_are_missing() {
    static OF_THIS_TEST: Mutex<Lost> = Mutex::new(Lost::NONE);
    let lost = &OF_THIS_TEST;
    let mut held = Vec::new();
    let mut write = |json: bool, mut room: usize, line: &str| {
        let room = &mut room;
        let held = &mut held;
        let mut log = LogLines {
            out: Disk { room, held },
            json,
            lost,
        };
        log.write_all(line.as_bytes()).unwrap();
        log.flush().unwrap();
    };
    write(false, 4, "first\n");
    write(false, 0, "second\n");
    write(false, 1000, "third\n");
    write(false, 1000, "fourth\n");
    write(true, 0, "{}\n");
    write(true, 1000, "{\"a\":1}\n");
    let text = String::from_utf8(held).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let said = "ERROR lines of this log could not be written lines=2";
    assert_eq!(lines[..4], ["firs", said, "third", "fourth"], "{text}");
    for line in &lines[4..] {
        let _: serde_json::Value = serde_json::from_str(line).unwrap();
    }
    assert_eq!(lines.len(), 6, "{text}");
}
