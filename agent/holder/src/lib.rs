//! The process that holds one session: its pty or pipes, its replay buffer, its recording.
//!
//! ```text
//! agent: launch ── START ──> holder_main: entry ──> Shell::start(…, Recording) ──> serve
//!        <── STARTED | START_FAILED                                                  │
//!        <── DATA, DATA_ERR ── output: read, *recorded*, kept until acknowledged ────┤
//!        ─── DATA, END, RESIZE, SIGNAL ──> input: written when the command takes it ─┤
//!        <── END, EXIT  after everything was read and the recording is closed ───────┤
//!        <── CLOSED     when the session's limits or the agent ended it ─────────────┘
//! restarted agent: connect to holder.sock ── ADOPT ──> ADOPTED, then what is not acknowledged
//! ```
//!
//! * It is started by the agent and outlives it: without an agent the session goes on until its window is over.
//! * It ends the session itself at the deadline, when the user is idle too long, and when the window is over
//!   ([`limits`](self)): nobody needs to be there for that.
//! * Reading and writing the terminal never wait for each other: one task, and no call in it blocks.
//! * What happens to processes that a session leaves behind stands in `docs/background-jobs.md`.
//!
//! It never decides who may do what, never sees a certificate, and never sends a byte before it is recorded.

mod adopt;
mod entry;
pub mod force;
#[doc(hidden)]
pub mod fuzz;
mod input;
pub mod launch;
mod limits;
mod link;
mod processes;
mod record;
pub mod remains;
mod serve;
mod shell;
mod socket;
mod time;

pub use entry::holder_main;
pub use socket::ToHolderHalf;
