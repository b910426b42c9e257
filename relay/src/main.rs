//! The program `noderelay-relay`: everything it does is in the library.

fn main() -> std::process::ExitCode {
    noderelay_relay::cli::main()
}
