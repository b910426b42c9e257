//! Recordings on a disk that is full, or fills, under a whole session: what the policy's level makes of it.
//!
//! The disk is small and the agent's alone, in a mount namespace of its own; that needs root, and without it only the
//! test with a folder that takes nothing runs.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use netsim_tests::fleet::Fleet;
use netsim_tests::process::program;
use netsim_tests::told::Told;

/// More than the disk holds, and less than is kept of a command's output.
const MUCH: usize = 1024 * 1024;

/// A fleet whose recordings lie on a disk of 256 KiB.
struct SmallDisk {
    fleet: Fleet,
    seen_from_here: PathBuf,
}

impl SmallDisk {
    fn new() -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("not root: no small disk can be made, nothing was tested");
            return None;
        }
        let mut fleet = Fleet::files("");
        fleet.start_relay();
        let recordings = fleet.layout.recordings();
        let state = recordings.parent().unwrap();
        noderelay_pki::files::private_directory(state).unwrap();
        noderelay_pki::files::private_directory(&recordings).unwrap();
        let mut agent = Command::new("unshare");
        let mount = "mount -t tmpfs -o size=256k,mode=700 none \"$0\" && exec \"$@\"";
        agent
            .args(["--mount", "--propagation", "private", "sh", "-c", mount])
            .arg(&recordings)
            .arg(program("noderelay-agent"));
        fleet.start_agent_as(agent);
        let root = format!("/proc/{}/root", fleet.agent.as_ref().unwrap().0.id());
        let seen_from_here = PathBuf::from(root).join(recordings.strip_prefix("/").unwrap());
        Some(Self { fleet, seen_from_here })
    }

    /// Leaves no byte free.
    fn fill(&self) {
        let mut file = fs::File::create(self.seen_from_here.join("filling")).unwrap();
        let full = std::iter::repeat_with(|| file.write_all(&[0; 4096]))
            .take(1000)
            .find_map(Result::err);
        assert_eq!(full.expect("a full disk").kind(), std::io::ErrorKind::StorageFull);
    }

    fn empty(&self) {
        for entry in fs::read_dir(&self.seen_from_here).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
    }

    /// The bytes of `x` in all recordings.
    fn recorded(&self) -> usize {
        let files = fs::read_dir(&self.seen_from_here)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let recordings = files.filter(|path| path.extension().is_some_and(|ending| ending == "cast"));
        let outputs = recordings.flat_map(|path| {
            let text = fs::read_to_string(path).unwrap();
            let events = text.lines().skip(1).filter_map(|line| serde_json::from_str(line).ok());
            let shown = events.filter_map(|event: serde_json::Value| (event[1] == "o").then(|| event[2].to_string()));
            shown.collect::<Vec<_>>()
        });
        outputs.map(|shown| shown.matches('x').count()).sum()
    }

    /// Much output and an exit code of its own.
    fn much(&self) -> Told {
        let line = format!("head -c {MUCH} /dev/zero | tr '\\0' x; exit 5");
        Told::of(self.fleet.client(), &["sh", "-c", &line])
    }

    fn strict(&self) {
        self.fleet.repolicy("\"required\"", "\"strict\"");
    }
}

/// Level `strict` on a full disk: nothing starts, and the cause is said.
#[test]
fn b022_strict_refuses_on_a_full_disk() {
    let Some(disk) = SmallDisk::new() else { return };
    disk.strict();
    disk.fill();
    let told = Told::of(disk.fleet.client(), &["echo", "started"]);
    told.assert_refused("recording.unavailable");
    assert!(told.said().contains("No space left"), "{}", told.said());
    disk.empty();
    Told::of(disk.fleet.client(), &["true"]).assert_exit(0);
}

/// Level `strict` on a disk that fills: the session ends with its code, and nothing is shown that is not recorded.
#[test]
fn b022_strict_ends_when_the_disk_fills() {
    let Some(disk) = SmallDisk::new() else { return };
    disk.strict();
    let told = disk.much();
    told.assert_failed("recording.failed");
    assert!(told.said().contains("No space left"), "{}", told.said());
    let (shown, recorded) = (told.output.stdout.len(), disk.recorded());
    assert!(
        shown < MUCH && shown <= recorded,
        "{shown} bytes were shown, {recorded} recorded"
    );
}

/// Level `required` on a full disk, and on one that fills: the command runs to its own end and exit code, every byte
/// arrives, and the person is told that the recording is incomplete.
#[test]
fn b022_required_goes_on_and_says_so() {
    let Some(disk) = SmallDisk::new() else { return };
    let filling = disk.much();
    filling.assert_exit(5);
    assert_eq!(filling.output.stdout.len(), MUCH);
    assert!(filling.said().contains("recording.incomplete"), "{}", filling.said());
    assert!(disk.recorded() < MUCH);
    disk.fill();
    let full = Told::of(disk.fleet.client(), &["sh", "-c", "echo done; exit 6"]);
    full.assert_exit(6);
    assert_eq!(full.output.stdout, b"done\n");
    assert!(full.said().contains("recording.incomplete"), "{}", full.said());
    let log = disk.fleet.logs();
    assert!(
        log.contains("\"recording_complete\":false"),
        "the audit log has it:\n{log}"
    );
    // The control: with room again nothing is said.
    disk.empty();
    let good = Told::of(disk.fleet.client(), &["echo", "done"]);
    good.assert_exit(0);
    assert!(!good.said().contains("recording."), "{}", good.said());
}

/// Level `strict` where the folder takes no recording at all, whoever the agent runs as.
#[test]
fn b022_strict_no_recording_no_shell() {
    let fleet = Fleet::serving();
    fleet.repolicy("\"required\"", "\"strict\"");
    fs::remove_dir_all(fleet.layout.recordings()).unwrap();
    fs::write(fleet.layout.recordings(), "").unwrap();
    Told::of(fleet.client(), &["id"]).assert_refused("recording.unavailable");
}
