//! The program `noderelay-relay`: everything it does is in the library.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    noderelay_relay::cli::execute(&noderelay_relay::cli::Args::parse())
}
