//! The binary `noderelay`: parses the command line, sets up logs, calls one function per command.
//!
//! With the default feature `demo` (Linux) it also holds relay and agent, and re-executes itself as relay, agent, holder
//! and child of the demo. It decides nothing: every command is a call into a library.

mod args;
mod commands;
#[cfg(feature = "demo")]
mod demo;
mod logs;
mod out;

use std::process::ExitCode;

fn main() -> ExitCode {
    commands::run(args::parse(std::env::args_os()))
}
