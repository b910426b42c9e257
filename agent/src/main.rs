//! `noderelay-agent`: see the library.

fn main() -> std::process::ExitCode {
    noderelay_agent::cli::main()
}
