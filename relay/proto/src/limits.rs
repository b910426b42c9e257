//! Every bound of the wire format, each with its reason.
//!
//! A bound is checked on the *claimed* length, before anything is allocated for it. Nothing here is a setting: both
//! ends must agree, so a change of a bound is a change of the protocol version.

/// A route header or registration. Read from peers that showed a certificate but nothing more, on every stream, so it
/// is kept small: 10,000 half-sent headers cost a relay 10 MB at most.
pub const MAX_ROUTE: usize = 1024;

/// An answer or control message of the inner leg (OPENED, DENIED, RESUME, …). Large enough for every text field at its
/// own bound plus fields that later versions add.
pub const MAX_CONTROL: usize = 64 * 1024;

/// OPEN carries a whole command line and grants. Linux takes at most 128 KiB for one argument; twice that leaves room
/// for the environment and eight grants. Only an authenticated client can send one.
pub const MAX_OPEN: usize = 256 * 1024;

/// START carries what OPEN carried plus account, environment and terms. It travels on a private socket only.
pub const MAX_START: usize = 2 * MAX_OPEN;

/// Payload of DATA and DATA_ERR: one read of a pipe on Linux (64 KiB). Larger frames would delay a keystroke that
/// waits behind them.
pub const MAX_DATA: usize = 64 * 1024;

/// RESIZE, SIGNAL, EXIT and the like: a few small numbers, with room for fields to come.
pub const MAX_SMALL: usize = 256;

/// One QUIC varint.
pub const MAX_VARINT: usize = 8;

/// Arguments of a command. `ARG_MAX` would allow far more; a longer list belongs into stdin.
pub const MAX_ARGV: usize = 512;

/// Environment variables that a client may ask for, before the node's allow-list.
pub const MAX_ENV: usize = 64;

/// Environment variables that the agent hands to the holder.
pub const MAX_START_ENV: usize = 256;

/// Name of an environment variable.
pub const MAX_ENV_NAME: usize = 128;

/// Value of an environment variable.
pub const MAX_ENV_VALUE: usize = 4096;

/// `TERM`, as bytes: whatever the client's terminal says, the node decides what to do with it.
pub const MAX_TERM: usize = 256;

/// A text that a person reads (reason, what was seen). One terminal page; longer texts are a way to hide something.
pub const MAX_TEXT: usize = 1024;

/// User names, account names, paths of an account.
pub const MAX_LONG_NAME: usize = 1024;

/// Version and build of a program, correlation ids.
pub const MAX_SHORT_TEXT: usize = 128;

/// Grants that travel with one OPEN or RESUME.
pub const MAX_GRANTS: usize = 8;

/// One signed grant: a statement of about 2 KiB with up to a dozen signatures.
pub const MAX_GRANT: usize = 16 * 1024;

/// Supplementary groups of an account (the Linux kernel allows 65,536; no directory needs more than this).
pub const MAX_GROUPS: usize = 4096;

/// Relays, and nodes, that a report of what is kept warm lists: several times what is kept.
pub const MAX_WARM_LIST: usize = 32;

/// Fields that a control message may hold beyond those this version knows: room for later versions, and no more.
pub const MAX_UNKNOWN_FIELDS: usize = 64;

/// Relays between client and node.
pub const MAX_HOPS: u32 = 3;

/// Replay buffer and window of a session with a terminal: 256 KiB is 2.5 s of the fastest terminal output at 100 kB/s
/// over a path of any length, and what at most runs on after Ctrl-C. Valid from OPEN on, in both directions.
pub const WINDOW_TERMINAL: u64 = 256 * 1024;

/// Replay buffer and window of a session without a terminal: 4 MiB keeps 160 Mbit/s busy at 200 ms round trip.
pub const WINDOW_BULK: u64 = 4 * 1024 * 1024;

/// The largest window that OPENED may name: what one session can cost either end.
pub const WINDOW_MAX: u64 = 16 * 1024 * 1024;

/// Units beyond the window that only END, RESIZE, SIGNAL and EXIT may use, so that a signal passes a full window.
pub const WINDOW_RESERVE: u64 = 1024;

/// Consumed units after which an acknowledgement is due at once, as a divisor of the window.
pub const ACK_EVERY: u64 = 4;

/// Longest wait of an acknowledgement for company, in milliseconds: short beside any round trip that needs resume, long
/// enough to join the acknowledgements of a burst.
pub const ACK_DELAY_MS: u64 = 20;

/// Frames that a replay buffer holds, however small: a program that writes single bytes to stdout and stderr in turn must
/// not cost a hundred times what it writes. No two ends need to agree on this one.
pub const MAX_PIECES: usize = 16 * 1024;

/// Replay buffer entries smaller than this are joined and copied, so that single keystrokes don't keep whole read
/// buffers alive.
pub const COALESCE: usize = 1024;
