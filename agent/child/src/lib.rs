//! The process that becomes the shell, and the few system calls that have no safe wrapper.
//!
//! ```text
//! holder                                   child (the same program, started again)
//!   spawn ──── exec ─────────────────────>  child_main
//!         ──── Spec + three descriptors ──>  enter: descriptors → signals → session, terminal → ids → directory
//!         <─── Failure, or end of file ────  exec of the shell or command
//! ```
//!
//! * [`spawn`] starts the program again and hands it a [`Spec`] over a socket; nothing is inherited by accident.
//! * [`child_main`] is the other side. It never returns: it becomes the command or reports what failed.
//! * [`passwd`] and [`environment`] say who the account is and what it sees.
//! * [`pty`], [`wait`] are the terminal and the end of processes.
//!
//! This is the only crate with `unsafe`; every block says why it is sound. It never decides *whether* somebody may have a
//! shell, never talks to a network, and never asks a directory service: a hung one must not stop a login.

mod child;
pub mod environment;
mod error;
#[doc(hidden)]
pub mod fuzz;
pub mod passwd;
pub mod pty;
mod spawn;
mod spec;
pub mod wait;

pub use child::child_main;
pub use error::{SpawnError, Stage};
pub use passwd::Account;
pub use spawn::{Running, Stdio, spawn};
pub use spec::{Spec, What, shells};
