//! Limits on what a publication may contain. Each is checked before memory is taken, and each has its reason.
//!
//! A publication is at most a few hundred kilobytes for a large fleet (it must fit a ConfigMap when compressed); the limits
//! lie an order of magnitude above that, and far below what would hurt a node.

/// `N.root.json`: dozens of keys at 300 bytes each.
pub const MAX_ROOT: usize = 64 * 1024;
/// `timestamp.json`: one entry; more is an endless-data attack.
pub const MAX_TIMESTAMP: usize = 16 * 1024;
/// `N.snapshot.json`: one entry as well (no delegations).
pub const MAX_SNAPSHOT: usize = 16 * 1024;
/// `N.targets.json`: 200 bytes for each file.
pub const MAX_TARGETS: usize = 1024 * 1024;
/// One file of the publication.
pub const MAX_FILE: usize = 4 * 1024 * 1024;
/// All files together: a node keeps them in memory, and a second copy while it swaps.
pub const MAX_TOTAL: usize = 16 * 1024 * 1024;
/// Files in one publication.
pub const MAX_FILES: usize = 4096;
/// A file's name.
pub const MAX_FILE_NAME: usize = 200;
/// Root versions followed in one load: one rotation a month for twenty years.
pub const MAX_ROOT_UPDATES: u64 = 256;
/// Keys in a root, and signatures under a document.
pub const MAX_KEYS: usize = 64;
/// Depth of nesting in metadata; the deepest document that we write has five levels.
pub const MAX_DEPTH: usize = 8;
/// The largest version: the largest integer that every JSON reader keeps exactly. More would be a poisoned floor.
pub const MAX_VERSION: u64 = (1 << 53) - 1;
/// Text shown in an error that came from a publication.
pub const MAX_SHOWN: usize = 120;
/// How far the local clock may lie behind a signed lower bound and still count as a plausible clock: NTP corrections and
/// a pipeline whose clock runs a little ahead, but not a clock that starts in 1970.
pub const CLOCK_TOLERANCE_SECONDS: i64 = 3600;
/// No clock is right that shows less: the code did not exist before (2025-01-01T00:00:00Z).
pub const BUILD_LOWER_BOUND_SECONDS: i64 = 1_735_689_600;
