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

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    match args::parse(std::env::args_os()) {
        Ok(cli) => commands::run(cli),
        // A usage error, on standard error: 2.
        Err(usage) if usage.use_stderr() => {
            let again = |words: Vec<OsString>| Some(args::parse(words.into_iter()).err()?.to_string());
            let text = noderelay_pki::text::usage(std::env::args_os(), &usage.to_string(), again);
            let _ = std::io::stderr().write_all(text.as_bytes());
            2.into()
        }
        // Help or the version are an answer like any other.
        Err(answer) => match out::written(answer.print().and_then(|()| std::io::stdout().flush())) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => commands::failed(&error, 1),
        },
    }
}
