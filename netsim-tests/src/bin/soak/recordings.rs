//! The recordings of sessions that are over: each has its end, and is then removed, as whoever collects them would.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::jobs::Outcome;
use crate::load::Tallies;
use crate::setting::Setting;

/// Nothing was written to it for this long: its session is over. The lasting ones have a byte every second.
const OVER: Duration = Duration::from_secs(60);
/// The last lines of a recording fit into this.
const TAIL: u64 = 8 << 10;

/// The recordings among the tallies.
pub(crate) const NAME: &str = "a recording, with its end";

/// Looks at those that are over, and removes them.
pub(crate) fn collect(setting: &Setting, tallies: &Tallies) {
    let mut states: Vec<PathBuf> = setting.states().to_vec();
    states.push(setting.fleet.layout.root.join(crate::setting::RESTLESS).join("state"));
    for state in states {
        for entry in std::fs::read_dir(state.join("recordings"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let path = entry.path();
            let written = entry.metadata().and_then(|data| data.modified());
            let quiet = written.is_ok_and(|at| SystemTime::now().duration_since(at).unwrap_or_default() > OVER);
            if quiet && path.extension().is_some_and(|ending| ending == "cast") {
                tallies.count(NAME, ended(&path));
                let _ = std::fs::remove_file(&path);
            }
        }
    }
}

fn ended(path: &Path) -> Outcome {
    let look = || -> std::io::Result<(u64, String)> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
        let mut tail = Vec::new();
        file.read_to_end(&mut tail)?;
        Ok((length, String::from_utf8_lossy(&tail).into_owned()))
    };
    let (length, tail) = look().map_err(|error| format!("{}: {error}", path.display()))?;
    let last = tail.lines().last().unwrap_or_default();
    if last.contains("\\\"code\\\"") {
        Ok(length)
    } else {
        Err(format!("{} has no end: {last}", path.display()))
    }
}
