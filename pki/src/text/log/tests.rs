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
            at_place: true,
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

/// A pipe that can be read or not, as a place for lines.
fn pipe() -> (std::fs::File, std::fs::File) {
    let (read, write) = nix::unistd::pipe().unwrap();
    (read.into(), write.into())
}

#[test]
fn a_reader_that_stands_still_costs_lines_and_nobodys_time() {
    static OF_THIS_TEST: Mutex<Lost> = Mutex::new(Lost::NONE);
    let lost = &OF_THIS_TEST;
    let (mut read, write) = pipe();
    let out = Background::with(write, false, 1000, lost).unwrap();
    let line = |number: u32| {
        LogLines::behind(out.clone())
            .write_all(format!("line {number}\n").as_bytes())
            .unwrap();
    };
    // More than the pipe and the room behind it hold; nothing of this waits.
    let count = 100_000;
    (0..count).for_each(line);
    let reader = std::thread::spawn(move || {
        let (mut all, mut some) = (Vec::new(), [0; 4096]);
        while !all.ends_with(format!("line {count}\n").as_bytes()) {
            let read = io::Read::read(&mut read, &mut some).unwrap();
            all.extend_from_slice(&some[..read]);
        }
        String::from_utf8(all).unwrap()
    });
    out.finish();
    line(count);
    let all = reader.join().unwrap();
    let mut next = 0;
    for seen in all.lines() {
        match seen.strip_prefix("ERROR lines of this log could not be written lines=") {
            Some(missing) => next += missing.parse::<u32>().unwrap(),
            None => {
                assert_eq!(seen, format!("line {next}"));
                next += 1;
            }
        }
    }
    assert_eq!(next, count + 1);
    assert!(all.lines().count() < 50_000, "nothing was lost");
}

#[test]
fn a_place_that_fails_behind_its_thread_costs_the_lines_that_it_did_not_take() {
    static OF_THIS_TEST: Mutex<Lost> = Mutex::new(Lost::NONE);
    let lost = &OF_THIS_TEST;
    let (read, write) = pipe();
    drop(read);
    let mut out = Background::with(write, false, 1000, lost).unwrap();
    out.write_all(b"one\ntwo\n").unwrap();
    out.finish();
    let lost = locked(lost);
    assert_eq!((lost.lines, lost.cut), (2, false));
}

/// Fails so many times, takes half a line once, and works then.
struct Full {
    fails: u32,
    taken: Arc<Mutex<Vec<u8>>>,
}

impl Write for Full {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        if self.fails == 0 {
            locked(&self.taken).extend_from_slice(text);
            return Ok(text.len());
        }
        self.fails -= 1;
        Err(io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_place_that_fails_for_long_is_said_to_have_lost_every_line_and_each_only_once() {
    static OF_THIS_TEST: Mutex<Lost> = Mutex::new(Lost::NONE);
    let lost = &OF_THIS_TEST;
    let taken = Arc::default();
    let full = Full {
        fails: 7,
        taken: Arc::clone(&taken),
    };
    let out = Background::with(full, true, 1000, lost).unwrap();
    for number in 0..9 {
        LogLines::behind(out.clone())
            .write_all(format!("{{\"n\":{number}}}\n").as_bytes())
            .unwrap();
        // One batch for each line.
        out.finish();
    }
    let taken = String::from_utf8(locked(&taken).clone()).unwrap();
    let lines: Vec<serde_json::Value> = taken.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["lines"], 7, "{taken}");
    assert_eq!([&lines[1]["n"], &lines[2]["n"]], [7, 8], "{taken}");
    assert_eq!((lines.len(), locked(lost).lines), (3, 0));
}
